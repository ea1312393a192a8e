"""The command line against a served cluster that queues jobs, all in one process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from corral.cli.main import corral
from corral.client import kubeconfig as kubeconfig_files
from corral.clusters.embedded_api import EmbeddedApi
from corral.controllers.queueing.setup import Queueing
from corral.core.errors import ApiError
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.jobs.framework.served_kinds import native_kinds
from corral.kinds.machinery.virtual_resources import ExtraApi

JOBS = Resource("batch", "v1", "jobs", "Job")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")

Run = Callable[..., Awaitable[str]]

LOG_LINE = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z (DEBUG|INFO|WARNING|ERROR) ")


def job(name: str, cpu: str, queue: str = "lq", **labels: str) -> dict[str, object]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    labels = {"kueue.x-k8s.io/queue-name": queue, **{f"kueue.x-k8s.io/{key}": value for key, value in labels.items()}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


async def serve(
    tmp_path: Path, scenario: Callable[[EmbeddedApi, Run], Awaitable[None]], *, explanations: bool = True
) -> None:
    queueing = Queueing()
    extras: list[ExtraApi] = [queueing.visibility]
    if explanations:
        extras.append(queueing.explanations)
    embedded = EmbeddedApi(None, plugins=queueing.plugins, extras=extras)
    for kind in native_kinds():
        embedded.api.registry.add(kind)
    queueing.setup(embedded.manager)
    await embedded.start()
    kubeconfig = tmp_path / "kubeconfig"
    embedded.server.write_kubeconfig(kubeconfig)

    async def run(*words: str, code: int = 0, kubeconfig: Path = kubeconfig) -> str:
        arguments = [*words, "--kubeconfig", str(kubeconfig)]
        result = await asyncio.to_thread(CliRunner().invoke, corral, arguments)
        assert result.exit_code == code, f"{result.output} {result.exception!r}"
        if isinstance(result.exception, ApiError | OSError):
            return str(result.exception)
        return told(result.output)

    try:
        await scenario(embedded, run)
    finally:
        await embedded.stop()


def told(output: str) -> str:
    """What a command printed, without the log lines of the cluster that runs in the same process."""
    return "".join(line for line in output.splitlines(keepends=True) if not LOG_LINE.match(line))


async def user_with(embedded: EmbeddedApi, folder: Path, role: str) -> Path:
    """The kubeconfig of a service account that has a ClusterRole in its namespace only."""
    client = embedded.client
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "alice", "namespace": "default"}})
    binding: Obj = {
        "metadata": {"name": "alice", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "alice", "namespace": "default"}],
    }
    await client.create(ROLE_BINDINGS, binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await client.create_subresource(SERVICE_ACCOUNTS, "alice", "default", "token", request)
    admin = kubeconfig_files.access(kubeconfig_files.load(folder / "kubeconfig"))
    document = kubeconfig_files.document_for("alice", admin.server, admin.ca, token=answer["status"]["token"])
    kubeconfig_files.write(document, folder / "alice")
    return folder / "alice"


async def until(test: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(3000):
        if await test():
            return
        await asyncio.sleep(0.02)
    pytest.fail("did not happen")
