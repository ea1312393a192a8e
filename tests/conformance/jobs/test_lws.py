"""LeaderWorkerSets, scenario by scenario."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import Stage, play, template

from corral.clusters.operators import operator_plugins
from corral.core import conditions
from corral.core.errors import Invalid
from corral.core.meta import Obj, labels_of
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.leader_worker_set.kind import LEADER_WORKER_SETS
from corral.jobs.leader_worker_set.operator import LeaderWorkerSetController
from corral.jobs.stateful_set.operator import StatefulSetController
from corral.kinds.kubernetes.apps.kinds import STATEFUL_SETS
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES

ALL = ["lw-0", "lw-0-1", "lw-0-2", "lw-1", "lw-1-1", "lw-1-2"]


def controllers(cluster: Any) -> list[Any]:
    return [kind(cluster.manager) for kind in (StatefulSetController, LeaderWorkerSetController)]


def plugins(cluster: Any) -> list[Any]:
    return operator_plugins(OperatorContext(cluster.manager))


def lws(replicas: int = 2, size: int = 3, *, spec: Obj | None = None, **leader_worker: Any) -> Obj:
    inner = {"size": size, "workerTemplate": template("w"), **leader_worker}
    return {"metadata": {"name": "lw"}, "spec": {"replicas": replicas, "leaderWorkerTemplate": inner, **(spec or {})}}


def test_groups_of_leader_and_workers() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(LEADER_WORKER_SETS, lws())
        await stage.pass_time(1)
        assert await stage.names(PODS) == ALL
        assert await stage.names(STATEFUL_SETS) == ["lw", "lw-0", "lw-1"]
        assert await stage.names(SERVICES) == ["lw"]
        worker = await stage.get(PODS, "lw-1-2")
        prefix = "leaderworkerset.sigs.k8s.io"
        assert labels_of(worker)[f"{prefix}/group-index"] == "1"
        assert labels_of(worker)[f"{prefix}/worker-index"] == "2"
        assert (
            labels_of(worker)[f"{prefix}/group-key"] == labels_of(await stage.get(PODS, "lw-1"))[f"{prefix}/group-key"]
        )
        env = {entry["name"]: entry.get("value") for entry in worker["spec"]["containers"][0]["env"]}
        assert env == {"LWS_LEADER_ADDRESS": "lw-1.lw.default", "LWS_GROUP_SIZE": "3", "LWS_WORKER_INDEX": "2"}
        progressing = await stage.get(LEADER_WORKER_SETS, "lw")
        assert conditions.is_true(progressing, "Progressing")
        await stage.run()
        ready = await stage.get(LEADER_WORKER_SETS, "lw")
        assert (ready["status"]["replicas"], ready["status"]["readyReplicas"]) == (2, 2)
        assert conditions.is_true(ready, "Available")
        assert conditions.is_false(ready, "Progressing")
        # What a condition says of its reason stays with it when it turns.
        assert (conditions.find(ready, "Progressing") or {})["reason"] == "GroupsProgressing"
        await stage.client.delete(PODS, "lw-0", "default")
        await stage.pass_time(1)
        down = await stage.get(LEADER_WORKER_SETS, "lw")
        available = conditions.find(down, "Available") or {}
        assert (available["status"], available["reason"]) == ("False", "AllGroupsReady")

    play(controllers, script, plugins=plugins)


def test_what_is_said_as_an_empty_text_is_filled_in_as_if_nothing_were_said() -> None:
    async def script(stage: Stage) -> None:
        made = await stage.create(
            LEADER_WORKER_SETS, lws(spec={"rolloutStrategy": {"type": ""}}, size=2, restartPolicy="")
        )
        assert made["spec"]["rolloutStrategy"]["type"] == "RollingUpdate"
        assert made["spec"]["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"

    play(controllers, script, plugins=plugins)


def test_workers_may_wait_for_their_leader() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(LEADER_WORKER_SETS, lws(1, spec={"startupPolicy": "LeaderReady"}))
        await stage.pass_time(1)
        assert await stage.names(PODS) == ["lw-0"]
        await stage.run()
        assert await stage.names(PODS) == ["lw-0", "lw-0-1", "lw-0-2"]

    play(controllers, script, plugins=plugins)


def test_a_restarted_pod_restarts_its_group() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(LEADER_WORKER_SETS, lws())
        await stage.run()
        before = {name: (await stage.get(PODS, name))["metadata"]["uid"] for name in ALL}
        status = (await stage.get(PODS, "lw-0-2"))["status"]
        containers = [{**entry, "restartCount": 1} for entry in status["containerStatuses"]]
        await stage.client.patch(
            PODS, "lw-0-2", "default", {"status": {"containerStatuses": containers}}, subresource="status"
        )
        await stage.pass_time(90)
        after = {name: (await stage.get(PODS, name))["metadata"]["uid"] for name in ALL}
        assert all(after[name] != before[name] for name in ALL if name.startswith("lw-0"))
        assert all(after[name] == before[name] for name in ALL if name.startswith("lw-1"))

    play(controllers, script, plugins=plugins)


def test_scaling() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(LEADER_WORKER_SETS, lws(1, 2))
        await stage.run()
        await stage.patch(LEADER_WORKER_SETS, "lw", {"spec": {"replicas": 2}})
        await stage.pass_time(2)
        assert await stage.names(PODS) == ["lw-0", "lw-0-1", "lw-1", "lw-1-1"]
        await stage.patch(LEADER_WORKER_SETS, "lw", {"spec": {"replicas": 1}})
        await stage.pass_time(90)
        assert await stage.names(PODS) == ["lw-0", "lw-0-1"]

    play(controllers, script, plugins=plugins)


def test_rollout_that_could_never_move_is_refused() -> None:
    async def script(stage: Stage) -> None:
        rolling = {"maxUnavailable": 0, "maxSurge": 0}
        strategy = {"rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": rolling}}
        with pytest.raises(Invalid, match="must not be 0 when"):
            await stage.create(LEADER_WORKER_SETS, lws(spec=strategy))

    play(controllers, script, plugins=plugins)


PREFIX = "leaderworkerset.sigs.k8s.io"


def rollout(**config: Any) -> Obj:
    return {"rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": config}}


async def images(stage: Stage) -> dict[str, str]:
    """The image of every leader."""
    leaders = await stage.pods(**{f"{PREFIX}/worker-index": "0"})
    return {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in leaders}


def other_image() -> Obj:
    changed = template("w")
    changed["spec"]["containers"][0]["image"] = "img:2"
    return {"spec": {"leaderWorkerTemplate": {"workerTemplate": changed}}}


def test_rollout_goes_group_by_group() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(LEADER_WORKER_SETS, lws(3, 2))
        await stage.run()
        await stage.patch(LEADER_WORKER_SETS, "lw", other_image())
        await stage.pass_time(60)
        assert await images(stage) == {"lw-0": "img:1", "lw-1": "img:1", "lw-2": "img:2"}
        assert conditions.is_true(await stage.get(LEADER_WORKER_SETS, "lw"), "UpdateInProgress")
        await stage.run("lw-2")
        await stage.pass_time(60)
        assert (await images(stage))["lw-1"] == "img:1"  # the workers of the new group are not ready yet
        for _ in range(4):
            await stage.run()
            await stage.pass_time(60)
        assert set((await images(stage)).values()) == {"img:2"}
        await stage.run()
        done = await stage.get(LEADER_WORKER_SETS, "lw")
        assert (done["status"]["updatedReplicas"], done["status"]["readyReplicas"]) == (3, 3)
        assert conditions.is_false(done, "UpdateInProgress")

    play(controllers, script, plugins=plugins)


def test_rollout_stops_at_the_partition() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(LEADER_WORKER_SETS, lws(3, 1, spec=rollout(partition=2)))
        await stage.run()
        await stage.patch(LEADER_WORKER_SETS, "lw", other_image())
        for _ in range(4):
            await stage.pass_time(60)
            await stage.run()
        assert await images(stage) == {"lw-0": "img:1", "lw-1": "img:1", "lw-2": "img:2"}

    play(controllers, script, plugins=plugins)


def test_a_group_below_the_partition_stays_what_it_was() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(LEADER_WORKER_SETS, lws(2, 2, spec=rollout(partition=1)))
        await stage.run()
        await stage.patch(LEADER_WORKER_SETS, "lw", other_image())
        for _ in range(3):
            await stage.pass_time(60)
            await stage.run()
        old = (await stage.get(PODS, "lw-0-1"))["metadata"]["uid"]
        status = (await stage.get(PODS, "lw-0-1"))["status"]
        again = [{**entry, "restartCount": 1} for entry in status["containerStatuses"]]
        patch = {"status": {"containerStatuses": again}}
        await stage.client.patch(PODS, "lw-0-1", "default", patch, subresource="status")
        await stage.pass_time(90)
        pods = {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in await stage.pods()}
        assert (await stage.get(PODS, "lw-0-1"))["metadata"]["uid"] != old
        assert pods == {"lw-0": "img:1", "lw-0-1": "img:1", "lw-1": "img:2", "lw-1-1": "img:2"}

    play(controllers, script, plugins=plugins)


def test_several_groups_may_be_missing_at_once() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(LEADER_WORKER_SETS, lws(4, 2, spec=rollout(maxUnavailable="50%")))
        await stage.run()
        await stage.patch(LEADER_WORKER_SETS, "lw", other_image())
        await stage.pass_time(2)
        leaders = await stage.get(STATEFUL_SETS, "lw")
        assert leaders["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 2

    play(controllers, script, plugins=plugins)


def test_surplus_groups_come_and_go() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(LEADER_WORKER_SETS, lws(2, 1, spec=rollout(maxSurge=1, maxUnavailable=0)))
        await stage.run()
        await stage.patch(LEADER_WORKER_SETS, "lw", other_image())
        await stage.pass_time(2)
        assert await images(stage) == {"lw-0": "img:1", "lw-1": "img:1", "lw-2": "img:2"}
        for _ in range(6):
            await stage.run()
            await stage.pass_time(60)
        assert await images(stage) == {"lw-0": "img:2", "lw-1": "img:2"}

    play(controllers, script, plugins=plugins)


@pytest.mark.parametrize(
    ("size", "policy", "want"),
    [
        (4, {"subGroupSize": 2}, {"lw-0": "0", "lw-0-1": "0", "lw-0-2": "1", "lw-0-3": "1"}),
        (5, {"subGroupSize": 2}, {"lw-0": "0", "lw-0-1": "0", "lw-0-2": "0", "lw-0-3": "1", "lw-0-4": "1"}),
        (
            5,
            {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"},
            {"lw-0": None, "lw-0-1": "0", "lw-0-2": "0", "lw-0-3": "1", "lw-0-4": "1"},
        ),
    ],
    ids=["even", "the leader is an extra", "without the leader"],
)
def test_subgroups(size: int, policy: Obj, want: dict[str, str | None]) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(LEADER_WORKER_SETS, lws(1, size, subGroupPolicy=policy))
        await stage.pass_time(2)
        pods = {pod["metadata"]["name"]: labels_of(pod) for pod in await stage.pods()}
        assert {name: labels.get(f"{PREFIX}/subgroup-index") for name, labels in pods.items()} == want
        keys = {labels[f"{PREFIX}/subgroup-key"] for labels in pods.values() if f"{PREFIX}/subgroup-key" in labels}
        assert len(keys) == 2

    play(controllers, script, plugins=plugins)


def test_groups_may_want_a_place_of_their_own() -> None:
    async def script(stage: Stage) -> None:
        body = lws(1, 2)
        body["metadata"]["annotations"] = {f"{PREFIX}/exclusive-topology": "rack"}
        await stage.create(LEADER_WORKER_SETS, body)
        await stage.pass_time(2)
        for pod in await stage.pods():
            key = labels_of(pod)[f"{PREFIX}/group-key"]
            field = "requiredDuringSchedulingIgnoredDuringExecution"
            (near,) = pod["spec"]["affinity"]["podAffinity"][field]
            (far,) = pod["spec"]["affinity"]["podAntiAffinity"][field]
            assert near["topologyKey"] == far["topologyKey"] == "rack"
            assert near["labelSelector"]["matchExpressions"][0]["values"] == [key]
            assert [entry["operator"] for entry in far["labelSelector"]["matchExpressions"]] == ["Exists", "NotIn"]

    play(controllers, script, plugins=plugins)


def test_groups_may_have_names_of_their_own() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(
            LEADER_WORKER_SETS, lws(2, 2, spec={"networkConfig": {"subdomainPolicy": "UniquePerReplica"}})
        )
        await stage.pass_time(2)
        assert await stage.names(SERVICES) == ["lw-0", "lw-1"]
        service = await stage.get(SERVICES, "lw-1")
        assert service["spec"]["selector"] == {f"{PREFIX}/name": "lw", f"{PREFIX}/group-index": "1"}
        for name in ("lw-1", "lw-1-1"):
            pod = await stage.get(PODS, name)
            assert pod["spec"]["subdomain"] == "lw-1"
            env = {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}
            assert env["LWS_LEADER_ADDRESS"] == "lw-1.lw-1.default"

    play(controllers, script, plugins=plugins)


def test_restart_policies() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(LEADER_WORKER_SETS, lws(1, 2, restartPolicy="None"))
        await stage.run()
        before = [pod["metadata"]["uid"] for pod in await stage.pods()]
        status = (await stage.get(PODS, "lw-0-1"))["status"]
        again = [{**entry, "restartCount": 1} for entry in status["containerStatuses"]]
        patch = {"status": {"containerStatuses": again}}
        await stage.client.patch(PODS, "lw-0-1", "default", patch, subresource="status")
        await stage.pass_time(60)
        assert [pod["metadata"]["uid"] for pod in await stage.pods()] == before

    play(controllers, script, plugins=plugins)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lws(1, 4, subGroupPolicy={"subGroupSize": 0}), "subGroupSize must be equal or greater than 1"),
        (lws(1, 6, subGroupPolicy={"subGroupSize": 4}), "size or size - 1 must be divisible by subGroupSize"),
        (lws(1, 2, subGroupPolicy={"subGroupSize": 4}), "subGroupSize cannot be larger than size"),
        (
            lws(1, 4, subGroupPolicy={"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}),
            "size-1 must be divisible by subGroupSize when using LeaderExcluded",
        ),
        (lws(spec=rollout(maxUnavailable="101%")), "must not be greater than 100%"),
        (lws(2_000_000, 1), "replicas must be equal or less than 1000000"),
        ({**lws(), "metadata": {"name": "0lw"}}, "DNS-1035"),
    ],
)
def test_leader_worker_set_is_refused(body: Obj, text: str) -> None:
    async def script(stage: Stage) -> None:
        with pytest.raises(Invalid) as refused:
            await stage.create(LEADER_WORKER_SETS, body)
        assert text in refused.value.message

    play(controllers, script, plugins=plugins)


def test_subgroups_do_not_come_or_go() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(LEADER_WORKER_SETS, lws(1, 4))
        with pytest.raises(Invalid, match="cannot enable subGroupSize after the lws is already created"):
            await stage.patch(
                LEADER_WORKER_SETS, "lw", {"spec": {"leaderWorkerTemplate": {"subGroupPolicy": {"subGroupSize": 2}}}}
            )

    play(controllers, script, plugins=plugins)
