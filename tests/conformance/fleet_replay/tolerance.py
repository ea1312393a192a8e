"""The written list of what a run may do otherwise than a recording, each rule with its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fleet_replay.facts import Aspect
from fleet_replay.situations import OtherStory, other_stories

BRIEF_S = 4.0
"""Values that lasted less are steps on the way; which of them show may depend on the speed of the machine."""
HELD_S = 0.5
"""How long a placement's status is held back, and what a recorder needs to write a state down."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Regular expressions for the aspects concerned; without `value` every value of them may differ."""

    reason: str
    kind: str = ".*"
    what: str = ".*"
    value: str | None = None
    name: str = ".*"
    cluster: str = ".*"
    repeat: bool = False
    """Only the number of times may differ: the value is there on both sides."""
    within: float = BRIEF_S
    """How long a passing value may last."""
    row: str = ""
    """The row of `docs/differences.md` that tells users of it; "" where the difference is chance or lies in the recorder."""

    def covers(self, aspect: Aspect, value: str) -> bool:
        pairs = [
            (self.kind, aspect.kind),
            (self.what, aspect.what),
            (self.name, aspect.name),
            (self.cluster, aspect.cluster),
            (self.value or "", value if self.value is not None else ""),
        ]
        return all(re.fullmatch(pattern, text, re.DOTALL) for pattern, text in pairs)


_PLACEMENTS = "(Cluster)?ResourcePlacement(Status)?"
_SUM = (
    "how many clusters are on their way, and whether a placement shows it, depends on how fast its members and the hub"
    " write; what both sides show comes in the same order"
)

PASSING: list[Rule] = [
    Rule(_SUM, kind=_PLACEMENTS, what=r"(\S+ )?condition .*", value=r"Unknown/.*|-"),
    Rule(_SUM, kind=_PLACEMENTS, what=r"(\S+ )?condition .*Applied", value=r"False/(ApplyFailed|ApplyInProgress): .*"),
    Rule(
        _SUM,
        kind=f"{_PLACEMENTS}|(Cluster)?ResourceBinding",
        what=r"(\S+ )?condition .*Applied",
        value=r"False/NotAllWorkHaveBeenApplied: .* has not yet completed the apply op.*",
    ),
    Rule(_SUM, kind=_PLACEMENTS, what=r"(\S+ )?condition .*RolloutStarted", value=r"False/RolloutNotStartedYet: .*"),
    Rule(_SUM, kind=_PLACEMENTS, what=r"(\S+ )?condition .*Available", value=r"False/ResourceNotAvailableYet: .*"),
    Rule(
        _SUM, kind=_PLACEMENTS, what=r"(\S+ )?condition .*WorkSynchronized", value=r"False/WorkNotSynchronizedYet: .*"
    ),
    Rule(
        _SUM,
        kind=f"{_PLACEMENTS}|(Cluster)?ResourceBinding",
        what=r"(\S+ )?condition .*DiffReported",
        value=r"(False|Unknown)/.*",
    ),
    Rule(_SUM, kind=_PLACEMENTS, what=r"\S+ applicable(ClusterResource|Resource)Overrides", value="-"),
    Rule(
        "an event is told again when a condition comes back, however short it was away",
        kind="Event",
        what="events from placement-controller",
        value="Normal Placement(RolloutStarted|OverriddenSucceeded|WorkSynchronized|Applied|Available|RolloutCompleted): .*",
        repeat=True,
    ),
    Rule(
        "either of two finalizers may go first",
        kind="(Cluster)?ResourcePlacement|(Cluster)?ResourceBinding",
        what="finalizers",
        value=r'\["kubernetes-fleet.io/[-a-z]+-cleanup"\]',
    ),
    Rule(
        _SUM,
        kind=f"{_PLACEMENTS}|(Cluster)?ResourceBinding",
        what=r"(\S+ |status\.)(failed|drifted|diffed)Placements",
        value=".*",
    ),
    Rule(
        "a run goes on and has to wait again in one write",
        kind="(Cluster)?StagedUpdateRun",
        what="condition Progressing",
        value="True/UpdateRunProgressing: .*",
    ),
    Rule(
        "each look takes on one cluster that has nothing to do, and looks come as events happen to arrive",
        kind="(Cluster)?StagedUpdateRun",
        what=r"\S+ \S+ condition (Started|Succeeded)",
        value="True/.*",
    ),
    Rule(
        "the agent says that it left before the hub has copied what it said last",
        kind="MemberCluster",
        what="(MemberAgent )?condition .*",
        value="True/.*|False/InternalMemberClusterLeft: .*",
    ),
]
"""Values that may come and go on one side only, within a few seconds."""

DELIBERATE: list[Rule] = [
    Rule("pods are played by a script in the recordings", kind="Event", what="events from (default-scheduler|kubelet)"),
    Rule("ReplicaSets were not recorded", kind="Event", what="events from replicaset-controller"),
    Rule(
        "a leaving member's namespace takes some seconds to go, and Works are refused while it goes and when it is gone",
        kind="(Cluster)?ResourceBinding",
        what="condition WorkSynchronized",
        value=r'False/SyncWorkFailed: .*(being terminated|namespaces "\S+" not found)( \(of an older generation\))?',
    ),
    Rule(
        "beyond its history limit a placement loses its oldest snapshots, and never one in use; upstream deletes any",
        kind="(Cluster)?(Resource|SchedulingPolicy)Snapshot",
        value="no|-",
        row="Old snapshots beyond the history limit",
    ),
    Rule(
        "a provider counts nodes before it reports; upstream's first report says there are none",
        kind="(Internal)?MemberCluster",
        what=r"status\.(properties|resourceUsage)|condition AKSClusterCostPropertiesCollectionSucceeded",
        value=r'.*"kubernetes-fleet.io/node-count": \{[^}]*"value": "0"\}.*|.*"cpu": "0".*|True/CostsCalculated: .*',
        row="The Azure property provider",
    ),
    Rule(
        "a policy that cannot be evaluated is told in an event; upstream says it in its log only",
        kind="Event",
        what="events from scheduler",
        row="A policy that cannot be evaluated",
    ),
    Rule("Kubernetes' own, which the recordings leave out", kind="ConfigMap", name=".*/kube-root-ca.crt"),
]
"""Differences on purpose, for as long as they last."""

