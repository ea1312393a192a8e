"""A device is held once on a machine, whoever asks."""

from __future__ import annotations

import uuid

import pytest

from corral.node.machine.claims import DeviceClaims


@pytest.fixture
def names() -> list[str]:
    """Devices that no other test on this machine knows."""
    return [f"test-{uuid.uuid4()}" for _ in range(3)]


def test_a_device_is_held_once_and_free_again_when_it_is_given_back(names: list[str]) -> None:
    one, other = DeviceClaims(), DeviceClaims()
    assert one.take("a", 2, names) == names[:2]
    assert other.take("b", 2, names) == []
    assert other.take("b", 1, names) == names[2:]
    one.give_back("a")
    assert other.take("c", 2, names) == names[:2]
    for claims, holder in ((other, "b"), (other, "c")):
        claims.give_back(holder)


def test_asking_again_gives_the_same(names: list[str]) -> None:
    claims = DeviceClaims()
    assert claims.take("a", 1, names) == claims.take("a", 1, names) == names[:1]
    assert claims.take("a", 2, names) == names[:2]
    claims.give_back("a")
    claims.give_back("nobody")


def test_what_cannot_be_had_as_a_whole_is_left_to_others(names: list[str]) -> None:
    one, other = DeviceClaims(), DeviceClaims()
    assert one.take("a", 4, names) == []
    assert other.take("b", 3, names) == names
    other.give_back("b")


def test_a_gpu_and_shares_of_it_exclude_each_other(names: list[str]) -> None:
    whole = names[:1]
    shares = [f"{whole[0]}#{slot}" for slot in (1, 2)]
    one, other = DeviceClaims(), DeviceClaims()
    assert one.take("a", 1, shares) == shares[:1]
    assert other.take("b", 1, shares) == shares[1:]
    assert other.take("c", 1, whole) == []
    one.give_back("a")
    assert other.take("c", 1, whole) == []
    other.give_back("b")
    assert other.take("c", 1, whole) == whole
    assert one.take("a", 1, shares) == []
    other.give_back("c")
