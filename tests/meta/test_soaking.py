"""What `make soak` promises: how much of each part, all of it in chunks, and every part early on in a short run."""

from __future__ import annotations

from tests.soaking import PARTS, in_turns, only_soaking


def test_a_part_is_gone_through_whole_and_once() -> None:
    for name, part in PARTS.items():
        chunks = [param.values[0] for param in only_soaking(name, first=7).args[1]]
        assert [number for chunk in chunks for number in chunk] == list(range(7, 7 + part.count))
        assert max(map(len, chunks)) == part.chunk


def test_parts_take_turns() -> None:
    names = ["a.py::one[1]", "a.py::one[2]", "a.py::one[3]", "a.py::two[1]", "b.py::one"]
    assert in_turns(names) == ["a.py::one[1]", "a.py::two[1]", "b.py::one", "a.py::one[2]", "a.py::one[3]"]
    assert in_turns([]) == []


def test_the_long_run_is_as_long_as_is_said() -> None:
    assert {name: PARTS[name].count for name in PARTS if name.startswith(("kills", "seeds", "requests"))} == {
        "kills of a store": 1_000,
        "kills of a server": 1_000,
        "kills of a node supervisor under load": 200,
        "kills of a whole fleet under load": 200,
        "seeds of dispatch faults": 10_000,
        "seeds of placement faults on a hub": 2_000,
        "seeds of placement faults on a fleet": 2_000,
        "requests of noise": 1_000_000,
    }
