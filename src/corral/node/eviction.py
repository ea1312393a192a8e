"""NoExecute taints: pods that do not tolerate one leave the node, at once or after as long as they asked for."""

from __future__ import annotations

from corral.core.errors import NotFound
from corral.core.meta import Key, Obj, is_deleting, key_of, name_of, spec_of, uid_of
from corral.core.timestamps import parse_time
from corral.decide.pods.matching import tolerates
from corral.kinds.kubernetes.core.kinds import NODES, PODS
from corral.runtime.controller import Manager, Result, Watch
from corral.runtime.informer import Informer

MANAGER = "kube-controller-manager"


class TaintEviction:
    """Deletes pods from nodes whose NoExecute taints they do not tolerate."""

    name = "taint-eviction"

    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.clock = manager.clock
        self._first_seen: dict[Key, dict[tuple[str, str | None], float]] = {}
        self._recorder = manager.recorder.named("taint-eviction-controller")
        self._nodes: Informer = manager.informer(NODES)
        self._pods: Informer = manager.informer(PODS)
        self._pods.add_index("node", lambda pod: [spec_of(pod)["nodeName"]] if spec_of(pod).get("nodeName") else [])
        manager.add(self, watches=[Watch(NODES, when=_taints_changed), Watch(PODS, map=self._node_of, when=_is_placed)])

    def _node_of(self, pod: Obj) -> list[Key]:
        name = spec_of(pod).get("nodeName") or ""
        node = self._nodes.get(Key("", name))
        return [Key("", name)] if node is not None and _taints(node) else []

    async def reconcile(self, key: Key) -> Result | None:
        node = self._nodes.get(key)
        taints = _taints(node) if node is not None else []
        if not taints:
            self._first_seen.pop(key, None)
            return None
        now, wake = self.clock.now(), []
        since = self._since(key, taints, now)
        for pod in self._pods.by_index("node", key.name):
            if is_deleting(pod) or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                continue
            patience = patience_with(pod, taints)
            if patience is None:
                continue
            left = since + patience - now
            if left > 0:
                wake.append(left)
            else:
                await self._evict(pod)
        return Result(min(wake)) if wake else None

    def _since(self, node: Key, taints: list[Obj], now: float) -> float:
        """When the newest taint was added, or first seen where nobody wrote that down."""
        known = self._first_seen.get(node, {})
        seen = {(taint["key"], taint.get("value")): taint.get("timeAdded") for taint in taints}
        times = {name: parse_time(added) if added else known.get(name, now) for name, added in seen.items()}
        self._first_seen[node] = times
        return max(times.values())

    async def _evict(self, pod: Obj) -> None:
        key = key_of(pod)
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self.clock.timestamp(),
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }
        text = f"Marking for deletion Pod {key}"
        self._recorder.event({"apiVersion": "v1", "kind": "Pod", **pod}, "Normal", "TaintManagerEviction", text)
        try:
            patch = {"status": {"conditions": [condition]}}
            await self.client.patch(
                PODS, key.name, key.namespace, patch, kind="strategic", subresource="status", manager=MANAGER
            )
            await self.client.delete(PODS, name_of(pod), key.namespace, uid=uid_of(pod))
        except NotFound:
            pass  # it left by itself


def patience_with(pod: Obj, taints: list[Obj]) -> float | None:
    """Seconds the pod may stay beside these NoExecute taints; None means for ever."""
    limits: list[float] = []
    for taint in taints:
        matching = [entry for entry in spec_of(pod).get("tolerations") or () if tolerates([entry], taint)]
        if not matching:
            return 0.0
        times = [entry["tolerationSeconds"] for entry in matching if entry.get("tolerationSeconds") is not None]
        if len(times) == len(matching):
            limits.append(float(max(min(times), 0)))
    return min(limits) if limits else None


def _taints(node: Obj) -> list[Obj]:
    return [taint for taint in spec_of(node).get("taints") or () if taint.get("effect") == "NoExecute"]


def _taints_changed(old: Obj | None, new: Obj | None) -> bool:
    return new is not None and bool(_taints(new)) and (old is None or _taints(old) != _taints(new))


def _is_placed(old: Obj | None, new: Obj | None) -> bool:
    if new is None or not spec_of(new).get("nodeName"):
        return False
    return old is None or spec_of(old) != spec_of(new)
