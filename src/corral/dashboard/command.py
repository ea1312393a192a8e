"""`corral dashboard`: serve the web page of a cluster on this machine."""

from __future__ import annotations

import errno
import ssl
import webbrowser
from pathlib import Path

import click

from corral.client import kubeconfig
from corral.client.kubeconfig import Access
from corral.client.sync import SyncClient
from corral.dashboard.address import Address, context_for, fingerprint, make_pair
from corral.dashboard.serve import PageServer
from corral.fleet.folder import FleetFolder
from corral.runtime.clock import WallClock

PORT = 8470


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), help=f"Port to listen on (default {PORT}, or any if it is taken)."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--name", "names", multiple=True, help="Another name it is reached by, e.g. through a proxy; can be repeated."
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Serve other machines without TLS: tokens and logs cross the network in clear text.",
)
@click.option("--read-only", is_flag=True, help="Let nobody cancel, resume, repeat or delete jobs from it.")
@click.option("--open", "show", is_flag=True, help="Open it in the browser.")
@click.option("--kubeconfig", "path", type=click.Path(path_type=Path), help="Kubeconfig file.")
@click.option("--context", default="", help="Context of the kubeconfig.")
def dashboard(
    port: int | None,
    host: str,
    names: tuple[str, ...],
    insecure: bool,
    read_only: bool,
    show: bool,
    path: Path | None,
    context: str,
) -> None:
    """Serve a web page over a cluster until Ctrl-C: queues and their quota, clusters, jobs, why each waits, and logs.

    The printed address holds a token, and whoever opens it is to the cluster the user of the kubeconfig; others log in with a
    bearer token of the cluster, and see and do what is theirs. On an address other machines reach, it is served over TLS.

    \b
    corral dashboard --open
    corral dashboard --context corral-worker1 --port 9000
    corral dashboard --host 0.0.0.0 --name corral.example.com
    """
    file = path or (default if (default := kubeconfig.default_path()).exists() else FleetFolder.default().kubeconfig)
    document = kubeconfig.load(file)
    client = SyncClient(kubeconfig.access(document, context, folder=file.parent, origin=str(file)))
    client.call("GET", "/version")
    address = Address(host, names)
    tls = None if insecure or address.is_loopback else _certified(address, client.access)
    contexts = kubeconfig.by_context(document, file.parent, str(file))
    try:
        server = PageServer(
            client.access, address, PORT if port is None else port, tls, contexts=contexts, read_only=read_only
        )
    except OSError as error:
        if port is not None or error.errno != errno.EADDRINUSE:
            raise click.ClickException(f"port {port or PORT} of {host}: {error.strerror}") from error
        server = PageServer(client.access, address, 0, tls, contexts=contexts, read_only=read_only)
    click.echo(f"{server.url} shows {client.access.server}; Ctrl-C ends it")
    if show:
        webbrowser.open(server.url)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def _certified(address: Address, access: Access) -> ssl.SSLContext:
    """TLS with a new certificate, and on the screen what it is trusted by."""
    clusters = FleetFolder.default().root / "clusters"
    pair, by_cluster = make_pair(address, access.ca, sorted(clusters.glob("*/pki")), WallClock().now())
    if by_cluster:
        click.echo("Its certificate is signed by the cluster's authority, the one in the kubeconfig.")
    else:
        click.echo(f"Its certificate is its own; browsers ask about it. SHA-256 fingerprint: {fingerprint(pair)}")
    return context_for(pair)
