"""Paths a pod may choose, kept below the folder they belong to.

A name from a pod is split into checked parts, and files are reached part by part from an open folder without following
links. So neither `..` nor a link that the pod itself has put into its volume leads anywhere else, also when the link
appears between the check and the use. Everything the node reads, writes or mounts for a pod by such a name goes through here.
"""

# Plain strings and descriptors instead of pathlib: also runs between fork and exec.
# ruff: noqa: PTH118

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corral.node.environment import MissingError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class OutsideError(MissingError):
    """A path of the pod leads out of its volume; for the pod there is nothing."""


def checked_parts(relative: str) -> tuple[str, ...]:
    """The parts of a relative path that only descends."""
    if relative.startswith("/"):
        raise OutsideError(f'path "{relative}" must be relative: it is looked up below the volume')
    if "\0" in relative:
        raise OutsideError("a path must not contain the character NUL")
    parts = tuple(part for part in relative.split("/") if part not in ("", "."))
    if ".." in parts:
        raise OutsideError(f"path \"{relative}\" must not contain '..': it would leave the volume")
    return parts


def child(root: Path, name: str) -> Path:
    """The path of one entry of `root`; anything that is not a single name is refused."""
    if checked_parts(name) != (name,):
        raise OutsideError(f'"{name}" is not a name that a folder can have')
    return root / name


def resolve_below(root: Path, relative: str) -> tuple[str, ...]:
    """The parts of `relative` below `root` once links inside the volume are followed; one that leads out is refused."""
    top = os.path.realpath(root)
    target = os.path.realpath(os.path.join(top, *checked_parts(relative)))
    if target != top and not target.startswith(top.rstrip("/") + "/"):
        raise OutsideError(f'path "{relative}" is a link that leaves the volume')
    return checked_parts(target[len(top) :].lstrip("/"))


@contextmanager
def open_folder(root: str | Path, parts: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder `parts` below `root`, made on the way where `create` says so."""
    handle = os.open(os.path.realpath(root), _FOLDER)
    try:
        for part in parts:
            following = _enter(handle, part, create)
            os.close(handle)
            handle = following
        yield handle
    finally:
        os.close(handle)


def _enter(handle: int, part: str, create: bool) -> int:
    if create:
        try:
            os.mkdir(part, 0o755, dir_fd=handle)
        except FileExistsError:
            pass  # what it is, the next call finds out
    try:
        return os.open(part, _FOLDER, dir_fd=handle)
    except NotADirectoryError as error:  # also what a link is to a call that does not follow it
        raise OutsideError(f'"{part}" is not a folder of the volume') from error


@contextmanager
def open_entry(root: str | Path, parts: tuple[str, ...]) -> Iterator[int]:
    """A descriptor that stands for the file or folder `parts` below `root`, good for mounting it."""
    if not parts:
        with open_folder(root, ()) as handle:
            yield handle
        return
    with open_folder(root, parts[:-1]) as folder:
        handle = os.open(parts[-1], _LOOK, dir_fd=folder)
    try:
        if stat.S_ISLNK(os.fstat(handle).st_mode):
            raise OutsideError(f'"{parts[-1]}" is a link')
        yield handle
    finally:
        os.close(handle)


def read_below(root: Path, relative: str) -> tuple[bytes, float] | None:
    """The content of a file and when it was written; None when there is no such plain file."""
    *above, name = checked_parts(relative)
    try:
        with open_folder(root, tuple(above)) as folder:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except (OSError, OutsideError):
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        return (file.read(), status.st_mtime) if stat.S_ISREG(status.st_mode) else None


def write_below(root: Path, relative: str, content: bytes, mode: int) -> None:
    """Write a file that readers see whole or not at all; what was there under its name is replaced, never followed."""
    *above, name = checked_parts(relative)
    part = f"{name}.part"
    with open_folder(root, tuple(above), create=True) as folder:
        try:
            os.unlink(part, dir_fd=folder)
        except FileNotFoundError:
            pass
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(part, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)


def remove_others(root: Path, wanted: set[tuple[str, ...]]) -> None:
    """Remove every entry below `root` that is neither a wanted file nor on the way to one; links are not followed."""
    for path, _, files, handle in os.fwalk(root, topdown=False, follow_symlinks=False):
        above = checked_parts(path[len(str(root)) :].lstrip("/"))
        for name in files:
            if (*above, name) not in wanted:
                os.unlink(name, dir_fd=handle)
