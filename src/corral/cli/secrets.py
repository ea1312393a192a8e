"""`corral secrets`: the keys under which Secrets are encrypted on disk."""

from __future__ import annotations

from pathlib import Path

import click

from corral.cli.groups import Commands
from corral.cli.up import folder_of, locked, state_option


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
@state_option
def rotate_key(encryption_key: Path | None, state: Path | None) -> None:
    """Encrypt all Secrets under a new key. The fleet must be down; DIR may also be the state of `corral serve`.

    \b
    corral down && corral secrets rotate-key && corral up
    """
    from corral.store.encryption import KEY_FILE

    folder = folder_of(state)
    if (folder.root / "store.db").exists():
        _rotate(folder.root.name, folder.root, encryption_key or folder.root / KEY_FILE)
        return
    if encryption_key is not None:
        raise click.UsageError(
            "--encryption-key is for the state of `corral serve`; clusters of a fleet have their own"
        )
    clusters = [name for name in folder.started() if (folder.cluster(name) / "store.db").exists()]
    if not clusters:
        raise click.ClickException(f"there is neither a fleet nor a cluster's state in {folder.root}")
    with locked(folder):
        for name in clusters:
            _rotate(name, folder.cluster(name), folder.cluster(name) / KEY_FILE)


def _rotate(name: str, state: Path, key_file: Path) -> None:
    from corral.runtime.secrets import random_bytes
    from corral.store import StoreError
    from corral.store.encryption import KeyFile
    from corral.store.sqlite import rotate_key as rotate

    try:
        count = rotate(state / "store.db", KeyFile(key_file, random_bytes))
    except StoreError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{name}: {count} versions of objects with secrets are encrypted under a new key in {key_file}.")
