"""Membership: what a MemberCluster says about joining, from what its agents report."""

from __future__ import annotations

from typing import Final

from corral.core.conditions import condition, find, set_condition, without
from corral.core.meta import Obj, generation_of, name_of, status_of

EXPECTED_AGENTS: Final = ("MemberAgent",)
READY = ("MemberClusterReadyToJoin", "Member cluster is ready to join the fleet")
_PROVIDER: Final = (
    "ClusterPropertyProviderStarted",
    "ClusterPropertyCollectionSucceeded",
    "NamespaceCollectionSucceeded",
    "AKSClusterCostPropertiesCollectionSucceeded",
)


def ready_to_join(member: Obj) -> Obj:
    return condition("ReadyToJoin", True, *READY, generation_of(member))


def joined(member: Obj, agents: list[Obj]) -> Obj:
    """Whether the member has joined, from its agents' own conditions."""
    generation = generation_of(member)

    def unknown(text: str) -> Obj:
        return condition("Joined", "Unknown", "MemberClusterJoinStateUnknown", text, generation)

    found = {agent.get("type"): agent for agent in agents}
    present = [found[kind] for kind in EXPECTED_AGENTS if kind in found]
    if len(present) < len(EXPECTED_AGENTS):
        expected = len(EXPECTED_AGENTS)
        return unknown(
            f"Member cluster {name_of(member)} has not reported all the expected agents,"
            f" expected {expected}, got {len(present)}"
        )
    states = []
    for agent in present:
        entry = find(agent.get("conditions") or [], "Joined")
        if entry is None:
            kind = agent.get("type")
            return unknown(f"Member cluster {name_of(member)} has not reported the join condition for agent {kind}")
        states.append(entry["status"])
    if all(state == "True" for state in states):
        text = "Member cluster has successfully joined the fleet"
        return condition("Joined", True, "MemberClusterJoined", text, generation)
    if all(state == "False" for state in states):
        return condition("Joined", False, "MemberClusterLeft", "Member cluster has left the fleet", generation)
    return unknown("Member agents are not in a consistent state")


def member_status(member: Obj, internal: Obj | None, now: str) -> Obj:
    """The status of a MemberCluster that follows its InternalMemberCluster."""
    old = status_of(member)
    reported = status_of(internal) if internal is not None else {}
    agents = [_agent(agent, generation_of(member)) for agent in reported.get("agentStatus") or ()]
    conditions = set_condition(old.get("conditions") or [], ready_to_join(member), now)
    conditions = set_condition(conditions, joined(member, agents), now)
    for kind in _PROVIDER:
        entry = find(reported.get("conditions") or [], kind)
        if entry is None:
            conditions = without(conditions, kind)
        else:
            conditions = set_condition(conditions, {**entry, "observedGeneration": generation_of(member)}, now)
    status = {
        "conditions": conditions,
        "properties": reported.get("properties"),
        "resourceUsage": reported.get("resourceUsage") or {},
        "namespaces": reported.get("namespaces"),
        "agentStatus": agents,
    }
    return {name: value for name, value in status.items() if value or name == "resourceUsage"}


def _agent(agent: Obj, generation: int) -> Obj:
    conditions = [{**entry, "observedGeneration": generation} for entry in agent.get("conditions") or ()]
    return {**agent, "conditions": conditions}
