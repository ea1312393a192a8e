"""The workers a manager is connected to: one client and one set of watches each.

Only objects with our origin label are watched. A worker that lacks the CRD of one job kind loses that kind only. A watch
that fails or a probe that is not answered means the worker is lost, and since when is remembered. One that says more than
is taken in from anybody is left alone for longer each time, until it has answered a probe since.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial

from corral.client.protocol import Client
from corral.controllers.dispatch.workers.capacity import WorkerQueues
from corral.controllers.dispatch.workers.holdings import Holdings
from corral.core import conditions
from corral.core.errors import ApiError, ConnectionFailed, Forbidden, LimitExceeded, NotFound, Timeout
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    finalizers_of,
    generation_of,
    is_deleting,
    key_of,
    labels_of,
    namespace_of,
    owner_references_of,
    status_of,
    uid_of,
)
from corral.core.resource import Resource
from corral.jobs.framework.adapter import prebuilt_workload
from corral.jobs.framework.registry import component_workloads
from corral.jobs.pod.group import group_name
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES, WORKLOADS, names
from corral.runtime.clock import Clock
from corral.runtime.informer import Informer
from corral.runtime.random import Random

log = logging.getLogger(__name__)

BY_WORKLOAD = "workload"
FIRST_RECONNECT_S = 5.0
MAX_RECONNECT_STEP = 7
ENDED = ("Succeeded", "Failed")
"""Phases of pods that do not run any more."""


Wake = Callable[[Key, bool], None]
"""Called with a Workload that has news, and whether they are only of its job's progress."""