_FIRST_BINDING = "The first binding to a cluster"
_FIRST_WRITE = "Finalizers and apply strategy of new bindings and placements"
_PLANNED = "What a new Work is going to apply"
_HELD = "States of a placement or a new binding that last less than 0.3 s"
_GONE_PROVIDER = "A property provider that is gone"
_WORK_FINALIZER = "The finalizer of a Work"
_REACHED = "The ClusterProfile of a member whose property provider is gone"
_BINDINGS = "(Cluster)?ResourceBinding"

SHIPPED: list[Rule] = [
    Rule("it is created released", kind=_BINDINGS, what=r"spec\.state", value='"Scheduled"', row=_FIRST_BINDING),
    Rule("it is created released", kind=_BINDINGS, what=r"spec\.resourceSnapshotName", value='""', row=_FIRST_BINDING),
    Rule(
        "both finalizers come with the first write, also where nothing will be scheduled",
        kind="(Cluster)?ResourcePlacement",
        what="finalizers",
        value=r'\["kubernetes-fleet.io/c?rp-cleanup"(, "kubernetes-fleet.io/scheduler-cleanup")?\]',
        row=_FIRST_WRITE,
    ),
    Rule("it counts the writes", kind="ClusterResourcePlacementStatus", what="generation", row=_HELD),
    Rule(
        "it comes with the Work, and stays where no agent takes it up",
        kind="Work",
        what="finalizers",
        value=r'\["kubernetes-fleet.io/work-cleanup"\]',
        row=_WORK_FINALIZER,
    ),
    Rule(
        "they go with the provider that they speak of",
        kind="(Internal)?MemberCluster",
        what="condition (NamespaceCollection|ClusterProperty|AKSClusterCost).*",
        value="-",
        row=_GONE_PROVIDER,
    ),
    Rule(
        "what was last told of how to reach a member stays until something else is told",
        kind="ClusterProfile",
        what=r"status\.accessProviders",
        value=r'\[\{"cluster": \{"server": ""\}, "name": "KubeFleet"\}\]',
        row=_REACHED,
    ),
]
"""What ships otherwise, each a row of `docs/differences.md`."""

SHIPPED_PASSING: list[Rule] = [
    Rule(
        "clusters that are about to be listed anew are not taken off the list first",
        kind=_PLACEMENTS,
        what=r"clusters|\S+ observedResourceIndex|status\.selectedResources",
        value=".*",
        within=HELD_S,
        row=_HELD,
    ),
    Rule(
        "a cluster that has joined is waited for",
        kind=_PLACEMENTS,
        what=r"\S+ condition Scheduled",
        value="False/ScheduleFailed: .* is not eligible for resource placement yet: .*",
        within=HELD_S,
        row=_HELD,
    ),
    Rule(
        "a binding that is about to go is not reported on",
        kind=_PLACEMENTS,
        what=r"\S+ condition WorkSynchronized",
        value=r'False/SyncWorkFailed: .*(being terminated|namespaces "\S+" not found) \(generation \d+\)',
        row=_HELD,
    ),
    Rule(
        "the Work generator's first report comes after the member's",
        kind=_BINDINGS,
        what="condition Applied",
        value="False/ApplyInProgress: .*",
        row=_HELD,
    ),
    Rule(
        "the member names them in its own AppliedWork",
        kind="Work",
        what=r".*condition Applied",
        value="False/PreparingToProcess: .*",
        row=_PLANNED,
    ),
]
"""What ships otherwise and shows for a few seconds at most."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What one replay may do otherwise."""

    passing: tuple[Rule, ...] = tuple(PASSING)
    deliberate: tuple[Rule, ...] = tuple(DELIBERATE)
    stories: tuple[OtherStory, ...] = ()

    def is_free(self, aspect: Aspect) -> bool:
        """Whether no value of the aspect is compared."""
        return any(rule.covers(aspect, "") for rule in self.deliberate if rule.value is None)

    def is_deliberate(self, aspect: Aspect, value: str, t: float = -1.0) -> bool:
        """Whether the value may be there on one side only, for however long."""
        if any(story.covers(aspect, t) for story in self.stories):
            return True
        return any(rule.covers(aspect, value) for rule in self.deliberate if rule.value is not None)

    def may_pass(self, aspect: Aspect, value: str, others: set[str], lasted: float) -> bool:
        """Whether the value may be there on one side only, having been there briefly."""
        return any(
            lasted < rule.within and rule.covers(aspect, value) and (not rule.repeat or value in others)
            for rule in self.passing
        )

    @property
    def rows(self) -> set[str]:
        """The rows of `docs/differences.md` that the rules name."""
        told = (*self.passing, *self.deliberate, *self.stories)
        return {one.row for one in told if one.row}


def tolerance_for(recording: dict[str, Any], *, upstream: bool) -> Tolerance:
    """What a replay of the recording may do otherwise, with upstream's settings or with those that ship."""
    stories = tuple(other_stories(recording, upstream=upstream))
    if upstream:
        return Tolerance(stories=stories)
    return Tolerance((*PASSING, *SHIPPED_PASSING), (*DELIBERATE, *SHIPPED), stories)
