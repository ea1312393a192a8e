"""Options every command that talks to a cluster has, and how they become a client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from corral.cli.completion import complete_context
from corral.client.sync import SyncClient
from corral.fleet.reaching import kubeconfig_file

__all__ = ["client_of", "cluster_options", "kubeconfig_file", "namespace_of"]

F = TypeVar("F", bound=Callable[..., Any])


def cluster_options(command: F) -> F:
    """--kubeconfig, --context and --namespace."""
    for option in (
        click.option("--kubeconfig", "kubeconfig_path", type=click.Path(path_type=Path), help="Kubeconfig file."),
        click.option("--context", default="", help="Context of the kubeconfig.", shell_complete=complete_context),
        click.option("-n", "--namespace", default="", help="Namespace (default: the context's)."),
    ):
        command = option(command)
    return command


def client_of(path: Path | None, context: str) -> SyncClient:
    return SyncClient.from_kubeconfig(kubeconfig_file(path, context), context)


def namespace_of(client: SyncClient, given: str) -> str:
    return given or client.access.namespace