class Remote:
    """One worker cluster, connected or not."""

    def __init__(
        self,
        name: str,
        client: Client,
        fingerprint: bytes,
        *,
        clock: Clock,
        random: Random,
        origin: str,
        kinds: Sequence[Resource],
        wake: Wake,
        lost: Callable[[str], None],
        queues_changed: Callable[[str], None] | None = None,
        renew: Callable[[Client], Awaitable[None]] | None = None,
        renew_interval: float = 0.0,
        is_itself: bool = False,
        server: str = "",
        holdings: Holdings | None = None,
    ) -> None:
        self._holdings = holdings or Holdings()
        self.server = server or name
        """Which API server this is: several MultiKueueClusters may describe one, and show the same objects."""
        self.is_itself = is_itself
        """Whether this is the manager's own cluster, whose pods nobody has to show."""
        self._renew, self._renew_interval = renew, renew_interval
        self.name = name
        self.client = client
        self.fingerprint = fingerprint
        self.connected = False
        self.lost_since = clock.now()
        self.prerequisites: set[tuple[Resource, Key]] = set()
        """What Workloads need around them and the worker has, as far as we sent it since we know this worker."""
        self.attempts = 0
        self.retry_at = 0.0
        self.excess: LimitExceeded | None = None
        """What the worker said too much of, since it was last tried."""
        self._excesses = 0
        self.admitted_at: dict[str, float] = {}
        self.clock, self._random = clock, random
        self._selector = f"{names.MULTIKUEUE_ORIGIN}={origin}"
        self._kinds = kinds
        self._wake, self._lost = wake, lost
        self._queues_changed = queues_changed
        self._deleted: set[str] = set()
        self._is_learning = False
        self._ending: dict[Key, list[tuple[Resource, Obj]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.workloads = self._informer(WORKLOADS)
        self.jobs: dict[Resource, Informer] = {}
        self.cluster_queues: Informer | None = None
        self.local_queues: Informer | None = None
        self.queues: WorkerQueues | None = None
        """What the worker's queues have free, where a dispatcher wants to know that."""

    # Reading

    def workload(self, key: Key) -> Obj | None:
        """The copy of a Workload on the worker; None also when we deleted it and the watch has not shown that yet."""
        found = self.workloads.get(key) if self.connected else None
        return None if found is None or uid_of(found) in self._deleted else found

    def supports(self, resource: Resource) -> bool:
        """Whether this worker serves a kind of job."""
        return resource in self.jobs and self.jobs[resource].has_synced

    def job(self, resource: Resource, key: Key) -> Obj | None:
        return self.jobs[resource].get(key) if resource in self.jobs else None

    def jobs_of(self, workload: Key) -> list[tuple[Resource, Obj]]:
        """Our job objects on the worker that run under a Workload, without those we have deleted."""
        value = str(workload)
        return [
            (resource, obj)
            for resource, informer in self.jobs.items()
            if len(informer)  # of the kinds of jobs there are, few are in use
            for obj in informer.by_index(BY_WORKLOAD, value)
            if uid_of(obj) not in self._deleted
        ]

    def ending(self, workload: Key) -> list[tuple[Resource, Obj]]:
        """Jobs of a Workload that were deleted on the worker, by us or by others, and whose pods may still run."""
        return self._ending.get(workload, [])

    def all_ending(self) -> list[Key]:
        """The Workloads with such jobs."""
        return list(self._ending)

    def note_ending(self, workload: Key, jobs: Iterable[tuple[Resource, Obj]]) -> None:
        held = self._ending.get(workload, [])
        known = {uid_of(job) for _, job in held}
        if added := [entry for entry in jobs if uid_of(entry[1]) not in known]:
            self._ending[workload] = [*held, *added]
            self._note_holding(workload)

    def forget_ending(self, workload: Key) -> None:
        self._ending.pop(workload, None)
        self._note_holding(workload)

    def succeed(self, former: Remote) -> None:
        """Take over what is known of the worker from a connection with other credentials."""
        self._ending = former._ending
        for workload in self._ending:
            self._note_holding(workload)
        if not former.connected:
            self.lost_since = former.lost_since

    def jobs_by_workload(self) -> list[str]:
        """The Workloads, as `namespace/name`, that our jobs on the worker belong to."""
        return sorted({value for informer in self.jobs.values() for value in informer.index_values(BY_WORKLOAD)})

    def learn(self, resource: Resource, obj: Obj) -> None:
        """Know what we just made on the worker before its watch tells us. Who made it need not be told that it is there."""
        informer = self.workloads if resource == WORKLOADS else self.jobs.get(resource)
        if informer is not None:
            self._is_learning = True
            try:
                informer.learn(obj)
            finally:
                self._is_learning = False

    def note_deleted(self, obj: Obj) -> None:
        self._deleted.add(uid_of(obj))

    def forget_deleted(self, obj: Obj) -> None:
        """The delete failed; the object is there after all."""
        self._deleted.discard(uid_of(obj))

    # Connecting

    async def connect(self, timeout: float, probe_interval: float, probe_timeout: float) -> None:
        """Reach the worker and take in its copies; raises ApiError when that fails."""
        self.attempts += 1
        self.excess = None
        try:
            async with asyncio.timeout(timeout):
                await self.client.list(WORKLOADS, labels=self._selector, limit=1)
                self._start(probe_interval, probe_timeout)
                await self._in_sync()
                await self._find_ending()
        except TimeoutError as error:
            await self.disconnect()
            raise Timeout(f"the watches of cluster {self.name} were not established within {timeout:.0f} s") from error
        except ApiError as error:
            await self.disconnect()
            if isinstance(error, LimitExceeded):
                self._exceeded(error)
            raise
        self.connected, self.attempts, self.retry_at = True, 0, 0.0
        if self._renew is not None:
            task = asyncio.get_running_loop().create_task(self._heartbeat(), name=f"{self.name} heartbeat")
            self._tasks.append(task)

    async def _find_ending(self) -> None:
        """Pods of dispatched jobs that are stopping: whoever deleted the job may have done so when nobody was looking."""
        try:
            pods = (await self.client.list(PODS, labels=f"{names.MULTIKUEUE_WORKER_POD}=true")).items
        except (Forbidden, NotFound):
            return
        for pod in pods:
            workload = workload_of_pod(pod)
            if workload and is_deleting(pod) and status_of(pod).get("phase") not in ENDED:
                self.note_ending(Key(namespace_of(pod), workload), [(PODS, pod)])

    async def _heartbeat(self) -> None:
        """Tell the worker that we are there, as long as we believe that it is."""
        while self.connected and self._renew is not None:
            try:
                await self._renew(self.client)
            except ApiError as error:
                log.info("lease not renewed", extra={"cluster": self.name, "error": str(error)})
            await self.clock.sleep(self._renew_interval)

    def may_hold(self, key: Key) -> bool:
        """Whether a worker out of reach may be running this Workload, as far as was seen of it."""
        return not self.connected and (not self.workloads.has_synced or self.workloads.get(key) is not None)

    def back_off(self) -> float:
        """Seconds until the next attempt, counted from now."""
        failures = max(self.attempts, self._excesses, 1)
        delay = FIRST_RECONNECT_S * 2.0 ** (min(failures, MAX_RECONNECT_STEP) - 1)
        self.retry_at = self.clock.now() + delay
        return delay

    async def disconnect(self) -> None:
        """Stop watching."""
        if self.connected:
            self.connected, self.lost_since = False, self.clock.now()
        tasks, self._tasks = self._tasks, []
        current = asyncio.current_task()
        for task in tasks:
            if task is not current:
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task is not current), return_exceptions=True)

    async def close(self) -> None:
        await self.disconnect()
        await self.client.close()

    def _start(self, probe_interval: float, probe_timeout: float) -> None:
        self._deleted.clear()
        self._holdings.drop(self.name)
        self.workloads = self._informer(WORKLOADS)
        self.workloads.on_change(self._workload_changed)
        self.workloads.on_error(self._failed)
        self.jobs = {}
        for resource in self._kinds:
            informer = self.jobs[resource] = self._informer(resource)
            informer.add_index(BY_WORKLOAD, _workload_index)
            informer.on_change(partial(self._job_changed, resource))
            informer.on_error(self._job_watch_failed)
        for workload in self._ending:
            self._note_holding(workload)
        queues: list[Informer] = self._follow_queues() if self._queues_changed is not None else []
        loop = asyncio.get_running_loop()
        for watched in (self.workloads, *self.jobs.values(), *queues):
            self._tasks.append(loop.create_task(watched.run(), name=f"{self.name} {watched.resource.plural}"))
        self._tasks.append(loop.create_task(self._probe(probe_interval, probe_timeout), name=f"{self.name} probe"))

    def _follow_queues(self) -> list[Informer]:
        """Watch the worker's queues too, for a dispatcher that wants to know what is free."""
        self.cluster_queues, self.local_queues, flavors, topologies = followed = [
            Informer(self.client, resource, self.clock, self._random)
            for resource in (CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES)
        ]
        self.queues = WorkerQueues(self.cluster_queues, flavors, topologies)
        for informer in followed:
            informer.on_change(lambda old, new: self._queue_changed())
            informer.on_error(self._queue_watch_failed)
        return followed

    def _queue_changed(self) -> None:
        if self.queues is not None:
            self.queues.changed()
        if self._queues_changed is not None:
            self._queues_changed(self.name)

    def _informer(self, resource: Resource) -> Informer:
        return Informer(self.client, resource, self.clock, self._random, labels=self._selector)

    async def _in_sync(self) -> None:
        """Wait until the copies are in sync and every kind is too or is known to be missing."""
        while not self.workloads.has_synced or not all(
            informer.has_synced or informer.last_error for informer in self.jobs.values()
        ):
            if self.excess is not None:
                raise self.excess
            await self.clock.sleep(0.01)
        if self.excess is not None:
            raise self.excess

    def _note_holding(self, workload: Key) -> None:
        value = str(workload)
        holds = (
            workload in self._ending
            or self.workloads.get(workload) is not None
            or any(value in informer.keys_by_index(BY_WORKLOAD) for informer in self.jobs.values())
        )
        self._holdings.note(workload, self.name, holds=holds)

    def _exceeded(self, error: LimitExceeded) -> None:
        if self.excess is None:
            self.excess = error
            self._excesses += 1

    def _workload_changed(self, old: Obj | None, new: Obj | None) -> None:
        obj = new or old
        assert obj is not None
        if old is None or new is None:
            self._note_holding(key_of(obj))
        if new is None:
            self._deleted.discard(uid_of(obj))
            self.admitted_at.pop(uid_of(obj), None)
        elif conditions.is_true(new, names.ADMITTED):
            self.admitted_at.setdefault(uid_of(new), self.clock.now())
        if copy_changed(old, new) and not self._is_learning:
            self._wake(key_of(obj), False)

    def _job_changed(self, resource: Resource, old: Obj | None, new: Obj | None) -> None:
        obj = new or old
        assert obj is not None
        is_progress = old is not None and new is not None and generation_of(old) == generation_of(new)
        has_vanished = new is None and uid_of(obj) not in self._deleted
        if new is None:
            self._deleted.discard(uid_of(obj))
        for key in _workload_keys(obj):
            if has_vanished:
                self.note_ending(key, [(resource, obj)])
            if not self._is_learning:
                self._wake(key, is_progress)
        for key in {key for version in (old, new) if version is not None for key in _workload_keys(version)}:
            self._note_holding(key)

    def _failed(self, error: ApiError) -> None:
        if isinstance(error, LimitExceeded):
            self._exceeded(error)
        if self.connected:
            self.connected, self.lost_since = False, self.clock.now()
            log.warning("worker lost", extra={"cluster": self.name, "error": str(error)})
            self._lost(self.name)

    def _job_watch_failed(self, error: ApiError) -> None:
        if isinstance(error, ConnectionFailed):
            self._failed(error)
        elif not isinstance(error, NotFound):
            log.info("job kind cannot be watched", extra={"cluster": self.name, "error": str(error)})

    def _queue_watch_failed(self, error: ApiError) -> None:
        """Queues are a help that a worker need not give, but not a way around its limits."""
        if isinstance(error, LimitExceeded):
            self._failed(error)

    async def _probe(self, interval: float, timeout: float) -> None:
        """Ask for a sign of life now and then: a hung worker keeps its connections open."""
        while True:
            await self.clock.sleep(interval)
            try:
                async with asyncio.timeout(timeout):
                    await self.client.raw("GET", "/version")
                    self._excesses = 0
            except LimitExceeded as error:
                self._failed(error)
                return
            except (ApiError, TimeoutError) as error:
                self._failed(ConnectionFailed(f"no answer from cluster {self.name}: {error or 'timed out'}"))
                return


