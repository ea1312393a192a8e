"""The node agent: the kubelet's part, for all virtual nodes of a cluster at once.

It registers the nodes and keeps their leases, and for every pod bound to one of them converges what the runtime runs to
what the pod asks for, then writes the status. One reconcile per change of a pod or of one of its containers; no task per
pod. What to do is decided in `decide.pods`; how, by the runtime.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from corral.core.errors import Conflict, NotFound
from corral.core.meta import Key, Obj, is_deleting, key_of, metadata_of, resource_version_of, spec_of, status_of, uid_of
from corral.core.timestamps import parse_time
from corral.core.whole_numbers import whole_number
from corral.decide.pods.lifecycle import DEADLINE, Plan, abandoned, ended, exceeds_deadline, plan, started
from corral.decide.pods.record import ContainerRecord, Ended, PodRecord, Running, Waiting, all_containers, new_record
from corral.decide.pods.status import is_terminal, pod_identity, pod_status, record_from_status
from corral.kinds.kubernetes.core.kinds import PODS
from corral.node.eviction import TaintEviction
from corral.node.node import NodeKeeper, NodeSpec
from corral.node.runtime import Observer, PodRuntime, RuntimeProblem, StartFailure
from corral.runtime.controller import Controller, Manager, Result, Watch
from corral.runtime.events import Recorder
from corral.runtime.informer import Informer

MANAGER = "kubelet"
START_FAILED = 128


class Announcement(NamedTuple):
    """An event that a pod has had already: what it was about, and of which container and run, or with which words."""

    about: Literal["stop", "back-off", "problem", "simulated"]
    subject: str
    attempt: int = 0


@dataclass(slots=True)
class Held:
    """A pod this agent runs."""

    key: Key
    record: PodRecord
    latest: Obj
    """The newest version of the object we know: ours after a write, else the informer's."""
    announced: set[Announcement] = field(default_factory=set)
    """Events that are not to be repeated."""
    restarting: set[str] = field(default_factory=set)
    """Containers whose probe has failed for good: to be stopped, so that they start again."""
    settled: tuple[str, PodRecord, float] | None = None
    """The version and the record that were last converged, and until when that holds; our own writes come back as events."""

    def announce(self, announcement: Announcement) -> bool:
        """Note that a pod has an event; False when it had it before."""
        is_new = announcement not in self.announced
        self.announced.add(announcement)
        return is_new


