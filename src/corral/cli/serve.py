"""`corral serve`: one cluster's API on a port, with the controllers every API server has built in."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

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
) -> None:
    """Serve one cluster's API until SIGTERM."""
    import uvloop

    from corral.clusters.embedded_api import EmbeddedApi
    from corral.server.access.audit import AuditOptions, read_levels
    from corral.store import StoreError

    try:
        options = AuditOptions(audit_log_maxsize << 20, audit_log_maxbackup, *read_levels(audit_level))
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
        )

    try:
        uvloop.run(_serve(made, name, kubeconfig))
    except StoreError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        if error.filename:
            raise  # a file, not the address
        raise click.ClickException(f"cannot serve on {host}:{port}: {error.strerror or error}") from error


async def _serve(made: Callable[[], EmbeddedApi], name: str, kubeconfig: Path) -> None:
    from corral.server.gc_tuning import calm_collector

    calm_collector()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    cluster = made()
    await cluster.start()
    try:
        cluster.server.write_kubeconfig(kubeconfig)
        click.echo(f"{name} is ready at {cluster.server.url}, kubeconfig {kubeconfig}")
        await stop.wait()
    finally:
        await cluster.stop()