class Remotes:
    """All workers of a manager by name."""

    def __init__(self) -> None:
        self.holdings = Holdings()
        self._remotes: dict[str, Remote] = {}
        self._are_apart = True
        """Whether every name leads to a worker of its own."""
        self._missed: dict[str, float] = {}
        """Since when somebody asks for workers that nothing describes any more."""
        self._met: set[str] = set()

    def get(self, name: str) -> Remote | None:
        return self._remotes.get(name)

    def is_away(self, name: str) -> bool:
        """Whether a worker is out of reach, or unknown."""
        remote = self._remotes.get(name)
        return remote is None or not remote.connected

    def put(self, remote: Remote) -> None:
        self._missed.pop(remote.name, None)
        self._remotes = dict(sorted({**self._remotes, remote.name: remote}.items()))
        self._compare_servers()

    def missed_since(self, name: str, now: float) -> float:
        """Since when a worker that nothing describes any more is asked for: now, if it is the first time."""
        return self._missed.setdefault(name, now)

    def note_met(self, name: str) -> None:
        self._met.add(name)

    def has_met(self, name: str) -> bool:
        """Whether a worker has shown what it holds since this manager started."""
        return name in self._met

    def pop(self, name: str) -> Remote | None:
        self.holdings.drop(name)
        remote = self._remotes.pop(name, None)
        self._compare_servers()
        return remote

    def holding(self, workload: Key) -> list[Remote]:
        """The workers, in reach or not, that were last seen with something of a Workload."""
        names = sorted(self.holdings.of(workload))
        return [remote for name in names if (remote := self._remotes.get(name)) is not None]

    def distinct(self, names: Sequence[str], chosen: str = "", asked: Collection[str] = ()) -> list[str]:
        """`names` with one name for each worker: of names in reach that lead to the same worker, the chosen one is kept,
        else one that was asked before, else the first."""
        if self._are_apart:
            return list(names)
        best: dict[str, str] = {}
        for name in sorted(names, key=lambda name: (name != chosen, name not in asked)):
            remote = self._remotes.get(name)
            if remote is not None and (remote.connected or name == chosen):
                best.setdefault(remote.server, name)
            else:
                best[f"unseen {name}"] = name
        return [name for name in names if name in best.values()]

    def twin(self, remote: Remote) -> Remote | None:
        """Another name in reach that leads to the same worker."""
        return next(
            (other for other in self.connected() if other is not remote and other.server == remote.server), None
        )

    def unreachable(self) -> list[Remote]:
        return [remote for remote in self._remotes.values() if not remote.connected]

    def connected(self) -> list[Remote]:
        return [remote for remote in self._remotes.values() if remote.connected]

    async def close(self) -> None:
        for remote in [*self._remotes.values()]:
            await remote.close()
        self._remotes.clear()

    def _compare_servers(self) -> None:
        self._are_apart = len({remote.server for remote in self._remotes.values()}) == len(self._remotes)