class NodeAgent:
    """Runs the pods of `nodes` on one runtime."""

    name = "node"

    def __init__(
        self,
        manager: Manager,
        nodes: Sequence[NodeSpec],
        runtime: PodRuntime,
        *,
        workers: int = 16,
        events: bool = True,
        host_address: str = "127.0.0.1",
    ) -> None:
        self.client = manager.client
        self.clock = manager.clock
        self.nodes: Mapping[str, NodeSpec] = {node.name: node for node in nodes}
        self.runtime = runtime
        self.workers = workers
        self.host_address = host_address
        self._events = events
        self._held: dict[str, Held] = {}
        self._by_key: dict[Key, str] = {}
        self._opening = asyncio.Lock()
        self._is_open = False
        self._recorder: Recorder = manager.recorder.named("kubelet")
        self._pods: Informer = manager.informer(PODS)
        self._keeper = NodeKeeper(self.client, self.clock, list(self.nodes.values()))
        watch = Watch(PODS, when=self._is_mine)
        self._controller: Controller = manager.add(self, watches=[watch], workers=self.workers)
        TaintEviction(manager)
        manager.run_task(self._keeper.run, "node leases")
        manager.run_task(self._sweep, "node sweep")

    async def open(self) -> None:
        """Join the runtime, once."""
        async with self._opening:
            if not self._is_open:
                observer = Observer(self._on_ended, self._on_probed, self._on_unhealthy, self._on_exceeded)
                await self.runtime.open(observer, {name: node.capacity for name, node in self.nodes.items()})
                self._is_open = True

    async def close(self) -> None:
        """The cluster is taken down: stop all pods. Those that had not ended by themselves go on when it comes up again."""
        await self.runtime.shut_down()

    async def leave(self) -> None:
        """Let another control plane take over; what runs goes on, as after a crash of this one."""
        await self.runtime.close()

    def _is_mine(self, old: Obj | None, new: Obj | None) -> bool:
        return any(obj is not None and spec_of(obj).get("nodeName") in self.nodes for obj in (old, new))

    async def _sweep(self) -> None:
        """Remove what is left of pods that were deleted while nobody looked."""
        await self.open()
        living = {uid_of(pod) for pod in self._pods.list()}
        for uid in self.runtime.known():
            if uid not in living:
                await self.runtime.remove(uid)

    # Reports of the runtime

    def _on_ended(self, uid: str, name: str, attempt: int, ending: Ended) -> None:
        held = self._held.get(uid)
        if held is None:
            return
        entry = held.record.containers[name]
        if entry.attempt == attempt and not isinstance(entry.state, Ended):
            held.record = held.record.with_container(ended(entry, ending))
        self._controller.queue.add(held.key)

    def _on_probed(self, uid: str, name: str, is_started: bool | None, is_ready: bool | None) -> None:
        held = self._held.get(uid)
        if held is None:
            return
        entry = held.record.containers[name]
        if not isinstance(entry.state, Running):
            return
        new = replace(
            entry,
            started=entry.started if is_started is None else is_started,
            ready=entry.ready if is_ready is None else is_ready,
        )
        if new != entry:
            held.record = held.record.with_container(new)
            self._controller.queue.add(held.key)

    def _on_unhealthy(self, uid: str, name: str, kind: str, message: str, restart: bool) -> None:
        held = self._held.get(uid)
        if held is None:
            return
        self._event(held.latest, "Warning", "Unhealthy", f"{kind} probe failed: {message}")
        if restart:
            text = f"Container {name} failed {kind.lower()} probe, will be restarted"
            self._event(held.latest, "Normal", "Killing", text)
            held.record = held.record.with_container(replace(held.record.containers[name], ready=False, started=False))
            held.restarting.add(name)
            self._controller.queue.add(held.key)

    def _on_exceeded(self, uid: str, message: str) -> None:
        held = self._held.get(uid)
        if held is None or held.record.failure is not None:
            return
        held.record = replace(held.record, failure=("Evicted", message))
        self._event(held.latest, "Warning", "Evicted", message)
        self._controller.queue.add(held.key)

    # Reconciling

    async def reconcile(self, key: Key) -> Result | None:
        if not self._is_open:
            await self.open()
        pod = self._pods.get(key)
        held_uid = self._by_key.get(key)
        if held_uid is not None and (pod is None or uid_of(pod) != held_uid):
            await self._drop(key, held_uid)
        if pod is None or spec_of(pod).get("nodeName") not in self.nodes:
            return None
        held = self._held.get(uid_of(pod))
        if held is None:
            if is_terminal(pod):
                return await self._finish_deletion(pod)
            held = await self._take_up(pod)
        pod = held.latest = _newer(held.latest, pod)
        now = self.clock.now()
        if held.settled is not None:
            version, record, until = held.settled
            if version == resource_version_of(pod) and record is held.record and now < until:
                return Result(until - now) if until != math.inf else None
        held.settled = None
        written, result = await self._converge(held, pod)
        delay = math.inf if result is None or result.requeue_after is None else result.requeue_after
        held.settled = (resource_version_of(held.latest), written, self.clock.now() + delay)
        return result

    async def _take_up(self, pod: Obj) -> Held:
        now = self.clock.now()
        record = await self.runtime.recover(pod)
        if record is None:
            record = _lost(record_from_status(pod, now), now) if status_of(pod).get("startTime") else None
        held = Held(key_of(pod), record or new_record(pod, now), pod)
        self._held[uid_of(pod)] = held
        self._by_key[held.key] = uid_of(pod)
        return held

    async def _converge(self, held: Held, pod: Obj) -> tuple[PodRecord, Result | None]:
        """Do what is due and write the status; also returns the record that was written: more may happen meanwhile."""
        now = self.clock.now()
        step = plan(pod, held.record, now)
        is_late = held.record.failure is None and exceeds_deadline(pod, held.record, now)
        if is_late and not step.is_over and not is_deleting(pod):
            held.record = replace(held.record, failure=DEADLINE)
            self._event(pod, "Normal", DEADLINE[0], DEADLINE[1])
            step = plan(pod, held.record, now)
        await self._stop(held, pod, step)
        retry_s = await self._start(held, pod, step)
        # Starting took time and may have changed everything; what is written is what is known now.
        final = plan(pod, held.record, self.clock.now())
        if final.is_over and (is_deleting(pod) or held.record.failure is not None):
            held.record = abandoned(pod, held.record, self.clock.now())
        written = held.record
        await self._write(held, pod, final)
        if final.is_over:
            self.runtime.release(uid_of(pod))
            return written, await self._finish_deletion(held.latest)
        self._announce_backoff(held, pod, final)
        delays = [] if retry_s is None else [retry_s]
        if final.wake_at is not None:
            delays.append(max(final.wake_at - self.clock.now(), 0.0))
        if (final.start and retry_s is None) or set(final.stop) - set(step.stop):
            delays.append(0.0)
        return written, Result(min(delays)) if delays else None

    async def _drop(self, key: Key, uid: str) -> None:
        self._held.pop(uid, None)
        self._by_key.pop(key, None)
        await self.runtime.remove(uid)

    async def _finish_deletion(self, pod: Obj) -> Result | None:
        """Remove the object of a pod that has ended and is being deleted; finalizers of others may keep it."""
        if not is_deleting(pod):
            return None
        key = key_of(pod)
        if metadata_of(pod).get("deletionGracePeriodSeconds") == 0 and metadata_of(pod).get("finalizers"):
            return None
        try:
            await self.client.delete(PODS, key.name, key.namespace, uid=uid_of(pod), grace=0)
        except (NotFound, Conflict):
            pass  # gone, or already another pod of the same name
        return None

    # Containers

    async def _stop(self, held: Held, pod: Obj, step: Plan) -> None:
        specs = {container["name"]: container for container in all_containers(pod)}
        for name in step.stop:
            entry = held.record.containers[name]
            if held.announce(Announcement("stop", name)):
                self._event(pod, "Normal", "Killing", f"Stopping container {name}")
            await self.runtime.stop(pod, specs[name], entry.attempt, self._grace(pod))
        for name in [name for name in specs if name in held.restarting]:
            held.restarting.discard(name)
            grace = float(spec_of(pod).get("terminationGracePeriodSeconds") or 30)
            await self.runtime.stop(pod, specs[name], held.record.containers[name].attempt, grace)

    def _grace(self, pod: Obj) -> float:
        """Seconds the containers still have: until the deletion's own time, or the pod's grace period."""
        metadata = metadata_of(pod)
        if metadata.get("deletionTimestamp"):
            if metadata.get("deletionGracePeriodSeconds") == 0:
                return 0.0
            until = parse_time(metadata["deletionTimestamp"]) - self.clock.now()
            return max(until, 0.0)
        grace = spec_of(pod).get("terminationGracePeriodSeconds")
        return 30.0 if grace is None else float(grace)

    async def _start(self, held: Held, pod: Obj, step: Plan) -> float | None:
        """Start what is due. Something that could not be started is to be tried again in the returned seconds."""
        if not step.start:
            return None
        specs = {container["name"]: container for container in all_containers(pod)}
        try:
            sandbox = await self.runtime.prepare(pod)
        except RuntimeProblem as problem:
            self._show_problem(held, pod, step.start, problem)
            return problem.retry_s
        held.record = replace(held.record, address=sandbox.address)
        delays = [await self._start_one(held, pod, specs[name]) for name in step.start]
        return min((delay for delay in delays if delay is not None), default=None)

    async def _start_one(self, held: Held, pod: Obj, container: Obj) -> float | None:
        name = container["name"]
        entry = held.record.containers[name]
        attempt = entry.attempt + 1 if isinstance(entry.state, Ended) else entry.attempt
        begun = replace(entry, attempt=attempt, state=Running(self.clock.now()), last=_last(entry), ready=False)
        held.record = held.record.with_container(begun)
        try:
            result = await self.runtime.start(pod, container, attempt)
        except RuntimeProblem as problem:
            held.record = held.record.with_container(entry)
            self._show_problem(held, pod, [name], problem)
            return problem.retry_s
        except StartFailure as failure:
            self._event(pod, "Warning", "Failed", f"Error: {failure}")
            now = self.clock.now()
            held.record = held.record.with_container(
                ended(begun, Ended(START_FAILED, "StartError", now, now, str(failure)))
            )
            return None
        current = held.record.containers[name]
        if current is begun:
            is_ready = not result.waits_for_probe
            fresh = started(entry, attempt, result.id, result.at, is_ready=is_ready)
            fresh = replace(fresh, started=not container.get("startupProbe"))
            held.record = held.record.with_container(fresh)
        else:  # it has ended meanwhile
            held.record = held.record.with_container(replace(current, id=result.id))
        self._announce_start(held, pod, container, result.note)
        return None

    def _show_problem(self, held: Held, pod: Obj, containers: Sequence[str], problem: RuntimeProblem) -> None:
        for name in containers:
            entry = held.record.containers[name]
            if isinstance(entry.state, Waiting):
                # Also of volumes, where a kubelet has only its event: a manager shows the status of a worker's pods, not its events.
                waiting = Waiting(problem.reason, problem.message)
                held.record = held.record.with_container(replace(entry, state=waiting))
        if problem.message and held.announce(Announcement("problem", problem.message)):
            text = f"Error: {problem.message}" if problem.event == "Failed" else problem.message
            self._event(pod, "Warning", problem.event, text)

    # Writing

    async def _write(self, held: Held, pod: Obj, step: Plan) -> None:
        status = pod_status(pod, held.record, step, self.clock.now(), self.host_address)
        if status == status_of(pod):
            return
        held.latest = await self.client.update(PODS, {**pod, "status": status}, subresource="status", manager=MANAGER)

    def _announce_start(self, held: Held, pod: Obj, container: Obj, note: str) -> None:
        if note and held.announce(Announcement("simulated", note)):
            self._event(pod, "Normal", "Simulated", note)
        name = container["name"]
        image = container.get("image", "")
        self._event(pod, "Normal", "Pulled", f'Container image "{image}" already present on machine')
        self._event(pod, "Normal", "Created", f"Created container: {name}")
        self._event(pod, "Normal", "Started", f"Started container {name}")

    def _announce_backoff(self, held: Held, pod: Obj, step: Plan) -> None:
        for name in step.backing_off:
            if held.announce(Announcement("back-off", name, held.record.containers[name].attempt)):
                text = f"Back-off restarting failed container {name} in pod {pod_identity(pod)}"
                self._event(pod, "Warning", "BackOff", text)

    def _event(self, pod: Obj, kind: str, reason: str, message: str) -> None:
        if self._events:
            self._recorder.event({"apiVersion": "v1", "kind": "Pod", **pod}, kind, reason, message)

    # For streams

    def held(self, uid: str) -> PodRecord | None:
        """What is known about a pod that runs here."""
        held = self._held.get(uid)
        return held.record if held is not None else None


def _newer(one: Obj, other: Obj) -> Obj:
    first, second = whole_number(resource_version_of(one)), whole_number(resource_version_of(other))
    return one if first is not None and second is not None and first > second else other


def _last(entry: ContainerRecord) -> Ended | None:
    return entry.state if isinstance(entry.state, Ended) else entry.last


def _lost(record: PodRecord, now: float) -> PodRecord:
    """The record of a pod that ran according to its status but of which nothing is left."""
    for entry in record.containers.values():
        if isinstance(entry.state, Running):
            ending = Ended(137, "Error", entry.state.started_at, now, "The container was lost with its node", entry.id)
            record = record.with_container(ended(entry, ending))
    return record
