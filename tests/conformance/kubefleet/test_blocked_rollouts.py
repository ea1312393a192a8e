"""A rollout waits for what does not come up, kind by kind."""

from __future__ import annotations

import pytest
from hub import Hub, on_hub
from test_rollout import ONE_BY_ONE

from corral.configuration.placement import PlacementSettings
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.apps.kinds import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS
from corral.kinds.kubernetes.core.kinds import SERVICES

LABELS = {"matchLabels": {"app": "x"}}
POD = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
ENDING = {"spec": {**POD["spec"], "restartPolicy": "Never"}}
KINDS: dict[str, tuple[Resource, Obj, Obj]] = {
    "Deployment": (DEPLOYMENTS, {"selector": LABELS, "template": POD}, {"spec": {"minReadySeconds": 1}}),
    "DaemonSet": (DAEMON_SETS, {"selector": LABELS, "template": POD}, {"spec": {"minReadySeconds": 1}}),
    "StatefulSet": (
        STATEFUL_SETS,
        {"selector": LABELS, "template": POD, "serviceName": "x"},
        {"spec": {"minReadySeconds": 1}},
    ),
    "Service": (
        SERVICES,
        {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "x"}},
        {"metadata": {"labels": {"changed": "yes"}}},
    ),
    "Job": (JOBS, {"suspend": True, "template": ENDING}, {"spec": {"backoffLimit": 1}}),
}


@pytest.mark.parametrize(("kind", "updated"), [(kind, 3 if kind == "Job" else 1) for kind in KINDS])
def test_77_and_78_what_does_not_come_up_holds_back_the_rest_unless_it_is_a_job(kind: str, updated: int) -> None:
    resource, spec, change = KINDS[kind]

    async def scenario(hub: Hub) -> None:
        await hub.namespace("app")
        await hub.client.create(resource, {"metadata": {"name": "x", "namespace": "app"}, "spec": spec})
        await hub.place("app", strategy=ONE_BY_ONE)
        await hub.advance(60)
        if kind != "Job":
            hub.members.broken.add(("cluster-1", "x"))
        old = await hub.manifests("cluster-3", "app-work")
        await hub.patch(resource, "x", change, "app")
        await hub.advance(120)
        now = [await hub.manifests(f"cluster-{number}", "app-work") for number in (1, 2, 3)]
        assert sum(manifests != old for manifests in now) == updated

    on_hub(scenario, settings=PlacementSettings(admit_workloads=True))
