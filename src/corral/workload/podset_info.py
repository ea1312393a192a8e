"""From an admitted Workload to what its job's pod templates get, and back to what they were."""

from __future__ import annotations

from collections.abc import Callable

from corral.core.meta import Obj, labels_of, name_of, spec_of
from corral.kinds.kueue import names
from corral.workload import workload as wl
from corral.workload.podsets import DEFAULT_NAME, PodSetInfo, info_of_template

Flavors = Callable[[str], Obj | None]


class FlavorGone(Exception):
    """A flavor of the admission no longer exists; wait for it or for a new admission."""


def start_infos(workload: Obj, flavor: Flavors, *, queue_labels: bool) -> list[PodSetInfo]:
    """One info per pod set of an admitted Workload; raises ConflictingUpdate or FlavorGone."""
    admission = wl.admission_of(workload)
    assignments = {entry.get("name", DEFAULT_NAME): entry for entry in admission.get("podSetAssignments") or []}
    return [
        _start_info(workload, pod_set, assignments[pod_set.get("name", DEFAULT_NAME)], flavor, queue_labels)
        for pod_set in wl.pod_sets_of(workload)
    ]


def _start_info(workload: Obj, pod_set: Obj, assignment: Obj, flavor: Flavors, queue_labels: bool) -> PodSetInfo:
    name = pod_set.get("name", DEFAULT_NAME)
    labels = {names.PODSET: name}
    if queue_labels:
        labels[names.CLUSTER_QUEUE_NAME] = wl.cluster_queue_of(workload)
        if wl.queue_of(workload):
            labels[names.LOCAL_QUEUE_NAME] = wl.queue_of(workload)
    if names.MULTIKUEUE_ORIGIN in labels_of(workload):
        labels[names.MULTIKUEUE_WORKER_POD] = "true"
    annotations = {names.WORKLOAD: name_of(workload)}
    if wl.is_elastic(workload):
        annotations[names.WORKLOAD_SLICE_NAME] = wl.slice_name(workload)
    has_topology = bool(assignment.get("topologyAssignment"))
    info = PodSetInfo(
        name=name,
        count=int(assignment.get("count") or pod_set.get("count") or 0),
        labels={key: value for key, value in labels.items() if len(value) <= 63},
        annotations=annotations,
        scheduling_gates=({"name": names.TOPOLOGY_GATE},) if has_topology else (),
    )
    for flavor_name in dict.fromkeys((assignment.get("flavors") or {}).values()):
        info = info.merged(flavor_info(name, flavor_name, flavor))
    for state in wl.check_states_of(workload):
        for update in state.get("podSetUpdates") or []:
            if update.get("name") == name:
                info = info.merged(_update_info(update))
    return info


def flavor_info(name: str, flavor_name: str, flavor: Flavors) -> PodSetInfo:
    """What one flavor wants in the templates of the pod sets it was assigned to; raises FlavorGone."""
    found = flavor(flavor_name)
    if found is None:
        raise FlavorGone(f'ResourceFlavor.kueue.x-k8s.io "{flavor_name}" not found')
    spec = spec_of(found)
    return PodSetInfo(
        name=name,
        node_selector=spec.get("nodeLabels") or {},
        tolerations=tuple(spec.get("tolerations") or ()),
    )


def _update_info(update: Obj) -> PodSetInfo:
    return PodSetInfo(
        name=str(update["name"]),
        labels=update.get("labels") or {},
        annotations=update.get("annotations") or {},
        node_selector=update.get("nodeSelector") or {},
        tolerations=tuple(update.get("tolerations") or ()),
    )


def original_infos(workload: Obj) -> list[PodSetInfo]:
    """What the templates said when the Workload was made."""
    return [
        info_of_template(pod_set.get("name", DEFAULT_NAME), pod_set.get("template") or {}, int(pod_set.get("count", 1)))
        for pod_set in wl.pod_sets_of(workload)
    ]
