"""Histories of templates: DaemonSets and StatefulSets keep revisions, go back, and forget the oldest."""

from __future__ import annotations

from typing import Any

from tests.conformance.jobs.operator_stage import Stage, play
from tests.conformance.jobs.test_apps import controllers, labelled, roll, stateful

from corral.core.meta import Obj, labels_of, name_of
from corral.kinds.kubernetes.apps.kinds import CONTROLLER_REVISIONS, DAEMON_SETS, STATEFUL_SETS
from corral.kinds.kubernetes.core.kinds import NODES

# 108: histories


def daemon_set(image: str = "img:1", **spec: Any) -> Obj:
    base = {"selector": {"matchLabels": {"app": "web"}}, "template": labelled(image)}
    return {"metadata": {"name": "agent"}, "spec": {**base, **spec}}


async def revisions(stage: Stage, image: bool = True) -> list[tuple[int, str]]:
    found = [await stage.get(CONTROLLER_REVISIONS, name) for name in await stage.names(CONTROLLER_REVISIONS)]
    return sorted(
        (entry["revision"], entry["data"]["spec"]["template"]["spec"]["containers"][0]["image"]) for entry in found
    )


def test_daemon_set_keeps_a_history_and_can_go_back() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(NODES, {"metadata": {"name": "a"}})
        await stage.create(DAEMON_SETS, daemon_set())
        await stage.run()
        assert await revisions(stage) == [(1, "img:1")]
        (pod,) = await stage.pods()
        (revision,) = await stage.names(CONTROLLER_REVISIONS)
        assert revision == f"agent-{labels_of(pod)['controller-revision-hash']}"
        owner = (await stage.get(CONTROLLER_REVISIONS, revision))["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("DaemonSet", "agent", True)
        await stage.patch(DAEMON_SETS, "agent", {"spec": {"template": labelled("img:2")}})
        await stage.pass_time(40)
        await stage.run()
        assert await revisions(stage) == [(1, "img:1"), (2, "img:2")]
        old = (await stage.get(CONTROLLER_REVISIONS, revision))["data"]
        await stage.client.patch(DAEMON_SETS, "agent", "default", old, kind="strategic")  # what `rollout undo` sends
        await stage.pass_time(40)
        assert await revisions(stage) == [(2, "img:2"), (3, "img:1")]
        (pod,) = await stage.pods()
        assert pod["spec"]["containers"][0]["image"] == "img:1"

    play(controllers, script)


def test_histories_are_limited() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(NODES, {"metadata": {"name": "a"}})
        await stage.create(DAEMON_SETS, daemon_set(revisionHistoryLimit=1))
        await stage.create(STATEFUL_SETS, stateful(1, revisionHistoryLimit=1))
        for number in range(2, 6):
            for resource, name in ((DAEMON_SETS, "agent"), (STATEFUL_SETS, "web")):
                await stage.patch(resource, name, {"spec": {"template": labelled(f"img:{number}")}})
            await stage.pass_time(40)
            await roll(stage, 2)
        held = [name.rpartition("-")[0] for name in await stage.names(CONTROLLER_REVISIONS)]
        assert sorted(held) == ["agent", "agent", "web", "web"]  # the one in use and one before

    play(controllers, script)


def test_stateful_set_that_goes_back_numbers_its_old_revision_anew() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(STATEFUL_SETS, stateful(1))
        await roll(stage, 2)
        for image in ("img:2", "img:1"):
            await stage.patch(STATEFUL_SETS, "web", {"spec": {"template": labelled(image)}})
            await stage.pass_time(40)
            await roll(stage, 2)
        assert await revisions(stage) == [(2, "img:2"), (3, "img:1")]
        status = (await stage.get(STATEFUL_SETS, "web"))["status"]
        assert status["currentRevision"] == status["updateRevision"]
        assert [name_of(pod) for pod in await stage.pods()] == ["web-0"]

    play(controllers, script)
