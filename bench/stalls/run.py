"""How long others wait while somebody attacks: python bench/stalls/run.py [--fronts N] [WORD ...] (rows whose names have a word).

Starts `corral serve`, sends one attack after the other, and meanwhile asks for a namespace every 20 ms from another process, on a
connection of its own. Prints a table of the longest wait of each, of the most the server computed during one wait (which is what the wait
would be where nobody else wants the cores; with front processes, the most that one of its processes computed), and of the memory that the
attacks of strangers take at most, and leave.
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
GIVE_BACK_S = 60
NOTHING_MB = 5.0


def computed_s(pid: int) -> float:
    """How long the threads of a process have had a core, by the kernel's count."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def probe(port: int, server: list[int], ca: str, token: str, started: Event, stop: Event, waits: Any) -> None:
    """Ask every 20 ms; the longest wait goes home, and the most the server computed during one."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=ssl.create_default_context(cafile=ca))
    longest = most = 0.0
    while not stop.is_set():
        computed, began = [computed_s(pid) for pid in server], time.perf_counter()
        connection.request("GET", "/api/v1/namespaces/default", headers={"Authorization": f"Bearer {token}"})
        connection.getresponse().read()
        took = time.perf_counter() - began
        if started.is_set():
            each = (computed_s(pid) - before for pid, before in zip(server, computed, strict=True))
            longest, most = max(longest, took), max(most, *each)
        started.set()  # the first answer pays for the handshake
        time.sleep(max(0.0, EVERY_S - took))
    waits.put((longest, most))


async def measure(server: Corral, ca: str, target: Target, attack: Attack) -> str:
    spawn = multiprocessing.get_context("spawn")
    started, stop, waits = spawn.Event(), spawn.Event(), spawn.Queue()
    process = spawn.Process(target=probe, args=(server.port, server.pids(), ca, server.token, started, stop, waits))
    process.start()
    await asyncio.to_thread(started.wait)
    before = server.rss_mb()
    server.forget_peak()
    resident = server.peak_mb()  # of several processes more than they have together: what they share counts for each
    try:
        async with asyncio.timeout(MOST_S):
            answer = await attack.act(target)
    except TimeoutError:
        answer = "not over"
    await asyncio.sleep(SETTLE_S)
    stop.set()
    longest, computed = await asyncio.to_thread(waits.get)
    process.join()
    said = answer if isinstance(answer, int) and answer else ""
    memory = await remembered(server, before, resident) if attack.who == "anonymous" else " | "
    return f"| {attack.name} | {attack.size} | {attack.who} | {said} | {longest * 1000:.0f} | {computed * 1000:.0f} | {memory} |"


async def remembered(server: Corral, before: float, resident: float) -> str:
    """By how much the process grew at most, and how much of that is left: at once, and what of it after a minute."""
    peak, left = server.peak_mb() - resident, server.rss_mb() - before
    waited = 0
    while waited < GIVE_BACK_S and server.rss_mb() - before > NOTHING_MB:
        await asyncio.sleep(1)
        waited += 1
    after = server.rss_mb() - before
    return f"{peak:+.0f} MB | {left:+.0f} MB" + (f", {after:+.0f} MB after {waited} s" if waited else "")


async def account(target: Target, name: str, role: str = "") -> str:
    """The token of a ServiceAccount, with a ClusterRole in its namespace or without rights."""
    from client import Connection

    accounts, bindings = (
        "/api/v1/namespaces/default/serviceaccounts",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
    )
    connection = await Connection(target.port, target.admin, target.context).open()
    await connection.request("POST", accounts, json.dumps({"metadata": {"name": name}}).encode())
    if role:
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        binding = {
            "metadata": {"name": name},
            "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        }
        await connection.request("POST", bindings, json.dumps(binding).encode())
    _, answer = await connection.request("POST", f"{accounts}/{name}/token", b'{"spec":{}}')
    connection.close()
    return str(json.loads(answer)["status"]["token"])


async def main(words: list[str]) -> None:
    fronts = int(words[1]) if words[:1] == ["--fronts"] else None
    words = words if fronts is None else words[2:]
    with tempfile.TemporaryDirectory(prefix="corral-stalls-") as name:
        folder, server = Path(name), Corral()
        server.fronts = fronts
        await server.start(folder)
        try:
            target = Target(server.port, server.context, server.token)
            target.nobody, target.viewer = await account(target, "nobody"), await account(target, "viewer", "view")
            await set_up(target)
            print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {fronts or 'no'} front processes\n")
            print(
                "| attack | bytes | who | answer | longest wait of others (ms) | computed in one (ms) | memory at most | left |\n"
                "|---|---|---|---|---:|---:|---:|---|"
            )
            for attack in all_attacks():
                if not words or any(word in attack.name for word in words):
                    print(await measure(server, str(folder / "state" / "pki" / "ca.crt"), target, attack), flush=True)
        finally:
            await server.stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
