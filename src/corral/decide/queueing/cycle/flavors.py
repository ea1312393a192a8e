"""Choosing flavors for a workload, pod set by pod set, within the quota its ClusterQueue can reach.

All resources of a resource group get the same flavor. Flavors are tried in the order of the spec; the queue's
fungibility decides whether the search goes on after one that would need borrowing or preemption. What was tried is
remembered in a cursor, so a workload that failed after nomination goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from corral.decide.queueing.cycle.assignment import Assignment, Attempt, Cursor, Fit, FlavorChoice, Mode, PodSetChoice
from corral.decide.queueing.cycle.fungibility import BEST, WORST, Rank, is_preferred, tries_next
from corral.decide.queueing.cycle.no_fit import (
    EXCEEDS_MAX_QUOTA,
    NO_MATCHING_FLAVOR,
    WAITING_FOR_QUOTA,
    merge_attempts,
    no_fit_reason,
    worse_reason,
)
from corral.decide.queueing.model.affinity import flavor_matches, untolerated_taint
from corral.decide.queueing.model.amounts import add_into, format_amount, format_limit
from corral.decide.queueing.model.settings import QueueingSettings
from corral.decide.queueing.model.values import (
    UNCONSTRAINED,
    Amounts,
    FlavorResource,
    FlavorSpec,
    PodSetInfo,
    ResourceGroup,
    Usage,
    WorkloadInfo,
)
from corral.decide.queueing.quota.cluster_queue import ClusterQueue, Reservation
from corral.decide.queueing.quota.tree import lowest_fitting_subtree
from corral.decide.queueing.topology.matching import topology_mismatch

Oracle = Callable[[ClusterQueue, WorkloadInfo, FlavorResource, int], tuple[Fit, int]]
"""What preempting for one column would achieve, and how high the request would then borrow."""


class _Member(NamedTuple):
    """A pod set whose flavors are looked for."""

    position: int
    pod_set: PodSetInfo
    choice: PodSetChoice


class _Trial(NamedTuple):
    """What one flavor would do for the resources of a group."""

    choices: dict[str, FlavorChoice]
    rank: Rank
    attempt: Attempt


class _Search(NamedTuple):
    """Outcome for the resources of one group."""

    choices: dict[str, FlavorChoice]
    reasons: list[str]
    attempts: list[Attempt]


class FlavorAssigner:
    """Assigns flavors to one workload; create one per attempt."""

    __slots__ = ("cursor", "flavors", "info", "nominated", "oracle", "queue", "replaced", "settings")

    def __init__(
        self,
        queue: ClusterQueue,
        info: WorkloadInfo,
        flavors: Mapping[str, FlavorSpec],
        settings: QueueingSettings,
        oracle: Oracle,
        *,
        cursor: Cursor | None = None,
        replaced: Reservation | None = None,
        nominated: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        self.queue = queue
        self.info = info
        self.flavors = flavors
        self.settings = settings
        self.oracle = oracle
        self.cursor = cursor
        self.replaced = replaced
        self.nominated = nominated
        """Per pod set the flavors of an earlier nomination this attempt has to stick to."""

    def assign(self, cycle: int, counts: Sequence[int] | None = None) -> Assignment:
        """Find flavors for all pod sets, with `counts` instead of their own sizes if given."""
        queue = self.queue
        assignment = Assignment(Cursor(queue.generation, cycle, self.info.shape))
        for members in self._grouped(counts):
            if not self._assign_group(members, assignment):
                break
        if self.settings.features.granular_reasons:
            assignment.no_fit_reason = no_fit_reason(assignment, queue)
        return assignment

    def _grouped(self, counts: Sequence[int] | None) -> list[list[_Member]]:
        """Pod sets that must share flavors together, in order of first appearance."""
        covers_pods = "pods" in self.queue.groups
        groups: dict[object, list[_Member]] = {}
        for index, pod_set in enumerate(self.info.pod_sets):
            count = pod_set.count if counts is None else counts[index]
            requests = pod_set.scaled_to(count)
            if covers_pods:
                requests = {**requests, "pods": count}
            choice = PodSetChoice(pod_set.name, count, requests)
            if pod_set.flavors:
                # A second pass keeps the flavors that were already reserved.
                choice.flavors = {name: FlavorChoice(flavor, Mode.FIT) for name, flavor in pod_set.flavors.items()}
                choice.delayed_topology = pod_set.delayed_topology
                choice.topology = pod_set.topology_assignment
            group = pod_set.topology.group if pod_set.topology is not None else ""
            groups.setdefault(group or index, []).append(_Member(index, pod_set, choice))
        return list(groups.values())

    def _assign_group(self, members: list[_Member], assignment: Assignment) -> bool:
        """Choose for pod sets that share flavors; False ends the search for the workload."""
        if len(members) == 1:
            requests = members[0].choice.requests
        else:
            requests = {}
            for member in members:
                add_into(requests, member.choice.requests)
        found: dict[str, FlavorChoice] = {}
        for member in members:
            found.update(member.choice.flavors)
        reasons: list[str] = []
        attempts: dict[str, Attempt] = {}
        groups = self.queue.groups
        for resource in sorted(requests) if len(requests) > 1 else requests:
            if resource in found or (
                resource not in groups and (not requests[resource] or self.settings.ignore_undeclared)
            ):
                continue
            search = self._search(members, requests, resource, assignment.usage)
            merge_attempts(attempts, search.attempts, resource, groups.get(resource))
            if not search.choices:
                self._record(members, {}, search.reasons, list(attempts.values()), assignment)
                return False
            found.update(search.choices)
            reasons.extend(search.reasons)
        self._record(members, found, reasons, list(attempts.values()), assignment)
        return True

    def _record(
        self,
        members: list[_Member],
        found: dict[str, FlavorChoice],
        reasons: list[str],
        attempts: list[Attempt],
        assignment: Assignment,
    ) -> None:
        for _, pod_set, choice in members:
            choice.flavors = self._own_flavors(pod_set, choice, found)
            choice.reasons = reasons if len(members) == 1 else list(reasons)
            choice.attempts = attempts
            self._append(assignment, choice)

    def _own_flavors(
        self, pod_set: PodSetInfo, choice: PodSetChoice, found: dict[str, FlavorChoice]
    ) -> dict[str, FlavorChoice]:
        if choice.requests:
            return {name: found[name] for name in choice.requests if name in found}
        if pod_set.topology is not None and pod_set.topology.group:
            # A leader that asks for nothing is still placed with its group.
            tree_flavors = self.queue.topology_flavors
            return {name: flavor for name, flavor in found.items() if flavor.flavor in tree_flavors}
        return {}

    def _append(self, assignment: Assignment, choice: PodSetChoice) -> None:
        assignment.pod_sets.append(choice)
        tried: dict[str, int] = {}
        for resource, flavor in choice.flavors.items():
            if flavor.borrow > assignment.borrows:
                assignment.borrows = flavor.borrow
            amount = choice.requests.get(resource, 0)
            if self.replaced is not None:
                amount -= self.replaced.requested(choice.name, resource)
            column = FlavorResource(flavor.flavor, resource)
            assignment.usage[column] = assignment.usage.get(column, 0) + amount
            tried[resource] = flavor.tried
        assignment.cursor.tried.append(tried)

    def _search(
        self,
        members: list[_Member],
        requests: Amounts,
        resource: str,
        assigned: Usage,
    ) -> _Search:
        """Try the flavors of the group that covers `resource`, best one wins."""
        group = self.queue.groups.get(resource)
        if group is None:
            return _Search({}, [f"resource {resource} unavailable in ClusterQueue"], [])
        covered = {name: amount for name, amount in requests.items() if name in group.covered}
        best: dict[str, FlavorChoice] = {}
        best_rank = WORST
        reasons: list[str] = []
        attempts: list[Attempt] = []
        tried = -1
        start = 0 if self.cursor is None else self.cursor.next_index(members[0].position, resource)
        for tried in range(start, len(group.flavors)):
            name = group.flavors[tried]
            refusal = self._refusal(name, members, group, resource)
            if refusal is not None:
                reasons.append(refusal)
                if not refusal.startswith("skipping"):
                    attempts.append(Attempt(name, Fit.NO_FIT, 0, [refusal], NO_MATCHING_FLAVOR))
                continue
            choices, rank, attempt = self._try_flavor(name, members, covered, assigned)
            reasons.extend(attempt.reasons)
            attempts.append(attempt)
            is_last = self._ends_search(rank)
            if is_last or self._is_better(rank, best_rank):
                best, best_rank = choices, rank
            if is_last:
                break
        self._bookmark(best, tried, group)
        return _Search(best, [] if best_rank.fit is Fit.FIT else reasons, attempts)

    def _ends_search(self, rank: Rank) -> bool:
        if self.settings.features.flavor_fungibility:
            return not tries_next(rank, self.queue.spec.fungibility)
        return rank.fit is Fit.FIT

    def _is_better(self, rank: Rank, best: Rank) -> bool:
        if self.settings.features.flavor_fungibility:
            return is_preferred(rank, best, self.queue.spec.fungibility.preference)
        return rank.fit > best.fit

    def _bookmark(self, choices: dict[str, FlavorChoice], tried: int, group: ResourceGroup) -> None:
        """Note where the next search goes on: after the last flavor tried, or at the first when there are no more."""
        if self.settings.features.flavor_fungibility and tried < len(group.flavors) - 1:
            for choice in choices.values():
                choice.tried = tried

    def _try_flavor(
        self,
        name: str,
        members: list[_Member],
        requests: Amounts,
        assigned: Usage,
    ) -> _Trial:
        """The worst rank over all resources is the flavor's; reasons of all of them are kept."""
        preference = self.queue.spec.fungibility.preference
        choices: dict[str, FlavorChoice] = {}
        worst = BEST
        most = 0
        reasons: list[str] = []
        blame = ""
        for resource in sorted(requests) if len(requests) > 1 else requests:
            amount = requests[resource]
            if self.replaced is not None:
                amount, mismatch = self._slice_difference(name, members, resource, amount)
                if mismatch:
                    worst, blame = WORST, NO_MATCHING_FLAVOR
                    reasons.append(mismatch)
            column = FlavorResource(name, resource)
            rank, reason, cause = self._fit(column, assigned.get(column, 0), amount)
            if reason:
                reasons.append(reason)
                blame = worse_reason(blame, cause)
            most = max(most, rank.borrow)
            if is_preferred(worst, rank, preference):
                worst = rank
            if worst.fit is not Fit.NO_FIT:
                choices[resource] = FlavorChoice(name, rank.fit.mode, rank.borrow)
        return _Trial(choices, worst, Attempt(name, worst.fit, most, reasons, blame))

    def _slice_difference(self, name: str, members: list[_Member], resource: str, amount: int) -> tuple[int, str]:
        """What a slice needs beyond the one it replaces; it must keep the flavor."""
        assert self.replaced is not None
        for _, pod_set, _ in members:
            original = self.replaced.flavor_of(pod_set.name, resource)
            if original != name:
                return amount, f"could not assign {name} flavor since the original workload is assigned: {original}"
            amount -= self.replaced.requested(pod_set.name, resource)
        return amount, ""

    def _fit(self, column: FlavorResource, assigned: int, amount: int) -> tuple[Rank, str, str]:
        """How the quota stands to `amount` more on top of what earlier pod sets were assigned."""
        node = self.queue.node
        wanted = assigned + amount
        most = node.potential(column)
        resource = column.resource
        if wanted > most:
            reason = (
                f"insufficient quota for {resource} in flavor {column.flavor}, previously considered podsets requests "
                f"({format_limit(resource, assigned)}) + current podset request ({format_amount(resource, amount)}) > "
                f"maximum capacity ({format_limit(resource, most)})"
            )
            return Rank(Fit.NO_FIT, 0), reason, EXCEEDS_MAX_QUOTA
        available = node.available(column)
        height, reclaimable = lowest_fitting_subtree(node, column, wanted)
        if wanted <= available:
            return Rank(Fit.FIT, height), "", ""
        missing = format_limit(resource, wanted - available)
        reason = f"insufficient unused quota for {resource} in flavor {column.flavor}, {missing} more needed"
        if reclaimable or node.quota(column).nominal >= wanted or self._preempts_while_borrowing():
            fit, height = self.oracle(self.queue, self.info, column, wanted)
            return Rank(fit, height), reason, ""
        return Rank(Fit.NO_FIT, height), reason, WAITING_FOR_QUOTA

    def _preempts_while_borrowing(self) -> bool:
        policy = self.queue.spec.preemption
        if policy.borrow_within_cohort != "Never":
            return True
        return self.settings.fair_sharing and policy.reclaim_within_cohort != "Never"

    def _refusal(self, name: str, members: list[_Member], group: ResourceGroup, resource: str) -> str | None:
        """Why a flavor is out of the question for these pods, whatever the quota."""
        if self.nominated is not None and all(
            self.nominated[member.position].get(resource) != name for member in members
        ):
            return f"skipping flavor {name} as it is not found in the nomination mapping for resource {resource}"
        if self.info.allowed_flavors is not None and name not in self.info.allowed_flavors:
            return f"skipping flavor {name} due to WorkloadAllowedResourceFlavorAnnotation annotation"
        flavor = self.flavors.get(name)
        if flavor is None:
            return f"flavor {name} not found"
        for _, pod_set, _ in members:
            if self.settings.features.topology:
                mismatch = topology_mismatch(self.queue, pod_set, flavor, group)
                if mismatch is not None:
                    return mismatch
            constraints = pod_set.constraints
            if flavor.taints:
                taint = untolerated_taint(flavor.taints, (*constraints.tolerations, *flavor.tolerations))
                if taint is not None:
                    return f"untolerated taint {taint} in flavor {name}"
            if constraints is not UNCONSTRAINED and not flavor_matches(constraints, flavor):
                return f"flavor {name} doesn't match node affinity"
        return None
