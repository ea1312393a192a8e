"""Metrics: one Prometheus registry per process, and the few metrics every controller has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

# Creation times would double the series of every counter and histogram, and nobody asks for them.
disable_created_metrics()  # type: ignore[no-untyped-call]

Part = TypeVar("Part")


class _Reconciles(Collector):
    """Reconciles by controller and result. A job takes a hundred of them, so they are counted without a lock each."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}

    def count(self, controller: str, result: str) -> None:
        """Count one reconcile."""
        self._counts[controller, result] = self._counts.get((controller, result), 0) + 1

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(
            "corral_reconcile", "Reconciles by controller and result", labels=("controller", "result")
        )
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        yield family


class _Shown(Collector):
    """What a scrape gets of a registry: a metric without a series is not spoken of, as upstream's are not."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Family]:
        return (family for family in self._registry.collect() if family.samples)


class _Together(Collector):
    """What a scrape gets of several registries: a metric that is in more than one of them is told once, with all its series."""

    def __init__(self, parts: Iterable[Metrics]) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Family]:
        found: dict[str, Family] = {}
        for part in self._parts:
            for family in part.registry.collect():
                if family.name in found:
                    found[family.name].samples.extend(family.samples)
                elif family.samples:
                    found[family.name] = family
        return iter(found.values())


def exposition_of(parts: Iterable[Metrics]) -> bytes:
    """The text a scrape gets of a process whose parts count for themselves."""
    return generate_latest(_Together(parts))


class Metrics:
    """A registry and the counters of the controller runtime. Components add their own through `counter`, `gauge`, `histogram`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._reconciles = _Reconciles()
        self.registry.register(self._reconciles)
        self.reconciles = self._reconciles.count
        self._parts: dict[Callable[[Metrics], Any], Any] = {}

    def part(self, make: Callable[[Metrics], Part]) -> Part:
        """The metrics that `make` adds to this registry, made once however many controllers ask for them."""
        if make not in self._parts:
            self._parts[make] = make(self)
        part: Part = self._parts[make]
        return part

    def counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def histogram(
        self, name: str, text: str, labels: tuple[str, ...] = (), buckets: tuple[float, ...] = Histogram.DEFAULT_BUCKETS
    ) -> Histogram:
        return Histogram(name, text, labels, registry=self.registry, buckets=buckets)

    def exposition(self) -> bytes:
        """The text a scrape gets."""
        return generate_latest(_Shown(self.registry))
