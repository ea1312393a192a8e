"""Ray: RayCluster, RayJob and RayService; the head, each worker group, and the submitter of a RayJob."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from corral.core import conditions
from corral.core.errors import Cause
from corral.core.meta import Obj, annotations_of, spec_of, status_of
from corral.core.resource import Resource
from corral.core.validation import forbidden, index, invalid, required
from corral.jobs.framework.adapter import JobOutcome, Lookup, SizedGroups, Slot, SuspendableJob
from corral.jobs.framework.paths import Path, get_in, set_in
from corral.jobs.ray.kind import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from corral.kinds.kueue import names
from corral.workload.podsets import PodSet, PodSetInfo, injected

HEAD = "head"
SUBMITTER = "submitter"
MAX_GROUPS = 17
OWN_MANAGERS = ("ray.io/kuberay-operator",)
SUBMITTER_TEMPLATE = ("spec", "submitterPodTemplate")
SUBMITTER_RESOURCES = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}}


def cluster_slots(job: Obj, where: Path) -> list[Slot]:
    """Head and worker groups of the RayClusterSpec at `where`."""
    spec = get_in(job, where, {})
    slots = [Slot(HEAD, (*where, "headGroupSpec", "template"), 1)]
    for position, group in enumerate(spec.get("workerGroupSpecs") or ()):
        replicas = group.get("replicas")
        pods = (1 if replicas is None else int(replicas)) * int(group.get("numOfHosts") or 1)
        path = (*where, "workerGroupSpecs", position, "template")
        slots.append(Slot(str(group.get("groupName", "")).lower(), path, pods))
    return slots


def cluster_rules(job: Obj, where: Path) -> list[Cause]:
    """What queueing cannot accept in a RayClusterSpec."""
    spec, path = get_in(job, where, {}), ".".join(str(step) for step in where)
    causes: list[Cause] = []
    if spec.get("enableInTreeAutoscaling") and annotations_of(job).get(names.ELASTIC_JOB) != "true":
        text = "a kueue managed job can use autoscaling only when the ElasticJobsViaWorkloadSlices feature gate is on and the job is an elastic job"
        causes.append(invalid(f"{path}.enableInTreeAutoscaling", True, text))
    groups = spec.get("workerGroupSpecs") or ()
    if len(groups) > MAX_GROUPS:
        causes.append(
            Cause(
                "FieldValueTooMany",
                f"Too many: {len(groups)}: must have at most {MAX_GROUPS} items",
                f"{path}.workerGroupSpecs",
            )
        )
    for position, group in enumerate(groups):
        if group.get("groupName") == HEAD:
            where_name = f"{index(f'{path}.workerGroupSpecs', position)}.groupName"
            causes.append(forbidden(where_name, f'"{HEAD}" is reserved for the head group'))
    return causes


class RayCluster(SuspendableJob):
    framework: ClassVar[str] = "ray.io/raycluster"
    update_gate: ClassVar[str] = "ValidateRayAndSparkJobUpdates"
    resource: ClassVar[Resource] = RAY_CLUSTERS
    own_managers: ClassVar[tuple[str, ...]] = OWN_MANAGERS
    elastic: ClassVar[bool] = True
    ends: ClassVar[bool] = False
    elastic_groups: ClassVar[SizedGroups | None] = SizedGroups(
        ("spec", "workerGroupSpecs"), "groupName", ("replicas", "numOfHosts")
    )
    cluster_path: ClassVar[Path] = ("spec",)

    def slots(self, job: Obj) -> list[Slot]:
        return cluster_slots(job, self.cluster_path)

    def is_active(self, job: Obj) -> bool:
        state = status_of(job).get("state")
        return state not in (None, "", "suspended")

    def finished(self, job: Obj) -> JobOutcome | None:
        """A cluster has no end of its own; only a failed one is over."""
        if status_of(job).get("state") != "failed":
            return None
        return JobOutcome(str(status_of(job).get("reason") or ""), success=False)

    def pods_ready(self, job: Obj) -> bool:
        return status_of(job).get("state") == "ready"

    def validate(self, job: Obj, old: Obj | None) -> list[Cause]:
        return cluster_rules(job, self.cluster_path)


class RayService(SuspendableJob):
    framework: ClassVar[str] = "ray.io/rayservice"
    update_gate: ClassVar[str] = "ValidateRayAndSparkJobUpdates"
    resource: ClassVar[Resource] = RAY_SERVICES
    suspend_path: ClassVar[Path] = ("spec", "rayClusterConfig", "suspend")
    own_managers: ClassVar[tuple[str, ...]] = OWN_MANAGERS
    elastic: ClassVar[bool] = True
    ends: ClassVar[bool] = False
    followed_fields: ClassVar[tuple[Path, ...]] = (("spec", "serveConfigV2"),)

    def slots(self, job: Obj) -> list[Slot]:
        return cluster_slots(job, ("spec", "rayClusterConfig"))

    def is_active(self, job: Obj) -> bool:
        active = status_of(job).get("activeServiceStatus") or {}
        return bool(active.get("rayClusterName")) or conditions.is_true(job, "Ready")

    def finished(self, job: Obj) -> JobOutcome | None:
        return None

    def pods_ready(self, job: Obj) -> bool:
        return conditions.is_true(job, "Ready") or status_of(job).get("serviceStatus") == "Running"

    def validate(self, job: Obj, old: Obj | None) -> list[Cause]:
        return cluster_rules(job, ("spec", "rayClusterConfig"))


class RayJob(SuspendableJob):
    framework: ClassVar[str] = "ray.io/rayjob"
    update_gate: ClassVar[str] = "ValidateRayAndSparkJobUpdates"
    resource: ClassVar[Resource] = RAY_JOBS
    own_managers: ClassVar[tuple[str, ...]] = OWN_MANAGERS
    elastic: ClassVar[bool] = True
    followed_fields: ClassVar[tuple[Path, ...]] = (("spec", "activeDeadlineSeconds"),)

    def slots(self, job: Obj) -> list[Slot]:
        slots = cluster_slots(job, ("spec", "rayClusterSpec"))
        return [*slots, Slot(SUBMITTER, SUBMITTER_TEMPLATE, 1)] if _has_submitter(job) else slots

    def pod_sets(self, job: Obj, lookup: Lookup) -> list[PodSet]:
        return super().pod_sets(_with_sidecar(_with_submitter(job)), lookup)

    def run(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        if not _has_submitter(job) or get_in(job, SUBMITTER_TEMPLATE) is not None or _says_nothing(infos[-1]):
            return self._run(job, infos)
        return self._run(_with_submitter(job), infos)

    def _run(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        started = set_in(job, self.suspend_path, False)
        for slot, info in zip(self.slots(job), infos, strict=True):
            template = get_in(job, slot.path)
            if template is not None:
                started = set_in(started, slot.path, injected(template, info))
        return started

    def is_active(self, job: Obj) -> bool:
        return status_of(job).get("jobDeploymentStatus") not in (None, "", "Suspended", "New", "Complete", "Failed")

    def finished(self, job: Obj) -> JobOutcome | None:
        status = status_of(job)
        if status.get("jobDeploymentStatus") not in ("Complete", "Failed"):
            return None
        return JobOutcome(str(status.get("message") or ""), status.get("jobStatus") == "SUCCEEDED")

    def pods_ready(self, job: Obj) -> bool:
        status = status_of(job)
        return (status.get("rayClusterStatus") or {}).get("state") == "ready" or status.get("jobStatus") == "RUNNING"

    def validate(self, job: Obj, old: Obj | None) -> list[Cause]:
        spec = spec_of(job)
        if spec.get("clusterSelector"):
            text = "a kueue managed job should not use an existing cluster"
            return [invalid("spec.clusterSelector", spec["clusterSelector"], text)]
        if spec.get("rayClusterSpec") is None:
            text = "rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector"
            return [required("spec.rayClusterSpec", text)]
        causes = cluster_rules(job, ("spec", "rayClusterSpec"))
        if not spec.get("shutdownAfterJobFinishes"):
            text = "a kueue managed job should delete the cluster after finishing"
            causes.insert(0, invalid("spec.shutdownAfterJobFinishes", False, text))
        return causes


def _has_submitter(job: Obj) -> bool:
    return spec_of(job).get("submissionMode", "K8sJobMode") in ("", "K8sJobMode")


def _says_nothing(info: PodSetInfo) -> bool:
    return not (info.node_selector or info.tolerations or info.scheduling_gates)


def _with_submitter(job: Obj) -> Obj:
    """The job with the submitter the operator would use when none is given."""
    if not _has_submitter(job) or get_in(job, SUBMITTER_TEMPLATE) is not None:
        return job
    path = ("spec", "rayClusterSpec", "headGroupSpec", "template", "spec", "containers", 0, "image")
    container = {"name": "ray-job-submitter", "image": get_in(job, path, ""), "resources": SUBMITTER_RESOURCES}
    return set_in(job, SUBMITTER_TEMPLATE, {"spec": {"containers": [container], "restartPolicy": "Never"}})


def _with_sidecar(job: Obj) -> Obj:
    """The job with the submitter that the operator puts beside the head in SidecarMode, so that it has its share."""
    if spec_of(job).get("submissionMode") != "SidecarMode":
        return job
    path = ("spec", "rayClusterSpec", "headGroupSpec", "template", "spec", "containers")
    sidecar = {"name": "ray-job-submitter", "resources": SUBMITTER_RESOURCES}
    return set_in(job, path, [*(get_in(job, path) or ()), sidecar])
