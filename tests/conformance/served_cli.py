"""The command line against a served cluster that queues jobs, all in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from corral.cli.main import corral
from corral.controllers.queueing.setup import Queueing
from corral.core.resource import Resource
from corral.fleet.embedded_api import EmbeddedApi
from corral.kinds.registry import native_kinds

JOBS = Resource("batch", "v1", "jobs", "Job")

Run = Callable[..., Awaitable[str]]


def job(name: str, cpu: str, queue: str = "lq", **labels: str) -> dict[str, object]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    labels = {"kueue.x-k8s.io/queue-name": queue, **{f"kueue.x-k8s.io/{key}": value for key, value in labels.items()}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


async def serve(tmp_path: Path, scenario: Callable[[EmbeddedApi, Run], Awaitable[None]]) -> None:
    queueing = Queueing()
    embedded = EmbeddedApi(None, plugins=queueing.plugins, extras=[queueing.visibility])
    for kind in native_kinds():
        embedded.api.registry.add(kind)
    queueing.setup(embedded.manager)
    await embedded.start()
    kubeconfig = tmp_path / "kubeconfig"
    embedded.server.write_kubeconfig(kubeconfig)

    async def run(*words: str, code: int = 0) -> str:
        arguments = [*words, "--kubeconfig", str(kubeconfig)]
        result = await asyncio.to_thread(CliRunner().invoke, corral, arguments)
        assert result.exit_code == code, f"{result.output} {result.exception!r}"
        return result.output

    try:
        await scenario(embedded, run)
    finally:
        await embedded.stop()


async def until(test: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(200):
        if await test():
            return
        await asyncio.sleep(0.02)
    pytest.fail("did not happen")
