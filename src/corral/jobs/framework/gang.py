"""Gang scheduling: the PodGroup of a job and the marks by which its pods belong to it.

Two schedulers read PodGroups, each its own kind of them: volcano, and whatever is built with scheduler-plugins. An
operator is told the name of the scheduler; `volcano` means the first, any other name the second, empty none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corral.core.meta import Obj, annotations_of, name_of, namespace_of, owner_ref, status_of
from corral.core.quantity import Quantity
from corral.core.resource import Resource
from corral.jobs.framework.pod_group_kinds import PLUGINS_POD_GROUPS, VOLCANO_POD_GROUPS

VOLCANO = "volcano"
GROUP_NAME = "scheduling.k8s.io/group-name"
TASK = "volcano.sh/task-spec"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
POD_GROUP = "scheduling.x-k8s.io/pod-group"

PriorityOf = Callable[[str], int]
"""The value of a PriorityClass; zero for one that does not exist."""


@dataclass(frozen=True, slots=True)
class Member:
    """Pods of a gang that are alike."""

    template: Obj
    count: int

    @property
    def priority_class(self) -> str:
        return str((self.template.get("spec") or {}).get("priorityClassName") or "")


def group_resource(scheduler: str) -> Resource:
    """The kind of PodGroup a scheduler reads."""
    return VOLCANO_POD_GROUPS if scheduler == VOLCANO else PLUGINS_POD_GROUPS


def job_group(
    job: Obj,
    policy: Mapping[str, Any],
    members: Sequence[Member],
    scheduler: str,
    priority_of: PriorityOf,
    *,
    default_queue: str = "",
    priority_class: str = "",
) -> Obj:
    """The PodGroup of a training job, as its scheduling policy and its members say."""
    total = sum(member.count for member in members)
    minimum = int(policy["minAvailable"]) if policy.get("minAvailable") is not None else total
    resources = policy.get("minResources")
    if resources is None:
        resources = least_resources(members, minimum, priority_of)
    if scheduler == VOLCANO:
        spec: Obj = {"minMember": minimum, "minResources": resources}
        spec["queue"] = policy.get("queue") or annotations_of(job).get(QUEUE_NAME) or default_queue
        spec["priorityClassName"] = policy.get("priorityClass") or priority_class
    else:
        spec = {"minMember": minimum, "minResources": resources}
        spec["scheduleTimeoutSeconds"] = policy.get("scheduleTimeoutSeconds")
    return pod_group(job, scheduler, spec)


def pod_group(owner: Obj, scheduler: str, spec: Obj) -> Obj:
    """A PodGroup named like its owner, without what is empty."""
    resource = group_resource(scheduler)
    return {
        "apiVersion": resource.api_version,
        "kind": "PodGroup",
        "metadata": {
            "name": name_of(owner),
            "namespace": namespace_of(owner),
            "ownerReferences": [owner_ref(owner)],
        },
        "spec": {name: value for name, value in spec.items() if value not in (None, "", {})},
    }


def least_resources(members: Sequence[Member], minimum: int, priority_of: PriorityOf) -> dict[str, str]:
    """What the most important `minimum` pods of a gang ask for together; requests, else limits."""
    ordered = sorted(members, key=lambda member: -priority_of(member.priority_class) if member.priority_class else 0)
    totals: dict[str, Quantity] = {}
    left = minimum
    for member in ordered:
        count = min(left, member.count)
        left -= count
        for name, amount in template_requests(member.template).items():
            totals[name] = totals.get(name, Quantity.parse("0")) + amount * count
    return {name: str(total) for name, total in totals.items()}


def template_requests(template: Obj) -> dict[str, Quantity]:
    """What one pod asks for; a resource with a limit only counts with its limit."""
    totals: dict[str, Quantity] = {}
    for container in (template.get("spec") or {}).get("containers") or ():
        resources = container.get("resources") or {}
        amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, value in amounts.items():
            totals[name] = totals.get(name, Quantity.parse("0")) + Quantity.parse(value)
    return totals


def marked(template: Obj, scheduler: str, group: str, task: str = "", *, overwrite: bool = False) -> Obj:
    """A pod or template that belongs to a group; a scheduler the user named is kept unless told otherwise."""
    metadata, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    if scheduler == VOLCANO:
        marks = {GROUP_NAME: group, **({TASK: task} if task else {})}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **marks}
    else:
        metadata["labels"] = {**(metadata.get("labels") or {}), POD_GROUP: group}
    if overwrite or not spec.get("schedulerName"):
        spec["schedulerName"] = scheduler
    return {**template, "metadata": metadata, "spec": spec}


def names_another_scheduler(templates: Iterable[Obj], scheduler: str) -> bool:
    names = ((template.get("spec") or {}).get("schedulerName") for template in templates)
    return any(name and name != scheduler for name in names)


def holds_pods_back(scheduler: str, group: Obj | None) -> bool:
    """Volcano lets a group into its queue before pods are to be made; the other scheduler does not."""
    if scheduler != VOLCANO:
        return False
    return group is None or status_of(group).get("phase") in (None, "", "Pending")
