"""The scheduling cycle: which waiting workloads are admitted now, who must make room, what the others are told.

One round is one cycle of upstream's scheduler: the head of every queue gets flavors and victims on the state as it
is, then the entries take their turns in order, each seeing what the ones before it took. A plan runs rounds until
nothing changes any more, so it admits many workloads of a queue and still equals one-at-a-time scheduling. Only
trees in which something happened are looked at.
"""

from __future__ import annotations

from corral.core.budget import SET_ASIDE
from corral.decide.queueing.cycle import messages
from corral.decide.queueing.cycle.entry import Entry
from corral.decide.queueing.cycle.entry_order import EntryOrder
from corral.decide.queueing.cycle.entry_processing import EntryProcessing
from corral.decide.queueing.cycle.nomination import Nominator
from corral.decide.queueing.cycle.plan import CyclePlan, Wait
from corral.decide.queueing.cycle.plan_builder import PlanBuilder
from corral.decide.queueing.cycle.round_claims import RoundClaims
from corral.decide.queueing.queue.pending import GIVES_WAY, WaitVerdict
from corral.decide.queueing.quota.cluster_queue import ClusterQueue
from corral.decide.queueing.quota.tree import QuotaNode
from corral.decide.queueing.world import World

_MAX_IDLE_ROUNDS = 64
_PLAN_S = 0.1
"""No further round starts once a plan has taken so much of the processor: others have their turn before the next plan."""


