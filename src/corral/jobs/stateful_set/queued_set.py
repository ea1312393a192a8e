"""StatefulSets in a queue: one Workload for all replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from corral.core.meta import (
    Key,
    Obj,
    controller_of,
    is_owned_by,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
    with_annotations,
    with_spec,
)
from corral.core.resource import Resource
from corral.jobs.framework.paths import Path
from corral.jobs.framework.queued_set import Claim, identity_of, marks_of, pod_set_of_template
from corral.kinds.kubernetes.apps.kinds import STATEFUL_SETS
from corral.kinds.kueue import names
from corral.workload.podsets import DEFAULT_NAME
from corral.workload.workload import workload_name

POD_INDEX = "apps.kubernetes.io/pod-index"


class QueuedStatefulSet:
    """A StatefulSet whose pods wait for it."""

    framework: ClassVar[str] = "statefulset"
    resource: ClassVar[Resource] = STATEFUL_SETS
    holds_pods: ClassVar[bool] = True
    waits_at_zero: ClassVar[bool] = True
    fixed_fields: ClassVar[Sequence[Path]] = ()

    def with_held_templates(self, owner: Obj) -> Obj:
        template = spec_of(owner).get("template") or {}
        held = with_annotations(template, {names.POD_SUSPENDING_PARENT: self.framework})
        return with_spec(owner, {**spec_of(owner), "template": held})

    def claims(self, owner: Obj, pods: Sequence[Obj]) -> list[Claim]:
        replicas = spec_of(owner).get("replicas")
        count = 1 if replicas is None else int(replicas)
        if not count:
            return []
        own = tuple(pod for pod in pods if is_owned_by(pod, uid_of(owner)))
        template = spec_of(owner).get("template") or {}
        return [
            Claim(
                name=workload_name(self.resource.kind, self.resource.group, name_of(owner), identity_of(owner)),
                pod_sets=(pod_set_of_template(DEFAULT_NAME, template, count, POD_INDEX),),
                pods=own,
                roles={name_of(pod): DEFAULT_NAME for pod in own},
                annotations=marks_of(self.resource, owner),
                ready=int(status_of(owner).get("readyReplicas") or 0) >= count,
            )
        ]

    def set_of_pod(self, pod: Obj) -> Key | None:
        reference = controller_of(pod)
        if reference is None or reference.get("kind") != self.resource.kind:
            return None
        return Key(namespace_of(pod), str(reference["name"]))

    def complaint(self, owner: Obj) -> tuple[str, str] | None:
        return None
