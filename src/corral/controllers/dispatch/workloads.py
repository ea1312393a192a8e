"""Dispatching Workloads: from quota on the manager to a job on one worker, its status back, and nothing left behind.

`decide.dispatch.machine` says what comes next; this reconciler does that one thing and waits to be woken again by the
manager's Workload, by the copies and jobs on the workers, or by a change of the configured clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar, assert_never

from corral.configuration.dispatch import DispatchSettings
from corral.controllers.dispatch.context import DispatchContext, DispatchedWorkload
from corral.controllers.dispatch.copies.deployment_siblings import Siblings
from corral.controllers.dispatch.copies.late_binding import LateBinding
from corral.controllers.dispatch.copies.multi_workload_jobs import Components
from corral.controllers.dispatch.copies.nominations import Nominations
from corral.controllers.dispatch.copies.worker_answers import WorkerAnswers
from corral.controllers.dispatch.metrics import DispatchMetrics
from corral.controllers.dispatch.remote_pods.kept_pods import KeptPods
from corral.controllers.dispatch.runs.remote_job import is_shared
from corral.controllers.dispatch.runs.runs import Runs
from corral.controllers.dispatch.safety.worker_tasks import StillRunning
from corral.controllers.dispatch.workers.admission_checks import activity_changed, config_name
from corral.controllers.dispatch.workers.remotes import Remote, Remotes, workload_changed
from corral.core import conditions
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    generation_of,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owner_references_of,
    spec_of,
    status_of,
    uid_of,
)
from corral.core.timestamps import parse_time
from corral.decide.dispatch import model
from corral.decide.dispatch.machine import check_state, next_step
from corral.jobs.framework.adapter import JobAdapter, managed_by
from corral.jobs.framework.paths import get_in
from corral.kinds.kueue import ADMISSION_CHECKS, MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS, WORKLOADS, names
from corral.runtime.controller import Controller, Manager, Result, Watch
from corral.workload import workload as wl

T = TypeVar("T")
BY_CHECK = "admissionCheck"
WAITING = "pendingAdmissionCheck"
REBIND_DELAY_S = 0.05
QUOTA_FIRST_S = 1.0
WORKERS = 32  # most of a reconcile is waiting for answers of workers


class DispatchWorkloads:
    """Moves every Workload with a MultiKueue check through its life on the workers."""

    name = "multikueue_workload"

    def __init__(
        self,
        manager: Manager,
        settings: DispatchSettings,
        remotes: Remotes,
        adapters: Sequence[JobAdapter],
        metrics: DispatchMetrics,
        kept: KeptPods | None = None,
        answers: WorkerAnswers | None = None,
    ) -> None:
        self._known: set[Key] = set()
        """Workloads that this manager has, or had and may have left something of on a worker."""
        self._adapters = {(adapter.resource.group, adapter.resource.kind): adapter for adapter in adapters}
        context = DispatchContext(manager, settings, remotes, metrics, self._again, kept)
        self._context = context
        if answers is not None:
            answers.attach(context)
        self._jobs = {adapter.resource: manager.informer(adapter.resource) for adapter in adapters}
        siblings = Siblings(manager)
        self._components = Components(context)
        self._runs = Runs(context)
        self._late = LateBinding(context)
        self._nominations = Nominations(context, self._runs, siblings, self._components, self._late)
        context.workloads.add_index(BY_CHECK, lambda obj: [state["name"] for state in wl.check_states_of(obj)])
        context.workloads.add_index(WAITING, _waits_for)
        self.controller: Controller = manager.add(
            self,
            watches=[
                Watch(WORKLOADS, when=self._is_due),
                Watch(WORKLOADS, map=siblings.keys, when=_cluster_changed),
                Watch(WORKLOADS, map=self._components.keys, when=_matters_to_components),
                Watch(ADMISSION_CHECKS, map=self._of_check),
                Watch(MULTI_KUEUE_CONFIGS, map=self._of_config),
                Watch(MULTI_KUEUE_CLUSTERS, map=self._of_cluster, when=activity_changed),
            ],
            workers=WORKERS,
        )
        for informer in self._jobs.values():
            informer.on_change(self._job_changed)
        manager.run_task(context.worker_tasks.keep, "work on workers")

    def wake(self, key: Key, is_progress: bool = False) -> None:
        """Something about this Workload changed on a worker."""
        self._late.note(key)
        settings = self._context.settings
        self.controller.queue.add_after(key, max(settings.batch_s, settings.progress_s if is_progress else 0.0))

    def cluster_connected(self, cluster: Obj) -> None:
        """A worker can be reached from now on. Its condition says nothing new if it was active before this manager started."""
        remote = self._context.remotes.get(name_of(cluster))
        held = [key_of(copy) for copy in remote.workloads.list()] if remote is not None else []
        for key in dict.fromkeys((*self._of_cluster(cluster), *held)):
            self.wake(key)

    def cluster_left(self, name: str) -> None:
        """The way to a worker is gone. Who was woken when its description went may have looked before that."""
        known = self._context.possible_locations.known_on(name)
        for key in dict.fromkeys((*self._of_cluster({"metadata": {"name": name}}), *known)):
            self.wake(key)

    async def leave(self, remote: Remote) -> None:
        """Take everything of ours from a worker that is removed."""
        await self._runs.leave(remote)

    def _is_due(self, old: Obj | None, new: Obj | None) -> bool:
        return not self._context.is_quiet and workload_changed(old, new)

    def _again(self, key: Key, is_failed: bool) -> None:
        """A worker that was late has answered."""
        (self.controller.queue.add_rate_limited if is_failed else self.controller.queue.add)(key)

    def queues_changed(self, cluster: str) -> None:
        """A worker's queues have more or less room: whatever waits for a worker may be better off elsewhere."""
        for check in self._context.checks.list():
            if config_name(check):
                for workload in self._context.workloads.by_index(WAITING, name_of(check)):
                    if not self._late.stays(workload):
                        self.controller.queue.add_after(key_of(workload), REBIND_DELAY_S)

    def _job_changed(self, old: Obj | None, new: Obj | None) -> None:
        obj = new or old
        assert obj is not None
        is_mirrored = old is not None and new is not None and not _asks_for_something_else(old, new)
        name = annotations_of(obj).get(names.WORKLOAD)
        if name and not is_mirrored:
            self.wake(Key(namespace_of(obj), name))
        if old is not None and new is not None and not is_mirrored:
            for key in self._components.of_job(new):
                self.wake(key)

    def _of_check(self, check: Obj) -> Iterable[Key]:
        return [key_of(obj) for obj in self._context.workloads.by_index(BY_CHECK, name_of(check))]

    def _of_config(self, config: Obj) -> Iterable[Key]:
        checks = [check for check in self._context.checks.list() if config_name(check) == name_of(config)]
        return [key for check in checks for key in self._of_check(check)]

    def _of_cluster(self, cluster: Obj) -> Iterable[Key]:
        configs = [
            config
            for config in self._context.configs.list()
            if name_of(cluster) in (spec_of(config).get("clusters") or ())
        ]
        return [key for config in configs for key in self._of_config(config)]

    # One Workload

    async def reconcile(self, key: Key) -> Result | None:
        workload = self._context.workloads.get(key)
        if workload is None and key not in self._known:
            return None  # not ours to judge at once, it may be another manager's: garbage collection looks at it
        self._known.add(key)
        if workload is None or is_deleting(workload):
            self._late.forget(key)
            self._context.refusals.forget(key)
            self._context.answers.pop(key, None)
            self._context.worker_tasks.forget(key)
            if await self._runs.remove_everywhere(key) and workload is None:
                self._known.discard(key)
            return None
        try:
            return await self._reconcile(workload)
        except StillRunning:
            return None  # it is looked at again when the worker has answered

    async def _reconcile(self, workload: Obj) -> Result | None:
        key = key_of(workload)
        if status_of(workload).get("clusterName"):
            self._late.forget(key)
            self._context.answers.pop(key, None)
        check = self._context.check_of(workload)
        if not check or check_state(workload, check).get("state") == names.REJECTED:
            return None
        adapter, job_key = self._owner(workload)
        if adapter is None or job_key is None:
            if not conditions.is_true(workload, names.FINISHED):
                await self._context.reject(workload, check, f"No multikueue adapter found{_owner_kind(workload)}")
            return None
        jobs = self._owners(workload, adapter)
        if jobs and (problem := _not_managed(adapter, jobs[0])):
            if not wl.has_quota(workload) and self._is_new(check_state(workload, check)):
                return Result(QUOTA_FIRST_S)
            if not _was_looked_at(workload):
                return None  # the queue comes first
            await self._context.reject(workload, check, f"The owner is not managed by Kueue: {problem}")
            return None
        clusters = self._clusters(workload, check)
        self._observe(workload, clusters)
        view = self._view(workload, check, clusters)
        return await self._act(DispatchedWorkload(workload, check, adapter, job_key, jobs), next_step(view))

    def _is_new(self, state: Obj) -> bool:
        """Whether a check was asked for so lately that the queue, whose turn is before ours, may not have had it yet."""
        since = state.get("lastTransitionTime")
        return bool(since) and self._context.manager.clock.now() - parse_time(str(since)) < QUOTA_FIRST_S

    async def _act(self, subject: DispatchedWorkload, step: model.DispatchStep) -> Result | None:
        runs = self._runs
        match step:
            case model.Nothing(why, again, is_reported):
                if is_reported and self._context.settings.say_why:
                    await self._context.explain(subject.workload, subject.check, why)
                return Result(again) if again is not None else None
            case model.CleanUp(clusters, again):
                await runs.clean_up(subject, clusters)
                is_late = any(self._context.worker_tasks.is_busy(name, key_of(subject.workload)) for name in clusters)
                return None if again is None or is_late else Result(again)
            case model.Finish(cluster, condition):
                return await self._on(cluster, subject, runs.finish, condition)
            case model.SendBack():
                await runs.send_back(subject, step)
            case model.SyncStatus(cluster):
                return await self._on(cluster, subject, runs.sync_status)
            case model.Deactivate(cluster, message):
                return await self._on(cluster, subject, runs.deactivate, message)
            case model.Settle():
                await runs.settle(subject)
            case model.UpdateSpec(cluster, spec):
                return await self._on(cluster, subject, runs.update_spec, spec)
            case model.Mirror(cluster):
                self._context.possible_locations.begin(key_of(subject.workload), cluster)
                return await self._on(cluster, subject, runs.mirror)
            case model.Start() | model.Nominate():
                return await self._begin(subject, step)
            case _:
                assert_never(step)
        return None

    async def _begin(self, subject: DispatchedWorkload, step: model.Start | model.Nominate) -> Result | None:
        """Give a Workload to a worker, once the job cannot be running on another one: it must not run twice."""
        key = key_of(subject.workload)
        if self._context.worker_tasks.is_stopping(key):
            return None  # it is looked at again when the worker that stops it has answered
        if (wait := await self._fence(subject)) is not None:
            return wait
        if isinstance(step, model.Nominate):
            return await self._nominations.nominate(subject)
        # Noted before anything is done: an answer that gets lost must not let the job start a second time elsewhere.
        self._context.possible_locations.begin(key, step.cluster)
        return await self._on(step.cluster, subject, self._runs.start, step.drop)

    async def _fence(self, subject: DispatchedWorkload) -> Result | None:
        """With fencing, wait until no worker out of reach can be running the job any more."""
        settings = self._context.settings
        if not settings.fencing:
            return None
        left = self._context.possible_locations.fenced_in(key_of(subject.workload), settings.worker_lost_timeout)
        if left <= 0:
            return None
        await self._context.explain(subject.workload, subject.check, "waits until a lost worker has stopped its copy")
        return Result(left)

    async def _on(
        self, cluster: str, subject: DispatchedWorkload, work: Callable[..., Coroutine[None, None, T]], *more: object
    ) -> T:
        """Do something about a Workload on one worker, without waiting for it for long."""
        return await self._context.worker_tasks.run(
            cluster, key_of(subject.workload), partial(work, subject, cluster, *more)
        )

    def _observe(self, workload: Obj, clusters: Collection[str]) -> None:
        """Note on which workers in reach the job is and on which it is not.

        A worker on which something is being done for the Workload right now has the last word when that is over.
        """
        key, possible_locations = key_of(workload), self._context.possible_locations
        involved = self._involved(key)
        given = [remote for remote in involved if remote.connected and remote.name in clusters]
        for remote in (*given, *self._unlisted(involved, workload, clusters)):
            if any(not is_shared(remote, job, key) for _, job in (*remote.jobs_of(key), *remote.ending(key))):
                possible_locations.begin(key, remote.name)
            elif possible_locations.may_be(key, remote.name) and not self._context.worker_tasks.is_busy(
                remote.name, key
            ):
                possible_locations.gone(key, remote.name)

    def _view(self, workload: Obj, check: str, clusters: Sequence[str]) -> model.DispatchView:
        key, now = key_of(workload), self._context.manager.clock.now()
        settings, possible_locations = self._context.settings, self._context.possible_locations
        involved = self._involved(key)
        strays = [
            remote.name
            for remote in self._unlisted(involved, workload, clusters)
            if remote.workload(key) is not None or possible_locations.may_be(key, remote.name)
        ]
        shown = {str(status_of(workload).get("clusterName")), *(remote.name for remote in involved)}
        return model.DispatchView(
            workload,
            check,
            {
                name: self._remote_view(name, key, now)
                for name in clusters
                if name in shown or self._context.remotes.is_away(name)
            },
            now,
            settings.worker_lost_timeout,
            strays,
            settings.keep_finished,
            possible_locations.away(workload),
        )

    def _remote_view(self, cluster: str, key: Key, now: float) -> model.RemoteView:
        remote = self._context.remotes.get(cluster)
        if remote is None:
            return model.RemoteView(False, lost_since=self._context.remotes.missed_since(cluster, now))
        copy = remote.workload(key)
        seen = remote.admitted_at.get(uid_of(copy), 0.0) if copy else 0.0
        has_job = remote.connected and self._context.possible_locations.may_be(key, cluster)
        return model.RemoteView(remote.connected, copy, remote.lost_since, seen, has_job)

    def _involved(self, key: Key) -> list[Remote]:
        """The workers that hold something of a Workload or may be running its job: few, however many workers there are."""
        remotes = self._context.remotes
        holding = {remote.name: remote for remote in remotes.holding(key)}
        for name in self._context.possible_locations.of(key):
            if (remote := remotes.get(name)) is not None:
                holding[name] = remote
        return [holding[name] for name in sorted(holding)]

    def _unlisted(self, involved: Iterable[Remote], workload: Obj, configured: Collection[str]) -> list[Remote]:
        """Those of the workers involved that are in reach and to which the config does not give the Workload.

        A configured worker may be seen by a further name too: what it has is no stray, not even while the name that the
        Workload has it by is out of reach.
        """
        unlisted = [remote for remote in involved if remote.connected and remote.name not in configured]
        if not unlisted:
            return []
        chosen = status_of(workload).get("clusterName")
        given = [remote for name in configured if (remote := self._context.remotes.get(name)) is not None]
        servers = {remote.server for remote in given if remote.connected or remote.name == chosen}
        return [remote for remote in unlisted if remote.server not in servers]

    def _clusters(self, workload: Obj, check: str) -> list[str]:
        """The workers a check is about; without a config, those the Workload is on: it stays where it is meanwhile."""
        if self._context.has_config(check):
            return self._context.clusters_of(check, workload)
        key, chosen = key_of(workload), status_of(workload).get("clusterName")
        holding = [remote.name for remote in self._context.remotes.holding(key) if remote.workload(key) is not None]
        return self._context.distinct(sorted({*holding, *([str(chosen)] if chosen else [])}), workload)

    def _owner(self, workload: Obj) -> tuple[JobAdapter | None, Key | None]:
        reference = controller_of(workload) or next(iter(owner_references_of(workload)), None)
        if reference is None:
            return None, None
        group = str(reference.get("apiVersion", "")).rpartition("/")[0]
        adapter = self._adapters.get((group, str(reference.get("kind"))))
        return adapter, Key(namespace_of(workload), str(reference["name"]))

    def _owners(self, workload: Obj, adapter: JobAdapter) -> list[Obj]:
        """The objects a Workload stands for: one job, or all pods of a group."""
        found = []
        for reference in owner_references_of(workload):
            if reference.get("kind") == adapter.resource.kind:
                found.append(self._jobs[adapter.resource].get(Key(namespace_of(workload), str(reference["name"]))))
        return [job for job in found if job is not None]


