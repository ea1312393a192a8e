"""Content negotiation."""

from __future__ import annotations

import pytest

from corral.core.errors import NotAcceptable
from corral.server.content.negotiation import PROTOBUF, Representation, choose, discovery_version

TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


@pytest.mark.parametrize(
    ("accept", "protobuf", "want"),
    [
        ("", False, Representation()),
        ("*/*", False, Representation()),
        ("application/json, */*", False, Representation()),
        (TABLE, False, Representation(view="Table", version="v1", group="meta.k8s.io")),
        (f"{PROTOBUF},application/json", False, Representation()),
        (f"{PROTOBUF},application/json", True, Representation()),
        (f"{PROTOBUF}, */*", True, Representation()),
        (PROTOBUF, True, Representation(PROTOBUF)),
        ("application/yaml", False, Representation("application/yaml")),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", False, Representation()),
        ("application/json;q=0.1,application/yaml;q=0.9", False, Representation("application/yaml")),
    ],
)
def test_choose(accept: str, protobuf: bool, want: Representation) -> None:
    assert choose(accept, protobuf) == want


@pytest.mark.parametrize("accept", ["text/plain", PROTOBUF, "application/json;as=Table;v=v9;g=meta.k8s.io"])
def test_choose_refuses_what_it_does_not_have(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        choose(accept)


def test_discovery_version_follows_the_clients_order() -> None:
    assert discovery_version(AGGREGATED) == "v2"
    assert discovery_version(AGGREGATED.partition(",")[2]) == "v2beta1"
    assert discovery_version("application/json," + AGGREGATED) == ""
    assert discovery_version("*/*") == ""
