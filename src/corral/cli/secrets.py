"""`corral secrets`: the keys under which Secrets are encrypted on disk."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from corral.cli.groups import Commands
from corral.cli.up import folder_of, locked, state_option

if TYPE_CHECKING:
    from corral.fleet.folder import FleetFolder


@click.group(cls=Commands)
def secrets() -> None:
    """How Secrets are kept on disk."""


@secrets.command("rotate-key")
@click.option(
    "--encryption-key",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="The key file, where `corral serve` was given one.",
)
@click.option(
    "--encryption-provider",
    metavar="COMMAND",
    default="",
    help="The program that wraps the keys, where it is not the one that the fleet was started with.",
)
@state_option
def rotate_key(encryption_key: Path | None, encryption_provider: str, state: Path | None) -> None:
    """Encrypt all Secrets under a new key. The fleet must be down; DIR may also be the state of `corral serve`.

    \b
    corral down && corral secrets rotate-key && corral up
    """
    from corral.store.encryption import KEY_FILE

    folder, provider = folder_of(state), shlex.split(encryption_provider)
    if (folder.root / "store.db").exists():
        _rotate(folder.root.name, folder.root, encryption_key or folder.root / KEY_FILE, provider)
        return
    if encryption_key is not None:
        raise click.UsageError(
            "--encryption-key is for the state of `corral serve`; clusters of a fleet have their own"
        )
    clusters = [name for name in folder.started() if (folder.cluster(name) / "store.db").exists()]
    if not clusters:
        raise click.ClickException(f"there is neither a fleet nor a cluster's state in {folder.root}")
    with locked(folder):
        provider = provider or _provider_of(folder)
        for name in clusters:
            _rotate(name, folder.cluster(name), folder.cluster(name) / KEY_FILE, provider)


def _provider_of(folder: FleetFolder) -> list[str]:
    """The program that the fleet was started with."""
    fleet = folder.read_spec()
    return fleet.encryption_provider if fleet is not None else []


def _rotate(name: str, state: Path, key_file: Path, provider: list[str]) -> None:
    from corral.clusters.embedded_api import open_keys
    from corral.runtime.key_provider import ProviderError
    from corral.store import StoreError
    from corral.store.sqlite import rotate_key as rotate

    try:
        count = rotate(state / "store.db", open_keys(key_file, provider))
    except (StoreError, ProviderError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{name}: {count} versions of objects with secrets are encrypted under a new key in {key_file}.")
