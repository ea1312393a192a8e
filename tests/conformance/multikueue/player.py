"""Plays pods as the recordings did: binds them, makes them Running and ends them as their `fake/…` annotations say."""

from __future__ import annotations

from collections.abc import Callable

from corral.core.errors import NotFound
from corral.core.meta import Key, Obj, annotations_of, is_deleting, key_of, spec_of, status_of
from corral.core.timestamps import parse_time
from corral.kinds.kubernetes.core.kinds import PODS
from corral.runtime.controller import Manager, Result, Watch

MANAGER = "OpenAPI-Generator"
"""The name under which the recordings' player wrote."""
START_S = 0.1


STEP_S = 0.02
"""The recordings' player looked after one pod at a time, so equal pods never ended in the same instant."""


class PodPlayer:
    """The recordings' stand-in for scheduler and kubelet."""

    name = "pod-player"

    def __init__(self, manager: Manager, goes_on: Callable[[Obj], float] = lambda _: 0.0) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._goes_on = goes_on
        self._pods = manager.informer(PODS)
        manager.add(self, watches=[Watch(PODS)], workers=1)

    async def reconcile(self, key: Key) -> Result | None:
        pod = self._pods.get(key)
        if pod is None or spec_of(pod).get("schedulingGates"):
            return None
        if is_deleting(pod):
            await self._remove(pod)
            return None
        if not spec_of(pod).get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": "node"}
            body = {"metadata": {"name": key.name, "namespace": key.namespace}, "target": target}
            await self._client.create_subresource(PODS, key.name, key.namespace, "binding", body)
            return None
        phase = status_of(pod).get("phase")
        if phase in ("Succeeded", "Failed"):
            return None
        if phase != "Running":
            created = parse_time(pod["metadata"]["creationTimestamp"])
            left = created + START_S - self._clock.now()
            if left > 0:
                return Result(left)
            await self._write(pod, "Running", None)
            return None
        return await self._end(pod)

    async def _end(self, pod: Obj) -> Result | None:
        seconds = annotations_of(pod).get("fake/run-seconds", "forever")
        if seconds == "forever":
            return None
        left = parse_time(status_of(pod)["startTime"]) + float(seconds) - self._clock.now()
        left = max(left, self._goes_on(pod))
        if left > 0:
            return Result(left)
        code = int(annotations_of(pod).get("fake/exit-code", "0"))
        await self._write(pod, "Failed" if code else "Succeeded", code)
        return None

    async def _write(self, pod: Obj, phase: str, code: int | None) -> None:
        await self._clock.sleep(STEP_S)
        now = self._clock.timestamp()
        running = phase == "Running"
        ready = "True" if running else "False"
        conditions = [
            {"type": kind, "status": "True" if kind in ("Initialized", "PodScheduled") else ready, "lastTransitionTime": now}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ]  # fmt: skip
        state: Obj = (
            {"running": {"startedAt": now}} if running else {"terminated": {"exitCode": code, "finishedAt": now}}
        )
        containers = [
            {"name": c["name"], "image": c["image"], "imageID": "", "ready": running, "restartCount": 0, "state": state}
            for c in spec_of(pod)["containers"]
        ]
        status = {
            **status_of(pod),
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": containers,
            "startTime": status_of(pod).get("startTime") or now,
            "hostIP": "10.0.0.1",
            "podIP": "10.0.0.1",
            "podIPs": [{"ip": "10.0.0.1"}],
        }
        await self._client.update(PODS, {**pod, "status": status}, subresource="status", manager=MANAGER)

    async def _remove(self, pod: Obj) -> None:
        key = key_of(pod)
        try:
            await self._client.delete(PODS, key.name, key.namespace, grace=0)
        except NotFound:
            pass
