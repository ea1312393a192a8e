"""LeaderWorkerSets, scenario by scenario."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.operators.operator_stage import Stage, play, template

from corral.core import conditions
from corral.core.errors import Invalid
from corral.core.meta import Obj, labels_of
from corral.kinds.apps import STATEFUL_SETS
from corral.kinds.core import PODS, SERVICES
from corral.kinds.lws import LEADER_WORKER_SETS
from corral.operators.admission import operator_plugins
from corral.operators.lws import LeaderWorkerSetController
from corral.operators.statefulset import StatefulSetController

ALL = ["lw-0", "lw-0-1", "lw-0-2", "lw-1", "lw-1-1", "lw-1-2"]


def controllers(cluster: Any) -> list[Any]:
    return [kind(cluster.client, cluster.clock) for kind in (StatefulSetController, LeaderWorkerSetController)]


def plugins(cluster: Any) -> list[Any]:
    return operator_plugins(cluster.client, cluster.clock)


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
