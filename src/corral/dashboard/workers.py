"""The worker clusters of the page: what each has, what of it is promised, and its nodes.

Workers are asked all at once and none for longer than a moment, as somebody who may read how the manager reaches them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from corral.client.kubeconfig import Access, KubeconfigError
from corral.client.limits import ANSWER_S
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import ApiError, ConnectionFailed, Forbidden
from corral.core.meta import Obj, labels_of, name_of, namespace_of, spec_of, status_of
from corral.dashboard.amounts import ByResource, added, share, shown
from corral.dashboard.jobs import used_by
from corral.decide.queueing.model.amounts import format_amount
from corral.decide.queueing.model.requests import pod_requests
from corral.inspect.asking import asked_at_once
from corral.inspect.lookup import visible
from corral.inspect.placed_pods import KUEUE, worker_access
from corral.kinds.kubernetes.core.kinds import NODES, PODS
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS
from corral.workload import workload as wl

NOT_WORTH_A_BAR = ("pods", "ephemeral-storage")
HIDDEN_LABELS = ("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/")


def worker(found: Obj, workloads: list[Obj]) -> Obj:
    """A worker as its manager knows it."""
    active = conditions.find(found, "Active") or {}
    name = name_of(found)
    unfinished = [one for one in workloads if wl.phase(one) != "finished"]
    here = [one for one in unfinished if status_of(one).get("clusterName") == name]
    used: ByResource = {}
    for one in here:
        added(used, shown(used_by(one)))
    return {
        "name": name,
        "active": active.get("status") == "True",
        "message": active.get("message") or "",
        "running": len(here),
        "asked": sum(name in (status_of(one).get("nominatedClusterNames") or ()) for one in unfinished),
        "used": shown(used),
    }


def capacities(client: SyncClient, others: Mapping[str, Access]) -> Obj:
    """What the nodes of each worker hold together, or why that cannot be said."""
    names = [name_of(one) for one in visible(client, MULTI_KUEUE_CLUSTERS)]
    answers = asked_at_once({name: partial(_capacity, client, name, others) for name in names})
    return {name: _reported(name, answer) for name, answer in answers.items()}


def _capacity(client: SyncClient, name: str, others: Mapping[str, Access]) -> Obj:
    there = worker_client(client, name, others)
    try:
        nodes = there.list(NODES)["items"]
    finally:
        there.close()
    total: ByResource = {}
    for node in nodes:
        added(total, status_of(node).get("allocatable") or {})
    ready = sum(conditions.is_true(node, "Ready") for node in nodes)
    return {
        "has": {key: text for key, text in shown(total).items() if key not in NOT_WORTH_A_BAR},
        "nodes": len(nodes),
        "ready": ready,
    }


def worker_client(client: SyncClient, name: str, others: Mapping[str, Access]) -> SyncClient:
    """A client of a worker, for one thread: as the viewer, who may see more there than the manager, else as that."""
    own = SyncClient(client.access)
    try:
        known = worker_access(own, name, KUEUE)
        return SyncClient(others.get(known.server, known), timeout=ANSWER_S)
    finally:
        own.close()


def _reported(name: str, answer: Obj | Exception) -> Obj:
    return {"unknown": _why(name, answer)} if isinstance(answer, Exception) else answer


def _why(name: str, error: Exception) -> str:
    if isinstance(error, Forbidden):
        return "what it holds is not yours to see"
    if isinstance(error, ConnectionFailed | TimeoutError):
        return f"{name} does not answer"
    return str(error) if isinstance(error, ApiError | KubeconfigError) else type(error).__name__


def nodes(client: SyncClient, name: str, others: Mapping[str, Access]) -> Obj:
    """The nodes of one worker, or with no name those of the cluster itself, each with what its pods have of it."""
    there = worker_client(client, name, others) if name else client
    try:
        found = there.list(NODES)["items"]
        pods = there.list(PODS)["items"]
    finally:
        if there is not client:
            there.close()
    by_node: dict[str, list[Obj]] = {}
    for pod in pods:
        if status_of(pod).get("phase") not in ("Succeeded", "Failed"):
            by_node.setdefault(str(spec_of(pod).get("nodeName") or ""), []).append(pod)
    return {
        "title": f"Cluster {name}" if name else "This cluster",
        "nodes": [_node(node, by_node.get(name_of(node), [])) for node in sorted(found, key=name_of)],
    }


def _node(node: Obj, pods: list[Obj]) -> Obj:
    holds = status_of(node).get("allocatable") or {}
    used: dict[str, int] = {}
    for pod in pods:
        for resource, amount in pod_requests(spec_of(pod)).items():
            used[resource] = used.get(resource, 0) + amount
    amounts = [
        (one, str(holds[one]), format_amount(one, used.get(one, 0)))
        for one in sorted(holds)
        if one not in NOT_WORTH_A_BAR
    ]
    return {
        "name": name_of(node),
        "ready": conditions.is_true(node, "Ready"),
        "unschedulable": bool(spec_of(node).get("unschedulable")),
        "taints": [str(taint.get("key")) for taint in spec_of(node).get("taints") or ()],
        "labels": [
            f"{key}={text}" for key, text in sorted(labels_of(node).items()) if not key.startswith(HIDDEN_LABELS)
        ],
        "resources": [
            {"resource": one, "has": has, "used": of_it, "share": share(of_it, has)} for one, has, of_it in amounts
        ],
        "pods": [f"{namespace_of(pod)}/{name_of(pod)}" for pod in pods],
    }
