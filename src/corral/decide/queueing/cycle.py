"""The scheduling cycle: which waiting workloads are admitted now, who must make room, what the others are told.

One round is one cycle of upstream's scheduler: the head of every queue gets flavors and victims on the state as it
is, then the entries are processed in order, each seeing what the ones before it took. A plan runs rounds until
nothing changes any more, so it admits many workloads of a queue and still equals one-at-a-time scheduling. Only
trees in which something happened are looked at.
"""

from __future__ import annotations

from corral.core.meta import Key
from corral.decide.queueing import messages
from corral.decide.queueing.assignment import Assignment, Mode, TopologyUsage
from corral.decide.queueing.candidates import Target
from corral.decide.queueing.checks import required_checks
from corral.decide.queueing.clusterqueue import ClusterQueue, Reservation, as_reserving
from corral.decide.queueing.entry import Entry
from corral.decide.queueing.entry_order import EntryOrder
from corral.decide.queueing.model import Amounts, FlavorResource, Usage, WorkloadInfo
from corral.decide.queueing.nomination import Nominator
from corral.decide.queueing.pending import Verdict
from corral.decide.queueing.plan import Admit, CyclePlan, Decision, Evict, Preempt, Wait
from corral.decide.queueing.preemption import give_back, take
from corral.decide.queueing.quota import QuotaNode
from corral.decide.queueing.topology.assigning import (
    topology_usage,
)
from corral.decide.queueing.variants import (
    BELOW_LAST_ACCEPTABLE,
    MORE_FAVORABLE,
    PENDING_MIGRATION,
    admitted_sibling,
    may_migrate,
    migration_message,
)
from corral.decide.queueing.world import World

_MAX_IDLE_ROUNDS = 64


