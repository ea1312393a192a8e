"""The `clientConnection` part of the configuration: how many calls a second the controllers make of a real API server at most."""

from __future__ import annotations

from dataclasses import dataclass

from corral.configuration.part import ConfigurationError, Part
from corral.core.meta import Obj

QPS, BURST = 1000.0, 2000
"""More than one process makes, so that they matter only when something has gone wrong."""


@dataclass(frozen=True, slots=True)
class CallRate:
    """`qps` calls a second in the long run, None for as many as there are, and `burst` at once."""

    qps: float | None = QPS
    burst: int = BURST


def call_rate(configuration: Obj | Part) -> CallRate:
    """The rate in a `config.kueue.x-k8s.io` Configuration document; as upstream, 0 is the default and a negative qps no limit."""
    part = Part.of(configuration).part("clientConnection")
    qps, burst = part.amount("qps", 0.0, float("-inf")), part.number("burst", 0)
    if burst < 0:
        raise ConfigurationError(
            f"{part.at('burst')}: expected a number of at least 0, got {burst}; a negative qps lifts the limit"
        )
    if qps < 0:
        return CallRate(None)
    return CallRate(qps or QPS, burst or (BURST if not qps else max(1, round(2 * qps))))
