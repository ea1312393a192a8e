"""Running totals for status: how much is reserved and used, by how many workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from corral.core.meta import Obj
from corral.decide.queueing.model.amounts import format_amount
from corral.decide.queueing.model.values import FlavorResource, Usage


class Tally:
    """Totals of one ClusterQueue or LocalQueue."""

    __slots__ = ("admitted", "reserved", "reserving", "used")

    def __init__(self) -> None:
        self.reserving = 0
        self.admitted = 0
        self.reserved: Usage = {}
        """Held by workloads with a reservation."""
        self.used: Usage = {}
        """Held by admitted ones."""

    def count(self, usage: Usage, admitted: bool, by: int) -> None:
        """Add (1) or take out (-1) one workload."""
        self.reserving += by
        self.admitted += by if admitted else 0
        for column, amount in usage.items():
            self.reserved[column] = self.reserved.get(column, 0) + by * amount
            if admitted:
                self.used[column] = self.used.get(column, 0) + by * amount


def flavor_usage(
    columns: Iterable[FlavorResource], usage: Usage, nominal: Mapping[FlavorResource, int] | None = None
) -> list[Obj]:
    """Usage in the shape of a status; with `nominal` also how much of it is borrowed."""
    by_flavor: dict[str, list[Obj]] = {}
    for column in columns:
        total = usage.get(column, 0)
        entry: Obj = {"name": column.resource, "total": format_amount(column.resource, total)}
        if nominal is not None:
            entry["borrowed"] = format_amount(column.resource, max(0, total - nominal.get(column, 0)))
        by_flavor.setdefault(column.flavor, []).append(entry)
    return [{"name": flavor, "resources": resources} for flavor, resources in by_flavor.items()]
