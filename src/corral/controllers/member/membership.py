"""The member's side of membership: it joins when its InternalMemberCluster says so, reports in, and leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from corral.client.protocol import Client
from corral.controllers.member.discovery import Discover
from corral.controllers.member.metrics import MemberMetrics
from corral.controllers.member.properties import Properties, PropertyProvider
from corral.core import conditions
from corral.core.conditions import condition, set_condition
from corral.core.errors import ApiError
from corral.core.meta import Key, Obj, generation_of, spec_of, status_of, with_status
from corral.decide.member.properties import PROVIDER_CONDITIONS
from corral.kinds.fleet import APPLIED_WORKS, INTERNAL_MEMBER_CLUSTERS
from corral.runtime.changes import changed
from corral.runtime.controller import Controller, Manager, Result, Watch

AGENT_TYPE: Final = "MemberAgent"
EVENT_SOURCE: Final = "v1beta1InternalMemberClusterController"
DEFAULT_HEARTBEAT_S: Final = 60.0
JITTER: Final = 0.05
JOIN_AGAIN_S: Final = 5.0
"""The kinds of a fleet are often installed just before its agent: a member must not miss a whole beat for them."""


class Membership:
    """Reports on the member in its InternalMemberCluster; `joined` says whether Works are to be applied."""

    name = "internalmembercluster"

    def __init__(
        self,
        hub: Manager,
        member: Client,
        key: Key,
        provider: PropertyProvider,
        discover: Discover,
    ) -> None:
        self._hub = hub
        self._member = member
        self._provider = provider
        self._discover = discover
        self._recorder = hub.recorder.named(EVENT_SOURCE)
        self._metrics = hub.metrics.part(MemberMetrics)
        self.joined = False
        self.on_join: Callable[[], None] = lambda: None
        self.on_leave: Callable[[], Awaitable[None]] = _nothing
        self._clusters = hub.informer(
            INTERNAL_MEMBER_CLUSTERS, namespace=key.namespace, fields=f"metadata.name={key.name}"
        )
        controller: Controller = hub.add(self, watches=[])
        self._clusters.on_change(controller.trigger(Watch(INTERNAL_MEMBER_CLUSTERS, when=changed(generation_of))))

    async def reconcile(self, key: Key) -> Result | None:
        cluster = self._clusters.get(key)
        if cluster is None:
            self.joined = False
            return None
        if spec_of(cluster).get("state") == "Leave":
            await self._leave(cluster)
            return None
        await self._report(cluster)
        period = float(spec_of(cluster).get("heartbeatPeriodSeconds") or DEFAULT_HEARTBEAT_S)
        period = period if self.joined else min(period, JOIN_AGAIN_S)
        return Result(period * self._hub.random.uniform(1 - JITTER, 1 + JITTER))

    async def _report(self, cluster: Obj) -> None:
        now = self._hub.clock.timestamp()
        health = await self._health(generation_of(cluster))
        served = await self._discover(APPLIED_WORKS.group, APPLIED_WORKS.version, APPLIED_WORKS.kind)
        self._report_health(cluster, health)
        if served is None:
            why = 'the member does not serve AppliedWork: no matches for kind "AppliedWork"'
            joined = condition("Joined", "Unknown", "InternalMemberClusterFailedToJoin", why, generation_of(cluster))
            self._metrics.joined(succeeded=False)
        else:
            joined = condition("Joined", True, "InternalMemberClusterJoined", "", generation_of(cluster))
            self._record(cluster, joined, "internal member cluster joined")
        found = await self._provider.collect(now)
        self._report_provider(cluster, found)
        agent = _with_conditions(cluster, [health, joined], now)
        status = {
            **_with_provider(cluster, found, now),
            "properties": found.properties,
            "resourceUsage": found.usage,
            "agentStatus": [{**agent, "lastReceivedHeartbeat": now}],
        }
        await self._write(cluster, status)
        if served is not None and not self.joined:
            self.joined = True
            self._metrics.joined(succeeded=True)
            self.on_join()

    async def _leave(self, cluster: Obj) -> None:
        """Stop, let go of the Works, and say so. What was applied stays."""
        self.joined = False
        await self.on_leave()
        left = condition("Joined", False, "InternalMemberClusterLeft", "", generation_of(cluster))
        if conditions.is_false(_agent(cluster).get("conditions") or [], "Joined"):
            return
        self._record(cluster, left, "internal member cluster left")
        self._metrics.left(succeeded=True)
        agent = _with_conditions(cluster, [left], self._hub.clock.timestamp())
        await self._write(cluster, {**status_of(cluster), "agentStatus": [agent]})

    async def _write(self, cluster: Obj, status: Obj) -> None:
        await self._hub.client.update(INTERNAL_MEMBER_CLUSTERS, with_status(cluster, status), subresource="status")

    async def _health(self, generation: int) -> Obj:
        """Whether the member's API answers."""
        try:
            await self._member.raw("GET", "/version")
        except ApiError as error:
            text = f"health probe failed with status code {error.code}"
            return condition("Healthy", False, "InternalMemberClusterUnhealthy", text, generation)
        return condition("Healthy", True, "InternalMemberClusterHealthy", "", generation)

    def _report_health(self, cluster: Obj, health: Obj) -> None:
        before = conditions.find(_agent(cluster).get("conditions") or [], "Healthy")
        if before is None or before["status"] != health["status"]:
            word = "healthy" if health["status"] == "True" else "unhealthy"
            kind = "Normal" if health["status"] == "True" else "Warning"
            self._recorder.event(cluster, kind, health["reason"], f"internal member cluster {word}")

    def _report_provider(self, cluster: Obj, found: Properties) -> None:
        for entry in found.conditions[:1]:
            if not conditions.is_true(cluster, entry["type"]):
                self._recorder.event(cluster, "Normal", entry["reason"], entry["message"])

    def _record(self, cluster: Obj, joined: Obj, message: str) -> None:
        """An event for each generation that the agent has answered to."""
        before = conditions.find(_agent(cluster).get("conditions") or [], "Joined")
        changed = before is None or before["status"] != joined["status"]
        if changed or (before or {}).get("observedGeneration") != joined.get("observedGeneration"):
            self._recorder.event(cluster, "Normal", joined["reason"], message)


def _agent(cluster: Obj) -> Obj:
    agents: list[Obj] = status_of(cluster).get("agentStatus") or []
    return next((agent for agent in agents if agent.get("type") == AGENT_TYPE), {})


def _with_conditions(cluster: Obj, entries: list[Obj], now: str) -> Obj:
    agent = _agent(cluster)
    reported: list[Obj] = list(agent.get("conditions") or [])
    for entry in entries:
        reported = set_condition(reported, entry, now)
    return {"type": AGENT_TYPE, **agent, "conditions": reported}


def _with_provider(cluster: Obj, found: Properties, now: str) -> Obj:
    """The status with what the provider says of itself; what an earlier provider said goes with it."""
    status = {name: value for name, value in status_of(cluster).items() if name not in ("namespaces", "conditions")}
    reported: list[Obj] = list(conditions.conditions_of(cluster))
    for kind in PROVIDER_CONDITIONS:
        entry = next((one for one in found.conditions if one["type"] == kind), None)
        if entry is None:
            reported = reported if found.keep_conditions else conditions.without(reported, kind)
        else:
            reported = set_condition(reported, {**entry, "observedGeneration": generation_of(cluster)}, now)
    if found.namespaces is not None:
        status["namespaces"] = found.namespaces
    return {**status, "conditions": reported} if reported else status


async def _nothing() -> None:
    return None