def _was_looked_at(workload: Obj) -> bool:
    """Whether the queue has decided about a Workload, or will not."""
    return conditions.find(workload, names.QUOTA_RESERVED) is not None or not wl.is_active(workload)


def _not_managed(adapter: JobAdapter, job: Obj) -> str:
    """Why this manager may not dispatch a job; empty when it may."""
    if adapter.managed_by_path is None:
        return ""
    if managed_by(adapter, job) == names.MULTIKUEUE_CONTROLLER:
        return ""
    stated = get_in(job, adapter.managed_by_path) or ""
    return f'Expecting spec.managedBy to be "{names.MULTIKUEUE_CONTROLLER}" not "{stated}"'


def _waits_for(workload: Obj) -> list[str]:
    """The checks that a Workload has yet to pass."""
    return [state["name"] for state in wl.check_states_of(workload) if state.get("state") == names.PENDING]


def _cluster_changed(old: Obj | None, new: Obj | None) -> bool:
    return status_of(old or {}).get("clusterName") != status_of(new or {}).get("clusterName")


def _matters_to_components(old: Obj | None, new: Obj | None) -> bool:
    if old is None or new is None or _cluster_changed(old, new):
        return True
    return conditions.is_true(old, names.QUOTA_RESERVED) != conditions.is_true(new, names.QUOTA_RESERVED)


def _asks_for_something_else(old: Obj, new: Obj) -> bool:
    """Whether more than the status of a job changed, which is what we write there ourselves."""
    return (
        generation_of(old) != generation_of(new)
        or labels_of(old) != labels_of(new)
        or annotations_of(old) != annotations_of(new)
        or is_deleting(old) != is_deleting(new)
    )


def _owner_kind(workload: Obj) -> str:
    reference: Mapping[str, str] | None = controller_of(workload) or next(iter(owner_references_of(workload)), None)
    if reference is None:
        return ""
    return f' for owner kind "{reference.get("apiVersion")}, Kind={reference.get("kind")}"'
