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
from corral.kinds.core import NODES
from corral.kinds.extra import ExtraRequest
from corral.kinds.metrics import NODE_METRICS, POD_METRICS
from corral.node.process.connection import Started
from corral.node.usage import PodUsage

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
