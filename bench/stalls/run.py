"""How long others wait while somebody attacks: python bench/stalls/run.py [WORD ...] (rows whose names have a word).

Starts `corral serve`, sends one attack after the other, and meanwhile asks for a namespace every 20 ms from another process, on a
connection of its own. Prints a table of the longest wait of each, and of what the attacks of strangers leave in the memory.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import multiprocessing
import os
import ssl
import sys
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "api"))

from attacks import Attack, Target, all_attacks, set_up
from servers import Corral

EVERY_S = 0.02
SETTLE_S = 1.0
MOST_S = 120.0


def probe(port: int, ca: str, token: str, started: Event, stop: Event, waits: Any) -> None:
    """Ask every 20 ms; the longest wait goes home."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=ssl.create_default_context(cafile=ca))
    longest = 0.0
    while not stop.is_set():
        began = time.perf_counter()
        connection.request("GET", "/api/v1/namespaces/default", headers={"Authorization": f"Bearer {token}"})
        connection.getresponse().read()
        took = time.perf_counter() - began
        if started.is_set():
            longest = max(longest, took)
        started.set()  # the first answer pays for the handshake
        time.sleep(max(0.0, EVERY_S - took))
    waits.put(longest)


async def measure(server: Corral, ca: str, target: Target, attack: Attack) -> str:
    spawn = multiprocessing.get_context("spawn")
    started, stop, waits = spawn.Event(), spawn.Event(), spawn.Queue()
    process = spawn.Process(target=probe, args=(server.port, ca, server.token, started, stop, waits))
    process.start()
    await asyncio.to_thread(started.wait)
    before = server.rss_mb()
    try:
        async with asyncio.timeout(MOST_S):
            answer = await attack.act(target)
    except TimeoutError:
        answer = "not over"
    await asyncio.sleep(SETTLE_S)
    stop.set()
    longest = await asyncio.to_thread(waits.get)
    process.join()
    grown = f"{server.rss_mb() - before:+.0f} MB" if attack.who == "anonymous" else ""
    said = answer if isinstance(answer, int) and answer else ""
    return f"| {attack.name} | {attack.size} | {attack.who} | {said} | {longest * 1000:.0f} | {grown} |"


async def nobody(target: Target) -> str:
    """The token of a ServiceAccount without rights."""
    from client import Connection

    accounts = "/api/v1/namespaces/default/serviceaccounts"
    connection = await Connection(target.port, target.admin, target.context).open()
    await connection.request("POST", accounts, b'{"metadata":{"name":"nobody"}}')
    _, answer = await connection.request("POST", f"{accounts}/nobody/token", b'{"spec":{}}')
    connection.close()
    return str(json.loads(answer)["status"]["token"])


async def main(words: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="corral-stalls-") as name:
        folder, server = Path(name), Corral()
        await server.start(folder)
        try:
            target = Target(server.port, server.context, server.token)
            target.nobody = await nobody(target)
            await set_up(target)
            print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores\n")
            print(
                "| attack | bytes | who | answer | longest wait of others (ms) | memory left |\n|---|---|---|---|---:|---:|"
            )
            for attack in all_attacks():
                if not words or any(word in attack.name for word in words):
                    print(await measure(server, str(folder / "state" / "pki" / "ca.crt"), target, attack), flush=True)
        finally:
            await server.stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
