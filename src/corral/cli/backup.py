"""`corral backup` and `corral restore`: a fleet in one file, and back."""

from __future__ import annotations

from pathlib import Path

import click

from corral.cli.up import folder_of, locked, state_option, which_option
from corral.configuration.fleet import FleetError
from corral.fleet.backup import BackupError, read, write


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@state_option
def backup(file: Path, state: Path | None) -> None:
    """Write the fleet to FILE: every object and the keys. It may run meanwhile.

    FILE holds private keys and Secrets; it is readable by you only. Files that pods have written are not in it.

    \b
    corral backup fleet.tar.gz
    """
    folder = folder_of(state)
    try:
        clusters = write(folder, file)
    except BackupError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"Wrote {', '.join(clusters)} to {file} ({file.stat().st_size:,} bytes).")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--replace", is_flag=True, help="Also where the folder has a fleet already, whose state is lost then.")
@click.option(
    "--allow",
    metavar="WHAT",
    multiple=True,
    help="A program, file, address or network outside the folder that the fleet may use, as the refusal names it. May be repeated.",
)
@state_option
def restore(file: Path, replace: bool, allow: tuple[str, ...], state: Path | None) -> None:
    """Bring the fleet of a backup back. No fleet may be running in its folder; `corral up` starts it afterwards.

    With it start the jobs in it, as you, and whoever made the backup has its keys: bring back only what you would run.
    A program, file or address outside the folder that the fleet uses has to be allowed by name.

    \b
    corral restore fleet.tar.gz
    corral restore fleet.tar.gz --state DIR      # beside the other one
    """
    folder = folder_of(state)
    has_fleet = bool(folder.started())
    try:
        folder.create()
        with locked(folder):
            if has_fleet and not replace:
                raise click.ClickException(
                    f"{folder.root} has a fleet already; --replace puts that of {file} in its place, --state names another folder"
                )
            clusters = read(folder, file, allow)
    except (BackupError, FleetError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"Restored {', '.join(clusters)}; `corral up{which_option(folder)}` starts them.")
