"""Jobs that claim devices, through the real API and controllers."""

from __future__ import annotations

from corral.configuration.queueing import QueueingConfig, load_config
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kubernetes.dynamic_resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES
from corral.kinds.kueue import CLUSTER_QUEUES
from corral.runtime.virtual import run_virtual

from .world import World, condition, fill, flavor, job, local_queue

CONFIG: QueueingConfig = load_config(
    {"resources": {"deviceClassMappings": [{"name": "gpus", "deviceClassNames": ["gpu.example.com"]}]}}
)


def cluster_queue(gpus: str) -> tuple[Resource, Obj]:
    quotas = [{"name": "cpu", "nominalQuota": "8"}, {"name": "gpus", "nominalQuota": gpus}]
    group = {"coveredResources": ["cpu", "gpus"], "flavors": [{"name": "default", "resources": quotas}]}
    return CLUSTER_QUEUES, {"metadata": {"name": "cq"}, "spec": {"namespaceSelector": {}, "resourceGroups": [group]}}


def device_class() -> tuple[Resource, Obj]:
    return DEVICE_CLASSES, {"metadata": {"name": "gpu.example.com"}, "spec": {}}


def template(count: int, name: str = "gpus") -> tuple[Resource, Obj]:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": count}}
    metadata = {"name": name, "namespace": "default"}
    return RESOURCE_CLAIM_TEMPLATES, {"metadata": metadata, "spec": {"spec": {"devices": {"requests": [request]}}}}


def claiming(name: str, claims: str = "gpus") -> tuple[Resource, Obj]:
    resources = {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]}
    pod = {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": claims}],
        "containers": [{"name": "main", "image": "busybox", "resources": resources}],
    }
    return job(name, pod=pod)


def test_devices_are_counted_and_queued_for() -> None:
    async def main() -> None:
        async with World(CONFIG) as world:
            await fill(world, flavor(), cluster_queue("3"), local_queue(), device_class(), template(2))
            await fill(world, claiming("one"))
            await fill(world, claiming("two"))
            first = await world.workload_of("one")
            (assignment,) = first["status"]["admission"]["podSetAssignments"]
            assert assignment["resourceUsage"] == {"cpu": "1", "gpus": "2"}
            assert assignment["flavors"] == {"cpu": "default", "gpus": "default"}
            found = condition(await world.workload_of("two"), "QuotaReserved")
            assert found == (
                "False",
                "Pending",
                "couldn't assign flavors to pod set main: insufficient unused quota for gpus in flavor default, 1 more needed",
            )
            await world.finish_job("one")
            await world.advance(2)
            assert (await world.job("two"))["spec"]["suspend"] is False

    run_virtual(main)


def test_a_missing_template_is_named_until_it_is_there() -> None:
    async def main() -> None:
        async with World(CONFIG) as world:
            await fill(world, flavor(), cluster_queue("3"), local_queue(), device_class(), claiming("one", "late"))
            status, reason, message = condition(await world.workload_of("one"), "QuotaReserved") or ("", "", "")
            assert (status, reason) == ("False", "Inadmissible")
            assert message.endswith('resourceclaimtemplates.resource.k8s.io "late" not found')
            await fill(world, template(1, "late"))
            await world.advance(2)
            assert (await world.job("one"))["spec"]["suspend"] is False

    run_virtual(main)
