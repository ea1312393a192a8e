"""`corral serve`: one cluster's API on a port, with the controllers every API server has built in."""

from __future__ import annotations

import asyncio
import shlex
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from corral.core.server_limits import Limits, limit_names


def _read_limits(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> Limits:
    values: dict[str, str] = {}
    for text in given:
        name, _, number = text.partition("=")
        if name not in limit_names():
            raise click.BadParameter(f"{text!r}: write NAME=NUMBER; the names are {', '.join(limit_names())}")
        if name in values:
            raise click.BadParameter(f"{name} is given twice")
        values[name] = number
    try:
        return msgspec.convert(values, Limits, strict=False)
    except msgspec.ValidationError as error:
        raise click.BadParameter(str(error)) from error


if TYPE_CHECKING:
    from corral.clusters.embedded_api import EmbeddedApi


@click.command()
@click.option("--state", type=click.Path(path_type=Path), required=True, help="Folder that keeps the cluster's state.")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    required=True,
    help="Where to write the administrator's kubeconfig.",
)
@click.option("--port", type=int, default=0, help="Port to listen on; any free one by default.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--name", default="corral", show_default=True, help="Name of the cluster in the kubeconfig.")
@click.option("--audit-log", type=click.Path(path_type=Path), default=None, help="File for one JSON line per request.")
@click.option(
    "--audit-log-maxsize",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="MiB at which the audit log is set aside as FILE.1.",
)
@click.option(
    "--audit-log-maxbackup",
    type=click.IntRange(0, 1000),
    default=3,
    show_default=True,
    help="Audit logs set aside that are kept.",
)
@click.option(
    "--audit-level",
    multiple=True,
    metavar="[RESOURCE=]LEVEL",
    help="Metadata (default) or None, of all requests or of those for a resource, e.g. leases.coordination.k8s.io=None.",
)
@click.option(
    "--encryption-key",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="File of the keys that encrypt Secrets on disk; made when absent (default: encryption.key in the state).",
)
@click.option(
    "--encryption-provider",
    metavar="COMMAND",
    default="",
    help="Program that wraps those keys, called with `encrypt` or `decrypt` as its last word.",
)
@click.option(
    "--limit",
    "limits",
    metavar="NAME=NUMBER",
    multiple=True,
    callback=_read_limits,
    help=f"What the server takes on at most: {', '.join(limit_names())}.",
)
@click.option(
    "--webhook-network",
    metavar="NETWORK",
    multiple=True,
    help="Network of this machine where webhooks and API services may be called, such as 127.0.0.1/32.",
)
@click.option(
    "--fronts",
    type=click.IntRange(0),
    default=None,
    help="Processes that answer clients in front of the one that owns the store; as many as there is work for by default.",
)
def serve(
    state: Path,
    kubeconfig: Path,
    port: int,
    host: str,
    name: str,
    audit_log: Path | None,
    audit_log_maxsize: int,
    audit_log_maxbackup: int,
    audit_level: tuple[str, ...],
    encryption_key: Path | None,
    encryption_provider: str,
    limits: Limits,
    webhook_network: tuple[str, ...],
    fronts: int | None,
) -> None:
    """Serve one cluster's API until SIGTERM."""
    import uvloop

    from corral.clusters.embedded_api import EmbeddedApi
    from corral.clusters.fronts.pool import FrontsError
    from corral.configuration.fleet import NO_NETWORK, is_network, unknown_resource
    from corral.runtime.key_provider import ProviderError
    from corral.server.access.audit import AuditOptions, read_levels
    from corral.store import StoreError

    for network in webhook_network:
        if not is_network(network):
            raise click.BadParameter(NO_NETWORK.format(network), param_hint="--webhook-network")
    try:
        options = AuditOptions(audit_log_maxsize << 20, audit_log_maxbackup, *read_levels(audit_level))
        for problem in filter(None, map(unknown_resource, options.levels)):
            raise ValueError(problem)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--audit-level") from error

    def made() -> EmbeddedApi:
        return EmbeddedApi(
            state,
            name=name,
            host=host,
            port=port,
            audit=audit_log,
            audit_options=options,
            encryption_key=encryption_key,
            encryption_provider=shlex.split(encryption_provider),
            limits=limits,
            webhook_networks=webhook_network,
            fronts=fronts,
        )

    try:
        uvloop.run(_serve(made, name, kubeconfig))
    except (StoreError, ProviderError, FrontsError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        if error.filename:
            raise  # a file, not the address
        raise click.ClickException(f"cannot serve on {host}:{port}: {error.strerror or error}") from error


async def _serve(made: Callable[[], EmbeddedApi], name: str, kubeconfig: Path) -> None:
    from corral.runtime import descriptors
    from corral.server.gc_tuning import calm_collector, loading

    calm_collector()
    descriptors.raise_limit()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with loading():
        cluster = made()
        await cluster.start()
    try:
        cluster.server.write_kubeconfig(kubeconfig)
        click.echo(f"{name} is ready at {cluster.server.url}, kubeconfig {kubeconfig}")
        await stop.wait()
    finally:
        await cluster.stop()
