"""Plain pods and pod groups: gated until admitted, deleted when stopped, finished together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from corral.configuration.queueing import load_config
from corral.core.errors import Forbidden, NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kueue import CLUSTER_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS, names
from corral.runtime.virtual import run_virtual

from .world import JOBS, PODS, World, cluster_queue, condition, fill, flavor, job, local_queue


def pod(
    name: str, *, queue: str = "lq", cpu: str = "1", group: str = "", total: str = "", **meta: Any
) -> tuple[Resource, Obj]:
    labels = {names.QUEUE_NAME: queue} | ({names.POD_GROUP_NAME: group} if group else {})
    annotations = {names.POD_GROUP_TOTAL_COUNT: total} if total else {}
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    return PODS, {
        "metadata": {"name": name, "namespace": "default", "labels": labels, "annotations": {**annotations, **meta}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


async def get(world: World, name: str) -> Obj:
    return await world.client.get(PODS, name, "default")


async def set_phase(world: World, name: str, phase: str, **status: Any) -> None:
    found = await get(world, name)
    ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
    new = {**found.get("status", {}), "phase": phase, "conditions": [ready], **status}
    await world.client.update(PODS, {**found, "status": new}, subresource="status")
    await world.settle()


def gates(found: Obj) -> list[str]:
    return [gate["name"] for gate in found["spec"].get("schedulingGates") or []]


def run(scenario: Callable[[World], Awaitable[None]], cpu: str = "4") -> None:
    async def main() -> None:
        async with World() as world:
            await fill(world, flavor(nodeLabels={"pool": "a"}), cluster_queue(cpu=cpu), local_queue())
            await scenario(world)

    run_virtual(main)


def test_a_pod_waits_behind_its_gate_and_runs_when_admitted() -> None:
    async def scenario(world: World) -> None:
        created = await world.client.create(*pod("p"))
        assert gates(created) == [names.ADMISSION_GATE, names.TOPOLOGY_GATE]
        assert created["metadata"]["labels"][names.MANAGED] == "true"
        assert created["metadata"]["finalizers"] == [names.POD_FINALIZER]
        await world.settle()
        workload = await world.workload_of("p")
        assert condition(workload, "Admitted") == ("True", "Admitted", "The workload is admitted")
        started = await get(world, "p")
        assert gates(started) == []
        assert started["spec"]["nodeSelector"] == {"pool": "a"}
        await set_phase(world, "p", "Running")
        workload = await world.workload_of("p")
        assert (condition(workload, "PodsReady") or ())[:2] == ("True", "Started")
        await set_phase(world, "p", "Succeeded")
        workload = await world.workload_of("p")
        assert condition(workload, "Finished") == ("True", "Succeeded", "")
        assert "finalizers" not in (await get(world, "p"))["metadata"]

    run(scenario)


def test_a_pod_without_room_stays_gated_and_says_why() -> None:
    async def scenario(world: World) -> None:
        await fill(world, pod("p", cpu="5"))
        workload = await world.workload_of("p")
        message = (
            "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously "
            "considered podsets requests (0) + current podset request (5) > maximum capacity (4)"
        )
        assert condition(workload, "QuotaReserved") == ("False", "Pending", message)
        assert gates(await get(world, "p")) == [names.ADMISSION_GATE, names.TOPOLOGY_GATE]

    run(scenario)


def test_a_group_is_admitted_as_a_whole_and_finishes_as_a_whole() -> None:
    async def scenario(world: World) -> None:
        await fill(world, pod("a", group="g", total="2"))
        with pytest.raises(NotFound):
            await world.client.get(WORKLOADS, "g", "default")
        assert ("ErrWorkloadCompose", "'g' group has fewer runnable pods than expected") in await world.events_of("a")
        await fill(world, pod("b", group="g", total="2"))
        workload = await world.client.get(WORKLOADS, "g", "default")
        assert workload["metadata"]["annotations"][names.IS_GROUP_WORKLOAD] == "true"
        assert [entry["count"] for entry in workload["spec"]["podSets"]] == [2]
        assert condition(workload, "Admitted") == ("True", "Admitted", "The workload is admitted")
        for name in ("a", "b"):
            assert gates(await get(world, name)) == []
        await set_phase(world, "a", "Succeeded")
        workload = await world.client.get(WORKLOADS, "g", "default")
        assert [entry["count"] for entry in workload["status"]["reclaimablePods"]] == [1]
        await set_phase(world, "b", "Succeeded")
        workload = await world.client.get(WORKLOADS, "g", "default")
        assert condition(workload, "Finished") == ("True", "Succeeded", "Pods succeeded: 2/2.")
        for name in ("a", "b"):
            assert "finalizers" not in (await get(world, name))["metadata"]

    run(scenario)


def test_a_failed_pod_of_a_group_can_be_replaced() -> None:
    async def scenario(world: World) -> None:
        await fill(world, pod("a", group="g", total="2"), pod("b", group="g", total="2"))
        await set_phase(world, "a", "Failed")
        workload = await world.client.get(WORKLOADS, "g", "default")
        assert condition(workload, names.WAITING_FOR_REPLACEMENT_PODS) == (
            "True",
            "PodsFailed",
            "Some Failed pods need replacement",
        )
        await fill(world, pod("c", group="g", total="2"))
        assert gates(await get(world, "c")) == []
        workload = await world.client.get(WORKLOADS, "g", "default")
        assert condition(workload, names.WAITING_FOR_REPLACEMENT_PODS) == (
            "False",
            "PodsReady",
            "No pods need replacement",
        )
        for name in ("b", "c"):
            await set_phase(world, name, "Succeeded")
        workload = await world.client.get(WORKLOADS, "g", "default")
        assert condition(workload, "Finished") == ("True", "Succeeded", "Pods succeeded: 2/2.")

    run(scenario)


def test_excess_pods_of_a_group_are_deleted() -> None:
    async def scenario(world: World) -> None:
        await fill(world, pod("a", group="g", total="1"))
        await fill(world, pod("b", group="g", total="1"))
        with pytest.raises(NotFound):
            await get(world, "b")
        assert gates(await get(world, "a")) == []

    run(scenario)


def test_a_pod_beyond_a_group_that_is_done_is_deleted() -> None:
    async def scenario(world: World) -> None:
        await fill(world, pod("a", group="g", total="1"))
        await set_phase(world, "a", "Succeeded")
        await fill(world, pod("b", group="g", total="1"))
        with pytest.raises(NotFound):
            await get(world, "b")
        assert ("ExcessPodDeleted", "Excess pod deleted") in await world.events_of("b")

    run(scenario)


def test_an_evicted_pod_is_deleted_and_gives_its_quota_back() -> None:
    async def scenario(world: World) -> None:
        await fill(world, pod("p", cpu="4"))
        await world.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"stopPolicy": "HoldAndDrain"}})
        await world.advance(1)
        queue = world.queueing.state.questions.cluster_queue("cq")
        assert queue is not None
        assert queue.reserving == 0
        with pytest.raises(NotFound):
            await get(world, "p")

    run(scenario)


@pytest.mark.parametrize(
    ("group", "total", "message"),
    [
        (
            "g",
            "",
            "metadata.annotations[kueue.x-k8s.io/pod-group-total-count]: Required value: both the "
            "'kueue.x-k8s.io/pod-group-total-count' annotation and the 'kueue.x-k8s.io/pod-group-name' label should be set",
        ),
        (
            "g",
            "0",
            'metadata.annotations[kueue.x-k8s.io/pod-group-total-count]: Invalid value: "0": incorrect annotation value '
            "'kueue.x-k8s.io/pod-group-total-count=0': group total count should be greater than zero",
        ),
    ],
)
def test_group_annotations_are_checked(group: str, total: str, message: str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(Forbidden) as caught:
            await world.client.create(*pod("p", group=group, total=total))
        assert caught.value.message == f'admission webhook "vpod.kb.io" denied the request: {message}'

    run(scenario)


async def bind(world: World, name: str) -> None:
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": "n"}}
    await world.client.create_subresource(PODS, name, "default", "binding", binding)
    await set_phase(world, name, "Running")


async def die(world: World, name: str) -> None:
    """What a node does once the processes of a deleted pod have ended."""
    await set_phase(world, name, "Failed")
    await world.client.delete(PODS, name, "default", grace=0)
    await world.settle()


async def delete(world: World, name: str) -> None:
    await world.client.delete(PODS, name, "default")
    await world.settle()


async def names_of_pods(world: World) -> list[str]:
    return sorted(found["metadata"]["name"] for found in (await world.client.list(PODS)).items)


def test_a_deleted_pod_of_an_incomplete_group_goes_at_once() -> None:
    async def scenario(world: World) -> None:
        await fill(world, pod("a", group="g", total="3"), pod("b", group="g", total="3"))
        await delete(world, "a")
        assert await names_of_pods(world) == ["b"]
        await fill(world, pod("c", group="g", total="3"), pod("d", group="g", total="3"))
        workload = await world.client.get(WORKLOADS, "g", "default")
        assert condition(workload, "Admitted") == ("True", "Admitted", "The workload is admitted")

    run(scenario)


@pytest.mark.parametrize("cpu", ["4", "1"], ids=["admitted, but on no node", "waiting"])
def test_a_pod_that_is_deleted_before_it_has_a_node_can_be_replaced(cpu: str) -> None:
    async def scenario(world: World) -> None:
        await fill(world, pod("a", group="g", total="2"), pod("b", group="g", total="2"))
        await delete(world, "a")
        workload = await world.client.get(WORKLOADS, "g", "default")
        assert (condition(workload, names.WAITING_FOR_REPLACEMENT_PODS) or ())[:2] == ("True", "PodsFailed")
        await fill(world, pod("c", group="g", total="2"))
        assert await names_of_pods(world) == ["b", "c"]

    run(scenario, cpu)


def test_a_preempted_group_keeps_its_workload_until_replacements_come() -> None:
    async def scenario(world: World) -> None:
        await fill(world, pod("a", group="g", total="2"), pod("b", group="g", total="2"))
        created = await world.client.get(WORKLOADS, "g", "default")
        for name in ("a", "b"):
            await bind(world, name)
        await world.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"stopPolicy": "HoldAndDrain"}})
        await world.advance(1)
        for name in ("a", "b"):
            assert (await get(world, name))["metadata"]["deletionTimestamp"]
            await die(world, name)
        workload = await world.client.get(WORKLOADS, "g", "default")
        assert workload["metadata"]["uid"] == created["metadata"]["uid"]
        assert (condition(workload, "QuotaReserved") or ())[0] == "False"
        assert (condition(workload, names.WAITING_FOR_REPLACEMENT_PODS) or ())[:2] == ("True", "ClusterQueueStopped")
        assert await names_of_pods(world) == ["a", "b"]

        await fill(world, pod("c", group="g", total="2"))
        assert await names_of_pods(world) == ["b", "c"]
        await fill(world, pod("d", group="g", total="2"))
        assert await names_of_pods(world) == ["c", "d"]
        await world.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"stopPolicy": "None"}})
        await world.advance(1)
        workload = await world.client.get(WORKLOADS, "g", "default")
        assert workload["metadata"]["uid"] == created["metadata"]["uid"]
        assert (condition(workload, "Admitted") or ())[0] == "True"
        assert gates(await get(world, "c")) == gates(await get(world, "d")) == []

    run(scenario)


def test_deleting_the_workload_of_an_evicted_group_lets_its_pods_go() -> None:
    async def scenario(world: World) -> None:
        await fill(world, pod("a", group="g", total="1"))
        await bind(world, "a")
        await world.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"stopPolicy": "HoldAndDrain"}})
        await world.advance(1)
        await die(world, "a")
        await world.client.delete(WORKLOADS, "g", "default")
        await world.settle()
        assert await names_of_pods(world) == []
        assert await world.workloads() == []

    run(scenario)


@pytest.mark.parametrize("parent", ["OtherController", "statefulset", "deployment"])
def test_a_pod_held_by_its_maker_is_queued_once_it_is_given_a_group(parent: str) -> None:
    async def scenario(world: World) -> None:
        held = {names.POD_SUSPENDING_PARENT: parent}
        created = await world.client.create(*pod("p", queue="", **held))
        assert gates(created) == [names.ADMISSION_GATE, names.TOPOLOGY_GATE]
        assert names.ROLE_HASH in created["metadata"]["annotations"]
        assert names.MANAGED not in created["metadata"]["labels"]
        assert "finalizers" not in created["metadata"]
        await world.settle()
        assert gates(await get(world, "p")) == [names.ADMISSION_GATE, names.TOPOLOGY_GATE]
        metadata = (await get(world, "p"))["metadata"]
        labels = {names.POD_GROUP_NAME: "g", names.QUEUE_NAME: "lq", names.MANAGED: "true"}
        annotations = {**metadata["annotations"], names.POD_GROUP_TOTAL_COUNT: "1"}
        grouped = {**created, "metadata": {**metadata, "labels": labels, "annotations": annotations}}
        await world.client.update(PODS, grouped)
        await world.settle()
        assert gates(await get(world, "p")) == []
        workload = await world.client.get(WORKLOADS, "g", "default")
        assert condition(workload, "Admitted") == ("True", "Admitted", "The workload is admitted")
        await set_phase(world, "p", "Succeeded")
        workload = await world.client.get(WORKLOADS, "g", "default")
        assert (condition(workload, "Finished") or ())[:2] == ("True", "Succeeded")

    run(scenario)


def test_a_pod_cannot_leave_its_group() -> None:
    async def scenario(world: World) -> None:
        await fill(world, pod("a", group="g", total="2"))
        found = await get(world, "a")
        for labels in ({names.POD_GROUP_NAME: "other"}, {}):
            moved = {**found["metadata"], "labels": {names.MANAGED: "true", names.QUEUE_NAME: "lq", **labels}}
            with pytest.raises(Forbidden, match="field is immutable"):
                await world.client.update(PODS, {**found, "metadata": moved})

    run(scenario)


@pytest.mark.parametrize("opened", [True, False])
def test_jobs_and_pods_that_name_no_priority_get_the_default_class_while_its_gate_is_open(opened: bool) -> None:
    config = load_config(
        {
            "featureGates": {"WorkloadPriorityClassDefaulting": opened},
            "integrations": {"frameworks": ["batch/job", "pod"]},
        }
    )

    async def main() -> None:
        async with World(config) as world:
            await fill(world, flavor(), cluster_queue(), local_queue())
            before = await world.client.create(*pod("before"))
            assert names.PRIORITY_CLASS not in before["metadata"]["labels"]
            for name, value in (("default", 100), ("own", 7)):
                await world.client.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
            await fill(world, job("j"), pod("p"))
            resource, named = pod("named")
            named["metadata"]["labels"][names.PRIORITY_CLASS] = "own"
            await world.client.create(resource, named)
            await world.settle()
            for kind, name in ((JOBS, "j"), (PODS, "p")):
                found = await world.client.get(kind, name, "default")
                assert found["metadata"]["labels"].get(names.PRIORITY_CLASS) == ("default" if opened else None)
                assert (await world.workload_of(name))["spec"]["priority"] == (100 if opened else 0)
            assert (await world.workload_of("named"))["spec"]["priority"] == 7

    run_virtual(main)


@pytest.mark.parametrize("other", ["red", "blue"])
def test_a_label_to_copy_may_be_on_any_pod_of_a_group_and_must_not_differ(other: str) -> None:
    config = load_config({"integrations": {"frameworks": ["pod"], "labelKeysToCopy": ["team"]}})

    async def main() -> None:
        async with World(config) as world:
            await fill(world, flavor(), cluster_queue(), local_queue())
            for name, team in (("a", None), ("b", "red"), ("c", other)):
                resource, made = pod(name, group="g", total="3")
                made["metadata"]["labels"] |= {"team": team} if team else {}
                await world.client.create(resource, made)
            await world.settle()
            found = await world.workloads()
            assert [workload["metadata"]["labels"]["team"] for workload in found] == (["red"] if other == "red" else [])

    run_virtual(main)


CUSTOM = {
    "featureGates": {"CustomMetricLabels": True},
    "integrations": {"frameworks": ["pod"], "labelKeysToCopy": ["integration"]},
    "metrics": {
        "customLabels": [
            {"name": "l", "sourceLabelKey": "custom", "sourceKind": "Workload", "trackedValues": ["v"]},
            {"name": "a", "sourceAnnotationKey": "note", "sourceKind": "Workload", "trackedValues": ["v"]},
        ]
    },
}


async def labelled(world: World, name: str, labels: Obj, **annotations: str) -> None:
    resource, obj = pod(name, group="g", total="2", **annotations)
    obj["metadata"]["labels"].update(labels)
    await fill(world, (resource, obj))


def test_the_workload_of_a_group_carries_what_any_of_its_pods_says() -> None:
    async def main() -> None:
        async with World(load_config(CUSTOM)) as world:
            await fill(world, flavor(), cluster_queue(), local_queue())
            await labelled(world, "a", {"other": "1"}, note="n", elsewhere="2")
            await labelled(world, "b", {"integration": "i", "custom": "c", "other": "3"}, note="n")
            held = (await world.client.get(WORKLOADS, "g", "default"))["metadata"]
            assert (held["labels"]["integration"], held["labels"]["custom"]) == ("i", "c")
            assert held["annotations"]["note"] == "n"
            assert "other" not in held["labels"]
            assert "elsewhere" not in held["annotations"]

    run_virtual(main)


@pytest.mark.parametrize("what", ["label", "annotation"])
def test_a_group_whose_pods_disagree_on_what_is_copied_waits_and_is_told(what: str) -> None:
    async def main() -> None:
        async with World(load_config(CUSTOM)) as world:
            await fill(world, flavor(), cluster_queue(), local_queue())
            for name in ("a", "b"):
                if what == "label":
                    await labelled(world, name, {"integration": name})
                else:
                    await labelled(world, name, {}, note=name)
            with pytest.raises(NotFound):
                await world.client.get(WORKLOADS, "g", "default")
            told = [message for _, message in await world.events_of("a")]
            assert any(f"pods have different {what} values" in message for message in told)

    run_virtual(main)


@pytest.mark.parametrize("checked", [True, False])
def test_a_group_named_after_the_workload_of_another_job_leaves_it_alone(checked: bool) -> None:
    switches = {"PodIntegrationValidateGroupOwner": checked}

    async def main() -> None:
        async with World(
            load_config({"featureGates": switches, "integrations": {"frameworks": ["pod", "batch/job"]}})
        ) as world:
            await fill(world, flavor(), cluster_queue(), local_queue(), job("owner"))
            workload = await world.workload_of("owner")
            name = workload["metadata"]["name"]
            await fill(world, pod("a", group=name, total="1"))
            told = f'A Workload named "{name}" already exists but is not a pod group workload; this pod group cannot be admitted'
            assert (("WorkloadNameConflict", told) in await world.events_of("a")) is checked
            if not checked:
                return
            found = await world.client.get(WORKLOADS, name, "default")
            assert [owner["kind"] for owner in found["metadata"]["ownerReferences"]] == ["Job"]
            assert gates(await get(world, "a")) != []
            await world.client.delete(JOBS, "owner", "default", propagation="Background")
            await world.advance(20)
            assert (await world.client.get(WORKLOADS, name, "default"))["metadata"]["annotations"][
                names.IS_GROUP_WORKLOAD
            ]
            assert gates(await get(world, "a")) == []

    run_virtual(main)
