"""Dispatch of an embedded manager: set up anew with every configuration, while its API shows the same jobs' pods throughout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from corral.clusters import identities
from corral.configuration.dispatch import dispatch_settings
from corral.configuration.job_kinds import jobs_to_dispatch
from corral.controllers.dispatch import set_up_dispatch, set_up_remote_pods
from corral.controllers.dispatch.copies.worker_answers import WorkerAnswers
from corral.controllers.dispatch.remote_pods.changes import History
from corral.controllers.dispatch.remote_pods.index import RemotePods
from corral.controllers.dispatch.remote_pods.kept_files import KeptFiles
from corral.controllers.dispatch.remote_pods.kept_pods import KeptPods
from corral.controllers.dispatch.workers.clusters import Connect
from corral.controllers.dispatch.workers.remotes import Remotes
from corral.core.errors import ServiceUnavailable
from corral.core.identity import Identity
from corral.core.meta import Key, Obj
from corral.core.remote_pods import Forwarded, PodFeed, PodListing
from corral.core.streams import LogOptions
from corral.decide.dispatch.reasons import WorkerAnswer
from corral.runtime.controller import Manager


class Dispatching:
    """The dispatch controllers of whatever configuration is in force, and `core.remote_pods.RemotePodSource` over them."""

    def __init__(self, connect: Connect, revision: Callable[[], int], kept_logs: Path | None) -> None:
        """Reach workers with `connect`; `revision` is that of the manager's store, `kept_logs` a folder for finished jobs."""
        self._connect, self._revision, self._kept_logs = connect, revision, kept_logs
        self._history = History()
        self._answers = WorkerAnswers()
        self._remotes = Remotes()
        self._pods: RemotePods | None = None

    # kueue_installation.installer.Part

    def check(self, document: Obj) -> None:
        dispatch_settings(document)
        jobs_to_dispatch(document)

    def identity(self, document: Obj) -> Identity:
        return identities.dispatch(dispatch_settings(document), jobs_to_dispatch(document))

    def set_up(self, manager: Manager, document: Obj) -> None:
        settings, known = dispatch_settings(document), jobs_to_dispatch(document)
        files = KeptFiles(self._kept_logs) if self._kept_logs is not None else None
        kept = KeptPods(manager.clock, settings.origin, settings.keep_logs, settings.keep_logs_for, files)
        self._answers = WorkerAnswers()
        self._remotes = set_up_dispatch(manager, settings, self._connect, known, kept, self._answers)
        self._pods = set_up_remote_pods(manager, settings, self._remotes, known, self._revision, kept, self._history)

    async def close(self) -> None:
        await self._remotes.close()

    async def answers_of(self, workload: Key) -> tuple[WorkerAnswer, ...]:
        """What the workers say about a Workload that waits."""
        return await self._answers.of(workload)

    # core.remote_pods.RemotePodSource; before the controllers have been set up no pod elsewhere is known

    @property
    def listing(self) -> PodListing:
        return self._pods.listing if self._pods is not None else PodListing.LISTED

    def has_stand_ins(self, pod: Obj) -> bool:
        return self._pods is not None and self._pods.has_stand_ins(pod)

    async def list(self, namespace: str = "", revision: int = 0) -> Sequence[Obj]:
        return await self._pods.list(namespace, revision) if self._pods is not None else ()

    async def get(self, namespace: str, name: str) -> Obj | None:
        return await self._pods.get(namespace, name) if self._pods is not None else None

    def known(self, namespace: str, name: str) -> Obj | None:
        return self._pods.known(namespace, name) if self._pods is not None else None

    async def follow(self, after: int) -> tuple[Sequence[Obj], PodFeed]:
        return await self._pods.follow(after) if self._pods is not None else ((), self._history.follow(after or None))

    def kept_log(self, pod: Obj, container: str, options: LogOptions) -> bytes | None:
        return self._pods.kept_log(pod, container, options) if self._pods is not None else None

    async def forward(
        self, pod: Obj, method: str, target: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Forwarded]:
        if self._pods is None:
            raise ServiceUnavailable("the dispatch controllers are starting; try again in a moment")
        return await self._pods.forward(pod, method, target, headers)