class Cycle:
    """Runs rounds over a world. Keeps nothing between plans but the round counter."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._decisions: list[Decision] = []
        self._claimed: dict[Key, Target] = {}
        self._temporary: list[tuple[ClusterQueue, Usage, TopologyUsage]] = []
        self._skipped: dict[str, int] = {}
        self._changed: dict[QuotaNode, None] = {}
        self._blocked = False
        self._progress = False
        self._nominator = Nominator(world)
        self._order = EntryOrder(world)
        self._variants = world.settings.features.concurrent_admission

    def plan(self, now: float) -> CyclePlan:
        """Decide everything that can be decided at `now`."""
        world = self.world
        self._nominator.now = now
        self._decisions, self._skipped = [], {}
        self._blocked = False
        world.forest.settle()
        limit, enough = world.settings.max_rounds, world.settings.max_decisions
        rounds = idle = 0
        while rounds < limit and len(self._decisions) < enough and not self._blocked:
            heads = self._heads()
            if not heads:
                break
            self._progress = False
            self._round(heads)
            rounds += 1
            idle = 0 if self._progress else idle + 1
            if idle > _MAX_IDLE_ROUNDS:
                # Only flavor cursors moved; nothing else will happen before the next event.
                world.stirred.clear()
        return CyclePlan(
            decisions=tuple(self._decisions),
            rounds=rounds,
            skipped_preemptions=self._skipped,
            more=bool(world.stirred) and not self._blocked,
        )

    # -- one round ------------------------------------------------------------------------------------------------

    def _heads(self) -> list[Entry]:
        """At most one workload of every queue in a stirred tree, and second passes that are due."""
        world = self.world
        entries: list[Entry] = []
        for item in list(world.second_pass.values()):
            queue = world.queues.get(item.info.cluster_queue)
            del world.second_pass[item.info.key]
            world.unplaced[item.info.key] = item
            if queue is not None:
                entries.append(Entry(item, queue))
        roots: dict[QuotaNode, None] = {}
        for name in world.stirred:
            queue = world.queues.get(name)
            if queue is not None:
                roots[queue.node.root()] = None
        world.stirred.clear()
        for root in roots:
            for node in root.subtree_queues():
                queue = world.by_node.get(node)
                if queue is None or queue.inactive is not None:
                    continue
                head = world.pending[queue.name].pop()
                if head is not None:
                    entries.append(Entry(head, queue))
        return entries

    def _round(self, heads: list[Entry]) -> None:
        self._nominator.number += 1
        self._claimed.clear()
        self._changed.clear()
        entries: list[Entry] = []
        refused: list[Entry] = []
        try:
            for entry in heads:
                (entries if self._nominate(entry) else refused).append(entry)
            unadmitted = [entry for entry in self._order.ordered(entries) if not self._process(entry)]
            self._give_up_holds()
            for entry in (*unadmitted, *refused):
                self._requeue(entry)
        finally:
            # Only after an error is anything left to do here: nobody may stay in flight or keep room for nothing.
            self._give_up_holds()
            self._return(heads)
        for root in self._changed:
            for node in root.subtree_queues():
                if node in self.world.by_node:
                    self.world.stir(node.name)
                    break

    def _give_up_holds(self) -> None:
        self._change_holds(-1)
        self._temporary.clear()

    def _return(self, heads: list[Entry]) -> None:
        for entry in heads:
            pending = self.world.pending.get(entry.queue.name)
            if pending is not None and entry.info.key in pending.in_flight:
                pending.requeue(entry.item, "FailedAfterNomination", None)

    def _nominate(self, entry: Entry) -> bool:
        """Give the entry flavors and victims; False when it must not be considered at all."""
        info, world = entry.info, self.world
        if info.failed_checks:
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

    # -- processing -----------------------------------------------------------------------------------------------

    def _process(self, entry: Entry) -> bool:
        """Take the entry's turn; True when it needs no requeue."""
        if self._variants and admitted_sibling(entry.info, entry.queue, better=True) is not None:
            self._skip(entry, MORE_FAVORABLE, preempting=False)
            entry.reason = "PendingEvaluation"
            return False
        fits = self._recheck(entry)
        if self._is_beyond_repair(entry):
            return True
        if self._cannot_go_on(entry):
            return False
        assignment = entry.nominated
        mode, info, queue = assignment.mode, entry.info, entry.queue
        if any(target.reservation.info.key in self._claimed for target in entry.targets):
            return self._skip(entry, messages.OVERLAPPING_TARGETS, preempting=True)
        if not fits or (mode is Mode.FIT and self._claimed and not self._fits_already(entry)):
            return self._skip(entry, messages.NO_LONGER_FITS, preempting=mode is Mode.PREEMPT)
        for target in entry.targets:
            self._claimed[target.reservation.info.key] = target
        if mode is Mode.PREEMPT:
            self._hold(queue, entry.usage, assignment.topology_usage)
            self._preempt(entry)
            return False
        if self._must_wait_for_pods(entry):
            return False
        if self._variants:
            worse = admitted_sibling(info, queue, better=False)
            if worse is not None:
                self._hold(queue, entry.usage, assignment.topology_usage)
                self._migrate(entry, worse)
                return False
        self._admit(entry)
        return True

    def _is_beyond_repair(self, entry: Entry) -> bool:
        """Give a workload up whose failed nodes nothing replaces, where that is not waited for."""
        info = entry.info
        if not (info.unhealthy_nodes and info.needs_second_pass) or entry.nominated.mode is Mode.FIT:
            return False
        if not self.world.settings.features.topology_fail_fast:
            return False
        nodes = ",".join(info.unhealthy_nodes)
        self._decisions.append(Evict(info.key, "NodeFailures", messages.no_replacement(nodes), entry.message))
        return True

    def _cannot_go_on(self, entry: Entry) -> bool:
        """Whether its nomination alone ends the entry's turn: nothing fits, nobody may make room, or others have yet to."""
        assignment, queue = entry.nominated, entry.queue
        mode, features = assignment.mode, self.world.settings.features
        if mode is Mode.NO_FIT:
            entry.cause, entry.reason = "NoFit", assignment.no_fit_reason
            return True
        if mode is Mode.PREEMPT and not entry.targets:
            entry.cause, entry.reason = "PreemptionNoCandidates", "WaitingForQuota"
            if queue.spec.preemption.reclaim_within_cohort != "Any" or (
                features.prioritize_preemptors and self._order.is_preemptor(entry)
            ):
                self._hold(queue, _to_reserve(entry), assignment.topology_usage)
            return True
        gates = features.preemption_gates or features.concurrent_admission
        if mode is Mode.PREEMPT and entry.info.gated_preemption and gates:
            entry.message, entry.cause, entry.reason = messages.PREEMPTION_GATED, "PreemptionGated", "AdmissionGated"
            entry.item.cursor = None
            return True
        if mode is Mode.DEFERRED_FIT:
            entry.message = messages.DEFERRED_FIT
            entry.cause, entry.reason = "PendingPreemption", "WaitingForPreemptedWorkloads"
            entry.item.cursor = None
            self._hold(queue, entry.usage, assignment.topology_usage)
            return True
        return False

    def _migrate(self, entry: Entry, sibling: Reservation) -> None:
        """Move a variant on a worse flavor out of the way, if the queue's policy allows."""
        info = entry.info
        entry.item.cursor = None
        if not may_migrate(info, entry.queue):
            entry.message, entry.reason = BELOW_LAST_ACCEPTABLE, "PendingEvaluation"
            return
        entry.message += PENDING_MIGRATION
        entry.cause, entry.reason = "PendingMigration", "WaitingForPreemptedWorkloads"
        other = sibling.info
        if sibling.assumed:
            # It can only be evicted once its admission is written.
            return
        if not other.evicted and self.world.expected_evictions.get(other.key) != other.uid:
            self.world.expected_evictions[other.key] = other.uid
            self._decisions.append(Evict(other.key, "FlavorMigration", migration_message(info)))

    def _recheck(self, entry: Entry) -> bool:
        """Does the nomination still hold after what the entries before it took? Repair it where that is allowed."""
        features = self.world.settings.features
        quota_fits, nodes_fit = self._fits(entry)
        overlaps = features.recompute_on_overlap and any(
            target.reservation.info.key in self._claimed for target in entry.targets
        )
        if overlaps:
            self._recompute_after_claims(entry)
        elif quota_fits and not nodes_fit and features.topology_recompute:
            entry.item.cursor = None
            self._nominator.assign(entry, _nominated_flavors(entry))
        else:
            return quota_fits and nodes_fit
        return all(self._fits(entry))

    def _recompute_after_claims(self, entry: Entry) -> None:
        """Nominate again as if all victims claimed in this round were gone already."""
        claimed = list(self._claimed.values())
        for target in claimed:
            target.reservation.queue.remove(target.reservation)
            self.world.topology.give_back(target.reservation.topology_usage)
        entry.item.cursor = None
        self._nominator.assign(entry, _nominated_flavors(entry))
        for target in claimed:
            target.reservation.queue.add(target.reservation)
            self.world.topology.take(target.reservation.topology_usage)
        if entry.nominated.mode is Mode.FIT:
            entry.nominated.set_mode(Mode.DEFERRED_FIT)

    def _fits(self, entry: Entry) -> tuple[bool, bool]:
        """Quota and nodes, with every victim claimed so far and the entry's own gone."""
        domains = entry.nominated.topology_usage
        gone: dict[Key, Reservation] = {}
        if self._claimed or entry.targets:
            gone = {key: target.reservation for key, target in self._claimed.items()}
            for target in entry.targets:
                gone[target.reservation.info.key] = target.reservation
            for reservation in gone.values():
                take(reservation)
        quota = entry.queue.node.fits(entry.usage)
        nodes = not domains or self.world.topology.fits(entry.queue.topology_flavors, domains)
        for reservation in gone.values():
            give_back(reservation)
        return quota, nodes

    def _fits_already(self, entry: Entry) -> bool:
        """Quota and nodes as they are, while the victims of this round still hold theirs."""
        self._change_holds(-1)
        domains = entry.nominated.topology_usage
        fits = entry.queue.node.fits(entry.usage) and (
            not domains or self.world.topology.fits(entry.queue.topology_flavors, domains)
        )
        self._change_holds(1)
        return fits

    def _change_holds(self, sign: int) -> None:
        for queue, usage, domains in self._temporary:
            (queue.node.add if sign > 0 else queue.node.remove)(usage)
            (self.world.topology.take if sign > 0 else self.world.topology.give_back)(domains)

    def _hold(self, queue: ClusterQueue, usage: Usage, domains: TopologyUsage) -> None:
        """Keep usage from later entries until the round ends."""
        queue.node.add(usage)
        self.world.topology.take(domains)
        self._temporary.append((queue, usage, domains))

    def _skip(self, entry: Entry, message: str, *, preempting: bool) -> bool:
        entry.message, entry.reason = message, "WaitingForQuota"
        entry.cause = "FailedAfterNomination"
        if not self.world.settings.features.preserve_scan_progress:
            entry.item.cursor = None
        if preempting:
            self._skipped[entry.queue.name] = self._skipped.get(entry.queue.name, 0) + 1
        return False

    def _must_wait_for_pods(self, entry: Entry) -> bool:
        """With blockAdmission at most one admitted workload may have pods that are not ready."""
        world = self.world
        if not world.settings.block_on_pods_ready or entry.info.needs_second_pass or not world.not_ready:
            return False
        entry.message, entry.cause, entry.reason = (
            messages.WAITING_FOR_PODS,
            "FailedAfterNomination",
            "WaitingForPodsReady",
        )
        self._blocked = True
        return True

    def _preempt(self, entry: Entry) -> None:
        world, queue, info = self.world, entry.queue, entry.info
        victims = tuple(
            messages.victim(info, queue, target, ongoing=self._is_ongoing(target))
            for target in entry.targets
            if target.reservation.info.key != info.replaces
        )
        entry.reason = "WaitingForPreemptedWorkloads"
        entry.cause = "PendingPreemption"
        entry.told = True
        entry.item.cursor = None
        explanation = entry.message
        entry.message = f"{explanation}. {messages.PENDING_PREEMPTION} {len(victims)} workload(s)"
        for victim in victims:
            world.expected_evictions.setdefault(victim.key, victim.uid)
        if any(not victim.ongoing for victim in victims) or entry.item.verdict != self._verdict(entry):
            self._decisions.append(
                Preempt(
                    info.key,
                    queue.name,
                    victims,
                    entry.message,
                    explanation,
                    _requests_of(info),
                    self._verdict(entry).reason,
                )
            )

    def _is_ongoing(self, target: Target) -> bool:
        info = target.reservation.info
        return info.evicted or self.world.expected_evictions.get(info.key) == info.uid

    def _admit(self, entry: Entry) -> None:
        world, info, queue = self.world, entry.info, entry.queue
        assignment = entry.nominated
        pod_sets = tuple(choice.publish() for choice in assignment.pod_sets)
        second_pass = info.reserving
        replaced = self._nominator.replaced(info, queue)
        usage = assignment.usage if replaced is None else _full_usage(assignment)
        if second_pass:
            world.unplaced.pop(info.key, None)
            old = world.release(info.key)
            if old is not None:
                usage = old.usage
                # Whatever it leaves is not for this round: nothing has moved yet.
                self._hold(queue, {}, old.topology_usage)
        reservation = Reservation(
            as_reserving(info),
            queue,
            pod_sets,
            usage,
            topology_usage(assignment, queue, info, whole=True),
            assumed=True,
        )
        if replaced is not None:
            # The slice taken over holds its quota until it is finished; only the difference is new.
            reservation.usage = assignment.usage
        world.reserve(reservation)
        if not second_pass:
            world.pending[queue.name].delete(info.key)
            if world.settings.block_on_pods_ready:
                world.not_ready.add(info.key)
            if self._nominator.orders_by_usage(queue):
                world.ledger.penalize(info, assignment.usage)
        self._changed[queue.node.root()] = None
        self._progress = True
        considered = assignment.considered
        self._decisions.append(
            Admit(
                key=info.key,
                cluster_queue=queue.name,
                pod_sets=pod_sets,
                checks=required_checks(queue, pod_sets),
                borrows=assignment.borrows,
                considered=considered and f"Flavors considered: {considered}",
                replaces=info.replaces if replaced is not None else None,
                second_pass=second_pass,
                waited_from=info.order_time,
            )
        )

    # -- requeueing -----------------------------------------------------------------------------------------------

    def _verdict(self, entry: Entry) -> Verdict:
        granular = self.world.settings.features.granular_reasons
        if granular and entry.reason:
            reason = entry.reason
        else:
            reason = "Waiting" if entry.reason == "WaitingForPodsReady" else "Pending"
        return Verdict(entry.cause, reason, entry.message)

    def _requeue(self, entry: Entry) -> None:
        world, item, info = self.world, entry.item, entry.info
        verdict = self._verdict(entry)
        news = item.verdict is None or item.verdict[1:] != verdict[1:]
        if info.reserving:
            item.verdict = verdict
            if news:
                self._tell(entry, verdict)
            return
        was_parked = not world.pending[entry.queue.name].requeue(item, entry.cause, verdict)
        unfinished = item.cursor is not None and item.cursor.is_pending
        self._progress = self._progress or was_parked
        if was_parked or (unfinished and entry.cause != "PendingPreemption"):
            self._changed[entry.queue.node.root()] = None
        if news and not entry.told:
            self._tell(entry, verdict)

    def _tell(self, entry: Entry, verdict: Verdict) -> None:
        self._decisions.append(
            Wait(
                entry.info.key,
                entry.queue.name,
                verdict.reason,
                verdict.message,
                _requests_of(entry.info),
                blocked_on_gate=entry.cause == "PreemptionGated",
                second_pass=entry.info.reserving,
                cause=entry.cause,
            )
        )


