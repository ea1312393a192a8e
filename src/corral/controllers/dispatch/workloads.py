"""Dispatching Workloads: from quota on the manager to a job on one worker, its status back, and nothing left behind.

`decide.dispatch.machine` says what comes next; this reconciler does that one thing and waits to be woken again by the
manager's Workload, by the copies and jobs on the workers, or by a change of the configured clusters.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from corral.controllers.dispatch.admission_checks import config_name
from corral.controllers.dispatch.capacity import worker_view
from corral.controllers.dispatch.metrics import DispatchMetrics
from corral.controllers.dispatch.mirror import NotOurs, Refused, create_copy, remove, sync_job
from corral.controllers.dispatch.propagate import send_named, send_runtime
from corral.controllers.dispatch.remotes import Remote, Remotes
from corral.controllers.dispatch.settings import DispatchSettings
from corral.controllers.dispatch.together import Siblings
from corral.core import conditions
from corral.core.errors import ApiError
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    is_deleting,
    key_of,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    owner_references_of,
    spec_of,
    status_of,
    uid_of,
    with_status,
)
from corral.core.resource import Resource
from corral.core.timestamps import format_duration, parse_time
from corral.decide.dispatch import binding, model, nominate
from corral.decide.dispatch.copy import remote_workload
from corral.decide.dispatch.machine import check_state, next_step
from corral.decide.dispatch.nominate import ROUND_ANNOTATION, Nomination
from corral.jobs import lifecycle
from corral.jobs import workload as wl
from corral.jobs.adapter import JobAdapter, managed_by
from corral.jobs.paths import get_in
from corral.kinds.kueue import ADMISSION_CHECKS, MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS, WORKLOADS, names
from corral.runtime.controller import Controller, Manager, Result, Watch, together

log = logging.getLogger(__name__)

BY_CHECK = "admissionCheck"
BY_NOMINATION = "nominated"
REBIND_DELAY_S = 0.05
DEFERRED_S = 2.0
REFUSED_S = 10.0
ADMISSION_MANAGER = "kueue-admission"
WORKERS = 32  # most of a reconcile is waiting for answers of workers
HAND_BACK_S = 60
MAX_HAND_BACK_S = 3600


class DispatchWorkloads:
    """Moves every Workload with a MultiKueue check through its life on the workers."""

    name = "multikueue_workload"

    def __init__(
        self,
        settings: DispatchSettings,
        remotes: Remotes,
        adapters: Sequence[JobAdapter],
        metrics: DispatchMetrics,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._remotes = remotes
        self._binding: dict[Key, str] = {}
        self._adapters = {(adapter.resource.group, adapter.resource.kind): adapter for adapter in adapters}

    def setup(self, manager: Manager) -> None:
        self._manager = manager
        self._workloads = manager.informer(WORKLOADS)
        self._checks = manager.informer(ADMISSION_CHECKS)
        self._configs = manager.informer(MULTI_KUEUE_CONFIGS)
        self._clusters = manager.informer(MULTI_KUEUE_CLUSTERS)
        self._jobs = {adapter.resource: manager.informer(adapter.resource) for adapter in self._adapters.values()}
        self._siblings = Siblings(manager)
        self._workloads.add_index(BY_NOMINATION, nominate.nominated)
        self._workloads.add_index(BY_CHECK, lambda obj: [state["name"] for state in wl.check_states_of(obj)])
        self.controller: Controller = manager.add(
            self,
            watches=[
                Watch(WORKLOADS),
                Watch(WORKLOADS, map=self._siblings.keys, when=_cluster_changed),
                Watch(ADMISSION_CHECKS, map=self._of_check),
                Watch(MULTI_KUEUE_CONFIGS, map=self._of_config),
                Watch(MULTI_KUEUE_CLUSTERS, map=self._of_cluster, when=_activity_changed),
            ],
            workers=WORKERS,
        )
        for resource in self._jobs:
            self._jobs[resource].on_change(self._job_changed)

    def wake(self, key: Key) -> None:
        """Something about this Workload changed on a worker."""
        self.controller.queue.add_after(key, self._settings.batch_s)

    def queues_changed(self, cluster: str) -> None:
        """A worker's queues have more or less room: whatever waits for a worker may be better off elsewhere."""
        for check in self._checks.list():
            if config_name(check):
                for key in self._of_check(check):
                    workload = self._workloads.get(key)
                    if workload is not None and check_state(workload, name_of(check)).get("state") == names.PENDING:
                        self.controller.queue.add_after(key, REBIND_DELAY_S)

    def _job_changed(self, old: Obj | None, new: Obj | None) -> None:
        obj = new or old
        assert obj is not None
        name = annotations_of(obj).get(names.WORKLOAD)
        if name:
            self.wake(Key(namespace_of(obj), name))

    def _of_check(self, check: Obj) -> Iterable[Key]:
        return [key_of(obj) for obj in self._workloads.by_index(BY_CHECK, name_of(check))]

    def _of_config(self, config: Obj) -> Iterable[Key]:
        checks = [check for check in self._checks.list() if config_name(check) == name_of(config)]
        return [key for check in checks for key in self._of_check(check)]

    def _of_cluster(self, cluster: Obj) -> Iterable[Key]:
        configs = [
            config for config in self._configs.list() if name_of(cluster) in (spec_of(config).get("clusters") or ())
        ]
        return [key for config in configs for key in self._of_config(config)]

    # One Workload

    async def reconcile(self, key: Key) -> Result | None:
        workload = self._workloads.get(key)
        if workload is None or is_deleting(workload):
            self._binding.pop(key, None)
            await self._remove_everywhere(key)
            return None
        if status_of(workload).get("clusterName"):
            self._binding.pop(key, None)
        check = self._check_of(workload)
        if not check or check_state(workload, check).get("state") == names.REJECTED:
            return None
        adapter, job_key = self._owner(workload)
        if adapter is None or job_key is None:
            if not conditions.is_true(workload, names.FINISHED):
                await self._reject(workload, check, f"No multikueue adapter found{_owner_kind(workload)}")
            return None
        jobs = self._owners(workload, adapter)
        if jobs and (problem := _not_managed(adapter, jobs[0])):
            await self._reject(workload, check, f"The owner is not managed by Kueue: {problem}")
            return None
        view = self._view(workload, check)
        return await self._act(_Subject(workload, check, adapter, job_key, jobs), next_step(view))

    async def _act(self, subject: _Subject, step: model.Step) -> Result | None:
        match step:
            case model.Nothing(_, again):
                return Result(again) if again is not None else None
            case model.CleanUp(clusters, again):
                await self._clean_up(subject, clusters)
                return Result(again) if again else None
            case model.Finish(cluster, condition):
                await self._finish(subject, cluster, condition)
                return None
            case model.SendBack(message, event_type, event_message):
                await self._send_back(subject, message, event_type, event_message)
                return None
            case model.SyncStatus(cluster):
                return None if await self._sync(subject, cluster) else Result(DEFERRED_S)
            case model.Deactivate(cluster, message):
                return await self._deactivate(subject, cluster, message)
            case model.Settle():
                await self._settle(subject)
                return None
            case model.UpdateSpec(cluster, spec):
                await self._update_spec(subject, cluster, spec)
                return None
            case model.Run(cluster, drop):
                return await self._run(subject, cluster, drop)
            case _:
                return await self._nominate(subject)

    def _view(self, workload: Obj, check: str) -> model.DispatchView:
        key = key_of(workload)
        configured = self._clusters_of(check)
        remotes: dict[str, model.RemoteView] = {}
        for name in configured:
            remote = self._remotes.get(name)
            if remote is None:
                continue
            copy = remote.workload(key)
            seen = remote.admitted_at.get(uid_of(copy), 0.0) if copy else 0.0
            has_job = remote.connected and bool(remote.jobs_of(key))
            remotes[name] = model.RemoteView(remote.connected, copy, remote.lost_since, seen, has_job)
        strays = {
            remote.name: copy
            for remote in self._remotes.connected()
            if remote.name not in remotes and (copy := remote.workload(key)) is not None
        }
        now = self._manager.clock.now()
        return model.DispatchView(workload, check, remotes, now, self._settings.worker_lost_timeout, strays)

    def _check_of(self, workload: Obj) -> str:
        for state in wl.check_states_of(workload):
            check = self._checks.get(Key("", state["name"]))
            if check is not None and spec_of(check).get("controllerName") == names.MULTIKUEUE_CONTROLLER:
                return str(state["name"])
        return ""

    def _clusters_of(self, check: str) -> list[str]:
        found = self._checks.get(Key("", check))
        config = self._configs.get(Key("", config_name(found))) if found else None
        return list(spec_of(config).get("clusters") or []) if config else []

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

    # What the steps do

    async def _remove_everywhere(self, key: Key) -> None:
        for remote in self._remotes.connected():
            if remote.workloads.get(key) is not None or remote.jobs_of(key):
                await remove(remote, key, self._settings.origin)

    async def _clean_up(self, subject: _Subject, clusters: Sequence[str]) -> None:
        await together(self._remove_from(subject, name) for name in clusters)

    async def _remove_from(self, subject: _Subject, cluster: str) -> None:
        remote = self._remotes.get(cluster)
        if remote is not None and remote.connected:
            await remove(remote, key_of(subject.workload), self._settings.origin, subject.adapter, subject.job_key)

    async def _sync(self, subject: _Subject, cluster: str, *, live: bool = False) -> bool:
        """Make or mirror the job on `cluster`; True when nothing is left to copy."""
        remote = self._connected(cluster) if subject.jobs else None
        done = True
        for job in subject.jobs:
            assert remote is not None
            is_new = self._settings.propagate and remote.job(subject.adapter.resource, key_of(job)) is None
            if is_new:
                await send_runtime(self._manager.client, remote, job, self._settings.origin)
            done &= await sync_job(
                self._manager.client,
                remote,
                subject.adapter,
                job,
                name_of(subject.workload),
                self._settings.origin,
                live=live,
            )
            if is_new:
                await self._send_named(remote, subject.adapter, job)
        return done

    async def _send_named(self, remote: Remote, adapter: JobAdapter, job: Obj) -> None:
        key = key_of(job)
        made = await remote.client.get(adapter.resource, key.name, key.namespace)
        await send_named(self._manager.client, remote, job, made, self._settings.origin)

    async def _finish(self, subject: _Subject, cluster: str, condition: Obj) -> None:
        await self._sync(subject, cluster, live=True)
        now = self._manager.clock.timestamp()
        reason, message = str(condition.get("reason", "")), str(condition.get("message", ""))
        await self._write(lifecycle.finish(subject.workload, reason, message, now), ADMISSION_MANAGER)
        recorder = self._manager.recorder.named(f"{subject.adapter.framework}-kueue-controller")
        for job in subject.jobs:
            text = f"Workload '{key_of(subject.workload)}' is declared finished"
            recorder.event(job, "Normal", "FinishedWorkload", text)

    async def _send_back(self, subject: _Subject, message: str, event_type: str, event_message: str) -> None:
        await self._set_check(subject.workload, subject.check, names.RETRY, message)
        self._metrics.redispatched(status_of(subject.workload).get("clusterName") or "", message.split(",")[0])
        if event_type:
            self._manager.recorder.event(subject.workload, event_type, "MultiKueue", event_message)

    async def _deactivate(self, subject: _Subject, cluster: str, message: str) -> Result | None:
        remote = self._connected(cluster)
        copy = remote.workload(key_of(subject.workload))
        if copy is not None and not conditions.is_true(copy, names.DEACTIVATION_TARGET):
            now = self._manager.clock.timestamp()
            target = lifecycle.deactivation_target(copy, "EvictedOnManagerCluster", message, now)
            await remote.client.update(WORKLOADS, target, subresource="status", manager=names.MULTIKUEUE_MANAGER)
        return None if await self._sync(subject, cluster) else Result(DEFERRED_S)

    async def _settle(self, subject: _Subject) -> None:
        """Say in the job's status that it has stopped, once queueing has suspended it."""
        adapter = subject.adapter
        for job in subject.jobs:
            if not adapter.is_suspended(job) or not adapter.is_active(job):
                continue
            stopped = with_status(job, adapter.stopped_status(job, self._manager.clock.timestamp()))
            await self._manager.client.update(
                adapter.resource, stopped, subresource="status", manager=names.MULTIKUEUE_MANAGER
            )

    async def _update_spec(self, subject: _Subject, cluster: str, spec: Obj) -> None:
        key = key_of(subject.workload)
        await self._connected(cluster).client.patch(
            WORKLOADS, key.name, key.namespace, {"spec": spec}, manager=names.MULTIKUEUE_MANAGER
        )

    async def _run(self, subject: _Subject, cluster: str, drop: Sequence[str]) -> Result | None:
        await self._clean_up(subject, drop)
        try:
            done = await self._sync(subject, cluster)
        except NotOurs as problem:
            await self._explain(subject.workload, subject.check, str(problem))
            raise
        except Refused as problem:
            if self._settings.say_why:
                await self._explain(subject.workload, subject.check, str(problem))
            return Result(REFUSED_S)
        state = check_state(subject.workload, subject.check)
        if state.get("state") not in (names.RETRY, names.REJECTED):
            await self._mark_ready(subject, cluster)
        return Result(self._settings.worker_lost_timeout if done else DEFERRED_S)

    async def _mark_ready(self, subject: _Subject, cluster: str) -> None:
        workload = self._workloads.get(key_of(subject.workload)) or subject.workload
        state = check_state(workload, subject.check)
        if state.get("state") == names.READY and status_of(workload).get("clusterName") == cluster:
            return
        message = f'The workload was admitted on "{cluster}"'
        status = {**status_of(workload), "clusterName": cluster}
        status.pop("nominatedClusterNames", None)
        await self._set_check(with_status(workload, status), subject.check, names.READY, message)
        reserved = (conditions.find(workload, names.QUOTA_RESERVED) or {}).get("lastTransitionTime")
        waited = self._manager.clock.now() - parse_time(reserved) if reserved else 0.0
        self._metrics.admitted(cluster, max(waited, 0.0))
        self._manager.recorder.event(workload, "Normal", "MultiKueue", message)

    # Nomination

    async def _nominate(self, subject: _Subject) -> Result | None:
        silent = self._fenced_off(key_of(subject.workload)) if self._settings.fencing else 0.0
        if silent > 0:
            await self._explain(subject.workload, subject.check, "waits until a lost worker has stopped its copy")
            return Result(silent)
        nomination = self._nomination(subject)
        if nomination is None:
            return None
        workload = await self._write_nomination(subject.workload, nomination)
        problems: list[str] = []
        following = []
        for name in self._clusters_of(subject.check):
            remote = self._remotes.get(name)
            if remote is not None and remote.connected:
                following.append(self._follow_nomination(subject, remote, name in nomination.clusters, problems))
            elif name in nomination.clusters:
                problems.append(f"{name}: cannot be reached")
        await together(following)
        problems += [f"{name}: {why}" if name else why for name, why in subject.rejected.items()]
        waiting = self._waiting(key_of(workload), nomination.clusters, problems)
        patience = self._patience(workload)
        if patience is not None and patience <= 0:
            await self._hand_back(subject, waiting)
            return None
        if self._settings.say_why:
            await self._explain(workload, subject.check, waiting)
        again = [seconds for seconds in (nomination.again_after, patience) if seconds is not None]
        return Result(min(again)) if again else None

    def _fenced_off(self, key: Key) -> float:
        """Seconds until no worker out of reach can be running this Workload any more."""
        now, limit = self._manager.clock.now(), self._settings.worker_lost_timeout
        left = [remote.lost_since + limit - now for remote in self._remotes.unreachable() if remote.may_hold(key)]
        return max(left, default=0.0)

    def _patience(self, workload: Obj) -> float | None:
        """Seconds until a Workload that no worker takes is handed back; None when it waits for ever."""
        limit = self._settings.give_up_after
        since = (conditions.find(workload, names.QUOTA_RESERVED) or {}).get("lastTransitionTime")
        if limit is None or not since:
            return None
        return parse_time(str(since)) + limit - self._manager.clock.now()

    async def _hand_back(self, subject: _Subject, waiting: str) -> None:
        """Give the quota back to others: the check asks for another try, later each time."""
        workload = self._workloads.get(key_of(subject.workload)) or subject.workload
        state = check_state(workload, subject.check)
        delay = min(HAND_BACK_S * 2 ** int(state.get("retryCount") or 0), MAX_HAND_BACK_S)
        message = f"No worker took the workload within {format_duration(self._settings.give_up_after or 0)}"
        message = f"{message}: {waiting}" if waiting else message
        await self._set_check(workload, subject.check, names.RETRY, message, requeueAfterSeconds=int(delay))
        self._metrics.redispatched("", "HandedBack")
        self._manager.recorder.event(workload, "Warning", "HandedBack", message)

    def _nomination(self, subject: _Subject) -> Nomination | None:
        workload, settings = subject.workload, self._settings
        configured = self._clusters_of(subject.check)
        usable = [name for name in configured if self._takes(name, subject.adapter.resource)]
        leader = self._siblings.leader(subject.jobs[0]) if subject.jobs else None
        if leader is not None:
            chosen = str(status_of(leader).get("clusterName") or "")
            subject.rejected = {"": "waits for the first pod of its Deployment"} if not chosen else {}
            return Nomination((chosen,) if chosen else ())
        if settings.dispatcher == model.ALL_AT_ONCE:
            return nominate.all_at_once(workload, usable)
        if settings.dispatcher == model.LATE_BINDING:
            return self._bind(subject, configured)
        if settings.dispatcher == model.INCREMENTAL:
            now = self._manager.clock.now()
            return nominate.incremental(workload, configured, now, step=settings.step, round_s=settings.round_s)
        return Nomination(nominate.nominated(workload))

    def _bind(self, subject: _Subject, configured: Sequence[str]) -> Nomination:
        """The one worker that can start the Workload now or soonest; it stays where a worker has reserved quota for it."""
        workload = subject.workload
        current = next(iter(nominate.nominated(workload)), "")
        if current and not self._is_refused(current, key_of(workload)):
            return Nomination((current,))
        views = [self._worker_view(name, subject) for name in configured]
        choice = binding.choose(workload, subject.jobs[0] if subject.jobs else None, views)
        chosen = binding.rebind(choice, current)
        subject.rejected = choice.rejected
        self._binding[key_of(workload)] = chosen
        return Nomination((chosen,) if chosen else ())

    def _is_refused(self, cluster: str, key: Key) -> bool:
        """Whether a worker has looked at its copy and could not take it, or is gone."""
        remote = self._remotes.get(cluster)
        if remote is None or not remote.connected:
            return True
        copy = remote.workload(key)
        return copy is not None and conditions.is_false(copy, names.QUOTA_RESERVED)

    def _has_reserved(self, cluster: str, key: Key) -> bool:
        remote = self._remotes.get(cluster)
        copy = remote.workload(key) if remote is not None else None
        return copy is not None and conditions.is_true(copy, names.QUOTA_RESERVED)

    def _worker_view(self, cluster: str, subject: _Subject) -> binding.WorkerView:
        described = self._clusters.get(Key("", cluster))
        remote = self._remotes.get(cluster)
        if remote is None or not remote.connected or remote.local_queues is None or remote.cluster_queues is None:
            return binding.WorkerView(cluster, connected=False)
        queue = remote.local_queues.get(wl.local_queue_key(subject.workload))
        return worker_view(
            cluster,
            labels_of(described) if described else {},
            queue,
            remote.cluster_queues,
            serves=remote.supports(subject.adapter.resource),
            promised=self._promised(cluster, subject.workload),
        )

    def _promised(self, cluster: str, workload: Obj) -> dict[str, int]:
        """What was bound to a worker and does not show in its usage yet.

        For one that is bound already only older ones count: two that made way for each other would never come to rest.
        """
        total: dict[str, int] = {}
        is_bound = bool(nominate.nominated(workload))
        for key in self._bound_to(cluster):
            other = self._workloads.get(key)
            if other is None or key == key_of(workload) or self._has_reserved(cluster, key):
                continue
            if is_bound and _age(other) > _age(workload):
                continue
            for resource, amount in binding.requests_of(other).items():
                total[resource] = total.get(resource, 0) + amount
        return total

    def _bound_to(self, cluster: str) -> list[Key]:
        """Workloads bound to a worker, those included whose nomination is being written right now."""
        written = [key_of(other) for other in self._workloads.by_index(BY_NOMINATION, cluster)]
        kept = [key for key in written if self._binding.get(key, cluster) == cluster]
        return list(dict.fromkeys((*kept, *(key for key, name in self._binding.items() if name == cluster))))

    def _takes(self, cluster: str, resource: Resource) -> bool:
        remote = self._remotes.get(cluster)
        return remote is not None and remote.connected and remote.supports(resource)

    async def _write_nomination(self, workload: Obj, nomination: Nomination) -> Obj:
        if nomination.new_round:
            patch = {"metadata": {"annotations": {ROUND_ANNOTATION: self._manager.clock.timestamp()}}}
            key = key_of(workload)
            workload = await self._manager.client.patch(
                WORKLOADS, key.name, key.namespace, patch, manager=ADMISSION_MANAGER
            )
        if nomination.clusters == nominate.nominated(workload):
            return workload
        status = {**status_of(workload), "nominatedClusterNames": list(nomination.clusters)}
        return await self._write(with_status(workload, status), ADMISSION_MANAGER)

    async def _follow_nomination(self, subject: _Subject, remote: Remote, wanted: bool, problems: list[str]) -> None:
        held = remote.workload(key_of(subject.workload))
        if not wanted:
            if held is not None:
                await self._remove_from(subject, remote.name)
            return
        if held is not None:
            return
        try:
            copy = remote_workload(subject.workload, self._settings.origin)
            if await create_copy(remote, copy, self._settings.origin):
                self._metrics.copied(remote.name)
        except NotOurs as problem:
            problems.append(str(problem))
        except ApiError as error:
            problems.append(f"{remote.name}: {error}")
            self.controller.queue.add_rate_limited(key_of(subject.workload))

    def _waiting(self, key: Key, clusters: Iterable[str], problems: Sequence[str]) -> str:
        """Why each asked worker has not taken the Workload, one sentence each."""
        reasons = list(problems)
        for name in clusters:
            remote = self._remotes.get(name)
            copy = remote.workload(key) if remote is not None else None
            entry = conditions.find(copy, names.QUOTA_RESERVED) if copy else None
            if entry is not None and entry.get("status") == "False" and entry.get("message"):
                reasons.append(f"{name}: {entry['message']}")
        return "; ".join(sorted(reasons))

    async def _explain(self, workload: Obj, check: str, message: str) -> None:
        """Show on the Workload and in an Event what keeps it waiting."""
        workload = self._workloads.get(key_of(workload)) or workload
        state = check_state(workload, check)
        if not message or state.get("state") != names.PENDING or state.get("message") == message:
            return
        await self._set_check(workload, check, names.PENDING, message)
        self._manager.recorder.event(workload, "Normal", "WaitingForWorker", message)

    # Writing

    async def _reject(self, workload: Obj, check: str, why: str) -> None:
        previous = check_state(workload, check).get("state")
        await self._set_check(workload, check, names.REJECTED, f'{why}, Previously: "{previous}"')

    async def _set_check(self, workload: Obj, check: str, state: str, message: str, **more: object) -> Obj:
        now = self._manager.clock.timestamp()

        def changed(entry: Obj) -> Obj:
            if entry.get("name") != check:
                return entry
            since = entry.get("lastTransitionTime") if entry.get("state") == state else now
            return {**entry, "state": state, "message": message, "lastTransitionTime": since or now, **more}

        states = [changed(entry) for entry in wl.check_states_of(workload)]
        return await self._write(
            with_status(workload, {**status_of(workload), "admissionChecks": states}), ADMISSION_MANAGER
        )

    async def _write(self, workload: Obj, manager: str) -> Obj:
        return await self._manager.client.update(WORKLOADS, workload, subresource="status", manager=manager)

    def _connected(self, cluster: str) -> Remote:
        remote = self._remotes.get(cluster)
        if remote is None or not remote.connected:
            raise ApiError(f"cluster {cluster}: no remote client for nominated cluster")
        return remote


