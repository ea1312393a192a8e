"""How a member agent behaves: upstream's timing, and what of Corral's own is switched on."""

from __future__ import annotations

from dataclasses import dataclass, field

from corral.configuration.part import ConfigurationError, Part
from corral.core.meta import Obj
from corral.decide.member.backoff import BackoffSettings

LEAST_DELAY_S = 0.1


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Times are seconds."""

    backoff: BackoffSettings = field(default_factory=BackoffSettings)
    deletion_wait: float = 300.0
    """How long a deletion may hang before owners that are not ours stop holding it up."""
    workers: int = 10
    own_properties: bool = True
    """Report extended resources, the largest free node and queues, beside what upstream reports."""
    collect_namespaces: bool = False
    """Report namespaces, so that ResourcePlacements leave this member out while it lacks theirs."""
    remember_finished: bool = True
    """A job that finished is not created again when its TTL has removed it; upstream runs it again for ever."""
    yield_to_queue: bool = True
    """Under `Always`, what the queue wrote into a queued job is not put back; upstream suspends it again."""
    queue_friendly: bool = False
    """Treat every queued job as if it were annotated `corral.dev/queue-friendly: "true"`."""
    null_timestamps: bool = False
    """Show pod templates as API servers of 2025 stored them; the guide's third drifted path comes from there."""

    announce: bool = False
    """Name every manifest on the hub before it is first applied, as upstream does; else the member's own AppliedWork
    names them, which spares the hub a write."""
    keep_defects: bool = False
    """Also count as upstream miscounts: a diff found in degraded mode is not a report, drifted left-overs stay, and so
    do the conditions of a property provider that is no more."""
    azure: bool = False
    """Report under the names of upstream's provider for Azure: nodes by size, the version and certificates of the API."""
    azure_costs: bool = False
    """With `azure`: also report on costs. There is no price list here, so it says that there is none."""
    entrypoint: str = ""
    """The address of the member's API, for ClusterProfiles; not reported when empty."""
    authority: str = ""
    """The certificates that vouch for the member's API, as PEM text."""

    @classmethod
    def upstream(cls) -> MemberSettings:
        """Everything as upstream does it, defects included."""
        return cls(
            own_properties=False, remember_finished=False, yield_to_queue=False, announce=True, keep_defects=True
        )


def member_settings(configuration: Obj | Part, *, entrypoint: str = "", authority: str = "") -> MemberSettings:
    """The settings in the `member` part of a Corral configuration. Where the member's API is reached is told to the hub
    unless all is to be as upstream does it."""
    part = Part.of(configuration).part("member")
    as_upstream = part.flag("upstream")
    default = MemberSettings.upstream() if as_upstream else MemberSettings()
    azure, costs = part.get("propertyProvider") == "azure", part.flag("costProperties", True)
    return MemberSettings(
        backoff=_backoff(part.part("workApplierRequeueRateLimiter"), default.backoff),
        deletion_wait=part.seconds("deletionWaitTime", default.deletion_wait),
        workers=part.number("concurrentWorkSyncs", default.workers),
        own_properties=part.flag("ownProperties", default.own_properties),
        collect_namespaces=part.flag("collectNamespaces", default.collect_namespaces),
        remember_finished=part.flag("rememberFinishedJobs", default.remember_finished),
        yield_to_queue=part.flag("yieldToQueue", default.yield_to_queue),
        queue_friendly=part.flag("queueFriendly", default.queue_friendly),
        announce=default.announce,
        keep_defects=default.keep_defects,
        null_timestamps=part.flag("nullTemplateTimestamps", default.null_timestamps),
        entrypoint="" if as_upstream else entrypoint,
        authority="" if as_upstream else authority,
        azure=azure,
        azure_costs=azure and costs,
    )


def _backoff(part: Part, default: BackoffSettings) -> BackoffSettings:
    """Upstream's flags of the same names; each step of the back-off must be able to follow the one before it."""
    attempts = part.number("attemptsWithFixedDelay", default.fixed_attempts)
    if attempts < 1:
        raise ConfigurationError(f"{part.at('attemptsWithFixedDelay')}: expected at least 1, got {attempts}")
    first = part.amount("initialSlowBackoffDelaySeconds", default.first, LEAST_DELAY_S)
    slow_limit = part.amount("maxSlowBackoffDelaySeconds", default.slow_limit, first)
    return BackoffSettings(
        fixed_attempts=attempts,
        fixed=part.amount("fixedDelaySeconds", default.fixed, LEAST_DELAY_S),
        first=first,
        slow_factor=part.amount("exponentialBaseForSlowBackoff", default.slow_factor, 1),
        slow_limit=slow_limit,
        fast_factor=part.amount("exponentialBaseForFastBackoff", default.fast_factor, 1),
        limit=part.amount("maxFastBackoffDelaySeconds", default.limit, slow_limit),
        skip_settled=part.flag("skipToFastBackoffForAvailableOrDiffReportedWorkObjs", default.skip_settled),
    )
