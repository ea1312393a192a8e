"""Windows, places for large bodies, and patience."""

from __future__ import annotations

import pytest

from corral.server.http.http2.flow import LARGEST_WINDOW, Arrivals, Patience, Places, widened
from corral.server.http.http2.frames import Code, ConnectionFault


def test_a_window_may_become_negative_but_not_too_wide() -> None:
    assert widened(10, -30) == -20
    assert widened(0, LARGEST_WINDOW) == LARGEST_WINDOW
    with pytest.raises(ConnectionFault) as caught:
        widened(1, LARGEST_WINDOW)
    assert caught.value.code == Code.FLOW_CONTROL_ERROR


def test_what_has_come_is_given_back_in_large_steps() -> None:
    arrivals = Arrivals(100)
    assert [arrivals.take(size) for size in (10, 30, 10, 60, 100)] == [0, 0, 50, 60, 100]
    with pytest.raises(ConnectionFault):
        arrivals.take(101)


def test_places_go_to_those_who_wait_in_their_order() -> None:
    places = Places(2)
    assert [places.ask(who) for who in (1, 3, 5, 7, 9)] == [True, True, False, False, False]
    assert places.leave(5) is None
    assert places.leave(1) == 7
    assert places.leave(1) is None
    assert places.leave(3) == 9
    assert [places.leave(7), places.leave(9)] == [None, None]
    assert places.ask(11)


def test_patience_comes_back_with_time() -> None:
    patience = Patience(3, 1.0, 0.0)
    for _ in range(3):
        patience.spend(0.0)
    patience.spend(1.0)
    with pytest.raises(ConnectionFault) as caught:
        patience.spend(1.0)
    assert caught.value.code == Code.ENHANCE_YOUR_CALM
