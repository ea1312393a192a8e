"""`corral explain cronjob/x`: a CronJob is not queued, its Jobs are."""

from __future__ import annotations

from typing import Any

import pytest

from corral.cli import explain
from corral.core.errors import NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource

OWNED = [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "c"}]


class Cluster:
    """Answers as an API that holds a few objects."""

    def __init__(self, **held: list[Obj]) -> None:
        self._held = held

    def list(self, resource: Resource, namespace: str = "", **_: Any) -> Obj:
        return {"items": self._held.get(resource.plural, [])}

    def get(self, resource: Resource, name: str, namespace: str = "") -> Obj:
        raise NotFound(name)


def cron_job(labels: dict[str, str]) -> Obj:
    metadata = {"name": "nightly", "namespace": "default", "uid": "c"}
    return {"kind": "CronJob", "metadata": metadata, "spec": {"jobTemplate": {"metadata": {"labels": labels}}}}


def job(name: str, minute: int) -> Obj:
    made = f"2026-11-16T08:{minute:02}:00Z"
    metadata = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": made}
    return {"kind": "Job", "metadata": {**metadata, "ownerReferences": OWNED}, "spec": {}}


def told(cluster: Cluster, of: Obj, capsys: pytest.CaptureFixture[str]) -> list[str]:
    client: Any = cluster
    explain._print_cron_job(client, of, "default")
    return capsys.readouterr().out.splitlines()


def test_the_last_job_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    finished = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "done"}
    workload = {
        "metadata": {"name": "w", "ownerReferences": [{**OWNED[0], "kind": "Job", "name": "new", "uid": "new"}]},
        "kind": "Workload",
        "spec": {"queueName": "lq"},
        "status": {"conditions": [finished]},
    }
    cluster = Cluster(jobs=[job("old", 1), job("new", 2)], workloads=[workload])
    assert told(cluster, cron_job({"kueue.x-k8s.io/queue-name": "lq"}), capsys) == [
        "CronJob nightly: its Jobs go to lq.",
        "Job new: Finished (Succeeded): done",
    ]


def test_the_label_belongs_in_the_template(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(Cluster(), cron_job({}), capsys) == [
        "CronJob nightly: its Jobs name no queue.",
        "  -> Set the label kueue.x-k8s.io/queue-name in spec.jobTemplate.metadata.labels, and its next Job is queued.",
        "  it has made no Job yet",
    ]
