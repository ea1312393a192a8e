"""The command that looks at everything and says what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from corral.cli.machine.doctor.cluster import look_at_cluster
from corral.cli.machine.doctor.findings import Finding, Level
from corral.cli.machine.doctor.fleet import look_at_fleet
from corral.cli.machine.doctor.kubeconfig import look_at_kubeconfig
from corral.cli.machine.doctor.machine import look_at_installation, look_at_machine
from corral.cli.options import cluster_options
from corral.cli.output.formats import Format, format_option, print_objects
from corral.cli.output.style import is_colourful
from corral.cli.up import folder_of, state_option, which_option
from corral.fleet.folder import FleetFolder

COLOURS = {Level.OK: "green", Level.NOTE: "yellow", Level.WRONG: "red"}


@click.command()
@click.option("-v", "--verbose", is_flag=True, help="Also say what is well.")
@format_option("json or yaml instead of lines.")
@state_option
@cluster_options
def doctor(
    verbose: bool,
    output: Format,
    state: Path | None,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Look at this machine, this installation, the fleet, the kubeconfig and the cluster it leads to; say what is wrong and
    how to mend it. Changes nothing. Exit code 1 where something is wrong.

    \b
    corral doctor
    corral doctor -v --context corral-worker1
    """
    findings = list(examine(folder_of(state), kubeconfig_path, context, namespace))
    if output.is_table:
        _print(findings, verbose)
    else:
        print_objects(output, [_object(number, one) for number, one in enumerate(findings, 1)], is_single=False)
    sys.exit(1 if any(one.level is Level.WRONG for one in findings) else 0)


def examine(folder: FleetFolder, kubeconfig_path: Path | None, context: str, namespace: str) -> Iterator[Finding]:
    """Everything, from the ground up."""
    yield from look_at_machine(folder.root)
    yield from look_at_installation()
    yield from look_at_fleet(folder, which_option(folder))
    if kubeconfig_path is None and folder.root != FleetFolder.default().root and folder.kubeconfig.exists():
        kubeconfig_path = folder.kubeconfig  # --state names the fleet that is meant
    found, access = look_at_kubeconfig(kubeconfig_path, context)
    yield from found
    if access is not None:
        yield from look_at_cluster(access, namespace)


def _print(findings: list[Finding], verbose: bool) -> None:
    for one in findings:
        if one.level is Level.OK and not verbose:
            continue
        mark = f"{one.level.value:<6}"
        click.echo(f"{click.style(mark, fg=COLOURS[one.level]) if is_colourful() else mark}{one.part}: {one.text}")
        if one.mend:
            click.echo(f"      -> {one.mend}")
    wrong = sum(one.level is Level.WRONG for one in findings)
    well = sum(one.level is Level.OK for one in findings)
    more = "" if verbose else "; -v shows them"
    click.echo(f"{wrong or 'Nothing'} {'is' if wrong <= 1 else 'are'} wrong, {well} things are well{more}.")


def _object(number: int, one: Finding) -> dict[str, object]:
    fields = {"part": one.part, "level": one.level.value, "text": one.text, "mend": one.mend}
    return {"kind": "Finding", "metadata": {"name": f"{one.part}-{number}"}, **fields}
