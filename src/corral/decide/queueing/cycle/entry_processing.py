"""Processing one nominated entry of a round, after the entries before it: it is admitted, preempts or waits."""

from __future__ import annotations

from corral.decide.queueing.cycle import messages
from corral.decide.queueing.cycle.assignment import Mode
from corral.decide.queueing.cycle.checks import required_checks
from corral.decide.queueing.cycle.entry import Entry
from corral.decide.queueing.cycle.entry_order import EntryOrder
from corral.decide.queueing.cycle.nomination import Nominator
from corral.decide.queueing.cycle.plan import Admit, Evict, PodSetAssignment, Preempt
from corral.decide.queueing.cycle.plan_builder import PlanBuilder
from corral.decide.queueing.cycle.preemption.candidates import Target
from corral.decide.queueing.cycle.round_claims import RoundClaims
from corral.decide.queueing.cycle.variants import (
    BELOW_LAST_ACCEPTABLE,
    MORE_FAVORABLE,
    PENDING_MIGRATION,
    admitted_sibling,
    may_migrate,
    migration_message,
)
from corral.decide.queueing.model.values import Usage
from corral.decide.queueing.queue.pending import WaitVerdict
from corral.decide.queueing.quota.cluster_queue import Reservation, as_reserving
from corral.decide.queueing.topology.assigning import topology_usage
from corral.decide.queueing.world import World


