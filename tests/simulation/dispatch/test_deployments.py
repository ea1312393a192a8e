"""Pods of a Deployment that is dispatched pod by pod."""

from __future__ import annotations

import asyncio

from tests.simulation.dispatch.small_jobs import QUEUE, on_fleet

from corral.core.meta import annotations_of, status_of
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import WORKLOADS
from corral.simulate.fleet import SimulatedFleet


def test_pods_of_a_deployment_stay_together() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        labels = {"app": "web"}
        container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
        metadata = {"name": "web", "namespace": "default", "labels": QUEUE}
        await fleet.manager.client.create(DEPLOYMENTS, {"metadata": metadata, "spec": spec})
        await asyncio.sleep(20)
        found = (await fleet.manager.client.list(WORKLOADS)).items
        assert len(found) == 4
        assert len({status_of(item)["clusterName"] for item in found}) == 1
        pods = (await fleet.manager.client.list(PODS)).items
        assert all(annotations_of(pod)["kueue.x-k8s.io/pod-suspending-parent"] == "deployment" for pod in pods)
        web = await fleet.manager.client.get(DEPLOYMENTS, "web", "default")
        assert status_of(web)["availableReplicas"] == 4

    on_fleet(check, frameworks=("batch/job", "pod", "deployment"))