def _requests_of(info: WorkloadInfo) -> tuple[tuple[str, Amounts], ...]:
    return tuple((pod_set.name, pod_set.requests) for pod_set in info.pod_sets)


def _nominated_flavors(entry: Entry) -> list[dict[str, str]]:
    return [
        {resource: choice.flavor for resource, choice in pod_set.flavors.items()}
        for pod_set in entry.nominated.pod_sets
    ]


def _full_usage(assignment: Assignment) -> Usage:
    usage: Usage = {}
    for pod_set in assignment.pod_sets:
        for resource, choice in pod_set.flavors.items():
            column = FlavorResource(choice.flavor, resource)
            usage[column] = usage.get(column, 0) + pod_set.requests.get(resource, 0)
    return usage


def _to_reserve(entry: Entry) -> Usage:
    """Quota to keep for a workload that can neither fit nor preempt: as much of it as is due to its queue."""
    node = entry.queue.node
    reserved: Usage = {}
    for column, amount in entry.usage.items():
        quota, used = node.quota(column), node.usage.get(column, 0)
        if not entry.nominated.borrows:
            reserved[column] = max(0, min(amount, quota.nominal - used))
        elif quota.borrowing_limit is None:
            reserved[column] = amount
        else:
            reserved[column] = max(0, min(amount, quota.nominal + quota.borrowing_limit - used))
    return reserved
