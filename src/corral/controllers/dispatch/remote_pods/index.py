"""The pods of dispatched jobs, seen from the manager: what its API shows next to its own pods, and how to reach them.

Workers' pods are watched only while somebody looks. A pod is shown when the job at the top of its owners was made by this
manager, and that job's Workload here still stands for the same job. Nothing is written, here or there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from corral.client.limits import ANSWER_S
from corral.controllers.dispatch.remote_pods.changes import History, PodChangeFeed
from corral.controllers.dispatch.remote_pods.kept_pods import KeptPods
from corral.controllers.dispatch.workers.pod_ancestry import Ancestry
from corral.controllers.dispatch.workers.remotes import Remote, Remotes
from corral.core.errors import ApiError, ConnectionFailed, ServiceUnavailable
from corral.core.meta import (
    Key,
    Obj,
    is_owned_by,
    key_of,
    labels_of,
    namespace_of,
    owner_references_of,
    status_of,
    uid_of,
    with_metadata,
)
from corral.core.remote_pods import CLUSTER_LABEL, Forwarded, Forwards, PodChange, PodListing
from corral.core.resource import Resource
from corral.core.streams import LogOptions
from corral.decide.dispatch.remote_pods import shown_pod
from corral.jobs.framework.adapter import prebuilt_workload
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import WORKLOADS
from corral.runtime.controller import Manager
from corral.runtime.informer import Informer

log = logging.getLogger(__name__)

IDLE_S = 300.0
"""How long workers' pods are watched after the last look."""
READY_S = 5.0
"""How long a reader waits for a slow worker before it gets what is known; for one that gives no sign of life, ANSWER_S."""
CHECK_S = 0.5


KEPT = ""
"""In place of a cluster: what was kept of a pod that is gone."""
NO_WORKLOAD = Key("", "")


class _Shown(NamedTuple):
    workload: Key
    pod: Obj


