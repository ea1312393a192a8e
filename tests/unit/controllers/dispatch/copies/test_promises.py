"""Room that was promised on workers is summed as it is given and taken back, whatever the order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from corral.controllers.dispatch.copies.promises import Promises
from corral.core.meta import Key

KEYS = [Key("default", name) for name in "abc"]
CLUSTERS = ("one", "two")
STEPS = st.lists(st.tuples(st.sampled_from(KEYS), st.sets(st.sampled_from(CLUSTERS)), st.integers(0, 5)))


@given(STEPS)
def test_the_sum_is_that_of_all_others_that_are_counted_there(steps: list[tuple[Key, set[str], int]]) -> None:
    promises, shown = Promises(), dict[tuple[str, Key], int]()
    for key, clusters, cpu in steps:
        promises.keep(key, clusters, lambda cpu=cpu: {"cpu": cpu})  # type: ignore[misc]
        for cluster in CLUSTERS:
            if cluster in clusters:
                shown.setdefault((cluster, key), cpu)
            else:
                shown.pop((cluster, key), None)
    for cluster in CLUSTERS:
        for key in KEYS:
            wanted = sum(cpu for (where, other), cpu in shown.items() if where == cluster and other != key)
            assert promises.total(cluster, key) == ({"cpu": wanted} if wanted else {})
        assert {key for key, _ in promises.of(cluster)} == {key for where, key in shown if where == cluster}


def test_amounts_are_asked_for_once_while_it_is_counted() -> None:
    promises, asked = Promises(), list[Any]()

    def amounts() -> dict[str, int]:
        asked.append(1)
        return {"cpu": 1}

    for _ in range(3):
        promises.keep(KEYS[0], ("one",), amounts)
    assert len(asked) == 1
