"""Nomination: which workers are asked for a Workload, the copies that follow, and why each of them does not take it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from math import ceil

from corral.controllers.dispatch.components import Components
from corral.controllers.dispatch.context import Context, Subject
from corral.controllers.dispatch.late_binding import LateBinding
from corral.controllers.dispatch.mirror import NotOurs, create_copy
from corral.controllers.dispatch.remotes import Remote
from corral.controllers.dispatch.runs import Runs
from corral.controllers.dispatch.together import Siblings
from corral.core import conditions
from corral.core.errors import ApiError
from corral.core.meta import Key, Obj, key_of, status_of, with_status
from corral.core.resource import Resource
from corral.core.timestamps import format_duration, parse_time
from corral.decide.dispatch import gates, model, nominate
from corral.decide.dispatch.copy import remote_workload
from corral.decide.dispatch.machine import check_state
from corral.decide.dispatch.nominate import ROUND_ANNOTATION, Nomination
from corral.jobs import statuses
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.controller import Result, together

HAND_BACK_S = 60
MAX_HAND_BACK_S = 3600


class Nominations:
    """Names workers for Workloads that have none yet, and makes the copies follow."""

    def __init__(
        self,
        context: Context,
        runs: Runs,
        siblings: Siblings,
        components: Components,
        late: LateBinding,
        retry: Callable[[Key], None],
    ) -> None:
        self._context, self._runs, self._siblings, self._late, self._retry = context, runs, siblings, late, retry
        self._components = components

    async def nominate(self, subject: Subject) -> Result | None:
        silent = self._fenced_off(key_of(subject.workload)) if self._context.settings.fencing else 0.0
        if silent > 0:
            await self._context.explain(
                subject.workload, subject.check, "waits until a lost worker has stopped its copy"
            )
            return Result(silent)
        nomination = self._nomination(subject)
        if nomination is None:
            return None
        workload = await self._write_nomination(subject.workload, nomination)
        barred = self._context.refusals.barred(key_of(workload))
        problems = list(barred.values())
        following = []
        for name in self._context.clusters_of(subject.check):
            remote = self._context.remotes.get(name)
            if remote is not None and remote.connected:
                wanted = name in nomination.clusters and name not in barred
                following.append(self._follow_nomination(subject, remote, wanted, problems))
            elif name in nomination.clusters:
                problems.append(f"{name}: cannot be reached")
        await together(following)
        problems += [f"{name}: {why}" if name else why for name, why in subject.rejected.items()]
        waiting = self._waiting(key_of(workload), nomination.clusters, problems)
        patience = self._patience(workload)
        if patience is not None and patience <= 0:
            limit = format_duration(self._context.settings.give_up_after or 0)
            await self._hand_back(subject, f"No worker took the workload within {limit}", waiting)
            return None
        if barred and not set(nomination.clusters) - set(barred) and not self._others(subject, barred):
            await self._hand_back(subject, "No worker accepts the job", waiting)
            return None
        if self._context.settings.say_why:
            await self._context.explain(workload, subject.check, waiting)
        asked = self._context.refusals.soonest(key_of(workload))
        turn = await self._open_gate(key_of(workload)) if self._context.settings.orchestrates else None
        again = [seconds for seconds in (nomination.again_after, patience, asked, turn) if seconds is not None]
        return Result(min(again)) if again else None

    async def _open_gate(self, key: Key) -> float | None:
        """Let the worker preempt whose turn it is; seconds until the next turn."""
        remotes = {remote.name: remote for remote in self._context.remotes.connected()}
        copies = {name: copy for name, remote in remotes.items() if (copy := remote.workload(key)) is not None}
        opening = gates.next_opening(copies, self._context.manager.clock.now())
        if opening.cluster:
            copy = gates.opened(copies[opening.cluster], self._context.manager.clock.timestamp())
            await statuses.write_admission(remotes[opening.cluster].client, copy)
        return opening.again_after

    def _fenced_off(self, key: Key) -> float:
        """Seconds until no worker out of reach can be running this Workload any more."""
        now, limit = self._context.manager.clock.now(), self._context.settings.worker_lost_timeout
        left = [
            remote.lost_since + limit - now for remote in self._context.remotes.unreachable() if remote.may_hold(key)
        ]
        return max(left, default=0.0)

    def _patience(self, workload: Obj) -> float | None:
        """Seconds until a Workload that no worker takes is handed back; None when it waits for ever."""
        limit = self._context.settings.give_up_after
        since = (conditions.find(workload, names.QUOTA_RESERVED) or {}).get("lastTransitionTime")
        if limit is None or not since:
            return None
        return parse_time(str(since)) + limit - self._context.manager.clock.now()

    def _others(self, subject: Subject, barred: Container[str]) -> list[str]:
        """Workers that could take the Workload and have not refused it."""
        configured = self._context.clusters_of(subject.check)
        return [name for name in configured if name not in barred and self._takes(name, subject.adapter.resource)]

    async def _hand_back(self, subject: Subject, message: str, waiting: str) -> None:
        """Give the quota back to others: the check asks for another try, later each time."""
        workload = self._context.workloads.get(key_of(subject.workload)) or subject.workload
        state = check_state(workload, subject.check)
        if state.get("state") != names.PENDING or conditions.is_true(workload, names.EVICTED):
            return  # it was handed back a moment ago
        refused = self._context.refusals.soonest(key_of(workload))
        delay = refused or min(HAND_BACK_S * 2 ** int(state.get("retryCount") or 0), MAX_HAND_BACK_S)
        message = f"{message}: {waiting}" if waiting else message
        await self._context.set_check(workload, subject.check, names.RETRY, message, requeueAfterSeconds=ceil(delay))
        self._context.metrics.redispatched("", "HandedBack")
        self._context.manager.recorder.event(workload, "Warning", "HandedBack", message)

    def _nomination(self, subject: Subject) -> Nomination | None:
        workload, settings = subject.workload, self._context.settings
        barred = self._context.refusals.barred(key_of(workload))
        configured = [name for name in self._context.clusters_of(subject.check) if name not in barred]
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
        return await self._context.write(with_status(workload, status))

    async def _follow_nomination(self, subject: Subject, remote: Remote, wanted: bool, problems: list[str]) -> None:
        held = remote.workload(key_of(subject.workload))
        if not wanted:
            if held is not None:
                await self._runs.remove_from(subject, remote.name)
            return
        if held is not None:
            return
        try:
            copy = remote_workload(subject.workload, self._context.settings.origin)
            if self._context.settings.orchestrates and self._components.nomination(subject) is None:
                copy = gates.gated(copy)
            if await create_copy(remote, copy, self._context.settings.origin):
                self._context.metrics.copied(remote.name)
        except NotOurs as problem:
            problems.append(str(problem))
        except ApiError as error:
            problems.append(f"{remote.name}: {error}")
            self._retry(key_of(subject.workload))

    def _waiting(self, key: Key, clusters: Iterable[str], problems: Sequence[str]) -> str:
        """Why each asked worker has not taken the Workload, one sentence each."""
        reasons = list(problems)
        for name in clusters:
            remote = self._context.remotes.get(name)
            copy = remote.workload(key) if remote is not None else None
            entry = conditions.find(copy, names.QUOTA_RESERVED) if copy else None
            if entry is not None and entry.get("status") == "False" and entry.get("message"):
                reasons.append(f"{name}: {entry['message']}")
        return "; ".join(sorted(reasons))
