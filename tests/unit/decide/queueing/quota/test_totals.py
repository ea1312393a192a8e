"""Running totals of a queue, in the shape its status shows them."""

from __future__ import annotations

from corral.decide.queueing.model.values import FlavorResource
from corral.decide.queueing.quota.totals import Tally, flavor_usage

CPU, GPU = FlavorResource("spot", "cpu"), FlavorResource("spot", "nvidia.com/gpu")
MEMORY = FlavorResource("reserved", "memory")


def test_what_is_reserved_is_used_once_it_is_admitted() -> None:
    totals = Tally()
    totals.count({CPU: 1500, GPU: 1}, admitted=False, by=1)
    totals.count({CPU: 500}, admitted=True, by=1)
    assert (totals.reserving, totals.admitted) == (2, 1)
    assert (totals.reserved, totals.used) == ({CPU: 2000, GPU: 1}, {CPU: 500})


def test_what_went_in_comes_out() -> None:
    totals = Tally()
    for admitted in (True, False):
        totals.count({CPU: 1500}, admitted=admitted, by=1)
        totals.count({CPU: 1500}, admitted=admitted, by=-1)
    assert (totals.reserving, totals.admitted) == (0, 0)
    assert (totals.reserved[CPU], totals.used[CPU]) == (0, 0)


def test_a_status_lists_every_column_and_what_of_it_is_borrowed() -> None:
    usage = {CPU: 2500, MEMORY: 3 * 2**30}
    assert flavor_usage([CPU, GPU, MEMORY], usage) == [
        {"name": "spot", "resources": [{"name": "cpu", "total": "2500m"}, {"name": "nvidia.com/gpu", "total": "0"}]},
        {"name": "reserved", "resources": [{"name": "memory", "total": "3Gi"}]},
    ]
    (spot, reserved) = flavor_usage([CPU, MEMORY], usage, {CPU: 2000, MEMORY: 2**40})
    assert spot["resources"] == [{"name": "cpu", "total": "2500m", "borrowed": "500m"}]
    assert reserved["resources"] == [{"name": "memory", "total": "3Gi", "borrowed": "0"}]
