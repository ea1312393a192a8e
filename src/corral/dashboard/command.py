"""`corral dashboard`: serve the web page of a cluster on this machine."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from corral.client import kubeconfig
from corral.client.sync import SyncClient
from corral.dashboard.serve import make_server
from corral.fleet.folder import FleetFolder

PORT = 8470


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), help=f"Port to listen on (default {PORT}, or any if it is taken)."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--open", "show", is_flag=True, help="Open it in the browser.")
@click.option("--kubeconfig", "path", type=click.Path(path_type=Path), help="Kubeconfig file.")
@click.option("--context", default="", help="Context of the kubeconfig.")
def dashboard(port: int | None, host: str, show: bool, path: Path | None, context: str) -> None:
    """Serve a web page over a cluster until Ctrl-C: queues and their quota, clusters, jobs, why each waits, and logs.

    It only reads, as the user of the kubeconfig. Whoever reaches the address sees what that user may see.

    \b
    corral dashboard --open
    corral dashboard --context corral-worker1 --port 9000
    """
    file = path or (default if (default := kubeconfig.default_path()).exists() else FleetFolder.default().kubeconfig)
    client = SyncClient.from_kubeconfig(file, context)
    client.call("GET", "/version")
    try:
        server = make_server(client.access, host, PORT if port is None else port)
    except OSError as error:
        if port is not None:
            raise click.ClickException(f"port {port} of {host}: {error.strerror}") from error
        server = make_server(client.access, host, 0)
    url = f"http://{host}:{server.server_address[1]}/"
    click.echo(f"{url} shows {client.access.server}; Ctrl-C ends it")
    if show:
        webbrowser.open(url)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