class _Subject:
    """A Workload with all that was found out about it."""

    __slots__ = ("adapter", "check", "job_key", "jobs", "rejected", "workload")

    def __init__(self, workload: Obj, check: str, adapter: JobAdapter, job_key: Key, jobs: list[Obj]) -> None:
        self.workload, self.check, self.adapter, self.job_key, self.jobs = workload, check, adapter, job_key, jobs
        self.rejected: Mapping[str, str] = {}


def _age(workload: Obj) -> tuple[str, Key]:
    return str(metadata_of(workload).get("creationTimestamp")), key_of(workload)


def _not_managed(adapter: JobAdapter, job: Obj) -> str:
    """Why this manager may not dispatch a job; empty when it may."""
    if adapter.managed_by_path is None:
        return ""
    if managed_by(adapter, job) == names.MULTIKUEUE_CONTROLLER:
        return ""
    stated = get_in(job, adapter.managed_by_path) or ""
    return f'Expecting spec.managedBy to be "{names.MULTIKUEUE_CONTROLLER}" not "{stated}"'


def _cluster_changed(old: Obj | None, new: Obj | None) -> bool:
    return status_of(old or {}).get("clusterName") != status_of(new or {}).get("clusterName")


def _owner_kind(workload: Obj) -> str:
    reference: Mapping[str, str] | None = controller_of(workload) or next(iter(owner_references_of(workload)), None)
    if reference is None:
        return ""
    return f' for owner kind "{reference.get("apiVersion")}, Kind={reference.get("kind")}"'


def _activity_changed(old: Obj | None, new: Obj | None) -> bool:
    if old is None or new is None:
        return True
    return conditions.is_true(old, names.ACTIVE) != conditions.is_true(new, names.ACTIVE)
