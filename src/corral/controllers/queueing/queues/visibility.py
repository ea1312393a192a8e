"""The visibility API: who waits in a queue, in which order, computed when asked.

`GET …/clusterqueues/{name}/pendingworkloads` and `GET …/namespaces/{ns}/localqueues/{name}/pendingworkloads`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from corral.core.errors import BadRequest, NotFound
from corral.core.meta import Key, Obj, metadata_of
from corral.core.resource import Resource
from corral.core.timestamps import format_time
from corral.decide.queueing.state import QueueingState
from corral.decide.queueing.views import PendingView
from corral.kinds.machinery.definition import KindDef, Subresource, VersionDef
from corral.kinds.machinery.virtual_resources import ExtraRequest

GROUP = "visibility.kueue.x-k8s.io"
DEFAULT_LIMIT = 1000
MAX_LIMIT = 100_000

PENDING = Subresource("pendingworkloads", "PendingWorkloadsSummary", ("get",))


def _kind(kind: str, plural: str, *, namespaced: bool) -> KindDef:
    versions = tuple(VersionDef(name, {"type": "object"}) for name in ("v1beta2", "v1beta1"))
    return KindDef(
        group=GROUP,
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        versions=versions,
        verbs=("get",),
        subresources=(PENDING,),
        has_generation=False,
    )


CLUSTER_QUEUE = _kind("ClusterQueue", "clusterqueues", namespaced=False)
LOCAL_QUEUE = _kind("LocalQueue", "localqueues", namespaced=True)

FindWorkload = Callable[[Key], Obj | None]


class Visibility:
    """Answers for pending workloads of both kinds of queue."""

    kinds: Sequence[KindDef] = (CLUSTER_QUEUE, LOCAL_QUEUE)

    def __init__(self, state: QueueingState, find_workload: FindWorkload) -> None:
        self._state = state
        self._find = find_workload

    async def get(self, request: ExtraRequest) -> Obj:
        """The pending workloads of one queue."""
        if request.subresource != PENDING.name:
            raise NotFound("the server could not find the requested resource")
        offset, limit = _bounds(request.query)
        found = self._cluster_queue(request) if request.kind.kind == CLUSTER_QUEUE.kind else self._local_queue(request)
        items = [self._item(view) for view in found[offset : offset + limit]]
        return {
            "kind": "PendingWorkloadsSummary",
            "apiVersion": f"{GROUP}/{request.version}",
            "metadata": {},
            "items": items,
        }

    async def list(self, request: ExtraRequest) -> list[Obj]:
        """Queues themselves are not listed here."""
        return []

    def _cluster_queue(self, request: ExtraRequest) -> Sequence[PendingView]:
        if self._state.questions.cluster_queue(request.name) is None:
            raise _missing(CLUSTER_QUEUE.resource(), request.name)
        return self._state.questions.pending(request.name)

    def _local_queue(self, request: ExtraRequest) -> Sequence[PendingView]:
        spec = self._state.world.local_queues.get(Key(request.namespace, request.name))
        if spec is None:
            raise _missing(LOCAL_QUEUE.resource(), request.name)
        return [
            view
            for view in self._state.questions.pending(spec.cluster_queue)
            if view.local_queue == request.name and view.key.namespace == request.namespace
        ]

    def _item(self, view: PendingView) -> Obj:
        workload = self._find(view.key)
        owners = metadata_of(workload).get("ownerReferences") if workload else None
        metadata: Obj = {
            "name": view.key.name,
            "namespace": view.key.namespace,
            "creationTimestamp": format_time(view.created),
        }
        if owners:
            metadata["ownerReferences"] = [
                {name: owner[name] for name in ("apiVersion", "kind", "name", "uid") if name in owner}
                for owner in owners
            ]
        return {
            "metadata": metadata,
            "priority": view.priority,
            "localQueueName": view.local_queue,
            "positionInClusterQueue": view.position_in_cluster_queue,
            "positionInLocalQueue": view.position_in_local_queue,
        }


def _missing(resource: Resource, name: str) -> NotFound:
    return NotFound(f'{resource.group_resource} "{name}" not found')


def _bounds(query: Mapping[str, str]) -> tuple[int, int]:
    try:
        offset, limit = int(query.get("offset") or 0), int(query.get("limit") or DEFAULT_LIMIT)
    except ValueError as error:
        raise BadRequest(f"offset and limit must be numbers: {error}") from error
    return max(0, offset), min(max(0, limit), MAX_LIMIT)
