"""Pod groups: several pods that are admitted together, as one job.

A group is known by name; its pods say how many they are. Pods of equal shape form a pod set named by their role hash.
Failed pods may be replaced; which pods count, which are spare and which are in excess is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from corral.core import conditions
from corral.core.meta import Obj, annotations_of, is_deleting, labels_of, metadata_of, name_of, spec_of, status_of
from corral.core.whole_numbers import whole_number
from corral.jobs.framework.adapter import JobOutcome
from corral.jobs.pod.adapter import is_gated, is_terminated, pod_set_of
from corral.jobs.pod.role_hash import role_hash
from corral.kinds.kueue import names
from corral.workload.podsets import PodSet


class GroupIncomplete(ValueError):
    """Not all pods are there yet, or they disagree; the text says which."""


def group_name(pod: Obj) -> str:
    """The group a pod belongs to, or empty."""
    return annotations_of(pod).get(names.POD_GROUP_NAME) or labels_of(pod).get(names.POD_GROUP_NAME) or ""


def total_count(pod: Obj) -> int:
    """How many pods its group has; 0 when it does not say."""
    return whole_number(annotations_of(pod).get(names.POD_GROUP_TOTAL_COUNT, "")) or 0


def role_of(pod: Obj) -> str:
    return annotations_of(pod).get(names.ROLE_HASH) or role_hash(spec_of(pod))


def is_runnable(pod: Obj) -> bool:
    """Whether the pod can still do its part: it waits, runs, or is done. One that is deleted before it has a node cannot."""
    if is_deleting(pod) and not spec_of(pod).get("nodeName"):
        return False
    return bool(status_of(pod).get("phase") != "Failed")


@dataclass(frozen=True)
class PodGroup:
    """The pods of one group as they are now."""

    name: str
    pods: tuple[Obj, ...]

    @property
    def total(self) -> int:
        return max((total_count(pod) for pod in self.pods), default=0)

    @property
    def fast_admission(self) -> bool:
        return any(annotations_of(pod).get(names.POD_GROUP_FAST_ADMISSION) == "true" for pod in self.pods)

    @property
    def serving(self) -> bool:
        return any(annotations_of(pod).get(names.POD_GROUP_SERVING) == "true" for pod in self.pods)

    @property
    def unretriable(self) -> bool:
        return any(annotations_of(pod).get(names.RETRIABLE_IN_GROUP) == "false" for pod in self.pods)

    @property
    def runnable(self) -> list[Obj]:
        """Pods that count, best first: done, running, released, then the oldest."""
        return sorted((pod for pod in self.pods if is_runnable(pod)), key=_standing)

    @property
    def failed(self) -> list[Obj]:
        return [pod for pod in self.pods if not is_runnable(pod)]

    @property
    def excess(self) -> list[Obj]:
        """Pods beyond the group's size, role by role when roles are fixed, the least advanced ones."""
        return self.runnable[self.total :] if self.total else []

    def excess_of(self, counts: dict[str, int]) -> list[Obj]:
        """Pods beyond what `counts` allows their role."""
        room = dict(counts)
        spare = []
        for pod in self.runnable:
            role = role_of(pod)
            if room.get(role, 0) > 0:
                room[role] -= 1
            else:
                spare.append(pod)
        return spare

    def replaced(self, counts: dict[str, int]) -> list[Obj]:
        """Pods that cannot do their part and whose place in their role others have taken, the first ones to fail first."""
        held: dict[str, int] = {}
        for pod in self.pods:
            held[role_of(pod)] = held.get(role_of(pod), 0) + 1
        spare = {role: count - counts.get(role, 0) for role, count in held.items()}
        result = []
        for pod in sorted(self.failed, key=_ended):
            if spare[role_of(pod)] > 0:
                spare[role_of(pod)] -= 1
                result.append(pod)
        return result

    def pod_sets(self) -> list[PodSet]:
        """One pod set per role, sorted by role. Raises GroupIncomplete."""
        runnable = self.runnable
        self._check(runnable)
        if self.fast_admission:
            return [pod_set_of(runnable[0], role_of(runnable[0]), self.total)]
        roles: dict[str, list[Obj]] = {}
        for pod in runnable[: self.total]:
            roles.setdefault(role_of(pod), []).append(pod)
        return [pod_set_of(pods[0], role, len(pods)) for role, pods in sorted(roles.items())]

    def shared_labels(self, keys: Iterable[str]) -> dict[str, str]:
        """These labels as any of the pods has them. Raises GroupIncomplete when two disagree."""
        return self._shared(keys, labels_of, "label")

    def shared_annotations(self, keys: Iterable[str]) -> dict[str, str]:
        """These annotations as any of the pods has them. Raises GroupIncomplete when two disagree."""
        return self._shared(keys, annotations_of, "annotation")

    def _shared(self, keys: Iterable[str], held_by: Callable[[Obj], dict[str, str]], what: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for key in keys:
            for pod in self.runnable:
                value = held_by(pod).get(key)
                if value is not None and found.setdefault(key, value) != value:
                    raise GroupIncomplete(f"constructing workload: pods have different {what} values: '{key}'")
        return found

    def _check(self, runnable: Sequence[Obj]) -> None:
        if not runnable:
            raise GroupIncomplete("there is no running or pending pod in the group")
        for pod in runnable:
            if total_count(pod) != self.total:
                raise GroupIncomplete(
                    f"pods '{name_of(runnable[0])}' and '{name_of(pod)}' has different "
                    f"'{names.POD_GROUP_TOTAL_COUNT}' values: {total_count(runnable[0])}!={total_count(pod)}"
                )
            if labels_of(pod).get(names.QUEUE_NAME) != labels_of(runnable[0]).get(names.QUEUE_NAME):
                raise GroupIncomplete(f"pods '{name_of(runnable[0])}' and '{name_of(pod)}' have different queue names")
        if len(runnable) < self.total and not self.fast_admission:
            raise GroupIncomplete(f"'{self.name}' group has fewer runnable pods than expected")

    def finished(self) -> JobOutcome | None:
        succeeded = sum(status_of(pod).get("phase") == "Succeeded" for pod in self.pods)
        message = f"Pods succeeded: {succeeded}/{self.total}."
        if self.total and succeeded >= self.total:
            return JobOutcome(message, success=True)
        running = any(not is_terminated(pod) for pod in self.pods)
        if self.unretriable and not running and self.pods:
            return JobOutcome(message, success=False)
        return None

    def pods_ready(self) -> bool:
        ready = sum(
            status_of(pod).get("phase") == "Succeeded" or conditions.is_true(pod, "Ready") for pod in self.runnable
        )
        return bool(ready >= self.total > 0)

    def is_active(self) -> bool:
        return any(status_of(pod).get("phase") == "Running" for pod in self.pods)

    def reclaimable_pods(self) -> dict[str, int]:
        """Per role, pods that are done; a serving group gives nothing back."""
        if self.serving:
            return {}
        counts: dict[str, int] = {}
        for pod in self.pods:
            if status_of(pod).get("phase") == "Succeeded":
                counts[role_of(pod)] = counts.get(role_of(pod), 0) + 1
        return dict(sorted(counts.items()))


def _ended(pod: Obj) -> tuple[str, str, str]:
    metadata = metadata_of(pod)
    known = [entry["lastTransitionTime"] for entry in conditions.conditions_of(pod) if entry.get("lastTransitionTime")]
    ended = str(metadata.get("deletionTimestamp") or max(known, default=""))
    return ended, str(metadata.get("creationTimestamp", "")), name_of(pod)


def _standing(pod: Obj) -> tuple[int, str, str]:
    """Order of pods in a group: what is further along comes first, then what is older."""
    phase = status_of(pod).get("phase")
    rank = 0 if phase == "Succeeded" else 1 if phase == "Running" else 2 if not is_gated(pod) else 3
    return rank, str(metadata_of(pod).get("creationTimestamp", "")), name_of(pod)
