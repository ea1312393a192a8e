"""AppWrapper: the pod sets of its components; what admission adds is handed to the wrapper as `podSetInfos`.

The wrapped templates stay as the user wrote them, so stopping only takes the infos away again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from corral.core import conditions
from corral.core.meta import Obj, name_of, spec_of, status_of
from corral.core.resource import Resource
from corral.jobs.appwrapper import kind as appwrapper
from corral.jobs.framework.adapter import JobOutcome, Lookup, Slot, StopWrite, SuspendableJob
from corral.jobs.framework.paths import set_in
from corral.workload.podsets import PodSet, PodSetInfo, info_of_template, topology_request


class AppWrapper(SuspendableJob):
    """workload.codeflare.dev AppWrappers."""

    framework: ClassVar[str] = "workload.codeflare.dev/appwrapper"
    resource: ClassVar[Resource] = appwrapper.APP_WRAPPERS
    own_managers: ClassVar[tuple[str, ...]] = ("workload.codeflare.dev/appwrapper",)

    def slots(self, job: Obj) -> list[Slot]:
        return []

    def pod_sets(self, job: Obj, lookup: Lookup) -> list[PodSet]:
        return [
            PodSet(f"{name_of(job)}-{number}", template, count, None, topology_request(template))
            for number, (_, count, template) in enumerate(_parts(job))
        ]

    def run(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        """Raises ConflictingUpdate when an info contradicts a template, as filling it in would."""
        started = set_in(job, self.suspend_path, False)
        given: dict[int, list[Obj]] = {}
        for (position, _, template), info in zip(_parts(job), infos, strict=True):
            info_of_template(info.name, template).merged(info)
            given.setdefault(position, []).append(_info(info))
        for position, entries in given.items():
            started = set_in(started, ("spec", "components", position, "podSetInfos"), entries)
        return started

    def restore(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        restored = job
        for position, component in enumerate(spec_of(job).get("components") or []):
            if "podSetInfos" in component:
                restored = set_in(restored, ("spec", "components", position, "podSetInfos"), None)
        return restored

    def stop(self, job: Obj, infos: Sequence[PodSetInfo]) -> StopWrite | None:
        stopped = self.suspend(self.restore(job, infos))
        return None if stopped is job else StopWrite(stopped)

    def finished(self, job: Obj) -> JobOutcome | None:
        phase = status_of(job).get("phase")
        if phase == "Succeeded":
            return JobOutcome("AppWrapper finished successfully", True)
        return JobOutcome("AppWrapper failed", False) if phase == "Failed" else None

    def pods_ready(self, job: Obj) -> bool:
        return conditions.is_true(job, "PodsReady")

    def is_active(self, job: Obj) -> bool:
        return conditions.is_true(job, "QuotaReserved")


def _parts(job: Obj) -> Iterator[tuple[int, int, Obj]]:
    """(position of the component, pods, template) of every pod set, in order."""
    for position, component in enumerate(spec_of(job).get("components") or []):
        for pod_set in appwrapper.pod_sets_of(component):
            template = appwrapper.pod_template_at(component.get("template") or {}, str(pod_set["path"]))
            if template is not None:
                bare: Obj = {part: template[part] for part in ("metadata", "spec") if part in template}
                yield position, int(pod_set.get("replicas", 1)), bare


def _info(info: PodSetInfo) -> Obj:
    entry = {
        "labels": dict(info.labels),
        "annotations": dict(info.annotations),
        "nodeSelector": dict(info.node_selector),
        "tolerations": list(info.tolerations),
        "schedulingGates": list(info.scheduling_gates),
    }
    return {name: value for name, value in entry.items() if value}
