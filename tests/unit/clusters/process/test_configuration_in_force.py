"""A configuration is read again when it changes; one that is wrong leaves the last in force."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from corral.clusters.process.configuration_in_force import (
    CONFIG_KEY,
    CONFIG_MAP,
    LOOK_AGAIN_S,
    ConfigMapOrigin,
    ConfigurationInForce,
    FileOrigin,
)
from corral.configuration.part import ConfigurationError
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
from corral.runtime.virtual import run_virtual
from corral.testing import VirtualCluster

JOBS, PODS = "integrations: {frameworks: [batch/job]}", "integrations: {frameworks: [pod]}"


def frameworks(configuration: ConfigurationInForce) -> list[str]:
    found: list[str] = configuration.document["integrations"]["frameworks"]
    return found


def test_a_file_is_read_again_and_a_wrong_one_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "configuration.yaml"
    path.write_text(JOBS)

    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            configuration = ConfigurationInForce(FileOrigin(path, cluster.clock))
            await configuration.open()
            first = configuration.document
            following = asyncio.ensure_future(configuration.follow())
            waiting = asyncio.ensure_future(configuration.other_than(first))
            for text in ("integratoins: {}", "a: ["):
                path.write_text(text)
                await cluster.clock.sleep(LOOK_AGAIN_S * 2)
                assert configuration.document is first
            path.write_text(PODS)
            await cluster.clock.sleep(LOOK_AGAIN_S * 2)
            assert waiting.done()
            assert frameworks(configuration) == ["pod"]
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    run_virtual(scenario)
    assert caplog.text.count("the changed configuration is not used") == 2


def test_the_config_map_of_an_installation_is_followed_from_before_it_is_there() -> None:
    async def scenario() -> None:
        async with VirtualCluster() as cluster:
            client = cluster.client
            configuration = ConfigurationInForce(ConfigMapOrigin(client, cluster.clock, "default"))
            await configuration.open()
            nothing = configuration.document
            assert nothing == {}
            following = asyncio.ensure_future(configuration.follow())
            metadata = {"name": CONFIG_MAP, "namespace": "default"}
            await client.create(CONFIG_MAPS, {"metadata": metadata, "data": {CONFIG_KEY: JOBS}})
            await configuration.other_than(nothing)
            assert frameworks(configuration) == ["batch/job"]
            known = configuration.document
            await client.patch(CONFIG_MAPS, CONFIG_MAP, "default", {"data": {CONFIG_KEY: PODS}})
            await configuration.other_than(known)
            assert frameworks(configuration) == ["pod"]
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    run_virtual(scenario)


async def test_the_namespace_of_the_pod_holds_where_the_document_names_none(tmp_path: Path) -> None:
    async with VirtualCluster() as cluster:
        path = tmp_path / "configuration.yaml"
        for text, expected in ((JOBS, "own"), (f"{JOBS}\nnamespace: named", "named"), ("", "own")):
            path.write_text(text)
            configuration = ConfigurationInForce(FileOrigin(path, cluster.clock), "own")
            await configuration.open()
            assert configuration.document["namespace"] == expected
            assert (frameworks(configuration) == ["batch/job"]) == bool(text)


async def test_a_wrong_configuration_at_the_start_is_an_error_with_file_and_line(tmp_path: Path) -> None:
    async with VirtualCluster() as cluster:
        path = tmp_path / "configuration.yaml"
        path.write_text("a: 1\nintegratoins: {}")
        with pytest.raises(ConfigurationError, match=r"configuration\.yaml, line 2.*did you mean"):
            await ConfigurationInForce(FileOrigin(path, cluster.clock)).open()
