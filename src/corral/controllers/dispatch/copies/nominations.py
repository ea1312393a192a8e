"""Nomination: which workers are asked for a Workload, the copies that follow, and why each of them does not take it."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import partial
from math import ceil
from typing import NamedTuple

from corral.controllers import workload_status
from corral.controllers.dispatch.context import DispatchContext, DispatchedWorkload
from corral.controllers.dispatch.copies.deployment_siblings import Siblings
from corral.controllers.dispatch.copies.late_binding import LateBinding
from corral.controllers.dispatch.copies.multi_workload_jobs import Components
from corral.controllers.dispatch.copies.worker_answers import limits
from corral.controllers.dispatch.runs.dependencies import send_prerequisites
from corral.controllers.dispatch.runs.remote_job import create_copy
from corral.controllers.dispatch.runs.runs import Runs
from corral.controllers.dispatch.safety.worker_tasks import SILENT_S, StillRunning, unless_still_running
from corral.controllers.dispatch.workers.rejections import WorkerRejection
from corral.controllers.dispatch.workers.remotes import Remote
from corral.core import conditions
from corral.core.backoff import doubled
from corral.core.errors import ApiError
from corral.core.meta import Key, Obj, key_of, status_of, with_status
from corral.core.resource import Resource
from corral.core.timestamps import format_duration, parse_time
from corral.decide.dispatch import model, nominate
from corral.decide.dispatch.machine import check_state
from corral.decide.dispatch.nominate import ROUND_ANNOTATION, Nomination
from corral.decide.dispatch.reasons import REFUSED, WorkerAnswer, grouped_reasons
from corral.decide.dispatch.workload_copy import gated, next_opening, opened, remote_workload
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.controller import Result, run_all

HAND_BACK_S = 60
MAX_HAND_BACK_S = 3600


class _Answer(NamedTuple):
    """What keeps a worker from taking a Workload, if anything, and in how many seconds to ask again."""

    why: str = ""
    again: float | None = None


class Nominations:
    """Names workers for Workloads that have none yet, and makes the copies follow."""

    def __init__(
        self,
        context: DispatchContext,
        runs: Runs,
        siblings: Siblings,
        components: Components,
        late: LateBinding,
    ) -> None:
        self._context, self._runs, self._siblings, self._late = context, runs, siblings, late
        self._components = components

    async def nominate(self, subject: DispatchedWorkload) -> Result | None:
        nomination = self._nomination(subject)
        workload = await self._write_nomination(subject.workload, nomination)
        barred = self._context.refusals.barred(key_of(workload))
        answers = await self._ask_all(subject, {name for name in nomination.clusters if name not in barred})
        said = {name: answer.why for name, answer in answers.items() if answer.why}
        reasons = {**barred, **said, **subject.rejected}
        self._keep(key_of(workload), reasons, barred)
        waiting = grouped_reasons(reasons)
        patience = self._patience(workload)
        if patience is not None and patience <= 0:
            limit = format_duration(self._context.settings.give_up_after or 0)
            await self._hand_back(subject, f"No worker took the workload within {limit}", waiting)
            return None
        if barred and not set(nomination.clusters) - set(barred) and not self._others(subject, barred):
            await self._hand_back(subject, "No worker accepts the job", waiting)
            return None
        if impossible := await self._impossible(subject, answers):
            await self._hand_back(subject, "No worker can ever take it", impossible)
            return None
        if self._context.settings.say_why:
            await self._context.explain(workload, subject.check, waiting)
        asked = self._context.refusals.soonest(key_of(workload))
        turn = await self._open_gate(key_of(workload)) if self._context.settings.orchestrates else None
        later = (nomination.again_after, patience, asked, turn, *(answer.again for answer in answers.values()))
        return Result(min((seconds for seconds in later if seconds is not None), default=None))

    async def _impossible(self, subject: DispatchedWorkload, answers: Mapping[str, _Answer]) -> str:
        """Why no worker will ever take a Workload; empty while one might. Asked only once all of them have turned it down."""
        if not self._context.settings.hands_back_impossible or not answers:
            return ""
        key = key_of(subject.workload)
        for name in answers:
            remote = self._context.remotes.get(name)
            copy = remote.workload(key) if remote is not None else None
            if copy is None or not conditions.is_false(copy, names.QUOTA_RESERVED):
                return ""
        found = await limits(self._context, subject.workload, sorted(answers))
        return grouped_reasons(found) if all(found.values()) else ""

    def _keep(self, key: Key, reasons: Mapping[str, str], barred: Container[str]) -> None:
        """Remember what workers said, for whoever asks why the Workload waits."""
        self._context.answers[key] = tuple(
            WorkerAnswer(name, why, REFUSED, self._context.refusals.fields(key, name))
            if name in barred
            else WorkerAnswer(name, why)
            for name, why in sorted(reasons.items())
        )

    async def _open_gate(self, key: Key) -> float | None:
        """Let the worker preempt whose turn it is; seconds until the next turn."""
        remotes = {remote.name: remote for remote in self._context.remotes.connected()}
        copies = {name: copy for name, remote in remotes.items() if (copy := remote.workload(key)) is not None}
        opening = next_opening(copies, self._context.manager.clock.now())
        if opening.cluster:
            copy = opened(copies[opening.cluster], self._context.manager.clock.timestamp())
            await self._context.worker_tasks.run(
                opening.cluster, key, partial(workload_status.write_admission, remotes[opening.cluster].client, copy)
            )
        return opening.again_after

    def _patience(self, workload: Obj) -> float | None:
        """Seconds until a Workload that no worker takes is handed back; None when it waits for ever."""
        limit = self._context.settings.give_up_after
        since = (conditions.find(workload, names.QUOTA_RESERVED) or {}).get("lastTransitionTime")
        if limit is None or not since:
            return None
        return parse_time(str(since)) + limit - self._context.manager.clock.now()

    def _others(self, subject: DispatchedWorkload, barred: Container[str]) -> list[str]:
        """Workers that could take the Workload and have not refused it."""
        configured = self._context.clusters_of(subject.check, subject.workload)
        return [name for name in configured if name not in barred and self._takes(name, subject.adapter.resource)]

    async def _hand_back(self, subject: DispatchedWorkload, message: str, waiting: str) -> None:
        """Give the quota back to others: the check asks for another try, later each time."""
        workload = self._context.workloads.get(key_of(subject.workload)) or subject.workload
        state = check_state(workload, subject.check)
        if state.get("state") != names.PENDING or conditions.is_true(workload, names.EVICTED):
            return  # it was handed back a moment ago
        refused = self._context.refusals.soonest(key_of(workload))
        delay = refused or doubled(HAND_BACK_S, int(state.get("retryCount") or 0), MAX_HAND_BACK_S)
        message = f"{message}: {waiting}" if waiting else message
        await self._context.set_check(workload, subject.check, names.RETRY, message, requeueAfterSeconds=ceil(delay))
        self._context.metrics.redispatched("", "HandedBack")
        self._context.manager.recorder.event(workload, "Warning", "HandedBack", message)

    def _nomination(self, subject: DispatchedWorkload) -> Nomination:
        workload, settings = subject.workload, self._context.settings
        barred = self._context.refusals.barred(key_of(workload))
        configured = [name for name in self._context.clusters_of(subject.check, subject.workload) if name not in barred]
        usable = [name for name in configured if self._takes(name, subject.adapter.resource)]
        following = self._components.nomination(subject)
        if following is not None:
            return following
        leader = self._siblings.leader(subject.jobs[0]) if subject.jobs else None
        if leader is not None:
            chosen = str(status_of(leader).get("clusterName") or "")
            subject.rejected = {"": "waits for the first pod of its Deployment"} if not chosen else {}
            return Nomination((chosen,) if chosen else ())
        if settings.dispatcher == model.ALL_AT_ONCE:
            return nominate.all_at_once(workload, usable)
        if settings.dispatcher == model.LATE_BINDING:
            return self._late.bind(subject, configured, barred)
        if settings.dispatcher == model.INCREMENTAL:
            now = self._context.manager.clock.now()
            if barred:
                asked = [name for name in nominate.nominated(workload) if name not in barred]
                workload = with_status(workload, {**status_of(workload), "nominatedClusterNames": asked})
            if not settings.config_order:
                configured.sort()
            return nominate.incremental(workload, configured, now, step=settings.step, round_s=settings.round_s)
        return Nomination(nominate.nominated(workload))

    def _takes(self, cluster: str, resource: Resource) -> bool:
        remote = self._context.remotes.get(cluster)
        return remote is not None and remote.connected and remote.supports(resource)

    async def _write_nomination(self, workload: Obj, nomination: Nomination) -> Obj:
        if nomination.new_round:
            patch = {"metadata": {"annotations": {ROUND_ANNOTATION: self._context.manager.clock.timestamp()}}}
            key = key_of(workload)
            workload = await self._context.manager.client.patch(
                WORKLOADS, key.name, key.namespace, patch, manager=names.QUEUEING_MANAGER
            )
        if nomination.clusters == nominate.nominated(workload):
            return workload
        status = {**status_of(workload), "nominatedClusterNames": list(nomination.clusters)}
        return await self._context.write(with_status(workload, status), quietly=True)

    async def _ask_all(self, subject: DispatchedWorkload, wanted: Container[str]) -> dict[str, _Answer]:
        """Let the copies follow the nomination on every worker at once; what each has to say."""
        clusters = self._context.clusters_of(subject.check, subject.workload)
        answers = dict.fromkeys(clusters, _Answer())
        holding = {remote.name for remote in self._context.remotes.holding(key_of(subject.workload))}

        async def ask(name: str) -> None:
            answers[name] = await self._ask(subject, name) if name in wanted else await self._drop(subject, name)

        await run_all(ask(name) for name in clusters if name in wanted or name in holding)
        return answers

    async def _drop(self, subject: DispatchedWorkload, cluster: str) -> _Answer:
        remote = self._context.remotes.get(cluster)
        if remote is not None and remote.workload(key_of(subject.workload)) is not None:
            await unless_still_running(partial(self._runs.remove_from, subject, cluster))
        return _Answer()

    async def _ask(self, subject: DispatchedWorkload, cluster: str) -> _Answer:
        """Make the copy on a worker, or see why it is not taken there."""
        remote, key = self._context.remotes.get(cluster), key_of(subject.workload)
        if remote is None or not remote.connected:
            return _Answer("cannot be reached")
        held = remote.workload(key)
        if held is not None:
            entry = conditions.find(held, names.QUOTA_RESERVED) or {}
            return _Answer(str(entry.get("message") or "") if entry.get("status") == "False" else "")
        worker_tasks = self._context.worker_tasks
        try:
            await worker_tasks.run(cluster, key, partial(self._copy_to, subject, remote))
        except StillRunning:
            return _Answer("does not answer" if worker_tasks.is_silent(cluster, key) else "", SILENT_S)
        except WorkerRejection as problem:
            if self._context.settings.tries_other_workers:
                self._context.note_refusal(subject.workload, cluster, problem)
            return _Answer(problem.why, worker_tasks.pause(cluster, key))
        except ApiError as error:
            return _Answer(str(error), worker_tasks.pause(cluster, key))
        return _Answer()

    async def _copy_to(self, subject: DispatchedWorkload, remote: Remote) -> None:
        origin = self._context.settings.origin
        if self._context.settings.propagate and not remote.is_itself:
            await send_prerequisites(self._context.manager.client, remote, subject.workload, origin)
        copy = remote_workload(subject.workload, origin)
        if self._context.settings.orchestrates and self._components.nomination(subject) is None:
            copy = gated(copy)
        if await create_copy(remote, copy, self._context.settings.origin):
            self._context.possible_locations.asked(key_of(subject.workload), remote.name)
            self._context.metrics.copied(remote.name)
