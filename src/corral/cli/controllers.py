"""`corral controllers`: queueing and dispatch over real Kubernetes clusters."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from corral.cli.groups import Commands
from corral.cli.options import cluster_options, kubeconfig_file
from corral.core.meta import Obj

if TYPE_CHECKING:
    from corral.client.http import HttpClient


@click.group(cls=Commands)
def controllers() -> None:
    """Run the controllers over a real Kubernetes cluster."""


def _document(config: Path | None) -> Obj:
    """The configuration in a file; errors a user can act on are sentences."""
    from corral.configuration.document import read_configuration
    from corral.configuration.part import ConfigurationError

    try:
        return read_configuration(config) if config else {}
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from error


@controllers.command()
@click.option("--group", "groups", multiple=True, help="Only kinds of these API groups.")
@cluster_options
def install(groups: tuple[str, ...], namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Create Corral's CRDs and namespace where they are missing."""
    from corral.client.http import HttpClient
    from corral.clusters.kubernetes import install as install_kinds

    async def run() -> list[str]:
        client = HttpClient.from_kubeconfig(kubeconfig_file(kubeconfig_path, context), context)
        try:
            return await install_kinds(client, groups=groups)
        finally:
            await client.close()

    made = asyncio.run(run())
    click.echo("\n".join(f"{name} created" for name in made) or "all CRDs are there already")


@controllers.command()
@click.option("--config", type=click.Path(path_type=Path, exists=True), help="A config.kueue.x-k8s.io document.")
@click.option("--dispatch/--no-dispatch", default=False, help="Also dispatch to worker clusters (on a manager).")
@click.option("-v", "--verbose", count=True)
@cluster_options
def run(
    config: Path | None,
    dispatch: bool,
    verbose: int,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Queue and admit jobs of a cluster until stopped; of several copies one works, the others stand by."""
    from corral.runtime import logs

    logs.set_up(verbosity=1 + verbose)
    asyncio.run(_run(kubeconfig_file(kubeconfig_path, context), context, _document(config), dispatch))


@controllers.command()
@click.option("--name", required=True, help="What the hub calls this member.")
@click.option("--config", type=click.Path(path_type=Path, exists=True), help="A document with a `member` part.")
@click.option("-v", "--verbose", count=True)
@cluster_options
def member(
    name: str, config: Path | None, verbose: int, namespace: str, context: str, kubeconfig_path: Path | None
) -> None:
    """Serve the hub that Secret fleet-system/hub-kubeconfig of the cluster names, until stopped."""
    from corral.client.http import HttpClient
    from corral.clusters.hub_and_member import connect_hub
    from corral.clusters.member import MemberCluster
    from corral.runtime import logs

    logs.set_up(verbosity=1 + verbose)
    document = _document(config)

    async def serve() -> None:
        client = HttpClient.from_kubeconfig(kubeconfig_file(kubeconfig_path, context), context)
        agent = MemberCluster(client, name, document, connect=connect_hub)
        await _until_stopped(client, agent.lead(f"{socket.gethostname()}_{os.getpid()}"))

    asyncio.run(serve())


async def _run(path: Path, context: str, document: dict[str, object], dispatch: bool) -> None:
    from corral.client.http import HttpClient
    from corral.clusters.embedded import connect
    from corral.clusters.kubernetes import Controllers

    client = HttpClient.from_kubeconfig(path, context)
    running = Controllers(client, document, connect=connect if dispatch else None)
    await _until_stopped(client, running.lead(f"{socket.gethostname()}_{os.getpid()}"))


async def _until_stopped(client: HttpClient, leading: Coroutine[Any, Any, None]) -> None:
    """Run until a signal comes."""
    work = asyncio.ensure_future(leading)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    click.echo(f"controllers for {client.access.server} are starting")
    try:
        await work
    except asyncio.CancelledError:
        click.echo("stopped")
    finally:
        await client.close()
