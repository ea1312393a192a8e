"""`kubectl top` on a cluster without nodes: pods that run elsewhere are measured there, nodes are refused with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from corral.client.limits import ANSWER_S
from corral.core.errors import ApiError, ServiceUnavailable, not_found
from corral.core.meta import Key, Obj, key_of, labels_of, with_labels
from corral.core.remote_pods import CLUSTER_LABEL, Forwarded, RemotePodSource
from corral.kinds.kubernetes.metrics import KINDS, NODE_METRICS
from corral.kinds.machinery.definition import KindDef
from corral.kinds.machinery.virtual_resources import ExtraRequest

MOST = 8 << 20
"""Bytes of what one cluster says: enough for ten thousand pods."""
_decode = msgspec.json.Decoder(dict).decode


class RemoteUsage:
    """Answers for metrics.k8s.io with what the clusters answer that run the pods."""

    kinds: Sequence[KindDef] = KINDS

    def __init__(self, pods: Callable[[], RemotePodSource | None]) -> None:
        self._pods = pods

    async def get(self, request: ExtraRequest) -> Obj:
        for item in await self.list(request):
            if key_of(item) == Key(request.namespace, request.name):
                return item
        raise not_found(request.kind.resource(), request.name)

    async def list(self, request: ExtraRequest) -> list[Obj]:
        if request.kind.kind == NODE_METRICS.kind:
            raise ServiceUnavailable("this cluster has no nodes; ask the clusters that run its jobs")
        pods = self._pods()
        if pods is None:
            return []
        clusters: dict[str, list[Obj]] = {}
        for pod in await pods.list(request.namespace):
            clusters.setdefault(labels_of(pod).get(CLUSTER_LABEL, ""), []).append(pod)
        answers = await asyncio.gather(*(self._ask(pods, clusters[name], request) for name in sorted(clusters)))
        found = sorted((item for items in answers for item in items), key=key_of)
        return [item for item in found if request.labels is None or request.labels.matches(labels_of(item))]

    async def _ask(self, pods: RemotePodSource, shown: Sequence[Obj], request: ExtraRequest) -> Sequence[Obj]:
        """What one cluster says about its pods; nothing when it cannot be reached or does not measure."""
        target = request.kind.resource().at(request.version).path(request.namespace)
        try:
            async with asyncio.timeout(ANSWER_S):
                async with await pods.forward(shown[0], "GET", target, {"Accept": "application/json"}) as answer:
                    body = await _read(answer)
                items = _items(body) if answer.status == 200 else []
        except (ApiError, OSError, TimeoutError, msgspec.MsgspecError):
            return []
        known = {key_of(pod): labels_of(pod) for pod in shown}
        return [with_labels(item, known[key_of(item)]) for item in items if key_of(item) in known]


async def _read(answer: Forwarded) -> bytes:
    """The whole of an answer; nothing when there is more than is read of another cluster's."""
    parts, size = [], 0
    async for chunk in answer.chunks():
        parts.append(chunk)
        size += len(chunk)
        if size > MOST:
            return b"{}"
    return b"".join(parts)


def _items(body: bytes) -> list[Obj]:
    """Those that are objects with names."""
    items = _decode(body).get("items")
    return [item for item in items if _is_named(item)] if isinstance(items, list) else []


def _is_named(item: object) -> bool:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return isinstance(metadata, dict) and all(isinstance(metadata.get(part), str) for part in ("name", "namespace"))