class EntryProcessing:
    """Processes the entries of a round in order; the decisions go to `plan_builder`."""

    def __init__(self, world: World, nominator: Nominator, order: EntryOrder, claims: RoundClaims) -> None:
        self._world = world
        self._features = world.settings.features
        self._variants = self._features.concurrent_admission
        self._nominator = nominator
        self._order = order
        self._claims = claims
        self.plan_builder = PlanBuilder()

    def process(self, entry: Entry) -> bool:
        """Admit the entry, preempt for it, or let it wait; True when it needs no requeue."""
        if self._variants and self._is_behind_sibling(entry):
            return False
        fits = self._recheck(entry)
        if self._is_beyond_repair(entry):
            return True
        if self._cannot_go_on(entry) or self._comes_too_late(entry, fits=fits):
            return False
        self._claims.claim(entry.targets)
        if entry.nominated.mode is Mode.PREEMPT:
            self._claims.keep_for(entry)
            self._preempt(entry)
            return False
        if self._must_wait_for_pods(entry) or (self._variants and self._must_migrate(entry)):
            return False
        self._admit(entry)
        return True

    def verdict(self, entry: Entry) -> WaitVerdict:
        return entry.granular_verdict() if self._features.granular_reasons else entry.plain_verdict()

    # -- does the nomination still hold? --------------------------------------------------------------------------

    def _recheck(self, entry: Entry) -> bool:
        """Does the nomination still hold after what the entries before it took? Repair it where that is allowed."""
        if self._waits_anyway(entry):
            return False
        quota_fits, nodes_fit = self._claims.fits(entry)
        if self._features.recompute_on_overlap and self._claims.overlap(entry):
            with self._claims.victims_gone():
                self._nominate_again(entry)
            if entry.nominated.mode is Mode.FIT:
                entry.nominated.set_mode(Mode.DEFERRED_FIT)
        elif quota_fits and not nodes_fit and self._features.topology_recompute:
            self._nominate_again(entry)
        else:
            return quota_fits and nodes_fit
        return all(self._claims.fits(entry))

    def _waits_anyway(self, entry: Entry) -> bool:
        """Has it nothing that could still hold: neither room, nor anybody to evict, nor places to look for again?"""
        nominated = entry.nominated
        return nominated.mode < Mode.DEFERRED_FIT and not entry.targets and not nominated.topology_usage

    def _nominate_again(self, entry: Entry) -> None:
        """Look for places and victims again, with the same flavors."""
        entry.start_over()
        self._nominator.assign(entry, entry.nominated_flavors)

    def _is_beyond_repair(self, entry: Entry) -> bool:
        """Give a workload up whose failed nodes nothing replaces, where that is not waited for."""
        info = entry.info
        if not (info.unhealthy_nodes and info.needs_second_pass) or entry.nominated.mode is Mode.FIT:
            return False
        if not self._features.topology_fail_fast:
            return False
        nodes = ",".join(info.unhealthy_nodes)
        self.plan_builder.add(Evict(info.key, "NodeFailures", messages.no_replacement(nodes), entry.message))
        return True

    def _cannot_go_on(self, entry: Entry) -> bool:
        """Whether its nomination alone ends the turn: nothing fits, nobody may make room, or others have yet to."""
        match entry.nominated.mode:
            case Mode.FIT:
                return False
            case Mode.NO_FIT:
                entry.cause, entry.reason = "NoFit", entry.nominated.no_fit_reason
            case Mode.PREEMPT if not entry.targets:
                entry.cause, entry.reason = "PreemptionNoCandidates", "WaitingForQuota"
                if self._keeps_what_is_due(entry):
                    self._claims.keep(entry.queue, quota_due(entry), entry.nominated.topology_usage)
            case Mode.PREEMPT if self._is_gated(entry):
                entry.message = messages.PREEMPTION_GATED
                entry.cause, entry.reason = "PreemptionGated", "AdmissionGated"
                entry.start_over()
            case Mode.DEFERRED_FIT:
                entry.message = messages.DEFERRED_FIT
                entry.cause, entry.reason = "PendingPreemption", "WaitingForPreemptedWorkloads"
                entry.start_over()
                self._claims.keep_for(entry)
            case _:
                return False
        return True

    def _keeps_what_is_due(self, entry: Entry) -> bool:
        """Is quota kept for it although it can neither fit nor preempt?"""
        if entry.queue.spec.preemption.reclaim_within_cohort != "Any":
            return True
        return self._features.prioritize_preemptors and self._order.is_preemptor(entry)

    def _is_gated(self, entry: Entry) -> bool:
        gates = self._features.preemption_gates or self._variants
        return gates and entry.info.gated_preemption

    def _comes_too_late(self, entry: Entry, *, fits: bool) -> bool:
        """Did entries before it take its victims or its room?"""
        mode = entry.nominated.mode
        if self._claims.overlap(entry):
            self._pass_over(entry, messages.OVERLAPPING_TARGETS)
            self.plan_builder.skip_preemption(entry.queue.name)
            return True
        if fits and not (mode is Mode.FIT and self._must_wait_for_victims(entry)):
            return False
        self._pass_over(entry, messages.NO_LONGER_FITS)
        if mode is Mode.PREEMPT:
            self.plan_builder.skip_preemption(entry.queue.name)
        return True

    def _must_wait_for_victims(self, entry: Entry) -> bool:
        """Does it fit only where victims of this round still are?"""
        waits = self._world.settings.waits_for_victims
        return waits and self._claims.has_victims and not self._claims.fits_already(entry)

    def _pass_over(self, entry: Entry, message: str) -> None:
        entry.message, entry.cause, entry.reason = message, "FailedAfterNomination", "WaitingForQuota"
        if not self._features.preserve_scan_progress:
            entry.start_over()

    def _must_wait_for_pods(self, entry: Entry) -> bool:
        """With blockAdmission at most one admitted workload may have pods that are not ready."""
        world = self._world
        if not world.settings.block_on_pods_ready or entry.info.needs_second_pass or not world.not_ready:
            return False
        entry.message = messages.WAITING_FOR_PODS
        entry.cause, entry.reason = "FailedAfterNomination", "WaitingForPodsReady"
        self.plan_builder.is_blocked = True
        return True

    # -- variants -------------------------------------------------------------------------------------------------

    def _is_behind_sibling(self, entry: Entry) -> bool:
        """Is a variant on a better flavor admitted already?"""
        if admitted_sibling(entry.info, entry.queue, better=True) is None:
            return False
        self._pass_over(entry, MORE_FAVORABLE)
        entry.reason = "PendingEvaluation"
        return True

    def _must_migrate(self, entry: Entry) -> bool:
        """A variant on a worse flavor is moved out of the way first, if the queue's policy allows."""
        sibling = admitted_sibling(entry.info, entry.queue, better=False)
        if sibling is None:
            return False
        self._claims.keep_for(entry)
        entry.start_over()
        if not may_migrate(entry.info, entry.queue):
            entry.message, entry.reason = BELOW_LAST_ACCEPTABLE, "PendingEvaluation"
            return True
        entry.message += PENDING_MIGRATION
        entry.cause, entry.reason = "PendingMigration", "WaitingForPreemptedWorkloads"
        # One that is only assumed can be evicted once its admission is written.
        if not sibling.assumed and not self._is_leaving(sibling):
            self._world.expect_eviction(sibling.info.key, sibling.info.uid)
            self.plan_builder.add(Evict(sibling.info.key, "FlavorMigration", migration_message(entry.info)))
        return True

    # -- preemption -----------------------------------------------------------------------------------------------

    def _preempt(self, entry: Entry) -> None:
        info, explanation = entry.info, entry.message
        victims = tuple(
            messages.victim(info, entry.queue, target, ongoing=self._is_leaving(target.reservation))
            for target in entry.targets
            if not _is_own_slice(entry, target)
        )
        entry.message = f"{explanation}. {messages.PENDING_PREEMPTION} {len(victims)} workload(s)"
        entry.cause, entry.reason = "PendingPreemption", "WaitingForPreemptedWorkloads"
        entry.is_reported = True
        entry.start_over()
        for victim in victims:
            self._world.expect_eviction(victim.key, victim.uid)
            if self._world.settings.victims_give_way:
                self._world.gave_way[victim.key] = info.key
        verdict = self.verdict(entry)
        if all(victim.ongoing for victim in victims) and entry.item.verdict == verdict:
            return
        self.plan_builder.add(
            Preempt(info.key, entry.queue.name, victims, entry.message, explanation, entry.requests, verdict.reason)
        )

    def _is_leaving(self, reservation: Reservation) -> bool:
        info = reservation.info
        return info.evicted or self._world.expected_evictions.get(info.key) == info.uid

    # -- admission ------------------------------------------------------------------------------------------------

    def _admit(self, entry: Entry) -> None:
        info, queue, assignment = entry.info, entry.queue, entry.nominated
        replaced = self._nominator.replaced(info, queue)
        pod_sets = tuple(choice.publish() for choice in assignment.pod_sets)
        if info.reserving:
            held = self._vacate(entry)
            self._reserve(entry, pod_sets, assignment.usage if held is None or replaced is not None else held)
        else:
            self._reserve(entry, pod_sets, assignment.usage)
            self._leave_queue(entry)
        self.plan_builder.change(queue.node)
        self.plan_builder.progress = True
        considered = assignment.considered
        self.plan_builder.add(
            Admit(
                key=info.key,
                cluster_queue=queue.name,
                pod_sets=pod_sets,
                checks=required_checks(queue, pod_sets),
                borrows=assignment.borrows,
                considered=considered and f"Flavors considered: {considered}",
                replaces=info.replaces if replaced is not None else None,
                second_pass=info.reserving,
            )
        )

    def _reserve(self, entry: Entry, pod_sets: tuple[PodSetAssignment, ...], usage: Usage) -> None:
        """Count the admission as reserved from now on.

        The usage of a slice that takes over from another is the difference until that one is finished.
        """
        places = topology_usage(entry.nominated, entry.queue, entry.info, whole=True)
        info = as_reserving(entry.info)
        self._world.assumed += 1
        admits = not entry.info.reserving and not required_checks(entry.queue, pod_sets)
        self._world.reserve(
            Reservation(info, entry.queue, pod_sets, usage, places, assumed=self._world.assumed, admits=admits)
        )

    def _leave_queue(self, entry: Entry) -> None:
        world, info = self._world, entry.info
        world.pending[entry.queue.name].delete(info.key)
        world.gave_way.pop(info.key, None)
        if world.settings.block_on_pods_ready:
            world.not_ready.add(info.key)
        if self._nominator.orders_by_usage(entry.queue):
            world.ledger.penalize(info, entry.nominated.usage)

    def _vacate(self, entry: Entry) -> Usage | None:
        """Give up the reservation of a second pass, for one with other places; the quota it held."""
        self._world.unplaced.pop(entry.info.key, None)
        old = self._world.release(entry.info.key)
        if old is None:
            return None
        # What it leaves is not for this round: nothing has moved yet.
        self._claims.keep(entry.queue, {}, old.topology_usage)
        return old.usage


def _is_own_slice(entry: Entry, target: Target) -> bool:
    """The slice it takes over from makes room by itself."""
    return target.reservation.info.key == entry.info.replaces


def quota_due(entry: Entry) -> Usage:
    """Quota to keep for a workload that can neither fit nor preempt: as much of it as is due to its queue."""
    node = entry.queue.node
    due: Usage = {}
    for column, amount in entry.usage.items():
        quota, used = node.quota(column), node.usage.get(column, 0)
        if not entry.nominated.borrows:
            due[column] = max(0, min(amount, quota.nominal - used))
        elif quota.borrowing_limit is None:
            due[column] = amount
        else:
            due[column] = max(0, min(amount, quota.nominal + quota.borrowing_limit - used))
    return due
