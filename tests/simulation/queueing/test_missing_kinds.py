"""Queueing in a cluster that does not serve every kind it follows: older Kubernetes, operators that are not installed."""

from __future__ import annotations

import pytest

from corral.core.errors import NotFound
from corral.jobs.framework.served_kinds import builtin_registry, full_registry, native_kinds
from corral.kinds.machinery.registry import Registry
from corral.runtime.virtual import run_virtual

from .test_devices import CONFIG, claiming, cluster_queue, device_class, template
from .world import World, fill, flavor, job, local_queue

DEVICES = "resource.k8s.io"


def registry_without(*groups: str) -> Registry:
    served = Registry()
    for kind in full_registry():
        if kind.group not in groups:
            served.add(kind)
    return served


def only_the_queues() -> Registry:
    return registry_without(DEVICES, *(kind.group for kind in native_kinds() if kind.group != "kueue.x-k8s.io"))


def test_jobs_are_admitted_where_devices_and_other_kinds_of_jobs_are_not_served() -> None:
    async def main() -> None:
        async with World(registry=only_the_queues()) as world:
            with pytest.raises(NotFound):
                await fill(world, device_class())
            await fill(world, flavor(), cluster_queue("0"), local_queue(), job("plain"))
            assert (await world.job("plain"))["spec"]["suspend"] is False

    run_virtual(main)


def test_what_is_served_later_is_followed_from_then_on() -> None:
    async def main() -> None:
        served = registry_without(DEVICES)
        async with World(CONFIG, registry=served) as world:
            await fill(world, flavor(), cluster_queue("2"), local_queue(), claiming("early"))
            assert (await world.job("early"))["spec"]["suspend"] is True
            for kind in builtin_registry():
                if kind.group == DEVICES:
                    served.add(kind)
            await fill(world, device_class(), template(2))
            await world.advance(60)
            assert (await world.job("early"))["spec"]["suspend"] is False

    run_virtual(main)
