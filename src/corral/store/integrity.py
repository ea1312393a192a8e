"""Copies of a journal and checks of one, while others write to it or while nobody does."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from corral.store.errors import StoreError

SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    deleted INTEGER NOT NULL, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
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
    """The same for a file that nobody uses; it must be a journal, too, and have nothing else in it."""
    with closing(sqlite3.connect(path, timeout=1.0, isolation_level=None)) as connection:
        _check_form(connection, path)
        check(connection, path)


def _check_form(connection: sqlite3.Connection, path: Path) -> None:
    """Raises StoreError where the file is none of ours. One without tables would be taken for a journal that has yet to begin, and a
    view or a trigger for what a journal does."""
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(SCHEMA)
        wanted = _form(empty)
    try:
        found = _form(connection)
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path} is damaged ({error})") from error
    if found != wanted:
        raise StoreError(f"{path} is not a journal of Corral's")


def _form(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    """What a database is made of, however its author breaks lines."""
    made = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master")
    return {tuple(" ".join(str(part).split()) for part in row) for row in made}


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
        _check_form(there, source)
        check(there, source)
