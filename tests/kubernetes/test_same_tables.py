"""What `kubectl get -o wide` shows of a status, from Corral and from a real kube-apiserver, for every kind of Kubernetes' own that has one.

Each status below is written to the object that the questions of kubectl create, on both servers, and the tables they then print
must be the same.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cluster import TOKEN, ControlPlane
from test_same_answers import BINARIES, NEWER, VOLUMES, _ask, differences
from test_same_refusals import JSON, MERGE, bases

from corral.clusters.embedded_api import EmbeddedApi
from corral.jobs.framework.served_kinds import builtin_kinds

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(600),
]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
T = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T01:02:03Z"


def condition(kind: str, status: str = "True", **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": f"{kind}Reason", "message": "m", "lastTransitionTime": T, **more}


def container(name: str, *, ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    about = {"image": "i", "imageID": "x", "ready": ready, "restartCount": restarts}
    return {"name": name, **about, "state": state, "lastState": {}}


RUNNING = {"running": {"startedAt": T}}
METRIC = {"name": "cpu", "current": {"averageUtilization": 42, "averageValue": "3"}}
STATUSES: dict[str, list[dict[str, Any]]] = {
    "pods": [
        {"phase": "Pending"},
        {"phase": "Pending", "reason": "Evicted"},
        {
            "phase": "Running",
            "podIP": "10.0.0.9",
            "podIPs": [{"ip": "10.0.0.9"}],
            "containerStatuses": [container("c", **RUNNING)],
        },
        {
            "phase": "Running",
            "nominatedNodeName": "u-node",
            "containerStatuses": [container("c", ready=True, restarts=3, **RUNNING)],
        },
        {"phase": "Running", "containerStatuses": [container("c", waiting={"reason": "CrashLoopBackOff"}, restarts=2)]},
        {"phase": "Failed", "containerStatuses": [container("c", terminated={"exitCode": 3, "reason": "Error"})]},
        {"phase": "Failed", "containerStatuses": [container("c", terminated={"exitCode": 3, "signal": 9})]},
        {"phase": "Failed", "containerStatuses": [container("c", terminated={"exitCode": 3})]},
        {
            "phase": "Succeeded",
            "containerStatuses": [container("c", terminated={"exitCode": 0, "reason": "Completed"})],
        },
    ],
    "services": [  # both are refused, since it is no load balancer
        {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}]}},
        {"loadBalancer": {"ingress": [{"hostname": "a.example.com"}]}},
    ],
    "persistentvolumeclaims": [
        {"phase": "Bound", "capacity": {"storage": "3Gi"}, "accessModes": ["ReadWriteOnce"]},
        {"phase": "Lost"},
    ],
    "persistentvolumes": [{"phase": "Available"}, {"phase": "Failed", "reason": "Odd", "message": "m"}],
    "replicationcontrollers": [{"replicas": 4, "readyReplicas": 3, "availableReplicas": 2, "fullyLabeledReplicas": 1}],
    "resourcequotas": [
        {
            "hard": {"cpu": "4", "pods": "9", "limits.memory": "9Gi"},
            "used": {"cpu": "1", "pods": "2", "limits.memory": "1Gi"},
        }
    ],
    "deployments": [
        {"replicas": 4, "updatedReplicas": 1, "readyReplicas": 3, "availableReplicas": 2, "unavailableReplicas": 1},
    ],
    "replicasets": [{"replicas": 4, "readyReplicas": 3, "availableReplicas": 2, "fullyLabeledReplicas": 1}],
    "statefulsets": [
        {"replicas": 4, "readyReplicas": 3, "currentReplicas": 2, "updatedReplicas": 1, "availableReplicas": 1}
    ],
    "daemonsets": [
        {
            "desiredNumberScheduled": 6,
            "currentNumberScheduled": 5,
            "numberReady": 4,
            "updatedNumberScheduled": 3,
            "numberAvailable": 2,
            "numberUnavailable": 1,
            "numberMisscheduled": 7,
        }
    ],
    "jobs": [
        {"active": 1, "ready": 1, "startTime": T},
        {"startTime": T, "conditions": [condition("Suspended")]},
        {"startTime": T, "failed": 1, "conditions": [condition("FailureTarget")]},
        {"startTime": T, "failed": 1, "conditions": [condition("FailureTarget"), condition("Failed")]},
    ],
    "cronjobs": [
        {"lastScheduleTime": T, "lastSuccessfulTime": LATER},
        {
            "active": [{"kind": "Job", "name": "a", "namespace": "u", "apiVersion": "batch/v1"}],
            "lastScheduleTime": LATER,
        },
    ],
    "horizontalpodautoscalers": [
        {"currentReplicas": 3, "desiredReplicas": 5, "currentMetrics": [{"type": "Resource", "resource": METRIC}]},
        {"currentReplicas": 2, "desiredReplicas": 1, "currentMetrics": []},
    ],
    "poddisruptionbudgets": [
        {"disruptionsAllowed": 2, "currentHealthy": 5, "desiredHealthy": 3, "expectedPods": 7, "observedGeneration": 1}
    ],
    "ingresses": [
        {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"hostname": "b.example.com"}]}},
        {"loadBalancer": {"ingress": [{"hostname": "b.example.com"}]}},
    ],
    "volumeattachments": [{"attached": True}, {"attached": False, "attachError": {"time": T, "message": "m"}}],
    "nodes": [
        {
            "conditions": [condition("MemoryPressure", "False"), condition("Ready", "False")],
            "addresses": [{"type": "ExternalIP", "address": "2.2.2.2"}, {"type": "InternalIP", "address": "1.1.1.1"}],
            "nodeInfo": {
                "kubeletVersion": "v1.30.0",
                "osImage": "Linux",
                "kernelVersion": "6.1",
                "containerRuntimeVersion": "containerd://2",
                **dict.fromkeys(
                    ("architecture", "bootID", "kubeProxyVersion", "machineID", "operatingSystem", "systemUUID"), "x"
                ),
            },
        },
        {"conditions": [condition("Ready")]},
        {"conditions": [condition("Ready", "Unknown")]},
    ],
    "validatingadmissionpolicies": [{"observedGeneration": 1, "typeChecking": {}}],
    "flowschemas": [{"conditions": [condition("Dangling")]}, {"conditions": [condition("Dangling", "False")]}],
    "prioritylevelconfigurations": [{"conditions": [condition("Odd")]}],
    "customresourcedefinitions": [{"conditions": [condition("Odd")]}],
}
ELSEWHERE = {
    "namespaces": "its phase follows its deletion; the questions of kubectl ask for it",
    "certificatesigningrequests": "made by a request that has to be signed; the questions of kubectl list them",
    "servicecidrs": "one stands for the network of the cluster",
    "apiservices": "ours are not written",
    "resourceclaims": "the questions have none",
}
KNOWN = {
    **{f"nodes {number}": NEWER for number in range(3)},
    **{f"{kind} {number}": VOLUMES for kind in ("persistentvolumeclaims", "persistentvolumes") for number in range(2)},
    "resourcequotas 0": "its use is counted here, and the status that was written is gone at once",
    **{f"flowschemas {number}": "a real server looks for their priority levels itself" for number in range(2)},
}


def with_status() -> Iterator[str]:
    yield from sorted(kind.plural for kind in builtin_kinds() if any(version.status for version in kind.versions))


def test_every_kind_with_a_status_is_asked_for_or_said_to_be_left_out() -> None:
    assert set(STATUSES) | set(ELSEWHERE) == set(with_status())


async def asked(tmp_path: Path) -> AsyncIterator[tuple[str, list[str]]]:
    assert BINARIES is not None
    real = ControlPlane("real", tmp_path, BINARIES)
    await asyncio.to_thread(real.start, controllers=False)
    cluster = EmbeddedApi(None)
    await cluster.start()
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:

            async def ask(method: str, path: str, body: Any = None, **more: Any) -> list[str]:
                question = {"method": method, "path": path, "body": body, "contentType": JSON, **more}
                ours = await _ask(session, cluster.server.url, cluster.server.admin_token, question)
                theirs = await _ask(session, real.server, TOKEN, question)
                return differences(question, ours, theirs)

            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "u"}}
            await ask("POST", "/api/v1/namespaces", namespace)
            await asyncio.sleep(1)
            for base in bases():
                for number, status in enumerate(STATUSES.get(base.resource, ())):
                    if number == 0:
                        await ask("POST", base.collection, base.body)
                    written = await ask("PATCH", f"{base.item}/status", {"status": status}, contentType=MERGE)
                    yield f"{base.resource} {number}, written", written
                    yield f"{base.resource} {number}", await ask("GET", base.item, accept=TABLE, whole=True)
    finally:
        await cluster.stop()
        await asyncio.to_thread(real.stop)


async def test_tables_agree(tmp_path: Path) -> None:
    found = {question: answer async for question, answer in asked(tmp_path)}
    assert len(found) >= sum(map(len, STATUSES.values()))
    wrong = {question: answer for question, answer in found.items() if answer and question not in KNOWN}
    assert wrong == {}
