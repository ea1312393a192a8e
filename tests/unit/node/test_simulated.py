"""What simulated containers do, and in which order pods wait."""

from __future__ import annotations

import math

import pytest

from corral.core.meta import Key, Obj
from corral.decide.pods.workload import PodView
from corral.node.pending import Pending
from corral.node.simulated import Behaviour, behaviour, guess


@pytest.mark.parametrize(
    ("argv", "want"),
    [
        ([], (10.0, 0)),
        (["sleep", "30"], (30.0, 0)),
        (["/bin/sh", "-c", "sleep 5; echo hi; sleep 2.5; exit 3"], (7.5, 3)),
        (["/bin/true"], (0.0, 0)),
        (["false"], (0.0, 1)),
        (["sh", "-c", "exit 42"], (0.0, 42)),
        (["/agnhost", "pause"], (math.inf, 0)),
        (["sleep", "infinity"], (math.inf, 0)),
        (["entrypoint-tester"], (0.0, 0)),
        (["python", "train.py"], (10.0, 0)),
    ],
)
def test_guess(argv: list[str], want: tuple[float, int]) -> None:
    assert guess(argv, 10.0) == want


def pod(**annotations: str) -> Obj:
    named = {f"corral.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {"metadata": {"annotations": named}, "spec": {"containers": [{"name": "c"}, {"name": "d"}]}}


def test_annotations_win() -> None:
    subject = pod(run_seconds="5", exit_code="3", ready_seconds="1", stop_seconds="2")
    subject["metadata"]["annotations"]["corral.dev/run-seconds.d"] = "forever"
    assert behaviour(subject, {"name": "c", "command": ["sleep", "99"]}, 10) == Behaviour(5, 3, 0, 0, 1, 2, 143)
    assert behaviour(subject, {"name": "d"}, 10).run_s == math.inf


def test_failures_come_first() -> None:
    subject = behaviour(pod(failures="2"), {"name": "c"}, 10)
    assert [subject.code(attempt) for attempt in range(4)] == [1, 1, 0, 0]


def view(name: str, priority: int = 0, created: str = "1", shape: str = "s") -> PodView:
    return PodView(Key("ns", name), name, {}, priority, {}, {}, shape, frozenset(), created, 0.0, True)


def drained(pending: Pending) -> list[str]:
    return [pod.uid for pod in iter(pending.take, None)]


def test_important_then_old_pods_first() -> None:
    pending = Pending()
    for entry in (view("b", created="2"), view("a", created="1"), view("vip", priority=9, created="3")):
        pending.add(entry)
    assert drained(pending) == ["vip", "a", "b"]


def test_only_the_first_of_a_group_is_tried_when_room_appears() -> None:
    pending = Pending()
    first, second, other = view("a"), view("b"), view("x", shape="t")
    pending.park(first)
    assert pending.park_behind(second)
    pending.park(other)
    pending.wake()
    assert sorted(drained(pending)) == ["a", "x"]
    assert len(pending) == 1
    pending.next_of(first)
    assert drained(pending) == ["b"]


def test_woken_pod_is_not_sent_behind_its_group() -> None:
    pending = Pending()
    pending.park(view("a"))
    pending.park_behind(view("b"))
    pending.wake()
    woken = pending.take()
    assert woken is not None
    assert not pending.park_behind(woken)
    assert pending.park_behind(view("new"))


def test_removed_pods_are_forgotten() -> None:
    pending = Pending()
    pending.add(view("a"))
    pending.park(view("b"))
    pending.remove("a")
    pending.remove("b")
    pending.wake()
    assert drained(pending) == []
    assert len(pending) == 0
