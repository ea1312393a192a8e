"""Usage of pods and nodes, as `kubectl top` reads it, measured from a process that really runs."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from corral.core.admission import UserInfo
from corral.core.errors import NotFound
from corral.core.meta import Obj
from corral.core.selectors import parse_label_selector
from corral.kinds.kubernetes.core.kinds import NODES
from corral.kinds.kubernetes.metrics import NODE_METRICS, POD_METRICS
from corral.kinds.machinery.virtual_resources import ExtraRequest
from corral.node.process.connection import Started
from corral.node.usage import PodUsage, SimulatedUsage

POD: Obj = {
    "metadata": {"name": "p", "namespace": "default", "uid": "u", "labels": {"app": "a"}},
    "spec": {"nodeName": "n"},
}
NODE: Obj = {"metadata": {"name": "n"}}


def usage() -> PodUsage:
    async def runs() -> dict[str, Started]:
        return {"u/main/0": Started(os.getpid(), 0.0), "session": Started(os.getpid(), 0.0)}

    def informer(resource: object) -> Any:
        return SimpleNamespace(list=lambda: [NODE] if resource is NODES else [POD])

    manager: Any = SimpleNamespace(clock=SimpleNamespace(now=lambda: 100.0), informer=informer)
    return PodUsage(manager, runs)


def request(kind: Any, namespace: str = "", name: str = "", labels: str = "") -> ExtraRequest:
    selector = parse_label_selector(labels) if labels else None
    return ExtraRequest(kind, "v1beta1", namespace, name, "", UserInfo("me"), selector, {})


async def test_pods_show_their_containers() -> None:
    (found,) = await usage().list(request(POD_METRICS, "default"))
    (container,) = found["containers"]
    assert container["name"] == "main"
    assert container["usage"]["cpu"].endswith("m")
    assert int(container["usage"]["memory"].removesuffix("Ki")) > 1000
    assert await usage().list(request(POD_METRICS, "elsewhere")) == []
    assert await usage().list(request(POD_METRICS, labels="app=b")) == []


async def test_nodes_add_up_their_pods() -> None:
    found = await usage().get(request(NODE_METRICS, name="n"))
    assert int(found["usage"]["memory"].removesuffix("Ki")) > 1000
    with pytest.raises(NotFound):
        await usage().get(request(NODE_METRICS, name="other"))


async def test_what_is_simulated_uses_what_it_requests() -> None:
    containers = [
        {"name": "main", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}},
        {"name": "plain"},
        {"name": "done", "resources": {"requests": {"cpu": "4"}}},
    ]
    states = {"main": "running", "plain": "running", "done": "terminated"}
    pod = {
        **POD,
        "spec": {"nodeName": "n", "containers": containers},
        "status": {"containerStatuses": [{"name": name, "state": {state: {}}} for name, state in states.items()]},
    }
    waiting = {"metadata": {"name": "q", "namespace": "default", "uid": "v"}, "spec": {"containers": containers}}

    def informer(resource: object) -> Any:
        return SimpleNamespace(list=lambda: [NODE] if resource is NODES else [pod, waiting])

    manager: Any = SimpleNamespace(clock=SimpleNamespace(now=lambda: 100.0), informer=informer)
    (found,) = await SimulatedUsage(manager).list(request(POD_METRICS, "default"))
    assert found["containers"] == [
        {"name": "main", "usage": {"cpu": "1500m", "memory": "1048576Ki"}},
        {"name": "plain", "usage": {"cpu": "0m", "memory": "0Ki"}},
    ]
    node = await SimulatedUsage(manager).get(request(NODE_METRICS, name="n"))
    assert node["usage"] == {"cpu": "1500m", "memory": "1048576Ki"}
