"""What queueing and dispatch know about a Sweep."""

from __future__ import annotations

from typing import ClassVar

from corral.core import conditions
from corral.core.meta import Obj, name_of, spec_of, status_of
from corral.core.resource import Resource
from corral.jobs.framework.adapter import JobOutcome, Slot, SuspendableJob
from sweeps.kind import SWEEPS

NAME_LABEL = "sweeps.example.com/name"


class Sweep(SuspendableJob):
    framework: ClassVar[str] = "sweeps.example.com/sweep"
    resource: ClassVar[Resource] = SWEEPS

    def slots(self, job: Obj) -> list[Slot]:
        return [Slot("trials", ("spec", "template"), int(spec_of(job).get("trials", 1)))]

    def finished(self, job: Obj) -> JobOutcome | None:
        for kind, success in (("Complete", True), ("Failed", False)):
            entry = conditions.find(job, kind)
            if entry is not None and entry["status"] == "True":
                return JobOutcome(str(entry.get("message") or ""), success)
        return None

    def pods_ready(self, job: Obj) -> bool:
        counts = status_of(job)
        return counts.get("active", 0) + counts.get("succeeded", 0) >= int(spec_of(job).get("trials", 1))

    def pod_selector(self, job: Obj) -> str:
        return f"{NAME_LABEL}={name_of(job)}"