class Cycle:
    """Runs rounds over a world. Keeps nothing between plans but the round counter, and for how long nothing has come of rounds."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._nominator = Nominator(world)
        self._order = EntryOrder(world)
        self._claims = RoundClaims(world.topology)
        self._idle = 0
        self._processing = EntryProcessing(world, self._nominator, self._order, self._claims)

    def plan(self, now: float) -> CyclePlan:
        """Decide everything that can be decided at `now`."""
        world = self.world
        self._nominator.now = now
        plan_builder = self._processing.plan_builder = PlanBuilder()
        world.forest.settle()
        most_rounds, enough = world.settings.max_rounds, world.settings.max_decisions
        until = world.cpu() + _PLAN_S
        while (
            plan_builder.rounds < most_rounds
            and len(plan_builder.decisions) < enough
            and not plan_builder.is_blocked
            and world.cpu() < until
        ):
            heads = self._heads()
            if not heads:
                break
            self._round(heads)
            self._idle = 0 if plan_builder.progress else self._idle + 1
            if self._idle > _MAX_IDLE_ROUNDS:
                # Only flavor cursors moved; nothing else will happen before the next event.
                world.dirty.clear()
        if not world.dirty:
            self._idle = 0
        return plan_builder.finish(more=bool(world.dirty))

    # -- heads ----------------------------------------------------------------------------------------------------

    def _heads(self) -> list[Entry]:
        """At most one workload of every queue in a dirty tree, and second passes that are due."""
        entries = self._second_passes() if self.world.second_pass else []
        for root in self._dirty_roots():
            for node in root.subtree_queues():
                queue = self.world.by_node.get(node)
                if queue is None or queue.inactive is not None:
                    continue
                entries += self._heads_of(queue)
        return entries

    def _heads_of(self, queue: ClusterQueue) -> list[Entry]:
        """The first workload whose turn it is, behind those who give way to whom they were evicted for.

        In a StrictFIFO queue nobody goes before the first, except whom it was evicted for.
        """
        entries: list[Entry] = []
        pending = self.world.pending[queue.name]
        while (head := pending.pop()) is not None:
            entries.append(Entry(head, queue))
            preemptor = self.world.gives_way(head.info)
            if preemptor is None or (pending.strict and preemptor not in pending.items):
                break
        return entries

    def _second_passes(self) -> list[Entry]:
        world = self.world
        due = list(world.second_pass.values())
        world.second_pass.clear()
        entries: list[Entry] = []
        for item in due:
            world.unplaced[item.info.key] = item
            queue = world.queues.get(item.info.cluster_queue)
            if queue is not None:
                entries.append(Entry(item, queue))
        return entries

    def _dirty_roots(self) -> list[QuotaNode]:
        queues = self.world.queues
        roots = {queues[name].node.root(): None for name in self.world.dirty if name in queues}
        self.world.dirty.clear()
        return list(roots)

    # -- one round ------------------------------------------------------------------------------------------------

    def _round(self, heads: list[Entry]) -> None:
        plan_builder = self._processing.plan_builder
        plan_builder.begin_round()
        self._nominator.number += 1
        self._claims.forget_victims()
        entries: list[Entry] = []
        refused: list[Entry] = []
        try:
            for entry in heads:
                (entries if self._nominate(entry) else refused).append(entry)
            unadmitted = [entry for entry in self._order.ordered(entries) if not self._processing.process(entry)]
            self._claims.give_up_room()
            self.world.end_round()
            for entry in (*unadmitted, *refused):
                self._requeue(entry)
            self._let_go_on(refused)
        finally:
            # Only after an error is anything left to do here: nobody may stay in flight or keep room for nothing.
            self._claims.give_up_room()
            self._return(heads)
        for root in plan_builder.changed_roots:
            self._mark_dirty(root)

    def _nominate(self, entry: Entry) -> bool:
        """Give the entry flavors and victims; False when it must not be considered at all."""
        info, world = entry.info, self.world
        preemptor = world.gives_way(info)
        if world.set_aside and world.is_set_aside(info):
            entry.message, entry.cause, entry.reason = messages.TOO_EXPENSIVE, SET_ASIDE, SET_ASIDE
        elif preemptor is not None:
            entry.message, entry.cause, entry.reason = messages.gives_way(preemptor), GIVES_WAY, "WaitingForQuota"
        elif info.failed_checks:
            entry.message, entry.reason = messages.FAILED_CHECKS, "PendingEvaluation"
        elif not world.namespace_matches(entry.queue, info.key.namespace):
            entry.message, entry.reason = messages.NAMESPACE_MISMATCH, "Misconfigured"
            entry.cause = "NamespaceMismatch"
        elif info.invalid:
            entry.message, entry.reason = info.invalid, "Misconfigured"
        else:
            self._nominator.assign(entry)
            return True
        return False

    def _let_go_on(self, refused: list[Entry]) -> None:
        """Whoever gave way, and need not any more after this round, has its turn in the next."""
        for entry in refused:
            if entry.cause == GIVES_WAY and self.world.gives_way(entry.info) is None:
                self._processing.plan_builder.change(entry.queue.node)

    def _return(self, heads: list[Entry]) -> None:
        for entry in heads:
            pending = self.world.pending.get(entry.queue.name)
            if pending is not None and entry.info.key in pending.in_flight:
                pending.requeue(entry.item, "FailedAfterNomination", None)

    def _mark_dirty(self, root: QuotaNode) -> None:
        """Look at a tree again; any of its queues will do to name it."""
        for node in root.subtree_queues():
            if node in self.world.by_node:
                self.world.mark_dirty(node.name)
                return

    # -- requeueing -----------------------------------------------------------------------------------------------

    def _requeue(self, entry: Entry) -> None:
        """Put the entry back with a verdict, and tell it if that is news."""
        item, plan_builder = entry.item, self._processing.plan_builder
        self._set_aside(entry)
        verdict = self._processing.verdict(entry)
        is_news = item.verdict is None or item.verdict[1:] != verdict[1:]
        if entry.info.reserving:
            item.verdict = verdict
            if is_news:
                plan_builder.add(_waiting_decision(entry, verdict))
            return
        is_set_aside = entry.cause == SET_ASIDE
        was_parked = not self.world.pending[entry.queue.name].requeue(item, entry.cause, verdict, backoff=is_set_aside)
        unfinished = item.cursor is not None and item.cursor.is_pending
        plan_builder.progress = plan_builder.progress or was_parked
        if was_parked or (unfinished and entry.cause != "PendingPreemption"):
            plan_builder.change(entry.queue.node)
        if is_news and not entry.is_reported:
            plan_builder.add(_waiting_decision(entry, verdict))

    def _set_aside(self, entry: Entry) -> None:
        """Let whoever costs too much, again and again, wait until others have had their time."""
        pause = self.world.costs.spend(entry.info.shape, entry.cost) if entry.cost else None
        if pause is not None and not entry.info.reserving:
            self.world.set_aside[entry.info.shape] = self.world.now + pause
            entry.message, entry.cause, entry.reason = messages.set_aside(entry.cost, pause), SET_ASIDE, SET_ASIDE


def _waiting_decision(entry: Entry, verdict: WaitVerdict) -> Wait:
    return Wait(
        entry.info.key,
        entry.queue.name,
        verdict.reason,
        verdict.message,
        entry.requests,
        blocked_on_gate=entry.cause == "PreemptionGated",
        second_pass=entry.info.reserving,
        cause=entry.cause,
    )
