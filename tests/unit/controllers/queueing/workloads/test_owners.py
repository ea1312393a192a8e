"""Who is woken by a Workload: the controllers of its owners, of pod groups, and those who wait for one to adopt."""

from __future__ import annotations

from typing import Any

import pytest

from corral.controllers.queueing.workloads.owners import WorkloadOwners
from corral.core.meta import Key, Obj

GROUP = {"kueue.x-k8s.io/is-group-workload": "true"}
SET = {"kueue.x-k8s.io/job-owner-gvk": "apps/v1, Kind=StatefulSet", "kueue.x-k8s.io/job-owner-name": "s"}


def owner(version: str, kind: str, name: str) -> Obj:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": name}


def workload(*owners: Obj, **notes: str) -> Obj:
    metadata: dict[str, Any] = {"name": "w", "namespace": "n", "ownerReferences": list(owners), "annotations": notes}
    return {"metadata": metadata}


def decided(workload: Obj) -> Obj:
    return {**workload, "status": {"admission": {"clusterQueue": "cq"}}}


JOB, OTHER = owner("batch/v1", "Job", "j"), owner("batch/v1", "Job", "k")
POD, STATEFUL = owner("v1", "Pod", "p"), owner("apps/v1", "StatefulSet", "s")
CASES: dict[str, tuple[Obj | None, Obj | None, list[str]]] = {
    "a job's": (None, workload(JOB), ["Job n/j"]),
    "changed": (workload(JOB), decided(workload(JOB)), ["Job n/j"]),
    "not changed in anything that matters": (workload(JOB), workload(JOB), []),
    "deleted": (workload(JOB), None, ["Job n/j"]),
    "handed over": (workload(JOB), workload(OTHER), ["Job n/j", "Job n/k"]),
    "of a kind nobody queues": (None, workload(owner("v1", "Thing", "t")), []),
    "of the same kind in another group": (None, workload(owner("other/v1", "Job", "j")), []),
    "new and nobody's, and awaited": (None, workload(), ["Job n/a", "Job n/b"]),
    "nobody's, changed": (workload(), decided(workload()), []),
    "a pod's": (None, workload(POD), ["Pod n/p"]),
    "a group's": (None, workload(POD, **GROUP), ["group n/w"]),
    "a set's": (None, workload(STATEFUL, POD, **GROUP, **SET), ["Set n/s", "group n/w", "Set n/s"]),
    "of a set that is only named": (workload(**SET), decided(workload(**SET)), ["Set n/s"]),
}


@pytest.mark.parametrize("name", CASES)
def test_who_is_woken(name: str) -> None:
    old, new, wanted = CASES[name]
    woken: list[str] = []

    def wake(who: str) -> Any:
        def note(key: Key) -> None:
            woken.append(f"{who} {key}")

        return note

    owners = WorkloadOwners()
    owners.add("batch", "Job", wake("Job"), awaited={"n/w": {Key("n", "b"): None, Key("n", "a"): None}})
    owners.add("other", "Thing", wake("Thing"), awaited={"n/v": (Key("n", "t"),)})
    owners.add("", "Pod", wake("Pod"))
    owners.add("apps", "StatefulSet", wake("Set"), named=True)
    owners.add_groups(wake("group"))
    owners.changed(old, new)
    assert woken == wanted
