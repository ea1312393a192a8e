"""The provisioning admission check, through the real API and controllers; the autoscaler is played by the tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.simulation.queueing.world import World, cluster_queue, condition, fill, flavor, job, local_queue

from corral.configuration.queueing import QueueingConfig
from corral.core.conditions import condition as make_condition
from corral.core.conditions import set_condition
from corral.core.errors import ApiError, Invalid
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    PROVISIONING_REQUEST_CONFIGS,
    WORKLOADS,
    names,
)
from corral.kinds.kueue.gates import FeatureGates
from corral.kinds.kueue.provisioning import CLASS_NAME, CONSUME, PROVISIONING_REQUESTS
from corral.runtime.virtual import run_virtual

POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate")
CHECK = "prov"
STRATEGY = {"admissionChecks": [{"name": CHECK}]}


def check(name: str = CHECK, config: str = "config", **parameters: str) -> tuple[Resource, Obj]:
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": config, **parameters}
    spec = {"controllerName": names.PROVISIONING_CONTROLLER, "parameters": reference}
    return ADMISSION_CHECKS, {"metadata": {"name": name}, "spec": spec}


def config(name: str = "config", **spec: Any) -> tuple[Resource, Obj]:
    return PROVISIONING_REQUEST_CONFIGS, {
        "metadata": {"name": name},
        "spec": {"provisioningClassName": "atomic.example.com", **spec},
    }


Scenario = Callable[[World], Awaitable[None]]


def run(scenario: Scenario, *objects: tuple[Resource, Obj], gates: dict[str, bool] | None = None) -> None:
    """A queue with a provisioning check; `objects` stand for the configuration."""

    async def main() -> None:
        async with World(QueueingConfig(gates=FeatureGates(gates or {}))) as world:
            queue = cluster_queue(admissionChecksStrategy=STRATEGY)
            await fill(world, flavor(nodeLabels={"pool": "a"}), queue, local_queue(), check(), *objects)
            await scenario(world)

    run_virtual(main)


async def requests(world: World) -> list[Obj]:
    return (await world.client.list(PROVISIONING_REQUESTS)).items


async def templates(world: World) -> list[Obj]:
    return (await world.client.list(POD_TEMPLATES)).items


async def the_request(world: World) -> Obj:
    (request,) = await requests(world)
    return request


async def answer(world: World, kind: str, message: str = "", *, status: bool = True, **more: Any) -> None:
    """Write a condition as an autoscaler does."""
    request = await the_request(world)
    held = request.get("status") or {}
    entry = make_condition(kind, status, kind, message)
    written = set_condition(held.get("conditions") or [], entry, world.clock.timestamp())
    new = {**request, "status": {**held, "conditions": written, **more}}
    await world.client.update(PROVISIONING_REQUESTS, new, subresource="status")
    await world.settle()


async def state(world: World, name: str = "sample") -> Obj:
    (found,) = (await world.workload_of(name))["status"]["admissionChecks"]
    return dict(found)


async def suspended(world: World, name: str = "sample") -> bool:
    return bool((await world.job(name))["spec"]["suspend"])


# The check itself


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            [check(config="ghost")],
            ("False", "BadParametersRef", 'ProvisioningRequestConfig.kueue.x-k8s.io "ghost" not found'),
            id="config missing",
        ),
        pytest.param(
            [check(apiGroup="example.com")],
            (
                "False",
                "BadParametersRef",
                'wrong group "example.com", expecting "kueue.x-k8s.io": bad parameters reference',
            ),
            id="bad ref group",
        ),
        pytest.param(
            [check(kind="MultiKueueConfig")],
            (
                "False",
                "BadParametersRef",
                'wrong kind "MultiKueueConfig", expecting "ProvisioningRequestConfig": bad parameters reference',
            ),
            id="bad ref kind",
        ),
        pytest.param([check(), config()], ("True", "Active", "The admission check is active"), id="config found"),
    ],
)
def test_whether_a_check_is_active(objects: list[tuple[Resource, Obj]], expected: tuple[str, str, str]) -> None:
    async def main() -> None:
        async with World() as world:
            await fill(world, *objects)
            assert condition(await world.client.get(ADMISSION_CHECKS, CHECK), "Active") == expected

    run_virtual(main)


def test_a_check_without_parameters_is_not_active_and_foreign_checks_are_left_alone() -> None:
    async def main() -> None:
        async with World() as world:
            bare = {"metadata": {"name": CHECK}, "spec": {"controllerName": names.PROVISIONING_CONTROLLER}}
            foreign = {"metadata": {"name": "foreign"}, "spec": {"controllerName": "example.com/people"}}
            await fill(world, (ADMISSION_CHECKS, bare), (ADMISSION_CHECKS, foreign))
            found = condition(await world.client.get(ADMISSION_CHECKS, CHECK), "Active")
            assert found == ("False", "BadParametersRef", "missing parameters reference")
            assert condition(await world.client.get(ADMISSION_CHECKS, "foreign"), "Active") is None

    run_virtual(main)


def test_a_check_follows_its_configuration() -> None:
    async def scenario(world: World) -> None:
        assert (condition(await world.client.get(CLUSTER_QUEUES, "cq"), "Active") or ())[0] == "False"
        await fill(world, config())
        assert (condition(await world.client.get(CLUSTER_QUEUES, "cq"), "Active") or ())[0] == "True"
        await world.client.delete(PROVISIONING_REQUEST_CONFIGS, "config")
        await world.settle()
        assert (condition(await world.client.get(ADMISSION_CHECKS, CHECK), "Active") or ())[0] == "False"

    run(scenario)


# What is asked for


def test_no_request_before_quota_is_reserved() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job(cpu="5"))
        assert (condition(await world.workload_of("sample"), "QuotaReserved") or ())[0] == "False"
        assert await requests(world) == []
        assert await templates(world) == []

    run(scenario, config())


def test_a_request_with_its_templates_once_quota_is_reserved() -> None:
    async def scenario(world: World) -> None:
        pod = {"containers": [{"name": "main", "image": "x", "resources": {"limits": {"cpu": "1"}}}]}
        annotations = {f"{names.PROVISIONING_ANNOTATION_PREFIX}ValidUntilSeconds": "60", "other": "x"}
        await fill(world, job(parallelism=2, completions=2, pod=pod, annotations=annotations))
        workload, request = await world.workload_of("sample"), await the_request(world)
        name = workload["metadata"]["name"]
        assert request["metadata"]["name"] == f"{name}-{CHECK}-1"
        assert request["metadata"]["labels"] == {names.MANAGED: "true"}
        (owner,) = request["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Workload", name, True)
        assert request["spec"] == {
            "provisioningClassName": "atomic.example.com",
            "parameters": {"zone": "b", "ValidUntilSeconds": "60"},
            "podSets": [{"podTemplateRef": {"name": f"ppt-{name}-{CHECK}-1-main"}, "count": 2}],
        }
        (template,) = await templates(world)
        assert template["metadata"]["name"] == f"ppt-{name}-{CHECK}-1-main"
        assert template["metadata"]["labels"] == {names.MANAGED: "true"}
        (owner,) = template["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("ProvisioningRequest", request["metadata"]["uid"])
        spec = template["template"]["spec"]
        assert spec["nodeSelector"] == {"pool": "a"}
        assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1"}
        assert (await state(world))["state"] == "Pending"
        assert await suspended(world)
        events = await world.events_of(name)
        assert ("ProvisioningRequestCreated", f'Created ProvisioningRequest: "{name}-{CHECK}-1"') in events

    run(scenario, config(parameters={"zone": "b", "ValidUntilSeconds": "3600"}))


def test_a_jobs_own_parameter_wins_and_the_request_stays() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job(annotations={f"{names.PROVISIONING_ANNOTATION_PREFIX}zone": "mine"}))
        request = await the_request(world)
        assert request["spec"]["parameters"] == {"zone": "mine"}
        await answer(world, "Accepted")
        assert (await the_request(world))["metadata"]["uid"] == request["metadata"]["uid"]

    run(scenario, config(parameters={"zone": "theirs"}))


def test_no_request_when_nothing_asks_for_a_managed_resource() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job())
        assert await requests(world) == []
        found = await state(world)
        assert (found["state"], found["message"]) == ("Ready", "the provisioning request is not needed")
        assert not await suspended(world)

    run(scenario, config(managedResources=["example.com/gpu"]))


def test_only_pod_sets_with_managed_resources_are_asked_for() -> None:
    async def scenario(world: World) -> None:
        sets = [pod_set("plain", 1), pod_set("limited", 2, limits={"example.com/gpu": "1"})]
        await fill_workload(world, *sets)
        assert asked(await the_request(world)) == [("ppt-wl-prov-1-limited", 2)]

    run(scenario, wide_queue(), config(managedResources=["example.com/gpu"]))


def pod_set(name: str, count: int, image: str = "x", limits: Obj | None = None, **spec: Any) -> Obj:
    resources: Obj = {"requests": {"cpu": "500m"}}
    if limits:
        resources["limits"] = limits
        resources["requests"] |= limits
    container = {"name": "main", "image": image, "resources": resources}
    pod = {"restartPolicy": "Never", "containers": [container], **spec}
    return {"name": name, "count": count, "template": {"spec": pod}}


def wide_queue() -> tuple[Resource, Obj]:
    amounts = [{"name": "cpu", "nominalQuota": "4"}, {"name": "example.com/gpu", "nominalQuota": "4"}]
    group = {"coveredResources": ["cpu", "example.com/gpu"], "flavors": [{"name": "default", "resources": amounts}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group], "admissionChecksStrategy": STRATEGY}
    return CLUSTER_QUEUES, {"metadata": {"name": "wide"}, "spec": spec}


async def fill_workload(world: World, *sets: Obj) -> None:
    spec = {"queueName": "wide", "podSets": list(sets)}
    await fill(
        world,
        local_queue("wide", "wide"),
        (WORKLOADS, {"metadata": {"name": "wl", "namespace": "default"}, "spec": spec}),
    )


def asked(request: Obj) -> list[tuple[str, int]]:
    return [(entry["podTemplateRef"]["name"], entry["count"]) for entry in request["spec"]["podSets"]]


SETS = [pod_set("a", 1), pod_set("b", 2), pod_set("c", 1, image="other"), pod_set("d", 1, nodeSelector={"k": "v"})]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param({}, [("a", 1), ("b", 2), ("c", 1), ("d", 1)], id="no policy"),
        pytest.param({"podSetMergePolicy": "IdenticalPodTemplates"}, [("a", 3), ("c", 1), ("d", 1)], id="identical"),
        pytest.param(
            {"podSetMergePolicy": "IdenticalWorkloadSchedulingRequirements"}, [("a", 4), ("d", 1)], id="alike"
        ),
    ],
)
def test_pod_sets_are_merged_as_the_policy_says(policy: Obj, expected: list[tuple[str, int]]) -> None:
    async def scenario(world: World) -> None:
        await fill_workload(world, *SETS)
        assert asked(await the_request(world)) == [(f"ppt-wl-prov-1-{name}", count) for name, count in expected]
        assert len(await templates(world)) == len(expected)
        await answer(world, "Provisioned")
        (found,) = (await world.client.get(WORKLOADS, "wl", "default"))["status"]["admissionChecks"]
        assert sorted(update["name"] for update in found["podSetUpdates"]) == ["a", "b", "c", "d"]

    run(scenario, wide_queue(), config(**policy))


def test_pod_sets_without_pods_are_not_asked_for() -> None:
    async def scenario(world: World) -> None:
        await fill_workload(world, pod_set("none", 0), pod_set("some", 1))
        assert asked(await the_request(world)) == [("ppt-wl-prov-1-some", 1)]

    run(scenario, wide_queue(), config())


def test_a_workload_with_no_pods_at_all_needs_no_request() -> None:
    async def scenario(world: World) -> None:
        await fill_workload(world, pod_set("none", 0))
        assert await requests(world) == []
        assert condition(await world.client.get(WORKLOADS, "wl", "default"), "Admitted") == (
            "True",
            "Admitted",
            "The workload is admitted",
        )

    run(scenario, wide_queue(), config())


# What answers mean


def test_provisioned_room_admits_and_tells_pods_to_use_it() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job())
        name = (await the_request(world))["metadata"]["name"]
        await answer(world, "Accepted")
        await answer(world, "Provisioned", "in 5 minutes", status=False)
        found = await state(world)
        assert (found["state"], found["message"]) == ("Pending", "in 5 minutes")
        await answer(world, "Provisioned", "done", provisioningClassDetails={"Key": "set-7"})
        found = await state(world)
        assert (found["state"], found["message"]) == ("Ready", "done")
        annotations = {CONSUME: name, CLASS_NAME: "atomic.example.com"}
        assert found["podSetUpdates"] == [
            {"name": "main", "annotations": annotations, "nodeSelector": {"example.com/set": "set-7"}}
        ]
        template = (await world.job("sample"))["spec"]["template"]
        assert template["spec"]["nodeSelector"] == {"pool": "a", "example.com/set": "set-7"}
        assert annotations.items() <= template["metadata"]["annotations"].items()
        assert not await suspended(world)
        events = await world.events_of((await world.workload_of("sample"))["metadata"]["name"])
        text = "Admission check prov updated state from Pending to Ready with message: done"
        assert ("AdmissionCheckUpdated", text) in events

    selector = [
        {"key": "example.com/set", "valueFromProvisioningClassDetail": "Key"},
        {"key": "example.com/other", "valueFromProvisioningClassDetail": "Missing"},
    ]
    run(scenario, config(podSetUpdates={"nodeSelector": selector}))


RETRY = {"backoffLimitCount": 1, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}


@pytest.mark.parametrize("cleanup", [True, False])
@pytest.mark.parametrize(("kind", "words"), [("Failed", "failure"), ("BookingExpired", "booking expired")])
def test_another_attempt_after_a_delay_then_success(kind: str, words: str, cleanup: bool) -> None:
    async def scenario(world: World) -> None:
        await fill(world, job())
        name = (await world.workload_of("sample"))["metadata"]["name"]
        await answer(world, kind, "no room")
        workload = await world.workload_of("sample")
        text = f'Evicted due to AdmissionCheck in Retry state: "prov" (Retrying after {words}: no room)'
        assert condition(workload, "Evicted") == ("True", "AdmissionCheck", text)
        assert (condition(workload, "QuotaReserved") or ())[0] == "False"
        assert (await state(world))["retryCount"] == 1
        assert [entry["metadata"]["name"] for entry in await requests(world)] == (
            [] if cleanup else [f"{name}-{CHECK}-1"]
        )
        await world.advance(50)
        assert (condition(await world.workload_of("sample"), "QuotaReserved") or ())[0] == "False"
        await world.advance(12)
        assert (await the_request(world))["metadata"]["name"] == f"{name}-{CHECK}-2"
        await answer(world, "Provisioned", "there")
        assert not await suspended(world)

    run(scenario, config(retryStrategy=RETRY), gates={"CleanupProvisioningRequestsOnEviction": cleanup})


@pytest.mark.parametrize("kind", ["Failed", "BookingExpired"])
def test_no_more_attempts_than_the_limit(kind: str) -> None:
    async def scenario(world: World) -> None:
        await fill(world, job())
        await answer(world, kind, "no room")
        await world.advance(62)
        await answer(world, kind, "still no room")
        workload = await world.workload_of("sample")
        assert workload["spec"]["active"] is False
        assert (condition(workload, "Evicted") or ())[1:] == (
            "DeactivatedDueToAdmissionCheck",
            'The workload is deactivated due to AdmissionCheck in Rejected state: "prov" (still no room)',
        )
        assert await requests(world) == []

    run(scenario, config(retryStrategy=RETRY))


def test_delays_double_up_to_the_maximum() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job())
        for attempt, delay in ((1, 60), (2, 100), (3, 100)):
            assert (await the_request(world))["metadata"]["name"].endswith(f"-{attempt}")
            await answer(world, "Failed", "no room")
            await world.advance(delay - 5)
            assert await requests(world) == []
            await world.advance(7)
        assert (await the_request(world))["metadata"]["name"].endswith("-4")

    run(scenario, config(retryStrategy={**RETRY, "backoffLimitCount": 3, "backoffMaxSeconds": 100}))


@pytest.mark.parametrize("admitted", [True, False])
def test_revoked_room_rejects(admitted: bool) -> None:
    async def scenario(world: World) -> None:
        await fill(world, job())
        if admitted:
            await answer(world, "Provisioned")
            assert not await suspended(world)
        await answer(world, "CapacityRevoked", "gone")
        workload = await world.workload_of("sample")
        assert workload["spec"]["active"] is False
        assert await suspended(world)
        events = await world.events_of(workload["metadata"]["name"])
        text = 'Deactivated due to AdmissionCheck in Rejected state: "prov" (gone)'
        assert ("AdmissionCheckRejected", text) in events

    run(scenario, config())


def test_revoked_room_does_not_matter_to_the_finished() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job())
        await answer(world, "Provisioned")
        request = await the_request(world)
        await world.finish_job("sample")
        assert await requests(world) == []
        workload = await world.workload_of("sample")
        assert workload["spec"]["active"] is True
        assert (await state(world))["state"] == "Ready"
        assert request["metadata"]["uid"]

    run(scenario, config())


def test_an_expired_booking_does_not_matter_to_the_admitted() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job())
        await answer(world, "Provisioned", "done")
        before = await state(world)
        await answer(world, "BookingExpired", "over")
        assert await state(world) == before
        assert not await suspended(world)
        assert len(await requests(world)) == 1

    run(scenario, config())


# Upkeep


def test_a_running_workload_goes_on_without_its_request() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job())
        await answer(world, "Provisioned", "done")
        before = await state(world)
        await world.client.delete(PROVISIONING_REQUESTS, (await the_request(world))["metadata"]["name"], "default")
        await world.settle()
        assert await requests(world) == []
        assert await state(world) == before
        assert not await suspended(world)

    run(scenario, config())


def test_a_running_workload_goes_on_without_the_configuration() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job())
        await answer(world, "Provisioned", "done")
        await world.client.delete(PROVISIONING_REQUEST_CONFIGS, "config")
        await world.settle()
        assert (await state(world))["state"] == "Ready"
        assert not await suspended(world)

    run(scenario, config())


def test_requests_follow_their_configuration() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job())
        first = await the_request(world)
        await world.client.delete(PROVISIONING_REQUEST_CONFIGS, "config")
        await world.settle()
        found = await state(world)
        assert (found["state"], found["message"]) == ("Pending", "the check is not active")
        assert await requests(world) == []
        await fill(world, config(provisioningClassName="other.example.com"))
        second = await the_request(world)
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        assert second["spec"]["provisioningClassName"] == "other.example.com"
        assert (await state(world))["message"] == ""
        await world.client.patch(PROVISIONING_REQUEST_CONFIGS, "config", "", {"spec": {"parameters": {"a": "b"}}})
        await world.settle()
        assert (await the_request(world))["spec"]["parameters"] == {"a": "b"}
        await world.client.patch(
            PROVISIONING_REQUEST_CONFIGS, "config", "", {"spec": {"managedResources": ["example.com/gpu"]}}
        )
        await world.settle()
        assert await requests(world) == []
        assert not await suspended(world)
        assert await templates(world) == []

    run(scenario, config())


def test_eviction_takes_requests_away_and_losing_a_reservation_does_not() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job())
        name = (await the_request(world))["metadata"]["name"]
        await world.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"stopPolicy": "Hold"}})
        await world.settle()
        workload = await world.workload_of("sample")
        assert (condition(workload, "QuotaReserved") or ())[0] == "False"
        assert condition(workload, "Evicted") is None
        assert (await the_request(world))["metadata"]["name"] == name
        await world.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"stopPolicy": "None"}})
        await world.settle()
        await world.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"stopPolicy": "HoldAndDrain"}})
        await world.settle()
        assert await requests(world) == []
        assert (await state(world))["state"] == "Pending"

    run(scenario, config())


def test_templates_go_with_their_request_and_lost_ones_come_back() -> None:
    async def scenario(world: World) -> None:
        await fill(world, job())
        (template,) = await templates(world)
        await world.client.delete(POD_TEMPLATES, template["metadata"]["name"], "default")
        await answer(world, "Accepted")
        assert len(await templates(world)) == 1
        await world.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"stopPolicy": "HoldAndDrain"}})
        await world.settle()
        assert await templates(world) == []

    run(scenario, config())


def test_what_cannot_be_created_is_told() -> None:
    async def scenario(world: World) -> None:
        broken = pod_set("main", 1)
        broken["template"]["spec"]["containers"][0]["name"] = "Not_A_Name"
        await fill_workload(world, broken)
        (found,) = (await world.client.get(WORKLOADS, "wl", "default"))["status"]["admissionChecks"]
        assert found["state"] == "Pending"
        assert found["message"].startswith('Error creating PodTemplate "ppt-wl-prov-1-main": ')
        assert "Not_A_Name" in found["message"]
        assert any(
            reason == "FailedCreate" and text == found["message"] for reason, text in await world.events_of("wl")
        )
        assert await requests(world) == []

    run(scenario, wide_queue(), config())


def test_a_foreign_request_of_the_same_name_is_told() -> None:
    async def scenario(world: World) -> None:
        spec = {
            "provisioningClassName": "x.example.com",
            "podSets": [{"podTemplateRef": {"name": "x"}, "count": 1}],
        }
        foreign = {"metadata": {"name": "wl-prov-1", "namespace": "default"}, "spec": spec}
        await fill(world, (PROVISIONING_REQUESTS, foreign))
        await fill_workload(world, pod_set("main", 1))
        (found,) = (await world.client.get(WORKLOADS, "wl", "default"))["status"]["admissionChecks"]
        assert found["message"].startswith('Error creating ProvisioningRequest "wl-prov-1": ')
        assert "already exists" in found["message"]
        assert [entry["spec"] for entry in await requests(world)] == [spec]

    run(scenario, wide_queue(), config())


def test_moving_to_a_flavor_without_the_check_leaves_no_request() -> None:
    """Preempted off a flavor that needs provisioning, a workload is admitted on one that does not."""

    async def main() -> None:
        async with World() as world:
            strategy = {"admissionChecks": [{"name": CHECK, "onFlavors": ["one"]}]}
            queue = cluster_queue(
                cpu="1",
                flavors=("one", "two"),
                admissionChecksStrategy=strategy,
                preemption={"withinClusterQueue": "LowerPriority"},
                flavorFungibility={"whenCanPreempt": "MayStopSearch"},
            )
            await fill(world, flavor("one"), flavor("two"), queue, local_queue(), check(), config())
            await fill(world, job("low", pod={"priority": 0}))
            await answer(world, "Provisioned")
            assert not await suspended(world, "low")
            classes = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
            await fill(world, (classes, {"metadata": {"name": "high"}, "value": 100}))
            await fill(world, job("high", pod={"priorityClassName": "high"}))
            low = await world.workload_of("low")
            assert low["status"]["admission"]["podSetAssignments"][0]["flavors"] == {"cpu": "two"}
            assert "admissionChecks" not in low["status"]
            assert not await suspended(world, "low")
            owners = [entry["metadata"]["ownerReferences"][0]["name"] for entry in await requests(world)]
            assert owners == [(await world.workload_of("high"))["metadata"]["name"]]

    run_virtual(main)


# The kind


def test_a_request_is_refused_and_frozen_as_upstreams() -> None:
    async def main() -> None:
        async with World() as world:
            spec: Obj = {
                "provisioningClassName": "x.example.com",
                "podSets": [{"podTemplateRef": {"name": "x"}, "count": 1}],
            }
            for wrong in ({"podSets": []}, {"provisioningClassName": "No Name"}, {"podSets": [{"count": 0}]}):
                with pytest.raises(Invalid):
                    await world.client.create(
                        PROVISIONING_REQUESTS,
                        {"metadata": {"name": "bad", "namespace": "default"}, "spec": {**spec, **wrong}},
                    )
            made = await world.client.create(
                PROVISIONING_REQUESTS.at("v1beta1"),
                {"metadata": {"name": "good", "namespace": "default"}, "spec": spec},
            )
            assert made["apiVersion"] == "autoscaling.x-k8s.io/v1beta1"
            with pytest.raises(ApiError, match="Value is immutable"):
                await world.client.patch(
                    PROVISIONING_REQUESTS, "good", "default", {"spec": {"provisioningClassName": "y.example.com"}}
                )

    run_virtual(main)
