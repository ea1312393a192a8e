"""Quota arithmetic: lending, borrowing, bubbling, cycles."""

from __future__ import annotations

import pytest

from corral.decide.queueing.model.values import FlavorResource, ResourceQuota
from corral.decide.queueing.quota import tree as quota_tree
from corral.decide.queueing.quota.tree import QuotaForest, fit_in_quota, lowest_fitting_subtree

CPU = FlavorResource("default", "cpu")


def forest(
    cohorts: dict[str, tuple[str, tuple[int | None, ...]]], queues: dict[str, tuple[str, tuple[int | None, ...]]]
) -> QuotaForest:
    built = QuotaForest()
    for name, (parent, limits) in cohorts.items():
        built.set_cohort(name, parent, {CPU: ResourceQuota(*limits)} if limits else {}, 1.0)  # type: ignore[arg-type]
    for name, (parent, limits) in queues.items():
        built.set_queue(name, parent, {CPU: ResourceQuota(*limits)} if limits else {}, 1.0)  # type: ignore[arg-type]
    built.settle()
    return built


def test_a_lone_queue_has_its_nominal_quota() -> None:
    node = forest({}, {"q": ("", (10,))}).queues["q"]
    node.add({CPU: 4})
    assert (node.available(CPU), node.potential(CPU)) == (6, 10)


def test_lending_limits_keep_part_of_the_quota_at_home() -> None:
    tree = forest({}, {"lend1": ("co", (6, None, 4)), "lend2": ("co", (6, None, 2))})
    one, two, cohort = tree.queues["lend1"], tree.queues["lend2"], tree.cohorts["co"]
    assert (one.local[CPU], two.local[CPU]) == (2, 4)
    assert cohort.subtree[CPU] == 6
    assert one.potential(CPU) == 8
    one.add({CPU: 2})
    assert cohort.usage.get(CPU, 0) == 0
    one.add({CPU: 3})
    assert cohort.usage[CPU] == 3
    assert two.available(CPU) == 4 + 3
    one.remove({CPU: 4})
    assert cohort.usage[CPU] == 0
    assert one.usage[CPU] == 1


def test_borrowing_limits_bound_what_the_cohort_gives() -> None:
    tree = forest({}, {"a": ("co", (5, 2)), "b": ("co", (10,))})
    node = tree.queues["a"]
    assert (node.available(CPU), node.potential(CPU)) == (7, 7)
    tree.queues["b"].add({CPU: 9})
    assert node.available(CPU) == 6


def test_available_may_be_negative_after_a_cut() -> None:
    tree = forest({}, {"a": ("co", (5,)), "b": ("co", (5,))})
    tree.queues["a"].add({CPU: 9})
    tree.set_queue("b", "co", {CPU: ResourceQuota(1)}, 1.0)
    tree.settle()
    assert tree.queues["a"].available(CPU) == -3
    assert tree.queues["b"].available(CPU) == -3


def test_undoing_a_change_restores_every_ancestor() -> None:
    tree = forest({"root": ("", (3,)), "mid": ("root", (2, None, 1))}, {"q": ("mid", (4, None, 2))})
    node = tree.queues["q"]
    node.add({CPU: 3})
    before = {name: cohort.usage.get(CPU, 0) for name, cohort in tree.cohorts.items()}
    node.add({CPU: 5})
    node.remove({CPU: 5})
    assert {name: cohort.usage.get(CPU, 0) for name, cohort in tree.cohorts.items()} == before


@pytest.mark.parametrize(("amount", "expected"), [(4, (0, True)), (6, (1, True)), (9, (2, False)), (50, (2, False))])
def test_the_lowest_subtree_that_fits(amount: int, expected: tuple[int, bool]) -> None:
    tree = forest({"root": ("", (3,)), "mid": ("root", (2,))}, {"q": ("mid", (4,)), "r": ("root", ())})
    assert lowest_fitting_subtree(tree.queues["q"], CPU, amount) == expected


def test_fit_in_quota_passes_on_what_is_not_kept_locally() -> None:
    tree = forest({}, {"q": ("co", (4, None, 1)), "r": ("co", (4,))})
    assert fit_in_quota(tree.queues["q"], {CPU: 4}) == (True, {CPU: 1})
    assert fit_in_quota(tree.queues["q"], {CPU: 5}) == (False, {CPU: 2})


def test_a_cycle_of_cohorts_is_cut_out_and_heals() -> None:
    tree = forest({"a": ("b", ()), "b": ("a", ()), "c": ("", (5,))}, {"x": ("a", (1,)), "y": ("c", (1,))})
    assert tree.is_broken(tree.queues["x"])
    assert not tree.is_broken(tree.queues["y"])
    tree.queues["x"].add({CPU: 1})
    tree.set_cohort("b", "c", {}, 1.0)
    tree.settle()
    assert not tree.is_broken(tree.queues["x"])
    assert tree.cohorts["c"].usage[CPU] == 1
    assert tree.cohorts["c"].subtree[CPU] == 7


def test_a_cohort_that_is_its_own_parent_is_a_cycle() -> None:
    tree = forest({"a": ("a", (5,))}, {"x": ("a", (1,))})
    assert tree.is_broken(tree.queues["x"])


def test_a_mentioned_cohort_exists_until_nobody_mentions_it() -> None:
    tree = forest({}, {"x": ("implicit", (1,))})
    assert "implicit" in tree.cohorts
    tree.delete_queue("x")
    assert "implicit" not in tree.cohorts


def test_a_deleted_cohort_object_keeps_its_members_together() -> None:
    tree = forest({"co": ("", (5,))}, {"x": ("co", (1,)), "y": ("co", (1,))})
    tree.delete_cohort("co")
    tree.settle()
    assert tree.queues["x"].potential(CPU) == 2


def test_a_tree_is_worked_out_once_however_many_of_its_queues_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_out: list[str] = []
    refresh = quota_tree.refresh_subtree
    monkeypatch.setattr(quota_tree, "refresh_subtree", lambda node: (worked_out.append(node.name), refresh(node)))
    forest({}, {f"{cohort}{number}": (cohort, (1,)) for cohort in "ab" for number in range(20)})
    assert len(worked_out) == 2 + 40
