"""An auditor of quota: reads nothing but API objects, and does its own arithmetic.

It is to be independent of the code that schedules. What a subtree may use is its own nominal quota and what its children
lend; what arrives at a cohort is what its children use beyond what they keep for themselves. So there are two laws: a root
never has more use than quota, and a node below a root never more than its quota and its borrowing limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from corral.core import conditions
from corral.core.meta import Key, Obj, key_of, name_of, spec_of, status_of
from corral.core.quantity import Quantity

Column = tuple[str, str]
"""A resource of a flavor."""

DEFAULT_POD_SET = "main"


class _Limits(NamedTuple):
    nominal: int = 0
    borrowing: int | None = None
    lending: int | None = None


class _Node:
    def __init__(self, name: str) -> None:
        self.name = name
        self.parent: _Node | None = None
        self.children: list[_Node] = []
        self.limits: dict[Column, _Limits] = {}
        self.used: dict[Column, int] = {}

    def quota(self, column: Column) -> int:
        """What the subtree may use without borrowing."""
        lent = sum(child.quota(column) - child.kept(column) for child in self.children)
        return self.limits.get(column, _Limits()).nominal + lent

    def kept(self, column: Column) -> int:
        """What is never lent to others."""
        lending = self.limits.get(column, _Limits()).lending
        return 0 if lending is None else max(0, self.quota(column) - lending)

    def use(self, column: Column) -> int:
        """What of the subtree's use has to be covered here."""
        return self.used.get(column, 0) + sum(max(0, child.use(column) - child.kept(column)) for child in self.children)

    def excess(self, column: Column) -> int:
        """How much more is used than allowed; not positive when all is well."""
        if self.parent is None:
            return self.use(column) - self.quota(column)
        borrowing = self.limits.get(column, _Limits()).borrowing
        return 0 if borrowing is None else self.use(column) - self.quota(column) - borrowing


class Audit:
    """Quota of one moment: ClusterQueues and Cohorts as they are, and the Workloads that hold quota."""

    def __init__(self, queues: Iterable[Obj], cohorts: Iterable[Obj]) -> None:
        self._queues: dict[str, _Node] = {}
        self._cohorts: dict[str, _Node] = {}
        self._held: dict[Key, tuple[str, dict[Column, int]]] = {}
        for cohort in cohorts:
            node = self._cohort(name_of(cohort))
            node.limits = _limits(cohort)
            self._place(node, str(spec_of(cohort).get("parentName") or ""))
        for queue in queues:
            node = self._queues[name_of(queue)] = _Node(name_of(queue))
            node.limits = _limits(queue)
            self._place(node, str(spec_of(queue).get("cohortName") or ""))

    def _cohort(self, name: str) -> _Node:
        return self._cohorts.setdefault(name, _Node(name))

    def _place(self, node: _Node, parent: str) -> None:
        if parent:
            node.parent = self._cohort(parent)
            node.parent.children.append(node)

    def hold(self, workload: Obj) -> None:
        """Count a Workload as its status says, in place of what was counted for it before."""
        self.drop(key_of(workload))
        if not holds_quota(workload):
            return
        name, used = status_of(workload)["admission"]["clusterQueue"], usage_of(workload)
        self._held[key_of(workload)] = name, used
        self._add(name, used, 1)

    def drop(self, key: Key) -> None:
        name, used = self._held.pop(key, ("", {}))
        self._add(name, used, -1)

    def _add(self, name: str, used: Mapping[Column, int], sign: int) -> None:
        node = self._queues.get(name)
        if node is not None:
            for column, amount in used.items():
                node.used[column] = node.used.get(column, 0) + sign * amount

    def admit(self, workload: Obj) -> list[str]:
        """Count a Workload that holds quota from now on; says which laws that breaks, at any level above it.

        Where quota was cut below what is used, only what adds to the excess is wrong.
        """
        key, name, used = key_of(workload), status_of(workload)["admission"]["clusterQueue"], usage_of(workload)
        node = self._queues.get(name)
        if node is None:
            return [f"{key} gets quota of {name}, which does not exist"]
        levels: list[_Node] = []
        while node is not None:
            if node in levels:
                return [f"{key} gets quota below {node.name}, which is its own ancestor"]
            levels.append(node)
            node = node.parent
        columns = [(level, column) for level in levels for column in used]
        before = [level.use(column) for level, column in columns]
        self.hold(workload)
        return [
            f"{key}: {level.name} is {level.excess(column)} over for {column}"
            for (level, column), old in zip(columns, before, strict=True)
            if level.excess(column) > 0 and level.use(column) > old
        ]


def holds_quota(workload: Obj) -> bool:
    return (
        conditions.is_true(workload, "QuotaReserved")
        and not conditions.is_true(workload, "Finished")
        and bool(status_of(workload).get("admission"))
    )


def usage_of(workload: Obj) -> dict[Column, int]:
    """What a Workload holds, in billionths: its assignment without the pods that are done."""
    status = status_of(workload)
    found: dict[Column, int] = {}
    done = {entry["name"]: int(entry["count"]) for entry in status.get("reclaimablePods") or ()}
    for entry in status["admission"].get("podSetAssignments") or ():
        count = int(entry.get("count") or 0)
        left = max(0, count - done.get(entry.get("name", DEFAULT_POD_SET), 0))
        for resource, flavor in (entry.get("flavors") or {}).items():
            amount = Quantity.parse((entry.get("resourceUsage") or {}).get(resource, "0")).nanos
            column = flavor, resource
            found[column] = found.get(column, 0) + (amount // count * left if count else amount)
    return found


def _limits(obj: Obj) -> dict[Column, _Limits]:
    found: dict[Column, _Limits] = {}
    for group in spec_of(obj).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for entry in flavor.get("resources") or ():
                nominal, borrowing, lending = (
                    Quantity.parse(entry[field]).nanos if entry.get(field) is not None else None
                    for field in ("nominalQuota", "borrowingLimit", "lendingLimit")
                )
                found[flavor["name"], entry["name"]] = _Limits(nominal or 0, borrowing, lending)
    return found
