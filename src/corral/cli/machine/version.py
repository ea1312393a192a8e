"""`corral version`: which Corral, which Python, and which server the kubeconfig leads to."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import click

from corral import __version__
from corral.cli.options import cluster_options, kubeconfig_file
from corral.cli.output.formats import Format, format_option, print_objects
from corral.client.kubeconfig import KubeconfigError
from corral.client.limits import ANSWER_S
from corral.client.sync import SyncClient
from corral.core.errors import ApiError
from corral.inspect.asking import asked_at_once


@click.command()
@format_option("json or yaml instead of lines.")
@cluster_options
def version(output: Format, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Print the versions of Corral, Python and the cluster, if one answers."""
    found = {
        "corral": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": f"{platform.system()} {platform.machine()}",
        "server": _server(kubeconfig_path, context),
    }
    if not output.is_table:
        print_objects(output, [{"kind": "Version", "metadata": {"name": "corral"}, **found}], is_single=True)
        return
    for name, value in found.items():
        click.echo(f"{name:<9} {value}")


def _server(path: Path | None, context: str) -> str:
    """The version of the cluster a command would talk to; that there is none is no error here."""

    def ask() -> str:
        client = SyncClient.from_kubeconfig(kubeconfig_file(path, context), context, timeout=ANSWER_S)
        return f"{client.call('GET', '/version').get('gitVersion')} at {client.access.server}"

    answer = asked_at_once({"": ask})[""]
    if isinstance(answer, ApiError | KubeconfigError | TimeoutError):
        return f"none: {answer}"
    if isinstance(answer, Exception):
        raise answer
    return answer
