"""What all parts of dispatch share: the manager's caches, the workers, and how a Workload's check is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from corral.configuration.dispatch import DispatchSettings
from corral.controllers import workload_status
from corral.controllers.dispatch.metrics import DispatchMetrics
from corral.controllers.dispatch.remote_pods.kept_pods import KeptPods
from corral.controllers.dispatch.safety.possible_locations import PossibleLocations
from corral.controllers.dispatch.safety.worker_tasks import WorkerTasks
from corral.controllers.dispatch.workers.admission_checks import config_name
from corral.controllers.dispatch.workers.rejections import Refusals, WorkerRejection
from corral.controllers.dispatch.workers.remotes import Remote, Remotes
from corral.core.errors import ApiError
from corral.core.meta import Key, Obj, key_of, resource_version_of, spec_of, status_of, with_status
from corral.decide.dispatch import nominate
from corral.decide.dispatch.machine import check_state
from corral.decide.dispatch.reasons import WorkerAnswer
from corral.jobs.framework.adapter import JobAdapter
from corral.kinds.kueue import ADMISSION_CHECKS, MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS, WORKLOADS, names
from corral.runtime.controller import Manager
from corral.workload import lifecycle, statuses
from corral.workload import workload as wl


class DispatchedWorkload:
    """A Workload that is dispatched, with the check, the adapter and the job objects it belongs to."""

    __slots__ = ("adapter", "check", "job_key", "jobs", "rejected", "workload")

    def __init__(self, workload: Obj, check: str, adapter: JobAdapter, job_key: Key, jobs: list[Obj]) -> None:
        self.workload, self.check, self.adapter, self.job_key, self.jobs = workload, check, adapter, job_key, jobs
        self.rejected: Mapping[str, str] = {}


class DispatchContext:
    """The shared state of dispatch on one manager."""

    def __init__(
        self,
        manager: Manager,
        settings: DispatchSettings,
        remotes: Remotes,
        metrics: DispatchMetrics,
        again: Callable[[Key, bool], None],
        kept: KeptPods | None = None,
    ) -> None:
        self.kept = kept
        self.manager, self.settings, self.remotes, self.metrics = manager, settings, remotes, metrics
        self.worker_tasks = WorkerTasks(manager.clock, again)
        self.refusals = Refusals(manager.clock)
        self.answers: dict[Key, tuple[WorkerAnswer, ...]] = {}
        """What workers said last about Workloads that none of them has taken; a manager that was restarted asks them anew."""
        self.possible_locations = PossibleLocations(manager.clock, remotes)
        self.recorder = manager.recorder.named("kueue-workload-controller")
        self.workloads = manager.informer(WORKLOADS)
        self.is_quiet = False
        """Whether what the cache takes in right now is a write of ours that asks for no other look."""
        self.checks = manager.informer(ADMISSION_CHECKS)
        self.configs = manager.informer(MULTI_KUEUE_CONFIGS)
        self.clusters = manager.informer(MULTI_KUEUE_CLUSTERS)

    def check_of(self, workload: Obj) -> str:
        for state in wl.check_states_of(workload):
            check = self.checks.get(Key("", state["name"]))
            if check is not None and spec_of(check).get("controllerName") == names.MULTIKUEUE_CONTROLLER:
                return str(state["name"])
        return ""

    def clusters_of(self, check: str, workload: Obj) -> list[str]:
        """The workers a Workload may go to. A worker that is configured under two names is listed once: under both, the
        copy made for one name would be removed as a stale copy of the other."""
        config = self._config(check)
        return self.distinct(spec_of(config).get("clusters") or [], workload) if config else []

    def distinct(self, clusters: Sequence[str], workload: Obj) -> list[str]:
        chosen = str(status_of(workload).get("clusterName") or "")
        return self.remotes.distinct(clusters, chosen, nominate.nominated(workload))

    def has_config(self, check: str) -> bool:
        return self._config(check) is not None

    def _config(self, check: str) -> Obj | None:
        found = self.checks.get(Key("", check))
        return self.configs.get(Key("", config_name(found))) if found else None

    def connected(self, cluster: str) -> Remote:
        remote = self.remotes.get(cluster)
        if remote is None or not remote.connected:
            raise ApiError(f"cluster {cluster}: no remote client for nominated cluster")
        return remote

    def current(self, workload: Obj) -> Obj:
        """The Workload read again from the cache: it may have changed while we waited for a worker."""
        return self.workloads.get(key_of(workload)) or workload

    def note_refusal(self, workload: Obj, cluster: str, problem: WorkerRejection) -> None:
        """A worker cannot hold an object this Workload needs there: record why, and do not ask it again for a while."""
        self.refusals.note(key_of(workload), cluster, problem.why, problem.fields)
        self.metrics.redispatched(cluster, problem.reason)
        self.manager.recorder.event(workload, "Warning", "RefusedByWorker", str(problem))

    async def explain(self, workload: Obj, check: str, message: str) -> None:
        """Show on the Workload and in an Event what keeps it waiting."""
        workload = self.current(workload)
        state = check_state(workload, check)
        if not message or state.get("state") != names.PENDING or state.get("message") == message:
            return
        await self.set_check(workload, check, names.PENDING, message)
        self.manager.recorder.event(workload, "Normal", "WaitingForWorker", message)

    async def reject(self, workload: Obj, check: str, why: str) -> None:
        previous = check_state(workload, check).get("state")
        await self.set_check(workload, check, names.REJECTED, f'{why}, Previously: "{previous}"')

    async def set_check(
        self,
        workload: Obj,
        check: str,
        state: str,
        message: str,
        *,
        alone: bool = True,
        quietly: bool = False,
        **more: object,
    ) -> Obj:
        """Set the state of our check: `alone`, or with all else that was decided about the Workload; `quietly` as in `write`."""
        now = self.manager.clock.timestamp()

        def changed(entry: Obj) -> Obj:
            if entry.get("name") != check:
                return entry
            since = entry.get("lastTransitionTime") if entry.get("state") == state else now
            return {**entry, "state": state, "message": message, "lastTransitionTime": since or now, **more}

        states = [changed(entry) for entry in wl.check_states_of(workload)]
        new = with_status(workload, {**status_of(workload), "admissionChecks": states})
        if alone and not self.settings.merges:
            part = statuses.check_part(new, check)
            return self._written(
                await workload_status.apply_status(self.manager.client, new, names.MULTIKUEUE_CONTROLLER, part)
            )
        return await self.write(new, quietly=quietly)

    async def set_condition(self, workload: Obj, kind: str, status: bool, reason: str, message: str) -> Obj:
        """Set a condition that is ours alone."""
        now = self.manager.clock.timestamp()
        new = lifecycle.with_condition(workload, kind, status, reason, message, now)
        if self.settings.merges:
            return await self.write(new)
        part = statuses.condition_part(new, kind)
        return self._written(await workload_status.apply_status(self.manager.client, new, kind, part))

    async def write(self, workload: Obj, *, quietly: bool = False) -> Obj:
        """Store the status of a Workload, refused when it changed since it was read. `quietly`, when what follows from it is
        done by who writes it: then it is no reason to look at the Workload again."""
        client = self.manager.client
        if self.settings.merges:
            written = await client.update(WORKLOADS, workload, subresource="status", manager=names.QUEUEING_MANAGER)
        else:
            written = await workload_status.write_admission(client, workload)
        held = self.workloads.get(key_of(workload))
        # What others wrote in between has not been looked at: then it is a reason.
        is_ours = held is not None and resource_version_of(held) == resource_version_of(workload)
        return self._written(written, quietly=quietly and is_ours)

    def _written(self, workload: Obj, *, quietly: bool = False) -> Obj:
        self.is_quiet = quietly
        try:
            self.workloads.learn(workload)
        finally:
            self.is_quiet = False
        return workload
