"""The scheduling cycle: which waiting workloads are admitted now, who must make room, what the others are told.

One round is one cycle of upstream's scheduler: the head of every queue gets flavors and victims on the state as it
is, then the entries are processed in order, each seeing what the ones before it took. A plan runs rounds until
nothing changes any more, so it admits many workloads of a queue and still equals one-at-a-time scheduling. Only
trees in which something happened are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from corral.core.meta import Key
from corral.decide.queueing import messages
from corral.decide.queueing.assignment import Assignment, Cursor, Fit, Mode, TopologyUsage
from corral.decide.queueing.candidates import Preemptor, Target
from corral.decide.queueing.checks import required_checks
from corral.decide.queueing.clusterqueue import ClusterQueue, Reservation
from corral.decide.queueing.fair_preemption import fair_targets
from corral.decide.queueing.fairness import Share, share_of
from corral.decide.queueing.flavors import TOPOLOGY_FAILED, FlavorAssigner, no_fit_reason
from corral.decide.queueing.model import Amounts, FlavorResource, Usage, WorkloadInfo
from corral.decide.queueing.partial import reduced_counts
from corral.decide.queueing.pending import Pending, Verdict
from corral.decide.queueing.plan import Admit, CyclePlan, Decision, Evict, Preempt, Wait
from corral.decide.queueing.preemption import Placement, classical_targets, give_back, possibility, take
from corral.decide.queueing.quota import QuotaNode
from corral.decide.queueing.topology.assigning import (
    apply_placement,
    placement_requests,
    topology_usage,
)
from corral.decide.queueing.topology.cluster import PlacementRequests
from corral.decide.queueing.world import World

_MAX_IDLE_ROUNDS = 64


class Entry:
    """The head of a queue on its way through a round."""

    __slots__ = ("assignment", "cause", "item", "message", "queue", "reason", "targets", "told", "usage")

    def __init__(self, item: Pending, queue: ClusterQueue) -> None:
        self.item = item
        self.queue = queue
        self.assignment: Assignment | None = None
        self.targets: list[Target] = []
        self.message = ""
        self.cause = "Generic"
        self.reason = ""
        """Granular reason of the condition."""
        self.told = False
        """Its message is part of another decision already."""
        self.usage: Usage = {}
        """Quota the admission would add; nothing on a second pass."""

    @property
    def info(self) -> WorkloadInfo:
        return self.item.info


class Cycle:
    """Runs rounds over a world. Keeps nothing between plans but the round counter."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.number = 0
        self.now = 0.0
        self._decisions: list[Decision] = []
        self._claimed: dict[Key, Target] = {}
        self._temporary: list[tuple[ClusterQueue, Usage, TopologyUsage]] = []
        self._skipped: dict[str, int] = {}
        self._changed: set[QuotaNode] = set()
        self._blocked = False
        self._progress = False
        self._simulated: tuple[Key, FlavorResource, int, list[Target]] | None = None

    def plan(self, now: float) -> CyclePlan:
        """Decide everything that can be decided at `now`."""
        world = self.world
        self.now = now
        self._decisions, self._skipped = [], {}
        self._blocked = False
        world.forest.settle()
        limit = world.settings.max_rounds
        rounds = idle = 0
        while rounds < limit and not self._blocked:
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
        self.number += 1
        self._claimed.clear()
        self._changed.clear()
        entries: list[Entry] = []
        refused: list[Entry] = []
        for entry in heads:
            (entries if self._nominate(entry) else refused).append(entry)
        unadmitted = [entry for entry in self._ordered(entries) if not self._process(entry)]
        for queue, usage, domains in self._temporary:
            queue.node.remove(usage)
            self._change_topology(domains, -1)
        self._temporary.clear()
        for entry in (*unadmitted, *refused):
            self._requeue(entry)
        for root in self._changed:
            for node in root.subtree_queues():
                if node in self.world.by_node:
                    self.world.stir(node.name)
                    break

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
            self._assign(entry)
            return True
        return False

    def _assign(self, entry: Entry, nominated: Sequence[Mapping[str, str]] | None = None) -> None:
        self._simulated = None
        item, queue = entry.item, entry.queue
        if item.cursor is not None and self._is_outdated(item.cursor, queue, item.info):
            item.cursor = None
        assignment, targets = self._initial_assignment(entry, nominated)
        if queue.topology_flavors:
            self._settle_topology(entry, assignment, targets)
        entry.assignment, entry.targets = assignment, targets
        entry.message = assignment.message
        entry.usage = {} if entry.info.reserving else assignment.usage
        item.cursor = assignment.cursor

    def _is_outdated(self, cursor: Cursor, queue: ClusterQueue, info: WorkloadInfo) -> bool:
        if self.world.settings.features.preserve_scan_progress:
            if cursor.shape != info.shape:
                return True
            if self.number - cursor.cycle <= 1:
                return False
        return queue.generation > cursor.generation

    def _initial_assignment(
        self, entry: Entry, nominated: Sequence[Mapping[str, str]] | None
    ) -> tuple[Assignment, list[Target]]:
        info, queue = entry.info, entry.queue
        replaced = self._replaced(info, queue)
        replaced_target = [] if replaced is None else [Target(replaced, "")]
        assigner = FlavorAssigner(
            queue,
            info,
            self.world.flavors,
            self.world.settings,
            self._simulate,
            cursor=entry.item.cursor,
            replaced=replaced,
            nominated=nominated,
        )
        full = assigner.assign(self.number)
        if queue.topology_flavors:
            self._place(full, queue, info, replaced)
        if full.mode is Mode.FIT:
            return full, replaced_target
        if full.mode is Mode.PREEMPT:
            targets = self._targets(full, queue, info, replaced)
            if targets:
                return full, replaced_target + targets
        if self.world.settings.features.partial_admission:
            reduced = self._reduced_assignment(assigner, queue, info, replaced)
            if reduced is not None:
                return reduced[0], replaced_target + reduced[1]
        return full, []

    def _reduced_assignment(
        self, assigner: FlavorAssigner, queue: ClusterQueue, info: WorkloadInfo, replaced: Reservation | None
    ) -> tuple[Assignment, list[Target]] | None:
        """The largest reduction of pod counts that fits, or fits after preemption."""

        def attempt(counts: list[int]) -> tuple[Assignment, list[Target]] | None:
            assignment = assigner.assign(self.number, counts)
            if queue.topology_flavors:
                self._place(assignment, queue, info, replaced)
            if assignment.mode is Mode.FIT:
                return assignment, []
            if assignment.mode is Mode.PREEMPT:
                targets = self._targets(assignment, queue, info, replaced)
                if targets:
                    return assignment, targets
            return None

        return reduced_counts(info.pod_sets, attempt)

    def _replaced(self, info: WorkloadInfo, queue: ClusterQueue) -> Reservation | None:
        if info.replaces is None:
            return None
        return queue.reservations.get(info.replaces)

    # -- preemption -----------------------------------------------------------------------------------------------

    def _simulate(
        self, queue: ClusterQueue, info: WorkloadInfo, column: FlavorResource, amount: int
    ) -> tuple[Fit, int]:
        targets = self._find_targets(queue, info, frozenset((column,)), {column: amount}, None)
        self._simulated = (info.key, column, amount, targets)
        return possibility(targets, queue, column, amount)

    def _targets(
        self, assignment: Assignment, queue: ClusterQueue, info: WorkloadInfo, replaced: Reservation | None
    ) -> list[Target]:
        requests = _total_requests(assignment, replaced)
        placement: Placement | None = None
        if queue.topology_flavors:
            wanted = placement_requests(assignment, queue, info, replaced, self.world.settings)
            if wanted:
                placement = self._placement_test(queue, wanted, info)
        columns = assignment.columns_needing_preemption()
        if placement is None and len(requests) == 1 and len(columns) == 1 and self._simulated is not None:
            key, column, amount, targets = self._simulated
            if key == info.key and requests == {column: amount} and column in columns:
                # The last flavor tried was simulated with exactly this request; nothing has changed since.
                return targets
        return self._find_targets(queue, info, columns, requests, placement)

    def _placement_test(self, queue: ClusterQueue, wanted: PlacementRequests, info: WorkloadInfo) -> Placement:
        topology, features = self.world.topology, self.world.settings.features
        return lambda: topology.find(queue.topology_flavors, wanted, info, features).failure is None

    def _find_targets(
        self,
        queue: ClusterQueue,
        info: WorkloadInfo,
        columns: frozenset[FlavorResource],
        requests: Usage,
        placement: Placement | None,
    ) -> list[Target]:
        world = self.world
        preemptor = Preemptor(
            info=info,
            queue=queue,
            columns=columns,
            requests=requests,
            now=self.now,
            timestamp_buffer=world.settings.features.timestamp_preemption_buffer,
            local_queue_usage=self._local_queue_usage if self._orders_by_usage(queue) else None,
        )
        if world.settings.fair_sharing:
            return fair_targets(
                preemptor,
                world.by_node,
                world.settings.fair_sharing_strategies,
                within_nominal=world.settings.features.fair_sharing_preempt_within_nominal,
                placement=placement,
            )
        return classical_targets(preemptor, world.by_node, placement)

    def _orders_by_usage(self, queue: ClusterQueue) -> bool:
        return queue.spec.admission_fair_sharing and self.world.settings.admission_fair_sharing is not None

    def _local_queue_usage(self, info: WorkloadInfo) -> float:
        return self.world.ledger.usage(info.queue_key)

    # -- topology -------------------------------------------------------------------------------------------------

    def _place(
        self, assignment: Assignment, queue: ClusterQueue, info: WorkloadInfo, replaced: Reservation | None
    ) -> None:
        """Find nodes for an assignment quota would allow; what does not fit now may fit after preemption."""
        if assignment.mode is Mode.NO_FIT:
            return
        world, settings = self.world, self.world.settings
        wanted = placement_requests(assignment, queue, info, replaced, settings)
        if assignment.mode is Mode.FIT and wanted:
            result = world.topology.find(queue.topology_flavors, wanted, info, settings.features)
            if result.failure is None:
                apply_placement(assignment, result)
                assignment.topology_usage = topology_usage(assignment, queue, info)
            else:
                assignment.pod_set(result.failure.pod_set).reasons.append(result.failure.reason)
                assignment.set_mode(Mode.PREEMPT, result.failure.pod_set)
        if assignment.mode is Mode.PREEMPT and wanted and not info.unhealthy_nodes:
            result = world.topology.find(queue.topology_flavors, wanted, info, settings.features, empty=True)
            names = [request.name for requests in wanted.values() for request in requests]
            if result.failure is None:
                assignment.set_mode(Mode.PREEMPT, *names)
            else:
                assignment.set_mode(Mode.NO_FIT, result.failure.pod_set)
                if settings.features.granular_reasons:
                    assignment.no_fit_reason = no_fit_reason(assignment, queue) or TOPOLOGY_FAILED

    def _settle_topology(self, entry: Entry, assignment: Assignment, targets: list[Target]) -> None:
        """Where a workload that waits for preemption will go, so that others leave that room alone."""
        info, queue = entry.info, entry.queue
        if assignment.mode is not Mode.PREEMPT or info.needs_second_pass:
            return
        world, settings = self.world, self.world.settings
        wanted = placement_requests(assignment, queue, info, self._replaced(info, queue), settings)
        if not wanted:
            return
        for target in targets:
            take(target.reservation)
        result = world.topology.find(queue.topology_flavors, wanted, info, settings.features, empty=not targets)
        for target in targets:
            give_back(target.reservation)
        if result.failure is None:
            apply_placement(assignment, result)
            assignment.topology_usage = topology_usage(assignment, queue, info)

    def _change_topology(self, domains: TopologyUsage, sign: int) -> None:
        for flavor, usage in domains.items():
            self.world.topology.change(flavor, usage, sign)

    # -- order ----------------------------------------------------------------------------------------------------

    def _ordered(self, entries: list[Entry]) -> Iterator[Entry]:
        if len(entries) < 2:
            return iter(entries)
        if self.world.settings.fair_sharing:
            return self._tournament(entries)
        features = self.world.settings.features
        by_priority = features.priority_sorting_within_cohort

        def order(entry: Entry) -> tuple[object, ...]:
            info = entry.info
            assert entry.assignment is not None
            return (
                not info.reserving,
                not (features.prioritize_preemptors and self._is_preemptor(entry)),
                entry.assignment.borrows,
                -info.priority if by_priority else 0,
                info.order_time,
            )

        return iter(sorted(entries, key=order))

    def _is_preemptor(self, entry: Entry) -> bool:
        return self.world.pending[entry.queue.name].preemptor == entry.info.key

    def _tournament(self, entries: list[Entry]) -> Iterator[Entry]:
        """Fair sharing: at every cohort the child wins whose share would be least; repeated after each winner."""
        left: dict[QuotaNode, dict[QuotaNode, Entry]] = {}
        for entry in entries:
            if entry.queue.node.parent is None or entry.info.reserving:
                yield entry
            else:
                left.setdefault(entry.queue.node.root(), {})[entry.queue.node] = entry
        for root, contenders in left.items():
            while contenders:
                shares = {node: self._shares_on_path(node, entry) for node, entry in contenders.items()}
                winner = self._winner(root, contenders, shares)
                del contenders[winner.queue.node]
                yield winner

    def _shares_on_path(self, node: QuotaNode, entry: Entry) -> dict[QuotaNode, Share]:
        """Per ancestor cohort, the share of its child on the way to `node` once the entry is admitted."""
        node.add(entry.usage)
        shares: dict[QuotaNode, Share] = {}
        at: QuotaNode = node
        while at.parent is not None:
            shares[at.parent] = share_of(at)
            at = at.parent
        node.remove(entry.usage)
        return shares

    def _winner(
        self, root: QuotaNode, contenders: dict[QuotaNode, Entry], shares: dict[QuotaNode, dict[QuotaNode, Share]]
    ) -> Entry:
        """Contenders meet where their ways up meet; the loser of each meeting is out."""
        best: dict[QuotaNode, QuotaNode] = {}
        order = sorted(contenders, key=lambda node: -_depth(node))
        for node in order:
            best[node] = node
        deepest = max((_depth(node) for node in contenders), default=0)
        for depth in range(deepest, 0, -1):
            for at in [at for at in best if _depth(at) == depth]:
                candidate = best.pop(at)
                parent = at.parent
                assert parent is not None
                rival = best.get(parent)
                if rival is None or self._beats(contenders[candidate], contenders[rival], parent, shares):
                    best[parent] = candidate
        return contenders[best[root]]

    def _beats(
        self,
        one: Entry,
        other: Entry,
        cohort: QuotaNode,
        shares: dict[QuotaNode, dict[QuotaNode, Share]],
    ) -> bool:
        features = self.world.settings.features
        if features.prioritize_preemptors and self._is_preemptor(one) != self._is_preemptor(other):
            return self._is_preemptor(one)
        mine, theirs = shares[one.queue.node][cohort], shares[other.queue.node][cohort]
        if features.fair_sharing_prioritize_non_borrowing:
            borrows = mine.borrows_on(one.usage)
            if borrows != theirs.borrows_on(other.usage):
                return not borrows
        if mine != theirs:
            return mine < theirs
        if features.priority_sorting_within_cohort and one.info.priority != other.info.priority:
            return one.info.priority > other.info.priority
        return one.info.order_time < other.info.order_time

    # -- processing -----------------------------------------------------------------------------------------------

    def _process(self, entry: Entry) -> bool:
        """Take the entry's turn; True when it needs no requeue."""
        fits = self._recheck(entry)
        assignment = entry.assignment
        assert assignment is not None
        mode, info, queue = assignment.mode, entry.info, entry.queue
        features = self.world.settings.features
        if info.unhealthy_nodes and info.needs_second_pass and mode is not Mode.FIT and features.topology_fail_fast:
            nodes = ",".join(info.unhealthy_nodes)
            self._decisions.append(Evict(info.key, "NodeFailures", messages.no_replacement(nodes), entry.message))
            return True
        if mode is Mode.NO_FIT:
            entry.cause, entry.reason = "NoFit", assignment.no_fit_reason
            return False
        if mode is Mode.PREEMPT and not entry.targets:
            entry.cause, entry.reason = "PreemptionNoCandidates", "WaitingForQuota"
            if queue.spec.preemption.reclaim_within_cohort != "Any" or (
                features.prioritize_preemptors and self._is_preemptor(entry)
            ):
                self._hold(queue, _to_reserve(entry), assignment.topology_usage)
            return False
        if (
            mode is Mode.PREEMPT
            and info.gated_preemption
            and (features.preemption_gates or features.concurrent_admission)
        ):
            entry.message, entry.cause, entry.reason = messages.PREEMPTION_GATED, "PreemptionGated", "AdmissionGated"
            entry.item.cursor = None
            return False
        if mode is Mode.DEFERRED_FIT:
            entry.message = messages.DEFERRED_FIT
            entry.cause, entry.reason = "PendingPreemption", "WaitingForPreemptedWorkloads"
            entry.item.cursor = None
            self._hold(queue, entry.usage, assignment.topology_usage)
            return False
        if any(target.reservation.info.key in self._claimed for target in entry.targets):
            return self._skip(entry, messages.OVERLAPPING_TARGETS, preempting=True)
        if not fits:
            return self._skip(entry, messages.NO_LONGER_FITS, preempting=mode is Mode.PREEMPT)
        for target in entry.targets:
            self._claimed[target.reservation.info.key] = target
        if mode is Mode.PREEMPT:
            self._hold(queue, entry.usage, assignment.topology_usage)
            self._preempt(entry)
            return False
        if self._must_wait_for_pods(entry):
            return False
        self._admit(entry)
        return True

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
            self._assign(entry, _nominated_flavors(entry))
        else:
            return quota_fits and nodes_fit
        return all(self._fits(entry))

    def _recompute_after_claims(self, entry: Entry) -> None:
        """Nominate again as if all victims claimed in this round were gone already."""
        claimed = list(self._claimed.values())
        for target in claimed:
            target.reservation.queue.remove(target.reservation)
            self._change_topology(target.reservation.topology_usage, -1)
        entry.item.cursor = None
        self._assign(entry, _nominated_flavors(entry))
        for target in claimed:
            target.reservation.queue.add(target.reservation)
            self._change_topology(target.reservation.topology_usage, 1)
        assert entry.assignment is not None
        if entry.assignment.mode is Mode.FIT:
            entry.assignment.set_mode(Mode.DEFERRED_FIT)

    def _fits(self, entry: Entry) -> tuple[bool, bool]:
        """Quota and nodes, with every victim claimed so far and the entry's own gone."""
        assert entry.assignment is not None
        domains = entry.assignment.topology_usage
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

    def _hold(self, queue: ClusterQueue, usage: Usage, domains: TopologyUsage) -> None:
        """Keep usage from later entries until the round ends."""
        queue.node.add(usage)
        self._change_topology(domains, 1)
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
        entry.message, entry.cause, entry.reason = messages.WAITING_FOR_PODS, "FailedAfterNomination", "Waiting"
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
        entry.message = f"{explanation}. Pending the preemption of {len(victims)} workload(s)"
        for victim in victims:
            world.expected_evictions.setdefault(victim.key, victim.uid)
        if any(not victim.ongoing for victim in victims) or entry.item.verdict != self._verdict(entry):
            failure = f"{explanation}. Preempting {len(victims)} workload(s) failed, will retry."
            self._decisions.append(Preempt(info.key, queue.name, victims, entry.message, failure, _requests_of(info)))

    def _is_ongoing(self, target: Target) -> bool:
        info = target.reservation.info
        return info.evicted or self.world.expected_evictions.get(info.key) == info.uid

    def _admit(self, entry: Entry) -> None:
        world, info, queue = self.world, entry.info, entry.queue
        assignment = entry.assignment
        assert assignment is not None
        pod_sets = tuple(choice.publish() for choice in assignment.pod_sets)
        second_pass = info.reserving
        replaced = self._replaced(info, queue)
        usage = assignment.usage if replaced is None else _full_usage(assignment)
        if second_pass:
            old = world.release(info.key)
            if old is not None:
                usage = old.usage
                # Whatever it leaves is not for this round: nothing has moved yet.
                self._hold(queue, {}, old.topology_usage)
        reservation = Reservation(
            info, queue, pod_sets, usage, topology_usage(assignment, queue, info, whole=True), assumed=True
        )
        if replaced is not None:
            # The slice taken over holds its quota until it is finished; only the difference is new.
            reservation.usage = assignment.usage
        world.reserve(reservation)
        if not second_pass:
            world.pending[queue.name].delete(info.key)
            if world.settings.block_on_pods_ready:
                world.not_ready.add(info.key)
            if self._orders_by_usage(queue):
                world.ledger.penalize(info, assignment.usage)
        self._changed.add(queue.node.root())
        self._progress = True
        self._decisions.append(
            Admit(
                key=info.key,
                cluster_queue=queue.name,
                pod_sets=pod_sets,
                checks=required_checks(queue, pod_sets),
                borrows=assignment.borrows,
                considered=assignment.considered,
                replaces=info.replaces if replaced is not None else None,
                second_pass=second_pass,
                waited_from=info.order_time,
            )
        )

    # -- requeueing -----------------------------------------------------------------------------------------------

    def _verdict(self, entry: Entry) -> Verdict:
        granular = self.world.settings.features.granular_reasons
        reason = entry.reason if granular and entry.reason else "Waiting" if entry.reason == "Waiting" else "Pending"
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
            self._changed.add(entry.queue.node.root())
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
                cause=entry.cause,
            )
        )


