"""A store whose process is killed at any moment loses no acknowledged write and shows no torn one."""

from __future__ import annotations

import random
import runpy
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.soaking import Tally, only_soaking
from tests.waiting import eventually

from corral.store import SqliteJournal, Store

WRITER = Path(__file__).with_name("store_writer.py")
checksum = runpy.run_path(str(WRITER))["checksum"]
MOST_WRITES = 500
KILLS = 10


class Acknowledged:
    """The last acknowledged state of every key: (value, or None when deleted), and the highest revision seen."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], tuple[int, bool]] = {}
        self.revision = 0
        self.highest_value = 0

    def take(self, line: str) -> None:
        kind, revision, *rest = line.split()
        self.revision = max(self.revision, int(revision))
        if kind != "ready":
            namespace, name, value = rest
            self.values[namespace, name] = (int(value), kind == "put")
            self.highest_value = max(self.highest_value, int(value))


def write_until_killed(path: Path, known: Acknowledged, seed: int, writes: int) -> int:
    """Let a writer run until it has said so many writes, kill it amid the next, and take note of all it said."""
    command = [sys.executable, str(WRITER), str(path), str(known.highest_value + 1000), str(seed)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(child.stdout or ()))
    reader.start()
    try:
        eventually(lambda: len(lines) > writes, what=f"the {writes}th write", pause=0.001)
    finally:
        child.kill()
        child.wait()
        reader.join()
        child.stdout.close()
    whole = [line for line in lines if line.endswith("\n")]
    for line in whole:
        known.take(line)
    return len(whole)


async def check(path: Path, known: Acknowledged) -> None:
    """Everything acknowledged is there, or something later is; whatever is there is whole."""
    store = Store(SqliteJournal(path), now=time.monotonic)
    assert store.revision >= known.revision
    found = {}
    for stored in store.page("configmaps").items:
        obj = stored.obj
        assert obj["metadata"]["resourceVersion"] == str(stored.revision)
        name = f"{stored.key.namespace}/{stored.key.name}"
        assert obj["checksum"] == checksum(name, obj["value"], obj["filler"])
        found[stored.key[1:]] = obj["value"]
    for key, (value, present) in known.values.items():
        later = found.get(key, 0)
        if present:
            # A later delete may have been kept without being acknowledged, but not a loss of this very write.
            assert later >= value or (key not in found and _was_deleted_later(store, key, value)), (key, value, later)
        else:
            assert key not in found or later > value, (key, value, later)
    await store.close()


def _was_deleted_later(store: Store, key: tuple[str, str], value: int) -> bool:
    watch = store.watch("configmaps", after=store.compacted)
    gone = []
    while events := watch.poll():
        gone += [event for event in events if event.type == "DELETED" and event.stored.key[1:] == key]
    return bool(gone) and gone[-1].stored.obj["value"] >= value


async def kill_often(path: Path, kills: range, tally: Tally) -> None:
    """One store that dies again and again; the first number is the seed."""
    source = random.Random(kills.start)
    known = Acknowledged()
    written = 0
    for kill in kills:
        written += write_until_killed(path, known, kill, source.randrange(MOST_WRITES))
        await check(path, known)
    assert written > len(kills)
    tally("kills of a store", len(kills))
    tally("writes a killed store had acknowledged", written)


@pytest.mark.e2e
async def test_killed_store_keeps_every_acknowledged_write(tmp_path: Path, tally: Tally) -> None:
    await kill_often(tmp_path / "state.db", range(KILLS), tally)


@pytest.mark.e2e
@only_soaking("kills of a store", first=KILLS)
async def test_store_killed_very_often_keeps_every_acknowledged_write(
    seeds: range, tmp_path: Path, tally: Tally
) -> None:
    await kill_often(tmp_path / "state.db", seeds, tally)
