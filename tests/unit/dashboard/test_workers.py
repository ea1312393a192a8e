"""What the page knows of workers: from their manager at once, from themselves as far as they answer whoever asks."""

from __future__ import annotations

from typing import Any

import pytest

from corral.client.kubeconfig import Access
from corral.client.sync import SyncClient
from corral.core.errors import ConnectionFailed, Forbidden
from corral.core.meta import Obj
from corral.dashboard import workers
from corral.kinds.kubernetes.core.kinds import NODES

MANAGER = Access("http://manager")


def workload(cluster: str, cpu: str, *conditions: str, nominated: tuple[str, ...] = ()) -> Obj:
    usage = {"podSetAssignments": [{"name": "main", "resourceUsage": {"cpu": cpu, "pods": "1"}}]}
    entries = [{"type": name, "status": "True"} for name in ("QuotaReserved", "Admitted", *conditions)]
    return {
        "status": {
            "clusterName": cluster,
            "admission": usage,
            "conditions": entries,
            "nominatedClusterNames": list(nominated),
        }
    }


def test_what_runs_on_a_worker_is_added_up_and_what_has_ended_is_not() -> None:
    found: Obj = {
        "metadata": {"name": "w1"},
        "status": {"conditions": [{"type": "Active", "status": "True", "message": "Connected"}]},
    }
    jobs = [
        workload("w1", "1500m"),
        workload("w1", "1"),
        workload("w1", "8", "Finished"),
        workload("w2", "4"),
        workload("", "2", nominated=("w1", "w2")),
    ]
    shown = workers.worker(found, jobs)
    assert (shown["running"], shown["asked"], shown["active"]) == (2, 1, True)
    assert shown["used"] == {"cpu": "2500m", "pods": "2"}


def node(cpu: str, ready: str = "True") -> Obj:
    allocatable = {"cpu": cpu, "memory": "4Gi", "pods": "110", "ephemeral-storage": "1Gi"}
    return {"status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]}}


def test_a_worker_that_says_nothing_does_not_keep_the_others_from_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def listed(client: SyncClient, resource: Any, *_: Any, **__: Any) -> Obj:
        server = client.access.server
        asked.append(f"{server} as {client.access.token}")
        if resource != NODES:
            return {"items": [{"metadata": {"name": name}} for name in ("hidden", "silent", "w1")]}
        if server == "http://hidden":
            raise Forbidden("nodes is forbidden")
        if server == "http://silent":
            raise ConnectionFailed("cannot reach http://silent: it does not answer")
        return {"items": [node("2"), node("500m", "False")]}

    monkeypatch.setattr(SyncClient, "list", listed)
    monkeypatch.setattr(
        workers, "worker_access", lambda manager, name, namespace: Access(f"http://{name}", token="manager")
    )
    found = workers.capacities(SyncClient(MANAGER), {"http://w1": Access("http://w1", token="viewer")})
    assert found == {
        "hidden": {"unknown": "what it holds is not yours to see"},
        "silent": {"unknown": "silent does not answer"},
        "w1": {"has": {"cpu": "2500m", "memory": "8Gi"}, "nodes": 2, "ready": 1},
    }
    assert "http://w1 as viewer" in asked, "the viewer's own rights there, where he has some"
    assert "http://hidden as manager" in asked
