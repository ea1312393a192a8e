"""One job in full: why it waits or where it runs, with the evidence, its pods and what they write."""

from __future__ import annotations

from corral.client.sync import SyncClient
from corral.core import names
from corral.core.errors import ApiError, BadRequest
from corral.core.meta import Obj, labels_of, name_of, owner_references_of, spec_of, status_of
from corral.inspect.evidence import collect_evidence
from corral.inspect.explain import explain
from corral.inspect.lookup import find_resource, pods_of
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import WORKLOADS

TAIL_LINES = 1000


def details(client: SyncClient, namespace: str, workload: str) -> Obj:
    """What is known of the job of a Workload."""
    check_names(namespace=namespace, workload=workload)
    found = client.get(WORKLOADS, workload, namespace)
    explained = explain(found, collect_evidence(client, found, namespace))
    owner: Obj = next(iter(owner_references_of(found)), {"kind": "Workload", "name": workload})
    return {
        "title": f"{owner['kind']} {namespace}/{owner['name']}",
        "headline": explained.headline,
        "facts": list(explained.facts),
        "advice": explained.advice,
        "pods": [_pod(pod) for pod in _pods(client, found, namespace)],
    }


def check_names(**given: str) -> None:
    """What is asked for is a name, or is refused before the cluster hears of it."""
    for what, text in given.items():
        if names.check_subdomain(text) or (what == "namespace" and names.check_label(text)):
            raise BadRequest(f"the {what} {text!r} is not the name of one: lower case letters, digits, '-' and '.'")


def _pods(client: SyncClient, workload: Obj, namespace: str) -> list[Obj]:
    for owner in owner_references_of(workload)[:1]:
        group = str(owner.get("apiVersion") or "").rpartition("/")[0]
        resource = find_resource(client, f"{owner['kind']}.{group}" if group else str(owner["kind"]))
        if resource is not None:
            try:
                return pods_of(client, resource, {"metadata": {"name": owner["name"]}}, namespace)
            except ApiError:
                return []  # the pod was deleted, or we may not read it
    return []


def _pod(pod: Obj) -> Obj:
    return {
        "name": name_of(pod),
        "phase": str(status_of(pod).get("phase") or "Unknown"),
        "cluster": labels_of(pod).get("corral.dev/cluster", ""),
        "node": str(spec_of(pod).get("nodeName") or ""),
        "containers": [str(one["name"]) for one in spec_of(pod).get("containers") or ()],
    }


def logs(client: SyncClient, namespace: str, pod: str, container: str) -> bytes:
    """The end of what a container has written."""
    check_names(namespace=namespace, pod=pod, **({"container": container} if container else {}))
    query = {"tailLines": str(TAIL_LINES), "container": container}
    return b"".join(client.lines(PODS.path(namespace, pod, "log"), query))
