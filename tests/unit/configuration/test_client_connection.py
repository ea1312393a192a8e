"""How many calls a second controllers make at most: what the document says, and what it means where it says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from corral.configuration.client_connection import BURST, QPS, CallRate, call_rate
from corral.configuration.part import ConfigurationError


@pytest.mark.parametrize(
    ("written", "means"),
    [
        (None, CallRate(QPS, BURST)),
        ({}, CallRate(QPS, BURST)),
        ({"qps": 0, "burst": 0}, CallRate(QPS, BURST)),
        ({"qps": 50, "burst": 100}, CallRate(50.0, 100)),
        ({"qps": 0.2}, CallRate(0.2, 1)),
        ({"qps": 20}, CallRate(20.0, 40)),
        ({"burst": 5}, CallRate(QPS, 5)),
        ({"qps": -1, "burst": 7}, CallRate(None)),
    ],
)
def test_zero_is_the_default_and_a_negative_rate_is_no_limit(written: Any, means: CallRate) -> None:
    assert call_rate({"clientConnection": written}) == means


@pytest.mark.parametrize("written", [{"qps": "many"}, {"qps": True}, {"burst": -1}, {"burst": "x"}, 5])
def test_what_is_no_number_is_refused_with_the_field(written: Any) -> None:
    with pytest.raises(ConfigurationError, match="clientConnection"):
        call_rate({"clientConnection": written})
