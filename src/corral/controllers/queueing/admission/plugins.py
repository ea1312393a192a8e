"""The admission plug-ins of queueing.

`QueueObjects` guards Corral's own kinds. `QueuedJobs` gives jobs their queue, suspends them and keeps their labels
honest. Both answer as the webhooks they stand for, so that clients see the same defaults and the same texts.
"""

from __future__ import annotations

from collections.abc import Mapping

from corral.configuration.queueing import QueueingConfig
from corral.controllers.queueing.admission.denial import deny
from corral.controllers.queueing.admission.flavor import validate_flavor, validate_flavor_update
from corral.controllers.queueing.admission.jobs import validate_job, validate_job_update
from corral.controllers.queueing.admission.lookups import DEFAULT_QUEUE, AdmissionLookups, ClusterReader
from corral.controllers.queueing.admission.quota import (
    validate_cluster_queue,
    validate_cluster_queue_update,
    validate_cohort,
)
from corral.controllers.queueing.admission.topology import validate_topology
from corral.controllers.queueing.admission.workload import (
    validate_workload,
    validate_workload_update,
    workload_warnings,
)
from corral.controllers.queueing.jobs.elastic import gated_template
from corral.core.admission import AdmissionRequest
from corral.core.errors import Cause
from corral.core.meta import Key, Obj, spec_of, with_finalizer, with_labels, with_spec
from corral.core.resource import Resource
from corral.jobs.framework.adapter import JobAdapter, queue_name
from corral.jobs.framework.paths import get_in, set_in
from corral.jobs.framework.registry import POD
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUE,
    CLUSTER_QUEUES,
    COHORT,
    LOCAL_QUEUES,
    RESOURCE_FLAVOR,
    WORKLOAD,
    names,
)
from corral.kinds.kueue.gates import FeatureGates
from corral.kinds.machinery.definition import KindDef
from corral.workload import workload as wl


class QueueObjects:
    """Defaults and rules of ClusterQueue, Cohort, ResourceFlavor and Workload."""

    name = "QueueObjects"

    def __init__(self, config: QueueingConfig) -> None:
        self._config = config
        self._kinds: Mapping[str, KindDef] = {
            kind.kind: kind for kind in (CLUSTER_QUEUE, COHORT, RESOURCE_FLAVOR, WORKLOAD)
        }

    def handles(self, request: AdmissionRequest) -> bool:
        return (
            request.resource.group == names.GROUP
            and request.resource.kind in self._kinds
            and request.operation in ("CREATE", "UPDATE")
            and (request.subresource == "" or (request.subresource == "status" and request.resource.kind == "Workload"))
        )

    def changes(self, request: AdmissionRequest) -> bool:
        kind, is_new = request.resource.kind, request.operation == "CREATE" and request.subresource == ""
        strips = kind == "Workload" and not self._config.gates["PartialAdmission"]
        return is_new and (kind in ("ClusterQueue", "ResourceFlavor") or strips)

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        obj = request.obj
        if obj is None or not self.changes(request):
            return obj
        return (
            _without_min_counts(obj)
            if request.resource.kind == "Workload"
            else with_finalizer(obj, names.RESOURCE_IN_USE)
        )

    async def validate(self, request: AdmissionRequest) -> None:
        if request.obj is None:
            return
        kind = self._kinds[request.resource.kind]
        new = kind.at_version(request.obj, "v1beta2")
        old = kind.at_version(request.old, "v1beta2") if request.old is not None else None
        if request.resource.kind == "Workload":
            for warning in workload_warnings(new):
                request.warn(warning)
        deny(f"v{request.resource.kind.lower()}.kb.io", self._causes(request.resource.kind, new, old))

    def _causes(self, kind: str, new: Obj, old: Obj | None) -> list[Cause]:
        gates = self._config.gates
        if kind == "ClusterQueue":
            if old is None:
                return validate_cluster_queue(new)
            strict = gates["RejectUpdatesToCQWithInvalidOnFlavors"]
            return validate_cluster_queue_update(new, old, strict_on_flavors=strict)
        if kind == "Cohort":
            return validate_cohort(new)
        if kind == "ResourceFlavor":
            return validate_flavor(new) if old is None else validate_flavor_update(new, old)
        return validate_workload(new, None, gates) if old is None else validate_workload_update(new, old, gates)


def _without_min_counts(workload: Obj) -> Obj:
    pod_sets = spec_of(workload).get("podSets") or []
    kept = [{name: value for name, value in entry.items() if name != "minCount"} for entry in pod_sets]
    return with_spec(workload, {**spec_of(workload), "podSets": kept})


