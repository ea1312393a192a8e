"""Copies of a journal and checks of one, while others write to it or while nobody does."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from corral.store.errors import StoreError

WAY_OUT = "`corral down --delete` starts over without it, `corral restore FILE` brings back a backup"


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Raises StoreError where the file of `connection` is damaged."""
    try:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        raise StoreError(f"{path} is damaged ({' '.join(str(found).split())}); {WAY_OUT}")


def check_file(path: Path) -> None:
    """The same for a file that nobody uses."""
    with closing(sqlite3.connect(path, timeout=1.0, isolation_level=None)) as connection:
        check(connection, path)


def copy(source: Path, target: Path) -> None:
    """Copy the journal at `source` as of one moment: every write that was acknowledged before, none in part. Writers go on."""
    with (
        closing(sqlite3.connect(source, timeout=30.0, isolation_level=None)) as here,
        closing(sqlite3.connect(target, isolation_level=None)) as there,
    ):
        try:
            here.backup(there)
        except sqlite3.DatabaseError as error:
            raise StoreError(f"cannot copy {source}: {error}") from error
        check(there, source)
