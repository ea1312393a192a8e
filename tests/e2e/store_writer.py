"""Writes to a store as fast as it can and says on standard output which writes were acknowledged; killed by the test."""

from __future__ import annotations

import asyncio
import hashlib
import random
import sys
import time
from pathlib import Path

from corral.store import ObjectKey, Retention, SqliteJournal, Store

WRITERS = 8


def checksum(name: str, value: int, filler: str) -> str:
    return hashlib.sha256(f"{name}/{value}/{filler}".encode()).hexdigest()


async def write(store: Store, number: int, start: int, source: random.Random) -> None:
    """Puts, and now and then deletes, a few keys of its own; one line per acknowledged write."""
    value = start
    while True:
        value += 1
        key = ObjectKey("configmaps", f"ns{number}", f"k{value % 5}")
        if store.head(key) is not None and source.random() < 0.2:
            stored = await store.delete(key)
            print("deleted", stored.revision, key.namespace, key.name, value, flush=True)
            continue
        filler = "x" * source.randrange(10, 5000)
        obj = {
            "metadata": {"name": key.name, "namespace": key.namespace},
            "value": value,
            "filler": filler,
            "checksum": checksum(f"{key.namespace}/{key.name}", value, filler),
        }
        stored = await store.put(key, obj)
        print("put", stored.revision, key.namespace, key.name, value, flush=True)


async def main(path: Path, start: int, seed: int) -> None:
    store = Store(SqliteJournal(path), now=time.monotonic, retention=Retention(seconds=0.05, step=0.02))
    source = random.Random(seed)
    print("ready", store.revision, flush=True)
    await asyncio.gather(*(write(store, number, start, random.Random(source.random())) for number in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
