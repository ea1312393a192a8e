"""`corral exec`: a command in a container of a job, wherever it runs."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import termios
import tty as terminals
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import click

from corral.cli.completion import complete_target
from corral.cli.options import cluster_options
from corral.cli.output.interruptions import INTERRUPTED
from corral.cli.pods.choosing import Chooser
from corral.client.sessions import STDERR, Outcome, Session
from corral.inspect.placed_pods import KUEUE

NOT_RUN: Final = 1


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("-c", "--container", default="", help="Container (default: the first of the pod).")
@click.option("-i", "--stdin", is_flag=True, help="Give the command our standard input.")
@click.option("-t", "--tty", is_flag=True, help="Give it our terminal; with -i, a shell to work in.")
@click.option("--kueue-namespace", default=KUEUE, help="Where the manager keeps its workers' kubeconfigs.")
@cluster_options
@click.argument("target", shell_complete=complete_target)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec(
    target: str,
    command: tuple[str, ...],
    container: str,
    stdin: bool,
    tty: bool,
    kueue_namespace: str,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Run COMMAND in a container of TARGET (job/NAME, pytorchjob/NAME, pod/NAME …) and end with its exit code. Options
    stand before TARGET; everything after it is the command's own.

    \b
    corral exec job/train nvidia-smi
    corral exec -it pod/train-x2x7k -- sh
    """
    if tty and not (sys.stdin.isatty() and sys.stdout.isatty()):
        click.echo("# this is no terminal: -t has no effect", err=True)
        tty = False
    chooser = Chooser.of(kubeconfig_path, context, namespace, kueue_namespace)
    chosen = chooser.running((target,), container, lambda sentence: click.echo(sentence, err=True))
    words = command[1:] if command[0] == "--" else command
    if not words:
        raise click.UsageError("name the command to run")
    try:
        with (
            Session(chosen.client, chosen.pod, chosen.container, words, stdin=stdin, tty=tty) as session,
            terminal(session) if tty else contextlib.nullcontext(),
        ):
            carry(session, sys.stdin.fileno() if stdin else None)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(ended(session.outcome))


def carry(session: Session, source: int | None) -> None:
    """Everything the program writes goes where ours goes, as it comes."""
    for channel, data in session.pump(source):
        target: BinaryIO = sys.stderr.buffer if channel == STDERR else sys.stdout.buffer
        target.write(data)
        target.flush()


def ended(outcome: Outcome) -> int:
    """The exit code to end with; what did not run is said."""
    if outcome.code is None or (outcome.code and "exit code" not in outcome.message):
        click.echo(f"Error: {outcome.message}", err=True)
    return NOT_RUN if outcome.code is None else outcome.code


@contextlib.contextmanager
def terminal(session: Session) -> Iterator[None]:
    """Our terminal as the program's: keys go to it as they are typed, also Ctrl-C, and it learns the size."""

    def measure(*_: object) -> None:
        size = shutil.get_terminal_size()
        session.resize(size.columns, size.lines)

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    changed = signal.signal(signal.SIGWINCH, measure)
    try:
        if os.getpgrp() == os.tcgetpgrp(keyboard):  # a shell's background job may not touch it
            terminals.setraw(keyboard, termios.TCSADRAIN)  # what was typed ahead is kept
        measure()
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, changed)
