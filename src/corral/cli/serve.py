"""`corral serve`: one cluster's API on a port, with the controllers every API server has built in."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

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
    "--limit",
    "limits",
    metavar="NAME=NUMBER",
    multiple=True,
    callback=_read_limits,
    help=f"What the server takes on at most: {', '.join(limit_names())}.",
)
def serve(
    state: Path, kubeconfig: Path, port: int, host: str, name: str, audit_log: Path | None, limits: Limits
) -> None:
    """Serve one cluster's API until SIGTERM."""
    import uvloop

    from corral.store import StoreError

    try:
        uvloop.run(_serve(state, kubeconfig, port, host, name, audit_log, limits))
    except StoreError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        if error.filename:
            raise  # a file, not the address
        raise click.ClickException(f"cannot serve on {host}:{port}: {error.strerror or error}") from error


async def _serve(
    state: Path, kubeconfig: Path, port: int, host: str, name: str, audit_log: Path | None, limits: Limits
) -> None:
    from corral.clusters.embedded_api import EmbeddedApi
    from corral.server.gc_tuning import calm_collector

    calm_collector()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    cluster = EmbeddedApi(state, name=name, host=host, port=port, audit=audit_log, limits=limits)
    await cluster.start()
    try:
        cluster.server.write_kubeconfig(kubeconfig)
        click.echo(f"{name} is ready at {cluster.server.url}, kubeconfig {kubeconfig}")
        await stop.wait()
    finally:
        await cluster.stop()
