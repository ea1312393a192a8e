"""Endpoints written for Services without a selector."""

from __future__ import annotations

from typing import Any

from corral.core.meta import Obj
from corral.node import endpoints, names

PORT = {"name": "https", "port": 8443}


def piece(*addresses: str, ready: bool | None = None, port: str = "https", kind: str = "IPv4") -> Obj:
    conditions: dict[str, Any] = {} if ready is None else {"conditions": {"ready": ready}}
    entries = [{"addresses": [address], **conditions} for address in addresses]
    return {"addressType": kind, "endpoints": entries, "ports": [{"name": port, "port": 443}]}


def test_connections_go_to_the_ready_addresses_of_the_port_of_that_name() -> None:
    slices = [
        piece("10.0.0.1"),
        piece("10.0.0.2", ready=True),
        piece("10.0.0.3", ready=False),
        piece("10.0.0.4", port=""),
        piece("db.example", kind="FQDN"),
    ]
    assert endpoints.of_port(slices, PORT) == [("10.0.0.1", 443), ("10.0.0.2", 443)]
    assert endpoints.of_port(slices, {"port": 5432}) == [("10.0.0.4", 443)]
    assert endpoints.addresses(slices) == ["10.0.0.1", "10.0.0.2", "10.0.0.4"]


def test_the_older_object_says_the_same() -> None:
    subset = {"addresses": [{"ip": "10.1.0.1"}], "notReadyAddresses": [{"ip": "10.1.0.2"}], "ports": [{"port": 5432}]}
    slices = list(endpoints.as_slices({"subsets": [subset]}))
    assert endpoints.of_port(slices, {"port": 5432}) == [("10.1.0.1", 5432)]


def test_a_service_without_an_address_of_its_own_resolves_to_what_was_written() -> None:
    service = {"metadata": {"name": "db", "namespace": "ns"}, "spec": {"clusterIP": "None"}}
    found = names.records([service], lambda _: [], lambda _: "127.64.128.10", lambda _: ["10.1.0.1"])
    assert found == [("ns", "db", "10.1.0.1")]
    found = names.records([{**service, "spec": {}}], lambda _: [], lambda _: "127.64.128.10", lambda _: ["10.1.0.1"])
    assert found == [("ns", "db", "127.64.128.10")]


def test_only_a_service_without_selector_has_written_endpoints() -> None:
    assert endpoints.is_written_by_hand({"spec": {"ports": [PORT]}})
    assert not endpoints.is_written_by_hand({"spec": {"selector": {"app": "db"}}})
    assert not endpoints.is_written_by_hand({"spec": {"type": "ExternalName"}})
