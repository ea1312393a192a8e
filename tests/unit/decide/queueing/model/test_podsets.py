"""Reading pod sets: what is remembered of a spec, and what it must not be remembered across."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.meta import Obj
from corral.decide.queueing.devices.claims import Devices
from corral.decide.queueing.model import podsets
from corral.decide.queueing.model.limit_ranges import namespace_limits
from corral.decide.queueing.model.podsets import PodSetReader
from corral.decide.queueing.model.settings import QueueingSettings
from corral.testing.queueing import make_workload


class Counting(PodSetReader):
    """Counts how often pod sets are worked out."""

    def __init__(self, overheads: dict[str, dict[str, str]] | None = None) -> None:
        settings = QueueingSettings()
        super().__init__(settings, {} if overheads is None else overheads, Devices(settings))
        self.worked_out = 0

    def _read(self, *args: Any) -> podsets.PodSets:
        self.worked_out += 1
        return super()._read(*args)


def spec_of_one(**pod: Any) -> Obj:
    spec: Obj = make_workload("w", requests={"cpu": 2})["spec"]
    spec["podSets"][0]["template"]["spec"] |= pod
    return spec


def test_a_spec_that_waits_is_worked_out_once_however_often_its_status_changes() -> None:
    reader, spec = Counting(), spec_of_one()
    found = [reader.read("ns", spec, {"conditions": [{"type": "QuotaReserved", "status": "False"}]}, None)]
    found += [reader.read("ns", spec, {}, None) for _ in range(9)]
    assert reader.worked_out == 1
    assert all(each is found[0] for each in found)


def test_nothing_is_remembered_across_what_requests_depend_on() -> None:
    overheads: dict[str, dict[str, str]] = {}
    reader, spec = Counting(overheads), spec_of_one(runtimeClassName="heavy")
    assert reader.read("ns", spec, {}, None).infos[0].requests == {"cpu": 2000}
    overheads["heavy"] = {"cpu": "1"}
    reader.forget_templates()
    assert reader.read("ns", spec, {}, None).infos[0].requests == {"cpu": 3000}
    limit = {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}
    reader.set_limits("ns", namespace_limits([limit]))
    assert reader.read("ns", spec, {}, None).invalid
    assert not reader.read("elsewhere", spec, {}, None).invalid
    assert reader.read("elsewhere", spec, {"reclaimablePods": [{"name": "main", "count": 1}]}, None).infos[0].count == 0


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podsets, "_MOST_REMEMBERED", 8)
    reader = Counting()
    for _ in range(100):
        reader.read("ns", spec_of_one(), {}, None)
        assert len(reader._waiting) <= 8
