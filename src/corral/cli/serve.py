"""`corral serve`: one cluster's API on a port, with the controllers every API server has built in."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click


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
    "--encryption-key",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="File of the keys that encrypt Secrets on disk; made when absent (default: encryption.key in the state).",
)
def serve(
    state: Path,
    kubeconfig: Path,
    port: int,
    host: str,
    name: str,
    audit_log: Path | None,
    encryption_key: Path | None,
) -> None:
    """Serve one cluster's API until SIGTERM."""
    import uvloop

    from corral.store import StoreError

    try:
        uvloop.run(_serve(state, kubeconfig, port, host, name, audit_log, encryption_key))
    except StoreError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        if error.filename:
            raise  # a file, not the address
        raise click.ClickException(f"cannot serve on {host}:{port}: {error.strerror or error}") from error


async def _serve(
    state: Path,
    kubeconfig: Path,
    port: int,
    host: str,
    name: str,
    audit_log: Path | None,
    encryption_key: Path | None,
) -> None:
    from corral.clusters.embedded_api import EmbeddedApi
    from corral.server.gc_tuning import calm_collector

    calm_collector()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    cluster = EmbeddedApi(state, name=name, host=host, port=port, audit=audit_log, encryption_key=encryption_key)
    await cluster.start()
    try:
        cluster.server.write_kubeconfig(kubeconfig)
        click.echo(f"{name} is ready at {cluster.server.url}, kubeconfig {kubeconfig}")
        await stop.wait()
    finally:
        await cluster.stop()
