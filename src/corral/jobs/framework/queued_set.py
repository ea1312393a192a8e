"""Sets in a queue: kinds without a suspend flag, whose pods wait behind their gates until they are admitted.

Admission marks the templates of a set, so that its pods are made gated. Where the set itself is what is queued, it says
which pods are admitted together: a claim, which becomes a Workload. Where each pod is a job of its own, it has no claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from corral.core.meta import Key, Obj, annotations_of, is_deleting, name_of, spec_of, uid_of
from corral.core.resource import Resource
from corral.jobs.framework.paths import Path
from corral.kinds.kueue import names
from corral.workload.podsets import PodSet, topology_request


@dataclass(frozen=True)
class Claim:
    """Pods that are admitted together, and the Workload that stands for them."""

    name: str
    pod_sets: tuple[PodSet, ...]
    pods: tuple[Obj, ...]
    roles: dict[str, str]
    """Pod set of every pod, by pod name."""
    annotations: dict[str, str]
    ready: bool

    @property
    def size(self) -> int:
        """How many pods are admitted together."""
        return sum(pod_set.count for pod_set in self.pod_sets)

    @property
    def live(self) -> list[Obj]:
        return [pod for pod in self.pods if not is_deleting(pod)]


class QueuedSet(Protocol):
    """One kind of set. Like an adapter it is pure."""

    framework: ClassVar[str]
    resource: ClassVar[Resource]
    holds_pods: ClassVar[bool]
    """Whether the set is what is queued and its pods only wait for it; otherwise each pod is queued by itself."""

    waits_at_zero: ClassVar[bool]
    """Whether a set without replicas keeps its Workload, on hold, until it is scaled up again."""

    fixed_fields: ClassVar[Sequence[Path]]
    """What may not change while the set is queued: its Workloads are not counted anew."""

    def with_held_templates(self, owner: Obj) -> Obj:
        """The set, which names a queue, with templates that make gated pods."""
        ...

    def claims(self, owner: Obj, pods: Sequence[Obj]) -> list[Claim]:
        """What a set asks for, one claim for each Workload; `pods` are those that `set_of_pod` says are its own."""
        ...

    def set_of_pod(self, pod: Obj) -> Key | None:
        """The set a pod belongs to."""
        ...

    def complaint(self, owner: Obj) -> tuple[str, str] | None:
        """Reason and text of a warning about a set that cannot be queued as a whole."""
        ...


def identity_of(owner: Obj) -> str:
    """The uid a set had where it was submitted, so that its Workload has the same name on every cluster."""
    return annotations_of(owner).get(names.MULTIKUEUE_ORIGIN_UID) or uid_of(owner)


def pod_set_of_template(name: str, template: Obj, count: int, index_label: str) -> PodSet:
    request = topology_request(template, index_label=index_label)
    return PodSet(name, {"metadata": {}, "spec": spec_of(template)}, count, None, request)


def marks_of(resource: Resource, owner: Obj) -> dict[str, str]:
    """What a Workload says about the set it was made for."""
    kind = f"{resource.api_version}, Kind={resource.kind}"
    return {names.IS_GROUP_WORKLOAD: "true", names.JOB_OWNER_GVK: kind, names.JOB_OWNER_NAME: name_of(owner)}