class RemotePods:
    """`core.remote_pods.RemotePodSource` over the workers of a manager."""

    def __init__(
        self,
        manager: Manager,
        remotes: Remotes,
        kinds: Sequence[Resource],
        origin: str,
        revision: Callable[[], int],
        kept: KeptPods | None = None,
        listing: PodListing = PodListing.LISTED,
        gated: Sequence[Resource] = (),
        history: History | None = None,
    ) -> None:
        self.listing = listing
        self._gated = {(resource.api_version, resource.kind) for resource in gated}
        self._kept = kept
        self._revision = revision
        self._remotes = remotes
        self._kinds = kinds
        self._origin = origin
        self._followers: dict[str, _Follower] = {}
        self._found: dict[Key, dict[str, _Shown]] = {}
        self._shown: dict[Key, Obj] = {}
        self._history = history or History()
        self._used_at: float | None = None
        self._manager = manager
        self._workloads = manager.informer(WORKLOADS)
        self._jobs = {resource: manager.informer(resource) for resource in kinds}
        if kept is not None:
            kept.on_change(self._kept_changed)
            for informer in self._jobs.values():
                informer.on_change(self._job_changed)
        manager.run_task(self._keep, "pods on workers")

    # core.remote_pods.RemotePodSource

    def has_stand_ins(self, pod: Obj) -> bool:
        return any((owner["apiVersion"], owner["kind"]) in self._gated for owner in owner_references_of(pod))

    async def list(self, namespace: str = "", revision: int = 0) -> Sequence[Obj]:
        await self._ready()
        self._history.mark(revision)
        return [self._shown[key] for key in sorted(self._shown) if not namespace or key.namespace == namespace]

    async def get(self, namespace: str, name: str) -> Obj | None:
        await self._ready()
        return self._shown.get(Key(namespace, name))

    def known(self, namespace: str, name: str) -> Obj | None:
        return self._shown.get(Key(namespace, name))

    async def follow(self, after: int) -> tuple[Sequence[Obj], PodChangeFeed]:
        await self._ready()
        current = [] if after else [self._shown[key] for key in sorted(self._shown)]
        return current, self._history.follow(after or None)

    async def forward(
        self, pod: Obj, method: str, target: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Forwarded]:
        cluster = labels_of(pod).get(CLUSTER_LABEL, "")
        remote = self._remotes.get(cluster)
        if remote is None or not remote.connected:
            raise ServiceUnavailable(f"cluster {cluster}, which runs the pod, cannot be reached")
        client = remote.client
        if not isinstance(client, Forwards):
            raise ServiceUnavailable(f"requests cannot be handed on to cluster {cluster}")
        if not await _is_there(remote):  # what is handed on may rightly take for ever, as a log that is followed does
            raise ServiceUnavailable(
                f"cluster {cluster} does not answer: the pod goes on there, and cannot be reached until it does"
            )
        return await client.forward(method, target, headers)

    def kept_log(self, pod: Obj, container: str, options: LogOptions) -> bytes | None:
        return self._kept.log(pod, container, options) if self._kept is not None else None

    # What is left of finished jobs

    def _kept_changed(self, key: Key, pod: Obj | None) -> None:
        if self._used_at is not None:
            self._see(KEPT, key, None if pod is None else _Shown(NO_WORKLOAD, pod))

    def _job_changed(self, old: Obj | None, new: Obj | None) -> None:
        if self._kept is not None and old is not None and (new is None or uid_of(new) != uid_of(old)):
            self._kept.forget(uid_of(old))

    # Watching workers while somebody looks

    async def _ready(self) -> None:
        """Look, and wait until every reachable worker has answered, but not for ever, and for a late one only once."""
        if self._used_at is None:
            self._used_at = self._manager.clock.now()
            self._history.start(self._revision())
            for key, pod in self._kept.all() if self._kept is not None else ():
                self._kept_changed(key, pod)
        self._used_at = self._manager.clock.now()
        await self._align()
        waiting = [follower for follower in self._followers.values() if not follower.is_late]
        try:
            async with asyncio.timeout(READY_S):
                await asyncio.gather(*(follower.caught_up_or_silent() for follower in waiting))
        except TimeoutError:
            for follower in waiting:
                follower.was_late = True
        if any(follower.is_late for follower in waiting):
            log.info("showing pods without those of a worker that does not answer")

    async def _keep(self) -> None:
        is_checked = False
        try:
            while True:
                await self._manager.clock.sleep(CHECK_S)
                if self._kept is not None:
                    self._kept.expire()
                    if not is_checked and all(informer.has_synced for informer in self._jobs.values()):
                        self._kept.retain({uid_of(job) for jobs in self._jobs.values() for job in jobs.list()})
                        is_checked = True
                if self._used_at is None and not self._history.feeds:
                    continue
                if self._used_at is None:  # somebody goes on looking who began before a restart
                    await self._ready()
                    continue
                now = self._manager.clock.now()
                if self._history.feeds:
                    self._used_at = now
                if now - self._used_at > IDLE_S:
                    await self._rest()
                else:
                    await self._align()
        finally:
            for pod in self._shown.values():
                self._history.add(self._revision(), PodChange(pod, None))
            await self._rest()

    async def _rest(self) -> None:
        self._used_at = None
        for name in list(self._followers):
            await self._followers.pop(name).stop()
        self._found.clear()
        self._shown.clear()

    async def _align(self) -> None:
        """Follow the workers that are connected, through the connection they have now."""
        for name, follower in list(self._followers.items()):
            if self._remotes.get(name) is not follower.remote:
                del self._followers[name]
                await follower.stop()
                for key in [key for key, found in self._found.items() if name in found]:
                    self._see(name, key, None)
        for remote in self._remotes.connected():
            if remote.name not in self._followers and not remote.is_itself:
                self._followers[remote.name] = _Follower(remote, Ancestry(remote, self._origin), self, self._manager)

    # What workers have

    def judge(self, cluster: str, pod: Obj, root: tuple[Resource, Obj]) -> _Shown | None:
        """The pod as it is shown here; None when no job here stands for it."""
        resource, remote_job = root
        informer = self._jobs.get(resource)
        local = informer.get(key_of(remote_job)) if informer is not None else None
        if local is None:
            return None
        workload = Key(namespace_of(remote_job), prebuilt_workload(remote_job))
        held = self._workloads.get(workload)
        if held is None or not is_owned_by(held, uid_of(local)):
            return None
        return _Shown(workload, shown_pod(pod, remote_job, local, cluster))

    def _see(self, cluster: str, key: Key, found: _Shown | None) -> None:
        """A worker has this pod now, or does not have it any more."""
        here = self._found.setdefault(key, {})
        if found is None:
            here.pop(cluster, None)
        else:
            here[cluster] = found
        if not here:
            del self._found[key]
        old, new = self._shown.get(key), self._best(here)
        if new is not None:
            new = with_metadata(new, resourceVersion=str(self._revision()))
            if old is not None and _content(old) == _content(new):
                return
            self._shown[key] = new
        elif old is None:
            return
        else:
            del self._shown[key]
        self._history.add(self._revision(), PodChange(old, new))

    def see(self, cluster: str, key: Key, found: _Shown | None) -> None:
        """Called by the followers."""
        if cluster in self._followers:
            self._see(cluster, key, found)

    def _best(self, here: Mapping[str, _Shown]) -> Obj | None:
        """Of pods with one name on several workers, the one where the Workload is now; what is kept of it stays."""
        if KEPT in here:
            return here[KEPT].pod
        for cluster in sorted(here):
            held = self._workloads.get(here[cluster].workload)
            if held is not None and status_of(held).get("clusterName") == cluster:
                return here[cluster].pod
        return here[min(here)].pod if here else None


