"""Which changes of a Workload wake the controller of its life, and which the controller of its owner."""

from __future__ import annotations

from typing import Any

import pytest

from corral.controllers.queueing.workloads.changes import concerns_owner, life_changed
from corral.core.meta import Obj

LIFE, OWNER, BOTH, NOBODY = (True, False), (False, True), (True, True), (False, False)


def workload(*held: Obj, status: Obj | None = None, **metadata: Any) -> Obj:
    return {"metadata": {"name": "w", "generation": 1, **metadata}, "status": {"conditions": [*held], **(status or {})}}


def condition(kind: str, reason: str = "", status: str = "True") -> Obj:
    return {"type": kind, "status": status, "reason": reason}


QUOTA, READY = condition("QuotaReserved"), condition("PodsReady", "Started")
BEFORE = workload(QUOTA)
CASES: dict[str, tuple[Obj | None, Obj | None, tuple[bool, bool]]] = {
    "it appears": (None, BEFORE, BOTH),
    "it is gone": (BEFORE, None, OWNER),
    "a new version of the same": (BEFORE, workload(QUOTA, resourceVersion="2"), NOBODY),
    "its spec": (BEFORE, workload(QUOTA, generation=2), BOTH),
    "its labels": (BEFORE, workload(QUOTA, labels={"a": "b"}), BOTH),
    "its owners": (BEFORE, workload(QUOTA, ownerReferences=[{"uid": "u"}]), BOTH),
    "it is to leave": (BEFORE, workload(QUOTA, deletionTimestamp="now"), BOTH),
    "its finalizers": (BEFORE, workload(QUOTA, finalizers=["f"]), LIFE),
    "a decision": (BEFORE, workload(QUOTA, condition("Evicted")), BOTH),
    "another reason": (BEFORE, workload(condition("QuotaReserved", "Other")), BOTH),
    "a check": (BEFORE, workload(QUOTA, status={"admissionChecks": [{"name": "a"}]}), BOTH),
    "a cluster": (BEFORE, workload(QUOTA, status={"clusterName": "c"}), BOTH),
    "readiness": (BEFORE, workload(QUOTA, READY), NOBODY),
    "a lost pod": (workload(QUOTA, READY), workload(QUOTA, condition("PodsReady", "WaitForRecovery", "False")), LIFE),
    "reclaimable pods": (BEFORE, workload(QUOTA, status={"reclaimablePods": [{"name": "a", "count": 1}]}), NOBODY),
    "nominations": (BEFORE, workload(QUOTA, status={"nominatedClusterNames": ["c"]}), NOBODY),
}


@pytest.mark.parametrize("name", CASES)
def test_whom_it_concerns(name: str) -> None:
    old, new, wanted = CASES[name]
    assert (life_changed(old, new), concerns_owner(old, new)) == wanted