def _depth(node: QuotaNode) -> int:
    return sum(1 for _ in node.path())


def _requests_of(info: WorkloadInfo) -> tuple[tuple[str, Amounts], ...]:
    return tuple((pod_set.name, pod_set.requests) for pod_set in info.pod_sets)


def _nominated_flavors(entry: Entry) -> list[dict[str, str]]:
    assert entry.assignment is not None
    return [
        {resource: choice.flavor for resource, choice in pod_set.flavors.items()}
        for pod_set in entry.assignment.pod_sets
    ]


def _full_usage(assignment: Assignment) -> Usage:
    usage: Usage = {}
    for pod_set in assignment.pod_sets:
        for resource, choice in pod_set.flavors.items():
            column = FlavorResource(choice.flavor, resource)
            usage[column] = usage.get(column, 0) + pod_set.requests.get(resource, 0)
    return usage


def _total_requests(assignment: Assignment, replaced: Reservation | None) -> Usage:
    """Quota the workload needs in all; only what is more than the slice it replaces."""
    usage: Usage = {}
    for pod_set in assignment.pod_sets:
        for resource, choice in pod_set.flavors.items():
            amount = pod_set.requests.get(resource, 0)
            if replaced is not None:
                amount -= replaced.requested(pod_set.name, resource)
            if amount:
                column = FlavorResource(choice.flavor, resource)
                usage[column] = usage.get(column, 0) + amount
    return usage


def _to_reserve(entry: Entry) -> Usage:
    """Quota to keep for a workload that can neither fit nor preempt: as much of it as is due to its queue."""
    assert entry.assignment is not None
    node = entry.queue.node
    reserved: Usage = {}
    for column, amount in entry.usage.items():
        quota, used = node.quota(column), node.usage.get(column, 0)
        if not entry.assignment.borrows:
            reserved[column] = max(0, min(amount, quota.nominal - used))
        elif quota.borrowing_limit is None:
            reserved[column] = amount
        else:
            reserved[column] = min(amount, quota.nominal + quota.borrowing_limit - used)
    return reserved