class QueuedJobs:
    """Default queue, suspension and `managedBy` of new jobs; rules for their labels ever after."""

    name = "QueuedJobs"

    def __init__(self, config: QueueingConfig, reader: ClusterReader) -> None:
        self._config = config
        self._reader = reader
        self._adapters = {
            (adapter.resource.group, adapter.resource.kind): adapter
            for adapter in config.job_adapters()
            if adapter.framework != POD
        }
        self._admission = AdmissionLookups(config, reader)

    def handles(self, request: AdmissionRequest) -> bool:
        return (
            request.kind in self._adapters and request.operation in ("CREATE", "UPDATE") and request.subresource == ""
        )

    def changes(self, request: AdmissionRequest) -> bool:
        return request.operation == "CREATE"

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        job = request.obj
        if job is None or not self.changes(request):
            return job
        adapter = self._adapters[request.kind]
        if await self._admission.has_queued_owner(job, request.namespace):
            return job
        if not queue_name(job) and await self._admission.has_default_queue(request.namespace):
            job = with_labels(job, {names.QUEUE_NAME: DEFAULT_QUEUE})
        job = await self._admission.with_default_priority(job)
        if not await self._is_managed(job, request.namespace):
            return job
        job = adapter.prepared(adapter.suspend(job))
        template = adapter.elastic_template
        if template is not None and wl.is_elastic(job) and self._config.gates["ElasticJobsViaWorkloadSlices"]:
            job = set_in(job, template, gated_template(get_in(job, template, {})))
        return await self._with_managed_by(adapter, job, request.namespace)

    async def validate(self, request: AdmissionRequest) -> None:
        job, old = request.obj, request.old
        if job is None:
            return
        adapter = self._adapters[request.kind]
        gates = self._config.gates
        if old is None:
            causes = validate_job(adapter, job, gates)
            causes += adapter.validate(job, None)
            if gates["TopologyAwareScheduling"] and not await self._admission.has_queued_owner(job, request.namespace):
                # What the template of a part says of groups and slices is about the whole, which was checked.
                causes += _topology_causes(adapter, job, gates)
        elif self._was_let_go(adapter, job):
            return
        else:
            default = not queue_name(job) and await self._admission.has_default_queue(request.namespace)
            causes = validate_job_update(adapter, job, old, gates, default_queue=default)
            causes += adapter.validate(job, old)
        deny(f"v{request.resource.kind.lower()}.kb.io", causes)

    def _was_let_go(self, adapter: JobAdapter, job: Obj) -> bool:
        """Whether a job has left its queue, which is nobody's business where its kind's gate for that is closed."""
        checks = not adapter.update_gate or self._config.gates[adapter.update_gate]
        return not checks and not queue_name(job) and not self._config.manage_jobs_without_queue_name

    async def _is_managed(self, job: Obj, namespace: str) -> bool:
        if not queue_name(job) and not self._config.manage_jobs_without_queue_name:
            return False
        return await self._admission.is_managed(namespace)

    async def _with_managed_by(self, adapter: JobAdapter, job: Obj, namespace: str) -> Obj:
        """Jobs whose queue dispatches to other clusters are not for the local controller."""
        path = adapter.managed_by_path
        if path is None or not self._config.gates["MultiKueue"]:
            return job
        current = get_in(job, path)
        if current is not None and current not in adapter.own_managers:
            return job
        if not await self._dispatches(Key(namespace, queue_name(job))):
            return job
        return set_in(job, path, names.MULTIKUEUE_CONTROLLER)

    async def _dispatches(self, queue: Key) -> bool:
        local = await self._reader.get(LOCAL_QUEUES, queue)
        name = str(spec_of(local).get("clusterQueue", "")) if local else ""
        cluster_queue = await self._reader.get(CLUSTER_QUEUES, Key("", name)) if name else None
        rules = (spec_of(cluster_queue or {}).get("admissionChecksStrategy") or {}).get("admissionChecks") or []
        for rule in rules:
            check = await self._reader.get(ADMISSION_CHECKS, Key("", rule["name"]))
            if check and spec_of(check).get("controllerName") == names.MULTIKUEUE_CONTROLLER:
                return True
        return False


def _topology_causes(adapter: JobAdapter, job: Obj, gates: FeatureGates) -> list[Cause]:
    try:
        pod_sets = adapter.pod_sets(job, _nothing)
    except (ValueError, LookupError):
        return []  # what cannot be told yet cannot be wrong yet
    return validate_topology(pod_sets, "spec.template.metadata", gates)


def _nothing(resource: Resource, key: Key) -> Obj | None:
    return None
