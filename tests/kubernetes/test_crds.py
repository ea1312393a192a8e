"""A real kube-apiserver accepts every CustomResourceDefinition that `corral crds --all` prints."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cluster import ControlPlane, programs

from corral.client.http import HttpClient
from corral.clusters.definitions import definition_of
from corral.core.errors import ApiError
from corral.jobs.framework.served_kinds import native_kinds
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS

BINARIES = programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(600),
]


async def test_every_definition_is_accepted(tmp_path: Path) -> None:
    assert BINARIES is not None
    plane = ControlPlane("crds", tmp_path, BINARIES)
    try:
        plane.start()
        client = HttpClient.from_kubeconfig(plane.kubeconfig)
        refused = await refused_definitions(client)
        await client.close()
    finally:
        plane.stop()
    assert refused == {}


async def refused_definitions(client: HttpClient) -> dict[str, list[str]]:
    """What an API server has against our definitions, by kind."""
    refused: dict[str, list[str]] = {}
    for kind in native_kinds():
        try:
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition_of(kind), dry_run=True)
        except ApiError as error:
            refused[kind.kind] = [f"{cause['field']}: {cause['message']}" for cause in error.causes] or [error.message]
    return refused
