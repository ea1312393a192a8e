"""The durable journal: one SQLite file in WAL mode, one connection in one thread, many writes per commit.

The log is the database: one row per version, keyed by revision; the present is the last row of every key. A commit is a
single multi-row INSERT, so it is atomic without further ado, costs one fsync however many writers wait for it, and the
thread needs the interpreter lock only before and after. `synchronous=FULL` makes the fsync part of the answer. The WAL is
moved into the database by a second thread, so that no writer waits for that; only one that outgrows it is moved in line.
A lock beside the file keeps a second process out. With a key file, what holds secrets is encrypted on the way.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from enum import Enum
from functools import lru_cache
from pathlib import Path
from queue import Empty, SimpleQueue

from corral.store.encryption import SEALED, KeyFile, is_sealed
from corral.store.errors import StoreError
from corral.store.integrity import SCHEMA, WAY_OUT, check
from corral.store.journal import JournalWrite, Row
from corral.store.stored import ObjectKey

log = logging.getLogger(__name__)

GROUP = 512  # writes per commit at most
PATIENCE = 8  # commits that may pass before old versions are dropped although somebody waits
EAGER = 16  # this many writes are worth a commit while the loop is still busy with more
QUIET_S = 1.0  # without a write for this long, the WAL is moved into the database
WAL_BYTES = 64 << 20  # beyond this it is moved while others write
WAL_LIMIT = 4 * WAL_BYTES  # beyond this, because nobody ever paused, it is moved before the next write
PAGE = 4096  # what a commit adds to the WAL besides its values, roughly
CACHE_KIB = 256  # reading happens once, when the store is loaded: pages kept after that are held for nobody


class _Forget:
    """Versions to drop, and how far history then reaches back."""

    __slots__ = ("compacted", "revisions")

    def __init__(self, revisions: Sequence[int], compacted: int):
        self.revisions = revisions
        self.compacted = compacted


class _Control(Enum):
    NOTHING = "the queue is empty"
    RESUME = "the loop knows of the failure; what follows does not build on lost writes"
    STOP = "no more work"


_Item = list[JournalWrite] | _Forget | _Control


class SqliteJournal:
    """Writes kept in the file at `path`, which is made when absent; those of resources that hold secrets under `keys`."""

    immediate = False

    def __init__(self, path: Path, keys: KeyFile | None = None):
        self.path = path
        self._keys = keys
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        self._batch: list[JournalWrite] = []  # loop only: what this turn of the loop has written so far
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Future[None] | None = None
        self._broken: Exception | None = None
        self._losing = False  # thread only: writes are refused until RESUME
        self._debts: deque[_Forget] = deque()  # thread only: what is still to be dropped
        self._commits = 0  # thread only: since something was last dropped
        self._logged = 0  # thread only: bytes in the WAL, roughly
        self._average = PAGE  # thread only: bytes of a version, roughly
        self._mover: threading.Thread | None = None  # thread only: moves the WAL into the database
        # Thread only. A failed DELETE ends deleting, so that no tombstone goes before its object.
        self._forgetting = True
        try:
            _keep_private(path)
            self._lock = _lock(path)
            self._connection = self._open(path)
        except sqlite3.OperationalError as error:
            raise StoreError(f"cannot open {path}: {error}; is another process using it?") from error
        except sqlite3.DatabaseError as error:
            raise StoreError(f"cannot open {path}: {error}; {WAY_OUT}") from error

    def _open(self, path: Path) -> sqlite3.Connection:
        connection = _open(path)
        try:
            check(connection, path)
        except StoreError:
            connection.close()
            self._lock.close()
            raise
        return connection

    def load(self) -> Iterator[Row]:
        shared: dict[str, str] = {}  # resource and namespace names are few: keep one string of each
        rows = self._connection.execute(
            "SELECT revision, resource, namespace, name, deleted, value FROM log ORDER BY revision"
        )
        for revision, resource, namespace, name, deleted, value in rows:
            key = ObjectKey(shared.setdefault(resource, resource), shared.setdefault(namespace, namespace), name)
            yield Row(revision, key, bool(deleted), self._opened(key, revision, value))

    def _opened(self, key: ObjectKey, revision: int, value: bytes) -> bytes:
        if not is_sealed(value):
            return value
        try:
            if self._keys is None:
                raise StoreError(f"cannot read {key}: it is encrypted in {self.path}, and no key file was named")
            return self._keys.open(key, revision, value)
        except StoreError:
            self._connection.close()
            self._lock.close()
            raise

    def floor(self) -> int:
        found = self._connection.execute("SELECT value FROM meta WHERE name = 'compacted'").fetchone()
        return int(found[0]) if found else 0

    def start(self, kept: Callable[[Sequence[JournalWrite]], None], failed: Callable[[Exception], None]) -> None:
        self._kept = kept
        self._failed = failed
        if self._keys is not None:
            self._keys.ensure()
        self._thread = threading.Thread(target=self._run, name=f"journal {self.path.name}", daemon=True)
        self._thread.start()

    def append(self, write: JournalWrite) -> None:
        if self._stopped is not None:
            raise StoreError("the store is closed")
        if self._broken is not None:
            raise StoreError(f"the journal has stopped: {self._broken}")
        self._batch.append(write)
        if len(self._batch) == 1:
            # Everything written in one turn of the loop goes to the thread together, and wakes it once.
            self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self._flush)
        elif len(self._batch) == EAGER:
            self._flush()

    def forget(self, revisions: Sequence[int], compacted: int) -> None:
        self._flush()
        for start in range(0, len(revisions) or 1, GROUP):
            self._queue.put(_Forget(revisions[start : start + GROUP], compacted))

    async def close(self) -> None:
        if self._stopped is None:
            self._loop = asyncio.get_running_loop()
            self._stopped = self._loop.create_future()
            self._flush()
            self._queue.put(_Control.STOP)
            if self._broken is not None:
                self._finished()
        await asyncio.shield(self._stopped)

    # -- on the loop --------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        if self._batch:
            batch, self._batch = self._batch, []
            self._queue.put(batch)

    def _lost(self, error: Exception) -> None:
        self._failed(error)
        self._queue.put(_Control.RESUME)

    def _finished(self) -> None:
        assert self._thread is not None
        assert self._stopped is not None
        self._thread.join()
        self._connection.close()
        self._lock.close()
        if not self._stopped.done():
            self._stopped.set_result(None)

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # whoever waits must hear of it, whatever it is
            log.exception("the journal has stopped path=%s", self.path)
            self._broken = error
            self._announce(self._lost, error)

    def _work(self) -> None:
        item = self._next()
        while item is not _Control.STOP:
            following: _Item = _Control.NOTHING
            if isinstance(item, list):
                following = self._gather(item)
                for start in range(0, len(item), GROUP):
                    self._keep(item[start : start + GROUP])
            elif isinstance(item, _Forget):
                self._debts.append(item)
            elif item is _Control.RESUME:
                self._losing = False
            item = self._next() if following is _Control.NOTHING else following
        while self._debts:
            self._drop(self._debts.popleft())
        if self._mover is not None:
            self._mover.join()
        self._announce(self._finished)

    def _next(self) -> _Item:
        """What to do next. Old versions are dropped while nobody waits, or at last between commits."""
        while self._debts:
            if self._commits < PATIENCE:
                try:
                    return self._queue.get_nowait()
                except Empty:
                    pass
            self._commits = 0
            self._drop(self._debts.popleft())
        if self._logged:
            try:
                return self._queue.get(timeout=QUIET_S)
            except Empty:
                self._checkpoint()
        return self._queue.get()

    def _gather(self, group: list[JournalWrite]) -> _Item:
        """Add the writes that are waiting; return what came after them."""
        take = self._queue.get_nowait
        try:
            while len(group) < GROUP:
                item = take()
                if not isinstance(item, list):
                    return item
                group += item
        except Empty:
            pass
        return _Control.NOTHING

    def _keep(self, group: list[JournalWrite]) -> None:
        if self._losing:
            return
        self._commits += 1
        values: list[object] = []
        for write in group:
            stored = write.stored
            raw = stored.raw
            if self._keys is not None and stored.key.resource in SEALED:
                raw = self._keys.seal(stored.key, stored.revision, raw)
            values += (stored.revision, *stored.key, write.deleted, raw)
        try:
            self._connection.execute(_insert_statement(len(group)), values)
        except sqlite3.Error as error:
            self._losing = True
            self._announce(self._lost, error)
        else:
            self._announce(self._kept, group)
            size = sum([len(write.stored.raw) for write in group])
            self._logged += size + PAGE
            self._average = (7 * self._average + size // len(group)) // 8
            if self._logged > WAL_BYTES:
                self._checkpoint()

    def _checkpoint(self) -> None:
        """Have the WAL moved into the database. It starts over once all of it was moved and nobody writes for a moment."""
        self._logged = 0
        if self._mover is not None and self._mover.is_alive():
            return
        if _size(self.path.with_name(f"{self.path.name}-wal")) > WAL_LIMIT:
            self._move(self._connection, "TRUNCATE")
            return
        self._mover = threading.Thread(target=self._move_aside, name=f"journal mover {self.path.name}", daemon=True)
        self._mover.start()

    def _move_aside(self) -> None:
        connection = sqlite3.connect(self.path, timeout=1.0, isolation_level=None)
        try:
            self._move(connection, "PASSIVE")
        finally:
            connection.close()

    def _move(self, connection: sqlite3.Connection, how: str) -> None:
        try:
            connection.execute(f"PRAGMA wal_checkpoint({how})")
        except sqlite3.Error as error:  # the WAL stays as it is and is as good
            log.warning("the write-ahead log keeps growing path=%s error=%s", self.path, error)

    def _drop(self, item: _Forget) -> None:
        if not self._forgetting:
            return
        execute = self._connection.execute
        try:
            # Nobody waits for this to be on disk: the next write takes it there, and until then it may be lost.
            execute("PRAGMA synchronous=NORMAL")
            execute("BEGIN")
            execute("DELETE FROM log WHERE revision IN (SELECT value FROM json_each(?))", (json.dumps(item.revisions),))
            execute("INSERT OR REPLACE INTO meta VALUES ('compacted', ?)", (item.compacted,))
            execute("COMMIT")
            self._logged += self._touched(item.revisions)
        except sqlite3.Error as error:
            self._forgetting = False
            log.warning("old history stays on disk until the next start path=%s error=%s", self.path, error)
            if self._connection.in_transaction:
                execute("ROLLBACK")
        finally:
            execute("PRAGMA synchronous=FULL")

    def _touched(self, revisions: Sequence[int]) -> int:
        """Bytes of the pages that lose these versions, roughly: neighbours share a page."""
        if not revisions:
            return PAGE
        span = max(revisions) - min(revisions) + 1
        return min(PAGE * len(revisions), self._average * span) + PAGE

    def _announce(self, callback: Callable[..., None], *args: object) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            pass  # the loop is gone: nobody is left to tell


def rotate_key(path: Path, keys: KeyFile) -> int:
    """Encrypt what holds secrets in the journal at `path`, which nobody uses, under a new key; returns how many versions that were.
    Nothing of what they were before stays in its files."""
    try:
        _keep_private(path)
        with closing(_lock(path)), closing(_open(path)) as connection:
            check(connection, path)
            return _seal_again(connection, keys)
    except sqlite3.OperationalError as error:
        raise StoreError(f"cannot open {path}: {error}; is another process using it?") from error
    except sqlite3.DatabaseError as error:
        raise StoreError(f"cannot open {path}: {error}; {WAY_OUT}") from error


def _seal_again(connection: sqlite3.Connection, keys: KeyFile) -> int:
    chosen = (json.dumps(sorted(SEALED)),)
    where = "resource IN (SELECT value FROM json_each(?))"
    found = connection.execute(f"SELECT revision, resource, namespace, name, value FROM log WHERE {where}", chosen)
    rows = [
        (revision, ObjectKey(resource, namespace, name), value) for revision, resource, namespace, name, value in found
    ]
    opened = [(revision, key, keys.open(key, revision, value)) for revision, key, value in rows]
    keys.add()  # on disk before anything needs it; those before it stay, so an interruption loses nothing
    connection.execute("BEGIN")
    connection.executemany(
        "UPDATE log SET value = ? WHERE revision = ?",
        [(keys.seal(key, revision, raw), revision) for revision, key, raw in opened],
    )
    connection.execute("COMMIT")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return len(opened)


@lru_cache(maxsize=GROUP)
def _insert_statement(rows: int) -> str:
    return "INSERT INTO log VALUES " + ",".join(["(?,?,?,?,?,?)"] * rows)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _keep_private(path: Path) -> None:
    """Only the owner reads the state, whatever the folder and the umask allow. SQLite gives its other files the
    permissions of the database, so it must have them before it is opened; files of earlier starts are corrected."""
    for suffix in ("", "-lock"):
        path.with_name(path.name + suffix).touch(0o600)
    for suffix in ("", "-lock", "-wal", "-shm"):
        file = path.with_name(path.name + suffix)
        if file.exists() and file.stat().st_mode & 0o077:
            file.chmod(0o600)


def _lock(path: Path) -> sqlite3.Connection:
    """Keep others out for as long as the connection lives. SQLite's own locks end with the process, however it ends, are
    not inherited by its children, and also hold within one process."""
    lock = sqlite3.connect(
        path.with_name(f"{path.name}-lock"), timeout=1.0, isolation_level=None, check_same_thread=False
    )
    try:
        lock.execute("PRAGMA journal_mode=MEMORY")
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error:
        lock.close()
        raise
    return lock


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=1.0, isolation_level=None, check_same_thread=False, cached_statements=GROUP
    )
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
    connection.executescript(SCHEMA)
    return connection
