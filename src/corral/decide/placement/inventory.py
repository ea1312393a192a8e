"""A member as a ClusterProfile shows it: whether its API is healthy, its version, and how to reach it."""

from __future__ import annotations

import base64
from typing import Final

from corral.core.conditions import condition, find, is_true, set_condition
from corral.core.meta import Obj, generation_of, name_of, status_of
from corral.core.timestamps import parse_time
from corral.kinds.fleet.names import CLUSTER_AUTHORITY, CLUSTER_ENTRYPOINT, K8S_VERSION

MANAGER: Final = "KubeFleet"
MANAGER_LABEL: Final = "x-k8s.io/cluster-manager"
HEALTHY: Final = "ControlPlaneHealthy"
_AGENT: Final = "The Fleet member agent "


def profile_of(member: Obj, namespace: str) -> Obj:
    """The ClusterProfile that a member gets, without its status."""
    return {
        "metadata": {"name": name_of(member), "namespace": namespace, "labels": {MANAGER_LABEL: MANAGER}},
        "spec": {"clusterManager": {"name": MANAGER}, "displayName": name_of(member)},
    }


def agent_of(member: Obj) -> Obj | None:
    agents: list[Obj] = status_of(member).get("agentStatus") or []
    return next((agent for agent in agents if agent.get("type") == "MemberAgent"), None)


def heartbeat_of(member: Obj) -> float:
    """When the member's last heartbeat came; never is long ago."""
    heartbeat = (agent_of(member) or {}).get("lastReceivedHeartbeat")
    return parse_time(heartbeat) if heartbeat else float("-inf")


def silence(member: Obj, now: float) -> float:
    """How long ago the member's last heartbeat came; for ever when none did."""
    return now - heartbeat_of(member)


def news_for_profile(member: Obj) -> Obj:
    """What of a member's status its profile is made from, the times of heartbeats aside."""
    status = status_of(member)
    properties = status.get("properties") or {}
    known = {
        name: (properties.get(name) or {}).get("value") for name in (K8S_VERSION, CLUSTER_ENTRYPOINT, CLUSTER_AUTHORITY)
    }
    agent = (agent_of(member) or {}).get("conditions")
    return {"conditions": status.get("conditions"), "agent": agent, "properties": known}


def profile_status(member: Obj, profile: Obj, now: float, timestamp: str, threshold: float) -> Obj:
    """The status of a member's ClusterProfile. Properties the member once reported stay when
    it no longer reports them."""
    old = status_of(profile)
    entry = {**_health(member, now, threshold), "observedGeneration": generation_of(profile)}
    status = {**old, "conditions": set_condition(old.get("conditions") or [], entry, timestamp)}
    status.setdefault("version", {})
    if not is_true(member, "ClusterPropertyCollectionSucceeded"):
        return status
    known = {name: str(value.get("value", "")) for name, value in (status_of(member).get("properties") or {}).items()}
    if K8S_VERSION in known:
        status["version"] = {"kubernetes": known[K8S_VERSION]}
    cluster = {"server": known.get(CLUSTER_ENTRYPOINT, "")}
    if CLUSTER_AUTHORITY in known:
        cluster["certificate-authority-data"] = base64.b64encode(known[CLUSTER_AUTHORITY].encode()).decode()
    return {**status, "accessProviders": [{"name": MANAGER, "cluster": cluster}]}


def _health(member: Obj, now: float, threshold: float) -> Obj:
    agent = agent_of(member)
    if agent is None:
        return condition(HEALTHY, "Unknown", "MemberAgentReportedNoStatus", _AGENT + "has not reported its status yet")
    healthy = find(agent.get("conditions") or [], "Healthy")
    if healthy is None:
        text = _AGENT + "has reported its status, but the health condition is missing"
        return condition(HEALTHY, "Unknown", "MemberAgentReportedNoHealthInfo", text)
    if silence(member, now) > threshold:
        text = _AGENT + "has lost its heartbeat connection to the Fleet hub cluster"
        return condition(HEALTHY, False, "MemberAgentHeartbeatLost", text)
    match healthy["status"]:
        case "True":
            text = _AGENT + "reports that the API server is healthy"
            return condition(HEALTHY, True, "MemberClusterAPIServerHealthy", text)
        case "False":
            text = _AGENT + "reports that the API server is unhealthy"
            return condition(HEALTHY, False, "MemberClusterAPIServerUnhealthy", text)
    text = _AGENT + "health check result is out of date or unknown"
    return condition(HEALTHY, "Unknown", "MemberAgentReportedNoHealthInfo", text)
