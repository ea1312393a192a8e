"""Nomination: flavors, places on nodes and victims for one workload, on the state as it is.

Nothing stays changed afterwards. What is found may no longer hold when the entry's turn comes; the cycle checks that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from corral.core.meta import Key
from corral.decide.queueing.cycle.assignment import Assignment, Cursor, Fit, Mode
from corral.decide.queueing.cycle.entry import Entry
from corral.decide.queueing.cycle.flavors import FlavorAssigner
from corral.decide.queueing.cycle.no_fit import TOPOLOGY_FAILED, no_fit_reason
from corral.decide.queueing.cycle.partial import reduced_counts
from corral.decide.queueing.cycle.preemption.candidates import Preemptor, Target
from corral.decide.queueing.cycle.preemption.classical import (
    Placement,
    classical_targets,
    possibility,
    simulate_removal,
    undo_removal,
)
from corral.decide.queueing.cycle.preemption.fair_sharing import fair_targets
from corral.decide.queueing.model.values import FlavorResource, Usage, WorkloadInfo
from corral.decide.queueing.quota.cluster_queue import ClusterQueue, Reservation
from corral.decide.queueing.topology.assigning import apply_placement, placement_requests, topology_usage
from corral.decide.queueing.topology.cluster import PlacementRequests, PlacementResult
from corral.decide.queueing.world import World


class Nominator:
    """Nominates workloads of one world. `number` counts rounds, `now` is the time of the plan."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.number = 0
        self.now = 0.0
        self._simulated: tuple[Key, FlavorResource, int, list[Target]] | None = None
        self._in_empty: tuple[PlacementRequests, PlacementResult] | None = None
        self._wanted: tuple[Assignment, PlacementRequests] | None = None

    def assign(self, entry: Entry, nominated: Sequence[Mapping[str, str]] | None = None) -> None:
        """Give the entry an assignment and victims; `nominated` holds it to flavors of an earlier nomination."""
        began = self._world.cpu()
        self._assign(entry, nominated)
        entry.cost += self._world.cpu() - began

    def _assign(self, entry: Entry, nominated: Sequence[Mapping[str, str]] | None) -> None:
        self._simulated = self._in_empty = self._wanted = None
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
        if self._world.settings.features.preserve_scan_progress:
            if cursor.shape != info.shape:
                return True
            if self.number - cursor.cycle <= 1:
                return False
        return queue.generation > cursor.generation

    def _initial_assignment(
        self, entry: Entry, nominated: Sequence[Mapping[str, str]] | None
    ) -> tuple[Assignment, list[Target]]:
        info, queue = entry.info, entry.queue
        replaced = self.replaced(info, queue)
        replaced_target = [] if replaced is None else [Target(replaced, "")]
        assigner = FlavorAssigner(
            queue,
            info,
            self._world.flavors,
            self._world.settings,
            self._simulate,
            cursor=entry.item.cursor,
            replaced=replaced,
            nominated=nominated,
        )
        full = assigner.assign(self.number)
        if self._needs_places(queue, info):
            self._place(full, queue, info, replaced)
        if full.mode is Mode.FIT:
            return full, replaced_target
        if full.mode is Mode.PREEMPT:
            targets = self._targets(full, queue, info, replaced)
            if targets:
                return full, replaced_target + targets
        if self._world.settings.features.partial_admission:
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
            if self._needs_places(queue, info):
                self._place(assignment, queue, info, replaced)
            if assignment.mode is Mode.FIT:
                return assignment, []
            if assignment.mode is Mode.PREEMPT:
                targets = self._targets(assignment, queue, info, replaced)
                if targets:
                    return assignment, targets
            return None

        return reduced_counts(info.pod_sets, attempt)

    def replaced(self, info: WorkloadInfo, queue: ClusterQueue) -> Reservation | None:
        """The workload slice that this one takes over from."""
        if info.replaces is None:
            return None
        return queue.reservations.get(info.replaces)

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
        columns = assignment.columns_needing_preemption()
        simulated = self._simulated_targets(info, columns, requests)
        if simulated == []:
            return []  # what quota alone does not allow, places do not allow either
        placement: Placement | None = None
        if queue.topology_flavors:
            wanted = self._wanted_places(assignment, queue, info, replaced)
            if wanted:
                placement = self._placement_test(queue, wanted, info)
        if placement is None and simulated is not None:
            return simulated
        return self._find_targets(queue, info, columns, requests, placement)

    def _simulated_targets(
        self, info: WorkloadInfo, columns: frozenset[FlavorResource], requests: Usage
    ) -> list[Target] | None:
        """The victims that the last flavor tried was simulated with, if that was for exactly this request: nothing has changed since."""
        if self._simulated is None or len(requests) != 1 or len(columns) != 1:
            return None
        key, column, amount, targets = self._simulated
        return targets if key == info.key and requests == {column: amount} and column in columns else None

    def _placement_test(self, queue: ClusterQueue, wanted: PlacementRequests, info: WorkloadInfo) -> Placement:
        topology, features = self._world.topology, self._world.settings.features
        return lambda: topology.find(queue.topology_flavors, wanted, info, features).failure is None

    def _find_targets(
        self,
        queue: ClusterQueue,
        info: WorkloadInfo,
        columns: frozenset[FlavorResource],
        requests: Usage,
        placement: Placement | None,
    ) -> list[Target]:
        world = self._world
        preemptor = Preemptor(
            info=info,
            queue=queue,
            columns=columns,
            requests=requests,
            now=self.now,
            timestamp_buffer=world.settings.features.timestamp_preemption_buffer,
            left_for=world.gave_way.get(info.key),
            local_queue_usage=self._local_queue_usage if world.settings.admission_fair_sharing is not None else None,
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

    def orders_by_usage(self, queue: ClusterQueue) -> bool:
        """Is the queue under admission fair sharing?"""
        return queue.spec.admission_fair_sharing and self._world.settings.admission_fair_sharing is not None

    def _local_queue_usage(self, info: WorkloadInfo) -> float:
        return self._world.ledger.usage(info.queue_key)

    def _needs_places(self, queue: ClusterQueue, info: WorkloadInfo) -> bool:
        """Do nodes matter: to the queue's flavors, or because the workload says so?"""
        if queue.topology_flavors:
            return True
        for pod_set in info.pod_sets:
            if pod_set.topology is not None and pod_set.topology.explicit:
                return self._world.settings.features.topology
        return False

    def _place(
        self, assignment: Assignment, queue: ClusterQueue, info: WorkloadInfo, replaced: Reservation | None
    ) -> None:
        """Find nodes for an assignment quota would allow; what does not fit now may fit after preemption."""
        if assignment.mode is Mode.NO_FIT:
            return
        world, settings = self._world, self._world.settings
        wanted = self._wanted_places(assignment, queue, info, replaced)
        if assignment.mode is Mode.FIT and wanted:
            result = world.topology.find(queue.topology_flavors, wanted, info, settings.features)
            if result.failure is None:
                apply_placement(assignment, result)
                assignment.topology_usage = topology_usage(assignment, queue, info, replaced)
            else:
                assignment.pod_set(result.failure.pod_set).reasons.append(result.failure.reason)
                assignment.set_mode(Mode.PREEMPT, result.failure.pod_set)
        if assignment.mode is Mode.PREEMPT and wanted and not info.unhealthy_nodes:
            result = self._places_in_empty(queue, wanted, info)
            names = [request.name for requests in wanted.values() for request in requests]
            if result.failure is None:
                assignment.set_mode(Mode.PREEMPT, *names)
            else:
                failed = assignment.pod_set(result.failure.pod_set)
                assignment.set_mode(Mode.NO_FIT, failed.name)
                failed.refuse(result.failure.flavor, TOPOLOGY_FAILED)
        if settings.features.granular_reasons:
            assignment.no_fit_reason = no_fit_reason(assignment, queue)

    def _wanted_places(
        self, assignment: Assignment, queue: ClusterQueue, info: WorkloadInfo, replaced: Reservation | None
    ) -> PlacementRequests:
        """What the assignment wants nodes for; worked out once, as nothing of that changes before places are found."""
        if self._wanted is None or self._wanted[0] is not assignment:
            self._wanted = assignment, placement_requests(assignment, queue, info, replaced, self._world.settings)
        return self._wanted[1]

    def _places_in_empty(self, queue: ClusterQueue, wanted: PlacementRequests, info: WorkloadInfo) -> PlacementResult:
        """Places if nothing ran anywhere. Of a workload that waits for preemption this is asked twice in a nomination."""
        if self._in_empty is None or (self._in_empty[0] is not wanted and self._in_empty[0] != wanted):
            world = self._world
            found = world.topology.find(queue.topology_flavors, wanted, info, world.settings.features, empty=True)
            self._in_empty = wanted, found
        return self._in_empty[1]

    def _settle_topology(self, entry: Entry, assignment: Assignment, targets: list[Target]) -> None:
        """Where a workload that waits for preemption will go, so that others leave that room alone."""
        info, queue = entry.info, entry.queue
        if assignment.mode is not Mode.PREEMPT or info.needs_second_pass:
            return
        world, settings = self._world, self._world.settings
        replaced = self.replaced(info, queue)
        wanted = self._wanted_places(assignment, queue, info, replaced)
        if not wanted:
            return
        # The pods of a slice that is replaced stay where they are.
        stays = replaced if settings.features.elastic_slices_with_topology else None
        leaving = [target.reservation for target in targets if target.reservation is not stays]
        if targets:
            for reservation in leaving:
                simulate_removal(reservation)
            result = world.topology.find(queue.topology_flavors, wanted, info, settings.features)
            for reservation in leaving:
                undo_removal(reservation)
        else:
            result = self._places_in_empty(queue, wanted, info)
        if result.failure is None:
            apply_placement(assignment, result)
            assignment.topology_usage = topology_usage(assignment, queue, info, replaced)


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