class _Follower:
    """Watches the pods of one worker and finds out which are ours."""

    def __init__(self, remote: Remote, ancestry: Ancestry, pods: RemotePods, manager: Manager) -> None:
        self.remote = remote
        self.was_late = False
        self._ancestry = ancestry
        self._pods = pods
        self._informer = Informer(remote.client, PODS, manager.clock, manager.random)
        self._informer.on_change(self._changed)
        self._pending: dict[Key, None] = {}
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._informer.run(), name=f"{remote.name} shown pods"),
            loop.create_task(self._run(), name=f"{remote.name} pods' owners"),
        ]

    @property
    def is_late(self) -> bool:
        """Whether somebody has waited for this worker in vain, and it has not answered since."""
        return self.was_late and not (self._informer.has_synced and self._idle.is_set())

    async def caught_up(self) -> None:
        await self._informer.synced()
        await self._idle.wait()

    async def caught_up_or_silent(self) -> None:
        """Until it has caught up, if the worker gives a sign of life; one that is silent is late at once."""
        if self._informer.has_synced and self._idle.is_set():
            return
        if await _is_there(self.remote):
            await self.caught_up()
        else:
            self.was_late = True

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        obj = new or old
        assert obj is not None
        self._pending[key_of(obj)] = None
        self._idle.clear()
        self._arrived.set()

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._pending:
                key = next(iter(self._pending))
                del self._pending[key]
                await self._look_at(key)
            self._idle.set()

    async def _look_at(self, key: Key) -> None:
        pod = self._informer.get(key)
        root = await self._ancestry.root(pod, PODS) if pod is not None else None
        shown = self._pods.judge(self.remote.name, pod, root) if pod is not None and root is not None else None
        self._pods.see(self.remote.name, key, shown)


async def _is_there(remote: Remote) -> bool:
    """Whether a worker gives a sign of life in time."""
    try:
        async with asyncio.timeout(ANSWER_S):
            await remote.client.raw("GET", "/version")
    except TimeoutError:
        return False
    except ApiError as error:
        return not isinstance(error, ConnectionFailed)  # it may refuse to say, and is there
    return True


def _content(pod: Obj) -> Obj:
    return with_metadata(pod, resourceVersion="")
