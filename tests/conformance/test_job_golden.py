"""Replay of Job scenarios recorded from a real control plane.

Each scenario's actions (patches of the Job and of its pods' status) are played at the recorded times on a virtual-time
cluster; the states the Job goes through, the pods' lives and the events must come out the same. Names, uids and times
differ from run to run and are replaced by what they stand for.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import Invalid
from corral.core.meta import Obj, name_of, uid_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.batch_job.operator import JobController
from corral.jobs.batch_job.ttl import TtlController
from corral.kinds.kubernetes.core.kinds import EVENTS, NODES, PODS
from corral.testing import VirtualCluster, run_virtual

GOLDEN = json.loads((Path(__file__).parents[1] / "data/operators/kube-job-golden.json").read_text())["scenarios"]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
STALE_TEMPLATE = {"spec": {"template": {"spec": {"nodeSelector": {"flavor": "b"}}}}}


def prefix(pod: Obj) -> str:
    return str(pod["metadata"]["generateName"])


class Names:
    """What stands for the names and uids of one run: pods are numbered per prefix in the order they appeared."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.pods: dict[str, str] = {}
        self.counts: dict[str, int] = {}

    def learn(self, pod: Obj) -> None:
        if uid_of(pod) in self.known:
            return
        number = self.counts.get(prefix(pod), 0)
        self.counts[prefix(pod)] = number + 1
        token = f"{prefix(pod)}#{number}"
        self.known[uid_of(pod)] = self.known[name_of(pod)] = token
        self.pods[token] = name_of(pod)

    def hide(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: self.hide(entry) for key, entry in value.items() if key not in ("resourceVersion", "managedFields")
            }
        if isinstance(value, list):
            return [self.hide(entry) for entry in value]
        if isinstance(value, str):
            for name, token in self.known.items():
                value = value.replace(name, token)
            return TIME.sub("<time>", value)
        return value


def job_state(names: Names, kind: str, job: Obj) -> Obj:
    state: Obj = names.hide(job)
    if kind == "DELETED":
        state["metadata"].pop("finalizers", None)  # whether the last one is still shown is the API's business
    for uids in (state.get("status", {}).get("uncountedTerminatedPods") or {}).values():
        uids.sort()
    return {"type": kind, "job": state}


def pod_state(kind: str, pod: Obj) -> tuple[Any, ...]:
    metadata = pod["metadata"]
    return (
        kind,
        tuple(metadata.get("finalizers") or ()),
        metadata.get("deletionTimestamp") is not None,
        pod.get("status", {}).get("phase", "Pending"),
        pod["spec"].get("nodeName") or "",
    )


