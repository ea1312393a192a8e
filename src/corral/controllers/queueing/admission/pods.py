"""Admission of pods: queued ones are marked, gated and held until they are admitted; group annotations must agree."""

from __future__ import annotations

from corral.configuration.queueing import QueueingConfig
from corral.controllers.queueing.admission.denial import deny
from corral.controllers.queueing.admission.lookups import AdmissionLookups, ClusterReader
from corral.controllers.queueing.admission.topology import validate_annotations
from corral.core.admission import AdmissionRequest
from corral.core.errors import Cause
from corral.core.meta import (
    Obj,
    annotations_of,
    controller_of,
    labels_of,
    spec_of,
    with_annotations,
    with_finalizer,
    with_labels,
)
from corral.core.names import check_subdomain
from corral.core.validation import forbidden, invalid, keyed, required
from corral.core.whole_numbers import whole_number
from corral.jobs.framework.adapter import prebuilt_workload, queue_name
from corral.jobs.framework.paths import get_in
from corral.jobs.framework.queued_set import QueuedSet
from corral.jobs.framework.registry import POD, queued_sets, with_implied
from corral.jobs.pod.adapter import gated
from corral.jobs.pod.group import group_name
from corral.jobs.pod.role_hash import role_hash
from corral.kinds.kueue import names
from corral.kinds.kueue.gates import FeatureGates

TOTAL_PATH = keyed("metadata.annotations", names.POD_GROUP_TOTAL_COUNT)
NAME_PATH = keyed("metadata.labels", names.POD_GROUP_NAME)
RETRIABLE_PATH = keyed("metadata.annotations", names.RETRIABLE_IN_GROUP)
MANAGED_PATH = keyed("metadata.labels", names.MANAGED)


class QueuedPods:
    """Defaults and rules of pods that are queued."""

    name = "QueuedPods"

    def __init__(self, config: QueueingConfig, reader: ClusterReader) -> None:
        self._config = config
        frameworks = with_implied(config.frameworks)
        self._enabled = POD in frameworks
        sets = queued_sets(frameworks)
        self._sets = {(found.resource.group, found.resource.kind): found for found in sets}
        self._admission = AdmissionLookups(config, reader)

    def handles(self, request: AdmissionRequest) -> bool:
        return (
            self._enabled
            and (request.kind == ("", "Pod") or request.kind in self._sets)
            and request.subresource == ""
            and request.operation in ("CREATE", "UPDATE")
        )

    def changes(self, request: AdmissionRequest) -> bool:
        return request.operation == "CREATE" or request.kind in self._sets

    def refuses(self, request: AdmissionRequest) -> bool:
        queued = self._sets.get(request.kind)
        return queued is None or (request.operation == "UPDATE" and bool(queued.fixed_fields))

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        pod = request.obj
        queued = self._sets.get(request.kind)
        if queued is not None and pod is not None:
            if request.operation == "CREATE" and controller_of(pod) is None:
                pod = await self._admission.with_default_priority(pod)
            return queued.with_held_templates(pod) if await self._holds(pod, request.namespace) else pod
        if pod is None or not self.changes(request):
            return pod
        if names.POD_SUSPENDING_PARENT in annotations_of(pod):
            # Whoever made it says by labels, now or later, whether and where it is queued; until then the pod only waits.
            return with_annotations(gated(pod), {names.ROLE_HASH: role_hash(spec_of(pod))})
        if not await self._is_managed(pod, request.namespace):
            return pod
        if not queue_name(pod) and await self._admission.has_default_queue(request.namespace):
            pod = with_labels(pod, {names.QUEUE_NAME: "default"})
        pod = await self._admission.with_default_priority(pod)
        if not queue_name(pod) and not self._config.manage_jobs_without_queue_name:
            return pod
        pod = with_finalizer(gated(with_labels(pod, {names.MANAGED: "true"})), names.POD_FINALIZER)
        return with_annotations(pod, {names.ROLE_HASH: role_hash(spec_of(pod))})

    async def _holds(self, owner: Obj, namespace: str) -> bool:
        """Whether the pods of a set wait: it names a queue, or every job has to be queued, and nobody is queued in its place."""
        if not labels_of(owner).get(names.QUEUE_NAME):
            every = self._config.manage_jobs_without_queue_name and await self._admission.is_managed(namespace)
            if not every:
                return False
        return not await self._admission.has_queued_owner(owner, namespace)

    async def validate(self, request: AdmissionRequest) -> None:
        pod, old = request.obj, request.old
        if pod is None or not self.refuses(request):
            return
        queued = self._sets.get(request.kind)
        if queued is not None and old is not None:
            if await self._holds(pod, request.namespace):
                deny(f"v{queued.resource.kind.lower()}.kb.io", _fixed(queued, pod, old, self._config.gates))
            return
        if labels_of(pod).get(names.MANAGED) is None and not group_name(pod):
            return
        causes = _common(pod) + (_change(pod, old) if old is not None else [])
        if old is None:
            causes += validate_annotations(annotations_of(pod), "metadata", self._config.gates)
        deny("vpod.kb.io", causes)

    async def _is_managed(self, pod: Obj, namespace: str) -> bool:
        """Whether the pod is to be queued itself, rather than through the job that owns it."""
        if not await self._admission.is_managed(namespace):
            return False
        return not await self._admission.has_queued_owner(pod, namespace)


