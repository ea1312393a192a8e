"""The pod scheduler: keeps a current picture of nodes and pods, and acts on what `decide.pods.scheduling` returns.

The picture is maintained on events. A cycle takes pods off the queue one by one, assumes each decision at once, and writes
bindings together. A pod that does not fit is set aside until something changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import replace

from corral.core.budget import Budget, Cpu
from corral.core.conditions import find
from corral.core.errors import ApiError, NotFound
from corral.core.meta import (
    Key,
    Obj,
    generation_of,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from corral.decide.pods.matching import has_anti_affinity
from corral.decide.pods.scheduling import Chosen, PreemptPods, claim_not_found, fixed_obstacles, schedule
from corral.decide.pods.workload import NodeState, PodView, view_node, view_pod
from corral.kinds.kubernetes.core.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PODS
from corral.node.pending import Pending
from corral.runtime.controller import Controller, Manager, Result
from corral.runtime.events import Recorder
from corral.runtime.informer import Informer

MANAGER = "kube-scheduler"
CYCLE = Key("", "cycle")
BATCH = 64
CYCLE_S = 0.1
"""No further pod is decided about in a cycle that has taken so much of the processor: others have their turn."""
REMEMBERED_SHAPES = 1000
TOO_EXPENSIVE = (
    "looking for a node for pods like this one took too much computing, again and again: they are set aside for a while, so that "
    "others are not held up"
)
DISRUPTION = "default-scheduler: preempting to accommodate a higher priority pod"


class Scheduler:
    """Binds pods to nodes."""

    name = "scheduler"

    def __init__(self, manager: Manager, *, scheduler_name: str = "default-scheduler", events: bool = True) -> None:
        self.client = manager.client
        self.clock = manager.clock
        self.scheduler_name = scheduler_name
        self._events = events
        self._nodes: dict[str, NodeState] = {}
        self._ordered: list[NodeState] = []
        self._placed: dict[str, str] = {}
        self._homeless: dict[str, dict[str, PodView]] = {}
        self._pending = Pending()
        self._nominations: dict[str, str] = {}
        self._with_rules: set[str] = set()
        self._fixed: dict[str, Mapping[str, str]] = {}
        self._messages: dict[tuple[int, str], str] = {}
        self._offset = 0
        self._has_room = False
        self._recorder: Recorder = manager.recorder.named(self.scheduler_name)
        self._cpu: Cpu = manager.cpu or (lambda: 0.0)
        self._costs: Budget[str] = Budget()
        self._set_aside: dict[str, float] = {}
        """Shapes of pods that cost too much, and until when nobody looks for a node for them."""
        self._controller: Controller = manager.add(self, watches=[], one_for_all=True)
        self._pods: Informer = manager.informer(PODS)
        self._claims: Informer = manager.informer(PERSISTENT_VOLUME_CLAIMS)
        self._claims.on_change(self._on_claim)
        manager.informer(NODES).on_change(self._on_node)
        self._pods.on_change(self._on_pod)

    # The picture

    def _on_node(self, old: Obj | None, new: Obj | None) -> None:
        name = name_of(new or old or {})
        held = self._nodes.pop(name, None)
        if new is not None:
            if old is not None and held is not None and _face(old) == _face(new):
                self._nodes[name] = held
                return
            state = view_node(new)
            pods = held.pods if held is not None else self._homeless.pop(name, {})
            for pod in pods.values():
                state.add(pod)
            state.nominated = held.nominated if held is not None else {}
            self._nodes[name] = state
        elif held is not None and held.pods:
            self._homeless[name] = held.pods
        self._ordered = [self._nodes[name] for name in sorted(self._nodes)]
        self._fixed.clear()
        self._make_room()

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        uid = uid_of(new or old or {})
        if old is not None and new is not None and uid_of(old) != uid:
            self._leave(uid_of(old))
        if new is None or status_of(new).get("phase") in ("Succeeded", "Failed"):
            self._leave(uid)
        elif spec_of(new).get("nodeName"):
            self._settle(new)
        elif self._wants_node(new):
            if uid in self._placed or (uid in self._pending and old is not None and spec_of(old) == spec_of(new)):
                return  # a binding is on its way, or only its status has changed
            self._pending.add(view_pod(new))
            self._controller.queue.add(CYCLE)
        else:
            self._pending.remove(uid)

    def _on_claim(self, old: Obj | None, new: Obj | None) -> None:
        if old is None:
            self._make_room()

    def _wants_node(self, pod: Obj) -> bool:
        spec = spec_of(pod)
        name = spec.get("schedulerName") or "default-scheduler"
        return name == self.scheduler_name and not spec.get("schedulingGates") and not is_deleting(pod)

    def _settle(self, pod: Obj) -> None:
        uid, name = uid_of(pod), spec_of(pod)["nodeName"]
        self._pending.remove(uid)
        if self._placed.get(uid) == name:
            if is_deleting(pod) and name in self._nodes:
                held = self._nodes[name].pods.get(uid)
                if held is not None and not held.is_deleting:
                    self._nodes[name].pods[uid] = replace(held, is_deleting=True)
            return
        self._place(view_pod(pod), name)

    def _place(self, pod: PodView, name: str) -> None:
        self._placed[pod.uid] = name
        self._denominate(pod.uid)
        if has_anti_affinity(pod):
            self._with_rules.add(pod.uid)
        node = self._nodes.get(name)
        if node is not None:
            node.add(pod)
        else:
            self._homeless.setdefault(name, {})[pod.uid] = pod

    def _leave(self, uid: str) -> None:
        self._pending.remove(uid)
        self._denominate(uid)
        self._with_rules.discard(uid)
        name = self._placed.pop(uid, None)
        if name is None:
            return
        node = self._nodes.get(name)
        if node is not None:
            node.remove(uid)
            self._make_room()
        else:
            self._homeless.get(name, {}).pop(uid, None)

    def _denominate(self, uid: str) -> None:
        name = self._nominations.pop(uid, None)
        if name is not None and name in self._nodes:
            self._nodes[name].nominated.pop(uid, None)

    def _make_room(self) -> None:
        self._has_room = True
        if len(self._pending):
            self._controller.queue.add(CYCLE)

    # Cycles

    async def reconcile(self, key: Key) -> Result | None:
        if self._has_room:
            self._has_room = False
            self._pending.wake()
        now = self.clock.now()
        self._set_aside = {shape: until for shape, until in self._set_aside.items() if until > now}
        held_until = self._pending.release(now)
        work: list[Awaitable[None]] = []
        until = self._cpu() + CYCLE_S
        while len(work) < BATCH and self._cpu() < until and (pod := self._pending.take()) is not None:
            work.append(self._decide_in_time(pod, now))
        all_taken = len(work) < BATCH and self._cpu() < until
        await asyncio.gather(*work)
        if not all_taken or self._has_room:
            return Result(0.0)
        held_until = min(filter(None, (held_until, *self._set_aside.values())), default=None)
        return Result(max(held_until - now, 0.0)) if held_until is not None else None

    def _decide_in_time(self, pod: PodView, now: float) -> Awaitable[None]:
        """Decide about a pod, unless pods like it have taken too long to decide about again and again."""
        if (until := self._set_aside.get(pod.shape)) is not None:
            self._pending.hold(pod, until)
            return self._report(pod, TOO_EXPENSIVE)
        began = self._cpu()
        written = self._decide(pod)
        cost = self._cpu() - began
        pause = self._costs.spend(pod.shape, cost) if cost else None
        if pause is not None:
            self._set_aside[pod.shape] = now + pause
        return written

    def _decide(self, pod: PodView) -> Awaitable[None]:
        """Decide now, against the picture as it is; the returned write may happen later."""
        if self._pending.park_behind(pod):
            return self._report(pod, self._messages[pod.priority, pod.shape])
        if (absent := self._absent_claim(pod)) is not None:
            self._pending.park(pod)
            self._messages[pod.priority, pod.shape] = message = claim_not_found(absent, len(self._ordered))
            return self._report(pod, message)
        if len(self._fixed) > REMEMBERED_SHAPES:
            self._fixed.clear()
        fixed = self._fixed.get(pod.shape)
        if fixed is None:
            fixed = self._fixed[pod.shape] = fixed_obstacles(pod, self._ordered)
        decision = schedule(pod, self._ordered, fixed, others_have_rules=bool(self._with_rules), offset=self._offset)
        self._offset = (self._offset + 1) % max(len(self._ordered), 1)
        if isinstance(decision, Chosen):
            self._place(pod, decision.node)
            self._pending.next_of(pod)
            return self._bind(pod, decision.node)
        self._pending.park(pod)
        self._messages[pod.priority, pod.shape] = decision.message
        if isinstance(decision, PreemptPods) and not self._is_being_helped(pod):
            return self._preempt(pod, decision)
        return self._report(pod, decision.message)

    def _absent_claim(self, pod: PodView) -> str | None:
        return next((name for name in pod.claims if self._claims.get(Key(pod.namespace, name)) is None), None)

    def _is_being_helped(self, pod: PodView) -> bool:
        node = self._nodes.get(self._nominations.get(pod.uid, ""))
        return node is not None and any(other.is_deleting for other in node.pods.values())

    async def _bind(self, pod: PodView, node: str) -> None:
        namespace, name = pod.key
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        current = self._pods.get(pod.key)
        try:
            await self.client.create_subresource(PODS, name, namespace, "binding", binding)
        except ApiError:
            # Deleted, gated again or bound by somebody else; the next event of the pod says which.
            self._leave(pod.uid)
            latest = self._pods.get(pod.key)
            if latest is not None and uid_of(latest) == pod.uid:
                self._on_pod(None, latest)
            return
        if current is not None:
            self._event(current, "Normal", "Scheduled", f"Successfully assigned {pod.key} to {node}")

    async def _preempt(self, pod: PodView, decision: PreemptPods) -> None:
        self._denominate(pod.uid)
        self._nominations[pod.uid] = decision.node
        self._nodes[decision.node].nominated[pod.uid] = pod
        for victim in decision.victims:
            await self._evict(pod, victim, decision.node)
        await self._report(pod, decision.message, nominated=decision.node)

    async def _evict(self, pod: PodView, victim: PodView, node: str) -> None:
        current = self._pods.get(victim.key)
        if current is None or uid_of(current) != victim.uid or is_deleting(current):
            return
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self.clock.timestamp(),
            "reason": "PreemptionByScheduler",
            "message": DISRUPTION,
        }
        try:
            patch = {"status": {"conditions": [condition]}}
            await self.client.patch(
                PODS,
                victim.key.name,
                victim.key.namespace,
                patch,
                kind="strategic",
                subresource="status",
                manager=MANAGER,
            )
            await self.client.delete(PODS, victim.key.name, victim.key.namespace, uid=victim.uid)
        except NotFound:
            return
        self._event(current, "Normal", "Preempted", f"Preempted by pod {pod.uid} on node {node}")

    async def _report(self, pod: PodView, message: str, nominated: str = "") -> None:
        """Say in the pod's status and in an event why it waits; nothing when that is said already."""
        current = self._pods.get(pod.key)
        if current is None or uid_of(current) != pod.uid:
            return
        old = find(current, "PodScheduled")
        if old is not None and old.get("message") == message and not nominated:
            return
        self._event(current, "Warning", "FailedScheduling", message)
        condition: Obj = {"type": "PodScheduled"}
        if generation_of(current):
            condition["observedGeneration"] = generation_of(current)
        is_same = old is not None and old.get("status") == "False"
        condition.update(
            status="False",
            lastProbeTime=None,
            lastTransitionTime=old["lastTransitionTime"] if is_same and old else self.clock.timestamp(),
            reason="Unschedulable",
            message=message,
        )
        status: Obj = {"conditions": [condition]}
        if nominated:
            status["nominatedNodeName"] = nominated
        try:
            await self.client.patch(
                PODS,
                name_of(current),
                namespace_of(current),
                {"status": status},
                kind="strategic",
                subresource="status",
                manager=MANAGER,
            )
        except NotFound:
            pass  # deleted meanwhile

    def _event(self, pod: Obj, kind: str, reason: str, message: str) -> None:
        if self._events:
            self._recorder.event({"apiVersion": "v1", "kind": "Pod", **pod}, kind, reason, message)


def _face(node: Obj) -> tuple[object, ...]:
    """The part of a node that matters here; heartbeats do not."""
    return (
        node.get("metadata", {}).get("labels"),
        spec_of(node).get("taints"),
        spec_of(node).get("unschedulable"),
        status_of(node).get("allocatable"),
        key_of(node),
    )
