"""`corral cp`: files into a container of a job and out of it, wherever it runs, by the `tar` of its image."""

from __future__ import annotations

import contextlib
import os
import posixpath
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

import click

from corral.cli.options import cluster_options
from corral.cli.output.interruptions import INTERRUPTED
from corral.cli.pods.choosing import Chooser, Chosen, NothingRuns
from corral.client.sessions import STDERR, STDOUT, Outcome, Session, run
from corral.inspect.placed_pods import KUEUE

NOT_FOUND: Final = 127
HOW_TO_NAME: Final = "one of the two is in a container, written TARGET:PATH, for example job/train:/workspace/model.pt"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is: a path here, or with a target one in a container of it."""

    path: str
    target: str = ""


def place(text: str) -> Place:
    """What a user wrote. A path of this machine that has a colon in it begins with / or ./"""
    target, colon, path = text.partition(":")
    if not colon or text.startswith(("/", "./", "../")):
        return Place(text)
    if not target or not path:
        raise click.UsageError(f"{text!r}: {HOW_TO_NAME}")
    return Place(path, target)


@click.command("cp")
@click.argument("source")
@click.argument("destination")
@click.option("-c", "--container", default="", help="Container (default: the first of the pod).")
@click.option("--kueue-namespace", default=KUEUE, help="Where the manager keeps its workers' kubeconfigs.")
@cluster_options
def copy(
    source: str,
    destination: str,
    container: str,
    kueue_namespace: str,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Copy a file or a folder into a container of a job, or out of it, as `cp -r` does: into DESTINATION if that is a
    folder, else to that name.

    \b
    corral cp job/train:/workspace/model.pt .
    corral cp data/ pytorchjob/mnist:/workspace
    """
    here, there = place(source), place(destination)
    if bool(here.target) == bool(there.target):
        raise click.UsageError(HOW_TO_NAME)
    remote = here if here.target else there
    local = Path((there if here.target else here).path)
    if there.target and not local.exists():
        raise click.ClickException(f"there is no {local} here")
    if there.target and (outside := leading_out(local)):
        raise click.ClickException(
            f"{outside[0]} is a link that leads out of {local}, to {outside[0].readlink()}: what it leads to would be copied, too; "
            "remove it, or copy that by itself"
        )
    chooser = Chooser.of(kubeconfig_path, context, namespace, kueue_namespace)
    words = (remote.target,) if "/" in remote.target else ("pod", remote.target)
    try:
        chosen = chooser.running(words, container, lambda sentence: click.echo(sentence, err=True))
    except NothingRuns as error:
        if not here.target:
            raise
        raise click.ClickException(
            f"{error}; its files went with it: `corral run --fetch PATH` brings them back"
        ) from error
    try:
        (_download if here.target else _upload)(chosen, remote.path, local)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _upload(chosen: Chosen, path: str, local: Path) -> None:
    parent, name = posixpath.split(path.rstrip("/") or "/")
    outcome, _ = run(chosen.client, chosen.pod, chosen.container, ["test", "-d", path])
    if outcome.code == 0:
        parent, name = path, local.resolve().name
    elif path.endswith("/"):
        raise click.ClickException(f"there is no folder {path} in the container")
    command = ["tar", "xmf", "-", "-C", parent or "."]
    said = bytearray()
    with _archive(local, name) as source, Session(
        chosen.client, chosen.pod, chosen.container, command, stdin=True
    ) as session:  # fmt: skip
        for _, data in session.pump(source):
            said += data
    _check(session.outcome, bytes(said))


def leading_out(folder: Path) -> list[Path]:
    """The links below a folder that lead out of it: whoever made the folder chose where to."""
    top = folder.resolve()
    links = (Path(place) / name for place, folders, files in os.walk(top) for name in folders + files)
    return sorted(link for link in links if link.is_symlink() and not link.resolve().is_relative_to(top))


@contextlib.contextmanager
def _archive(local: Path, name: str) -> Iterator[int]:
    """A descriptor to read an archive from that is written meanwhile."""
    reading, writing = os.pipe()
    top = local.resolve()

    def portable(member: tarfile.TarInfo) -> tarfile.TarInfo:
        """A link inside the folder leads to the same thing wherever the folder is."""
        if member.issym() and member.linkname.startswith("/"):
            link = top / posixpath.relpath(member.name, name)
            member.linkname = os.path.relpath(link.resolve(), link.parent)
        return member

    def write() -> None:
        # A container that takes no more closes its end; that is told by its exit code.
        with (
            contextlib.suppress(BrokenPipeError),
            os.fdopen(writing, "wb") as target,
            tarfile.open(fileobj=target, mode="w|") as archive,
        ):
            archive.add(top, arcname=name, filter=portable)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield reading
    finally:
        os.close(reading)
        thread.join()


def _download(chosen: Chosen, path: str, local: Path) -> None:
    parent, name = posixpath.split(path.rstrip("/") or "/")
    if not name:
        raise click.UsageError("name a file or a folder of the container, not all of it")
    command = ["tar", "cf", "-", "-C", parent or ".", "--", name]
    target = local / name if local.is_dir() else local
    if not target.parent.is_dir():
        raise click.ClickException(f"there is no folder {target.parent} here")
    # In a folder beside its place, so that what breaks off leaves no half of a file there.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".corral-cp-") as folder:
        with Session(chosen.client, chosen.pod, chosen.container, command) as session:
            stream = _Output(session)
            try:
                _unpack(stream, Path(folder))
            except tarfile.TarError as error:
                stream.drain()
                _check(session.outcome, bytes(stream.said))
                raise click.ClickException(f"what the container sent is no archive: {error}") from error
            stream.drain()
        _check(session.outcome, bytes(stream.said))
        _move(Path(folder) / name, target)


def _unpack(stream: _Output, folder: Path) -> None:
    """What a container sends may be anything: nothing of it gets outside of the folder, nor is a device or a program of another."""
    with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|") as archive:
        archive.extractall(folder, filter="data")


def _move(made: Path, target: Path) -> None:
    if made.is_dir() and target.is_dir():
        for child in sorted(made.iterdir()):
            _move(child, target / child.name)
        return
    if target.is_dir():
        raise click.ClickException(f"{target} is a folder here, and a file in the container")
    made.replace(target)


class _Output:
    """What a program writes, as a file to read."""

    def __init__(self, session: Session) -> None:
        self._chunks = session.pump()
        self._left = b""
        self.said = bytearray()
        """What it wrote to standard error."""

    def read(self, size: int) -> bytes:
        while not self._left:
            channel, data = next(self._chunks, (STDOUT, None))
            if data is None:
                return b""
            if channel == STDERR:
                self.said += data
            else:
                self._left = data
        taken, self._left = self._left[:size], self._left[size:]
        return taken

    def drain(self) -> None:
        """To the end, for the exit code."""
        for channel, data in self._chunks:
            if channel == STDERR:
                self.said += data


def _check(outcome: Outcome, said: bytes) -> None:
    if outcome.code == 0:
        return
    words = " ".join(said.decode(errors="replace").split()) or outcome.message
    if outcome.code in (NOT_FOUND, 126) or "executable file not found" in outcome.message:
        words = f"the container has no tar, which copying needs ({words})"
    raise click.ClickException(words)
