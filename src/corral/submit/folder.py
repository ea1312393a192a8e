"""What is in a folder that goes with a job: its files, links and empty folders, without what its ignore files leave out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.core.text_files import read_text
from corral.submit.errors import PackingError
from corral.submit.ignoring import Rules, ignores, rules_of

IGNORE_FILES: Final = (".corralignore", ".gitignore")
"""Names of ignore files; in each folder the first that is there counts."""
USUALLY_IGNORED: Final = (
    ".git",
    "__pycache__",
    "*.pyc",
    ".venv",
    "venv",
    ".tox",
    "node_modules",
    ".corral",
    ".mypy_cache",
)
"""Left out unless a line brings it back."""
FILE, LINK, FOLDER = "file", "link", "folder"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that travels."""

    name: str
    """Its path inside the folder, with slashes."""
    kind: str
    size: int = 0
    is_program: bool = False
    target: str = ""
    """Where a link leads, as it is written in it."""


def contents(folder: Path) -> list[Entry]:
    """What travels of a folder, in order. Raises PackingError for what cannot be read and for links that lead out of it."""
    return sorted(_inside(folder, "", [rules_of("\n".join(USUALLY_IGNORED))]), key=lambda entry: entry.name)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """A file or a folder that cannot be read is named."""
    try:
        yield
    except OSError as error:
        raise PackingError(
            f"{path} cannot be read, so that it cannot go with the job: {error.strerror or error}; "
            f"let it be read, or name it in {IGNORE_FILES[0]}"
        ) from error


def _inside(root: Path, place: str, above: list[Rules]) -> Iterator[Entry]:
    with reading(root / place), os.scandir(root / place) as scanned:
        children = list(scanned)
    rules = [*above, *_rules_at(root, place)]
    for child in children:
        name, is_folder = place + child.name, child.is_dir(follow_symlinks=False)
        if ignores(rules, name, is_folder):
            continue
        if child.is_symlink():
            yield Entry(name, LINK, target=_target(root, name))
        elif is_folder:
            inside = list(_inside(root, f"{name}/", rules))
            yield from inside or (Entry(name, FOLDER),)
        elif child.is_file():
            with reading(root / name):
                about = child.stat()
            yield Entry(name, FILE, about.st_size, bool(about.st_mode & 0o100))


def _rules_at(root: Path, place: str) -> Iterator[Rules]:
    for name in IGNORE_FILES:
        file = root / place / name
        with reading(file):
            if file.is_file():
                yield rules_of(read_text(file), place)
                return


def _target(root: Path, name: str) -> str:
    """Where a link leads, in words that hold wherever the folder is unpacked."""
    link, top = root / name, root.resolve()
    with reading(link):
        written = link.readlink()
    real = Path(os.path.realpath(link.parent / written))
    if not real.is_relative_to(top):
        raise PackingError(
            f"{name} is a link to {written}, which is not in {root}: what it leads to does not go with the job; "
            f"copy it into the folder, or name it in {IGNORE_FILES[0]} (/{name}) and let the job read it from a volume, "
            "from its image, or, where pods are processes of this machine, by its absolute path"
        )
    climbs = os.path.normpath(f"{name}/../{written}").startswith("../")
    return os.path.relpath(real, link.parent.resolve()) if written.is_absolute() or climbs else str(written)
