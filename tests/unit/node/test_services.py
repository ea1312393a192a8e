"""Where a Service without a selector leads to."""

from __future__ import annotations

import pytest

from corral.core.meta import Obj
from corral.node.endpoints import ANSWERED_BY_API
from corral.node.services import ServiceProxy

API = ("127.0.0.1", 6443)
PORT = {"name": "https", "port": 8443, "protocol": "TCP"}
SERVICE: Obj = {"metadata": {"name": "metrics", "namespace": "kueue-system"}, "spec": {"ports": [PORT]}}


def a_slice(address: str, *, labels: dict[str, str]) -> Obj:
    endpoints = [{"addresses": [address], "conditions": {"ready": True}}]
    return {
        "metadata": {"name": "s", "labels": labels},
        "endpoints": endpoints,
        "ports": [{"name": "https", "port": 443}],
    }


def leads_to(*slices: Obj) -> list[tuple[str, int]]:
    proxy = ServiceProxy("127.64.0.0/17", API, lambda _: [], lambda _: slices, lambda: None)
    return proxy.endpoints(SERVICE, PORT)


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.2"], ids=["the first pod", "the pod after a restart"])
def test_pods_that_stand_for_the_api_server_are_answered_by_it_whatever_their_address(address: str) -> None:
    assert leads_to(a_slice(address, labels={ANSWERED_BY_API: "true"})) == [API]


def test_an_address_that_somebody_wrote_is_taken_as_it_stands() -> None:
    assert leads_to(a_slice("10.0.0.2", labels={})) == [("10.0.0.2", 443)]
