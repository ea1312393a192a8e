"""Pods of one Deployment stay together: the first of them that has a cluster leads, the others follow it there."""

from __future__ import annotations

from collections.abc import Iterable

from corral.core.meta import Key, Obj, annotations_of, controller_of, key_of, metadata_of, status_of, uid_of
from corral.decide.dispatch.nominate import age
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.controller import Manager
from corral.workload.workload import workload_name

BY_PARENT = "suspending-parent"


class Siblings:
    """Finds the Workloads of the pods that belong to the same Deployment."""

    def __init__(self, manager: Manager) -> None:
        self._pods = manager.informer(PODS)
        self._workloads = manager.informer(WORKLOADS)
        self._pods.add_index(BY_PARENT, _parent_index)

    def leader(self, pod: Obj) -> Obj | None:
        """The Workload to follow; None when this pod leads, or belongs to nobody."""
        siblings = [found for other in self._of(pod) if (found := self._workload(other)) is not None]
        settled = [other for other in siblings if status_of(other).get("clusterName")]
        first = min(settled or siblings, key=age, default=None)
        own = self._workload(pod)
        return None if first is None or own is None or key_of(first) == key_of(own) else first

    def keys(self, workload: Obj) -> Iterable[Key]:
        """The Workloads that may follow this one."""
        for reference in metadata_of(workload).get("ownerReferences") or ():
            if reference.get("kind") == "Pod":
                pod = self._pods.get(Key(str(metadata_of(workload).get("namespace")), str(reference["name"])))
                if pod is not None:
                    return [key_of(found) for other in self._of(pod) if (found := self._workload(other)) is not None]
        return []

    def _of(self, pod: Obj) -> list[Obj]:
        values = list(_parent_index(pod))
        return self._pods.by_index(BY_PARENT, values[0]) if values else []

    def _workload(self, pod: Obj) -> Obj | None:
        key = key_of(pod)
        return self._workloads.get(Key(key.namespace, workload_name("Pod", "", key.name, uid_of(pod))))


def _parent_index(pod: Obj) -> Iterable[str]:
    owner = controller_of(pod)
    is_served = annotations_of(pod).get(names.POD_SUSPENDING_PARENT) == "deployment"
    return (str(owner["uid"]),) if owner is not None and is_served else ()