def _fixed(queued: QueuedSet, new: Obj, old: Obj, gates: FeatureGates) -> list[Cause]:
    """Its Workloads are not counted anew: what they were counted from stays as it is."""
    if not gates["LWSImmutableGroupSize"]:
        return []
    return [
        invalid(".".join(map(str, path)), get_in(new, path), "field is immutable")
        for path in queued.fixed_fields
        if get_in(new, path) != get_in(old, path)
    ]


def _common(pod: Obj) -> list[Cause]:
    causes: list[Cause] = []
    managed = labels_of(pod).get(names.MANAGED)
    if managed not in (None, "true"):
        causes.append(forbidden(MANAGED_PATH, "managed label value can only be 'true'"))
    queue = labels_of(pod).get(names.QUEUE_NAME)
    if queue is not None:
        causes += [invalid(keyed("metadata.labels", names.QUEUE_NAME), queue, text) for text in check_subdomain(queue)]
    return causes + _group(pod)


def _group(pod: Obj) -> list[Cause]:
    name, total = group_name(pod), annotations_of(pod).get(names.POD_GROUP_TOTAL_COUNT)
    detail = f"both the '{names.POD_GROUP_TOTAL_COUNT}' annotation and the '{names.POD_GROUP_NAME}' label should be set"
    if not name:
        return [required(NAME_PATH, detail)] if total is not None else []
    causes = [invalid(NAME_PATH, name, text) for text in check_subdomain(name)]
    if total is None:
        causes.append(required(TOTAL_PATH, detail))
    elif not whole_number(total):
        text = (
            f"incorrect annotation value '{names.POD_GROUP_TOTAL_COUNT}={total}': "
            "group total count should be greater than zero"
        )
        causes.append(invalid(TOTAL_PATH, total, text))
    prebuilt = prebuilt_workload(pod)
    if prebuilt and prebuilt != name:
        path = keyed("metadata.annotations", names.PREBUILT_WORKLOAD)
        causes.append(invalid(path, prebuilt, "prebuilt workload and pod group should be equal"))
    return causes


def _change(pod: Obj, old: Obj) -> list[Cause]:
    causes: list[Cause] = []
    unretriable = annotations_of(old).get(names.RETRIABLE_IN_GROUP) == "false"
    if group_name(pod) and unretriable and annotations_of(pod).get(names.RETRIABLE_IN_GROUP) != "false":
        causes.append(forbidden(RETRIABLE_PATH, "unretriable pod group can't be converted to retriable"))
    if group_name(old) and group_name(pod) != group_name(old):
        causes.append(invalid(NAME_PATH, group_name(pod), "field is immutable"))
    return causes
