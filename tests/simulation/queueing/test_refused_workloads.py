"""Pod templates that pods may have and Workloads not, and Workloads that the API refuses all the same."""

from __future__ import annotations

import pytest

from corral.core.admission import AdmissionRequest
from corral.core.errors import ApiError, Forbidden, InternalError, Invalid
from corral.core.meta import Obj
from corral.kinds.kueue import names
from corral.runtime.virtual import run_virtual

from .world import PODS, World, cluster_queue, fill, flavor, job, local_queue

ENV = [{"name": "A", "value": "1"}, {"name": "B", "value": "x"}, {"name": "A", "value": "2"}]
PORTS = [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "TCP"}]
ALIASES = [{"ip": "10.1.1.1", "hostnames": ["a"]}, {"ip": "10.1.1.1", "hostnames": ["b"]}]


def pod(init: Obj | None = None, main: Obj | None = None, **fields: object) -> Obj:
    resources = {"requests": {"cpu": "1"}}
    main = {"name": "main", "image": "busybox", "resources": resources, **(main or {})}
    inits = {"initContainers": [{"name": "init", "image": "busybox", **init}]} if init else {}
    return {"restartPolicy": "Never", "containers": [main], **inits, **fields}


REPEATING = {
    "variables": pod(main={"env": ENV}),
    "variables of init containers": pod(init={"env": ENV}),
    "ports": pod(main={"ports": PORTS}),
    "host aliases": pod(hostAliases=ALIASES),
    "pull secrets": pod(imagePullSecrets=[{"name": "s"}, {"name": "s"}]),
}


@pytest.mark.parametrize("spec", REPEATING.values(), ids=REPEATING)
def test_a_job_whose_template_repeats_something_is_queued_once_and_runs_as_written(spec: Obj) -> None:
    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue(), local_queue(), job(pod=spec))
            await world.advance(60)
            [workload] = await world.workloads()
            started = await world.job("sample")
            assert started["spec"]["suspend"] is False
            for field in ("hostAliases", "imagePullSecrets"):
                assert started["spec"]["template"]["spec"].get(field) == spec.get(field)
            assert started["spec"]["template"]["spec"]["containers"][0].get("env") == spec["containers"][0].get("env")
            reasons = [reason for reason, _ in await world.events_of("sample")]
            assert reasons.count("CreatedWorkload") == reasons.count("Started") == 1
            [container] = workload["spec"]["podSets"][0]["template"]["spec"]["containers"]
            if "env" in spec["containers"][0]:
                assert container["env"] == [ENV[2], ENV[1]]

    run_virtual(main)


def test_a_pod_that_repeats_something_is_queued() -> None:
    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(), cluster_queue(), local_queue())
            metadata = {"name": "alone", "namespace": "default", "labels": {names.QUEUE_NAME: "lq"}}
            await world.client.create(PODS, {"metadata": metadata, "spec": pod(main={"env": ENV})})
            await world.advance(5)
            assert await world.workload_of("alone")

    run_virtual(main)


class Refusing:
    """Refuses Workloads, as a policy, a quota or a webhook may."""

    name = "Refusing"

    def __init__(self, error: ApiError) -> None:
        self.error: ApiError | None = error

    def handles(self, request: AdmissionRequest) -> bool:
        return request.resource.plural == "workloads" and request.operation == "CREATE"

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("kind", [Forbidden, InternalError, Invalid])
def test_a_job_is_told_why_its_workload_is_refused_and_queued_once_it_is_not(kind: type[ApiError]) -> None:
    async def main() -> None:
        refusing = Refusing(kind("no more than none"))
        async with World(extra=[refusing]) as world:
            await fill(world, flavor(), cluster_queue(), local_queue(), job())
            await world.advance(30)
            assert await world.workloads() == []
            [(reason, message)] = [event for event in await world.events_of("sample") if event[0] != "Suspended"]
            assert reason == "ErrWorkloadCompose"
            assert message.startswith("Could not create Workload default/job-sample-")
            assert "no more than none" in message
            refusing.error = None
            await world.advance(600)
            assert (await world.job("sample"))["spec"]["suspend"] is False

    run_virtual(main)