def life(states: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """A pod's states as the Job controller causes them: how the API announces a deletion is the API's business."""
    kept = [state for state in states if not state[2] or state[0] == "DELETED"]
    return [("DELETED", state[3]) if state[0] == "DELETED" else state for state in kept]


def pod_shape(names: Names, pod: Obj) -> Obj:
    """What the controller decides about a pod: its labels, annotations, owner and spec as made."""
    hidden = names.hide(pod)
    text = json.dumps(hidden).replace(next(iter(re.findall(r"kube-api-access-\w+", json.dumps(hidden))), "-"), "token")
    shape: Obj = json.loads(text)
    metadata = shape["metadata"]
    return {
        "spec": shape["spec"],
        **{key: metadata.get(key) for key in ("labels", "annotations", "ownerReferences", "finalizers")},
    }


def story(entries: list[tuple[str, str, Obj]]) -> Obj:
    """A run in words that two runs share."""
    names = Names()
    for _, kind, obj in entries:
        if kind == "Pod":
            names.learn(obj)
    job_uid = next(uid_of(obj) for _, kind, obj in entries if kind == "Job")
    names.known[job_uid] = "<job>"
    lives: dict[str, list[Any]] = {}
    shapes: dict[str, Obj] = {}
    events: dict[str, Any] = {}
    going = False
    for change, kind, obj in entries:
        going = going or (kind == "Job" and "deletionTimestamp" in obj["metadata"])
        if kind == "Pod" and going and change == "MODIFIED":
            continue  # once the Job is going, controller and garbage collector race for its pods
        if kind == "Pod":
            token = names.known[uid_of(obj)]
            lives.setdefault(token, []).append(pod_state(change, obj))
            shapes.setdefault(token, pod_shape(names, obj))
        elif kind == "Event" and obj["involvedObject"]["kind"] == "Job":
            events[name_of(obj)] = (
                obj["type"],
                obj["reason"],
                names.hide(obj["message"]),
                obj["count"],
                obj["source"]["component"],
            )
    return {
        "jobs": [job_state(names, change, obj) for change, kind, obj in entries if kind == "Job"],
        "pods": sorted(map(life, lives.values())),
        "shapes": sorted(shapes.values(), key=json.dumps),
        "events": sorted(events.values()),
    }


def recorded(scenario: Obj) -> list[tuple[str, str, Obj]]:
    entries = [entry for entry in scenario["transitions"] if "object" in entry]
    entries.sort(key=lambda entry: int(entry["object"]["metadata"]["resourceVersion"]))
    return [(entry["type"], entry["kind"], entry["object"]) for entry in entries]


class Replay:
    """Plays one scenario and records what happens."""

    def __init__(self, scenario: Obj) -> None:
        self.scenario = scenario
        self.theirs = Names()
        self.ours = Names()
        self.seen: list[tuple[str, str, Obj]] = []
        self.nodes: dict[str, str] = {}
        for change, kind, obj in recorded(scenario):
            if kind == "Pod" and change == "ADDED":
                self.theirs.learn(obj)

    async def run(self) -> list[tuple[str, str, Obj]]:
        job = self.scenario["submitted"]
        self.namespace = next(obj for _, kind, obj in recorded(self.scenario) if kind == "Job")["metadata"]["namespace"]
        cluster = VirtualCluster([JobController, TtlController], namespaces=("default", self.namespace))
        self.cluster, self.name = cluster, job["metadata"]["name"]
        async with cluster:
            if "node" in self.scenario:
                await cluster.client.create(NODES, {"metadata": {"name": "fake-1"}})
            await cluster.advance(5)
            tasks = [
                asyncio.ensure_future(self._watch(kind, resource))
                for kind, resource in (("Job", JOBS), ("Pod", PODS), ("Event", EVENTS))
            ]
            await asyncio.sleep(0)
            start = cluster.clock.now()
            await cluster.client.create(JOBS, {**job, "metadata": {**job["metadata"], "namespace": self.namespace}})
            await cluster.settle()
            for entry in self.scenario["transitions"]:
                await self._until(start + entry["t_ms"] / 1000)
                await self._play(entry)
            await cluster.advance(5)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self.seen.sort(key=lambda entry: int(entry[2]["metadata"]["resourceVersion"]))
        return self.seen

    async def _watch(self, kind: str, resource: Any) -> None:
        version = (await self.cluster.client.list(resource, self.namespace)).resource_version
        async for event in self.cluster.client.watch(resource, self.namespace, resource_version=version):
            if event.type != "BOOKMARK":
                if kind == "Pod" and event.type == "ADDED":
                    self.ours.learn(event.obj)
                self.seen.append((event.type, kind, event.obj))

    async def _until(self, moment: float) -> None:
        await self.cluster.settle()
        if moment > self.cluster.clock.now():
            await self.cluster.advance(moment - self.cluster.clock.now())

    def _pod(self, name: str) -> str:
        return self.ours.pods[self.theirs.known[name]]

    async def _play(self, entry: Obj) -> None:
        action = entry.get("action", "")
        if entry.get("kind") == "Pod" and "node" in self.scenario:
            await self._play_scheduler(entry["object"])
        elif action.startswith("PATCH pods/"):
            name, _, body = action.removeprefix("PATCH pods/").partition("/status ")
            body = TIME.sub(self.cluster.clock.timestamp(), body)
            await self._patch(PODS, self._pod(name), {"status": json.loads(body)}, "status")
        elif action.startswith("PATCH job {"):
            await self._patch_job(json.loads(action.removeprefix("PATCH job ")))
        elif action.startswith("PATCH job template while suspended"):
            with pytest.raises(Invalid, match="field is immutable"):
                await self._patch(JOBS, self.name, STALE_TEMPLATE)
        elif action.startswith("PATCH job template after"):
            await self._patch(JOBS, self.name, STALE_TEMPLATE)
        elif action.startswith("PATCH job/status"):
            await self._patch(JOBS, self.name, {"status": {"startTime": None}}, "status")
        elif action.startswith("DELETE job"):
            await self.cluster.client.delete(JOBS, self.name, self.namespace, propagation="Foreground")
        await self.cluster.settle()

    async def _patch_job(self, body: Obj) -> None:
        """The recording tried to change a started Job's template; a real server refuses it, and so must ours."""
        if self.scenario["submitted"]["metadata"]["name"] == "preempt" and "template" in body["spec"]:
            with pytest.raises(Invalid):
                await self._patch(JOBS, self.name, body)
        else:
            await self._patch(JOBS, self.name, body)

    async def _play_scheduler(self, pod: Obj) -> None:
        """Bind as the recorded scheduler did; its status patches are recorded as actions."""
        node, name = pod["spec"].get("nodeName"), name_of(pod)
        if node and name not in self.nodes:
            self.nodes[name] = node
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            body = {"metadata": {"name": self._pod(name)}, "target": target}
            await self.cluster.client.create_subresource(PODS, self._pod(name), self.namespace, "binding", body)
        elif not node:
            waiting = [entry for entry in pod["status"].get("conditions") or () if entry["type"] == "PodScheduled"]
            if waiting:
                await self._patch(PODS, self._pod(name), {"status": {"conditions": waiting}}, "status")

    async def _patch(self, resource: Any, name: str, body: Obj, subresource: str = "") -> None:
        await self.cluster.client.patch(resource, name, self.namespace, body, subresource=subresource)


@pytest.mark.parametrize("name", GOLDEN)
def test_job_lives_as_recorded(name: str) -> None:
    scenario = GOLDEN[name]
    want, got = story(recorded(scenario)), story(run_virtual(Replay(scenario).run))
    assert [entry["type"] for entry in got["jobs"]] == [entry["type"] for entry in want["jobs"]]
    for mine, theirs in zip(got["jobs"], want["jobs"], strict=True):
        assert mine == theirs
    assert got["events"] == want["events"]
    assert got["shapes"] == want["shapes"]
    assert got["pods"] == want["pods"]
