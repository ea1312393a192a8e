"""Objects that nothing acts on are kept, and said to change nothing."""

from __future__ import annotations

from corral.clusters.unattended import UNATTENDED, Unattended
from corral.core.errors import NotFound
from corral.jobs.framework.served_kinds import builtin_kinds
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, EVENTS
from corral.kinds.kubernetes.notices import NAME, NAMESPACE, sentences
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

KINDS = {(kind.group, kind.plural): kind.resource() for kind in builtin_kinds()}
SCALERS = KINDS["autoscaling", "horizontalpodautoscalers"]
INGRESSES = KINDS["networking.k8s.io", "ingresses"]
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


async def said(cluster: VirtualCluster) -> list[str]:
    try:
        return sentences(await cluster.client.get(CONFIG_MAPS, NAME, NAMESPACE))
    except NotFound:
        return []


async def events(cluster: VirtualCluster) -> list[tuple[str, str]]:
    found = (await cluster.client.list(EVENTS)).items
    return [(event["involvedObject"]["name"], event["message"]) for event in found if event["reason"] == "NoController"]


def test_every_such_kind_is_served() -> None:
    assert set(UNATTENDED) <= set(KINDS)


def test_an_object_nothing_acts_on_is_told_of_once_and_as_long_as_it_is_there() -> None:
    async def main() -> None:
        async with VirtualCluster([Unattended]) as cluster:
            await cluster.advance(1)
            assert await said(cluster) == []
            for name in ("b", "a"):
                spec = {"maxReplicas": 3, "scaleTargetRef": TARGET}
                await cluster.client.create(SCALERS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
                await cluster.advance(1)
            line = "no controller here acts on HorizontalPodAutoscaler default/a, default/b: nothing scales by metrics"
            assert await said(cluster) == [line]
            await cluster.client.patch(SCALERS, "a", "default", {"spec": {"maxReplicas": 4}})
            await cluster.advance(1)
            text = "No controller here acts on a HorizontalPodAutoscaler: nothing scales by metrics"
            assert sorted(await events(cluster)) == [("a", text), ("b", text)]
            for name in ("a", "b"):
                await cluster.client.delete(SCALERS, name, "default")
            await cluster.advance(1)
            assert await said(cluster) == []

    run_virtual(main)


def test_an_object_that_somebody_looks_after_is_not_spoken_of() -> None:
    async def main() -> None:
        async with VirtualCluster([Unattended]) as cluster:
            backend = {"service": {"name": "web", "port": {"number": 80}}}
            made = {"metadata": {"name": "i", "namespace": "default"}, "spec": {"defaultBackend": backend}}
            await cluster.client.create(INGRESSES, made)
            await cluster.advance(1)
            assert len(await said(cluster)) == 1
            status = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
            await cluster.client.patch(INGRESSES, "i", "default", status, subresource="status")
            await cluster.advance(1)
            assert await said(cluster) == []

    run_virtual(main)


def test_very_many_objects_are_counted() -> None:
    async def main() -> None:
        async with VirtualCluster([Unattended]) as cluster:
            for number in range(8):
                spec = {"maxReplicas": 3, "scaleTargetRef": TARGET}
                name = {"metadata": {"name": f"s{number}", "namespace": "default"}}
                await cluster.client.create(SCALERS, {**name, "spec": spec})
            await cluster.advance(1)
            [line] = await said(cluster)
            assert "default/s4 and 3 more: nothing scales" in line

    run_virtual(main)