def workload_of_pod(pod: Obj) -> str:
    """The Workload whose copy a pod on a worker runs for, as the worker says."""
    return annotations_of(pod).get(names.WORKLOAD) or ""


def copy_changed(old: Obj | None, new: Obj | None) -> bool:
    """Whether a copy on a worker changed by more than what its job says of its own pods and what the worker notes about it."""
    if old is None or new is None or is_deleting(old) != is_deleting(new):
        return True
    if any(old.get(part) != new.get(part) for part in {*old, *new} if part not in ("metadata", "status")):
        return True
    return _decided(old) != _decided(new)


def workload_changed(old: Obj | None, new: Obj | None) -> bool:
    """The same of a Workload here, whose labels, annotations, finalizers and owners matter, too."""
    if old is None or new is None or copy_changed(old, new):
        return True
    return any(part(old) != part(new) for part in (labels_of, annotations_of, finalizers_of, owner_references_of))


def _decided(workload: Obj) -> Obj:
    """A Workload's status without the readiness of its pods."""
    entries = [one for one in conditions.conditions_of(workload) if one["type"] != names.PODS_READY]
    return {**status_of(workload), "conditions": entries}


def _workload_keys(obj: Obj) -> Iterable[Key]:
    if components := component_workloads(obj):
        return [Key(namespace_of(obj), name) for name in components]
    name = prebuilt_workload(obj) or annotations_of(obj).get(names.WORKLOAD) or ""
    return [Key(namespace_of(obj), value) for value in dict.fromkeys((name, group_name(obj))) if value]


def _workload_index(obj: Obj) -> Iterable[str]:
    return dict.fromkeys(str(key) for key in _workload_keys(obj))
