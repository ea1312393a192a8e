"""How much of a thing each may have, whatever was taken before and in whatever order it is given back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from corral.core.admission import ANONYMOUS, UserInfo
from corral.server.http.limits import STRANGERS_PART, Pool

TOTAL = 1000
USERS = [UserInfo(f"user{number}") for number in range(6)]
SYSTEM = [UserInfo("root", ("system:masters",)), UserInfo("node", ("system:nodes",))]
EVERYBODY = [*USERS, *SYSTEM, ANONYMOUS]

takes = st.tuples(st.sampled_from(EVERYBODY), st.integers(1, TOTAL))
steps = st.lists(st.one_of(takes, st.integers(0, 50)), max_size=80)
"""Somebody takes so much, or what was taken at some time is given back."""


def played(pool: Pool, todo: list[tuple[UserInfo, int] | int]) -> None:
    taken: list[tuple[UserInfo, int]] = []
    for step in todo:
        if isinstance(step, tuple):
            user, amount = step
            if pool.has_room(user, amount):
                pool.add(user, amount)
                taken.append(step)
        elif taken:
            user, amount = taken.pop(step % len(taken))
            pool.add(user, -amount)


@given(steps)
def test_all_together_and_each_of_them_have_at_most_their_share(todo: list[tuple[UserInfo, int] | int]) -> None:
    pool = Pool(TOTAL, 700)
    played(pool, todo)
    users = sum(pool.held(user) for user in [*USERS, ANONYMOUS])
    assert users <= TOTAL
    assert users + sum(map(pool.held, SYSTEM)) <= 2 * TOTAL
    assert all(pool.held(user) <= TOTAL // 2 for user in USERS)
    assert pool.held(ANONYMOUS) <= TOTAL // (STRANGERS_PART + 1)


@given(st.lists(st.one_of(st.tuples(st.sampled_from(USERS), st.integers(1, TOTAL)), st.integers(0, 50)), max_size=80))
def test_whoever_comes_next_finds_room_however_much_is_taken(todo: list[tuple[UserInfo, int] | int]) -> None:
    pool = Pool(TOTAL, TOTAL)
    played(pool, todo)
    assert pool.has_room(UserInfo("newcomer"), TOTAL // (2 * (len(USERS) + 1)))


@given(st.lists(takes, max_size=80), st.integers(0, TOTAL))
def test_who_has_no_credentials_is_refused_first_and_the_system_last(
    todo: list[tuple[UserInfo, int]], more: int
) -> None:
    pool = Pool(TOTAL, TOTAL)
    played(pool, list(todo))
    newcomer, keeper, others = UserInfo("newcomer"), UserInfo("keeper", ("system:masters",)), pool.held(ANONYMOUS)
    if pool.has_room(ANONYMOUS, more + others):
        assert pool.has_room(newcomer, more)
    if pool.has_room(newcomer, more):
        assert pool.has_room(keeper, more)


def test_what_comes_in_one_piece_may_be_all_that_is_left_but_not_for_strangers() -> None:
    pool = Pool(TOTAL, 100)
    assert pool.has_room_for_first(USERS[0], 5 * TOTAL), "nobody has anything"
    pool.add(USERS[0], 300)
    assert not pool.has_room_for_first(USERS[0], 1)
    assert pool.has_room_for_first(USERS[1], 700)
    assert not pool.has_room_for_first(USERS[1], 701)
    assert not pool.has_room_for_first(ANONYMOUS, 101)


def test_nothing_is_remembered_of_those_who_have_given_everything_back() -> None:
    pool = Pool(TOTAL, TOTAL)
    for number in range(100):
        with pool.taken(UserInfo(f"user{number}"), 5):
            assert pool.held(UserInfo(f"user{number}")) == 5
    assert not pool._held
