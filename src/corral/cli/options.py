"""Options every command that talks to a cluster has, and how they become a client."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from corral.cli.completion import complete_context
from corral.client import kubeconfig
from corral.client.sync import SyncClient
from corral.fleet.folder import FleetFolder

F = TypeVar("F", bound=Callable[..., Any])


def cluster_options(command: F) -> F:
    """--kubeconfig, --context and --namespace."""
    for option in (
        click.option("-n", "--namespace", default="", help="Namespace (default: the context's)."),
        click.option("--context", default="", help="Context of the kubeconfig.", shell_complete=complete_context),
        click.option("--kubeconfig", "kubeconfig_path", type=click.Path(path_type=Path), help="Kubeconfig file."),
    ):
        command = option(command)
    return command


def kubeconfig_file(path: Path | None, context: str = "") -> Path:
    """The file to use: the given one, of kubectl's the first that has the context, else the local fleet's."""
    if path is not None:
        return path
    default = kubeconfig.default_path()
    listed = [Path(entry) for entry in os.environ.get("KUBECONFIG", "").split(os.pathsep) if entry]
    for file in (file for file in listed or [default] if file.exists()):
        document = kubeconfig.load(file)
        wanted = context or document.get("current-context")
        if len(listed) < 2 or wanted in [entry.get("name") for entry in document.get("contexts") or []]:
            return file
    if default.exists():
        return default
    local = FleetFolder.default().kubeconfig
    if not local.exists():
        raise click.ClickException(
            f"there is no kubeconfig {default}; name one with --kubeconfig, or start with `corral up`"
        )
    return local


def client_of(path: Path | None, context: str) -> SyncClient:
    return SyncClient.from_kubeconfig(kubeconfig_file(path, context), context)


def namespace_of(client: SyncClient, given: str) -> str:
    return given or client.access.namespace
