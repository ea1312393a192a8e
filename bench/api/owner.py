"""What of a request could leave the process that owns the store: python bench/api/owner.py [--requests 4000] [--rounds 3].

One server is asked the same through four doors, each without a part of the one before: TLS and HTTP/1.1 over TCP, HTTP/1.1 over TCP, whole
requests in frames over a Unix socket (what processes in front of it could send it), and calls of the application in its own
process, where reading bodies, checking them and encoding answers are timed too. Prints microseconds of CPU per request of the thread with the
event loop, the best of the rounds, by the kernel's count; the journal's thread is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import uvloop

sys.path.insert(0, str(Path(__file__).parent))

from scenarios import APPLY, config_map, encode, job
from servers import Corral

CLIENTS = 32
FRONTS = 2
WATCHERS = 100
EVENTS = 300
Asked = tuple[str, str, bytes, str]
Make = Callable[[int], Asked]
Answered = Callable[..., Awaitable[tuple[int, bytes]]]


def questions(tag: str) -> dict[str, Make]:
    """What is asked, by its name; `tag` keeps the names of created objects apart."""
    maps, jobs = "/api/v1/namespaces/bench/configmaps", "/apis/batch/v1/namespaces/bench/jobs"
    apply = "?fieldManager=b&force=true"
    return {
        "get": lambda n: ("GET", f"/api/v1/namespaces/full/configmaps/o-{n % 500}", b"", ""),
        "list of 500": lambda n: ("GET", "/api/v1/namespaces/full/configmaps", b"", ""),
        "create ConfigMap": lambda n: ("POST", maps, config_map(f"{tag}-{n}"), "application/json"),
        "create Job": lambda n: ("POST", jobs, job(f"{tag}-{n}"), "application/json"),
        "apply Job": lambda n: (
            "PATCH", f"{jobs}/a-{n % 320}{apply}", job(f"a-{n % 320}", step=f"{tag}-{n}"), APPLY
        ),
    }  # fmt: skip


def loop_seconds(pid: int) -> float:
    """How long the first thread of a process has had a core."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


class Relayed:
    """The door with frames: many requests at once over one Unix socket, what is ready at the same time in one write."""

    def __init__(self) -> None:
        self._answers: dict[int, asyncio.Future[tuple[int, bytes]]] = {}
        self._out: list[bytes] = []
        self._number = 0

    async def open(self, path: Path, token: str) -> Relayed:
        self._reader, self._writer = await asyncio.open_unix_connection(path, limit=1 << 24)
        self._fields = [["authorization", f"Bearer {token}"], ["accept", "application/json"], ["user-agent", "bench/1"]]
        self.task = asyncio.ensure_future(self._read())
        return self

    async def request(self, method: str, target: str, body: bytes = b"", media: str = "") -> tuple[int, bytes]:
        self._number += 1
        fields = [*self._fields, ["content-type", media]] if body else self._fields
        head = msgspec.msgpack.encode((self._number, method, target, fields, body))
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(len(head).to_bytes(4, "big") + head)
        return await answer

    def _flush(self) -> None:
        self._writer.write(b"".join(self._out))
        self._out.clear()

    async def _read(self) -> None:
        while True:
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            number, status, _, body = msgspec.msgpack.decode(await self._reader.readexactly(size))
            self._answers.pop(number).set_result((status, body))


async def drive(ask: list[Answered], make: Make, count: int) -> None:
    numbers = iter(range(count))

    async def work(one: Answered) -> None:
        for number in numbers:
            status, body = await one(*make(number))
            assert status < 300, body[:300]

    await asyncio.gather(*(work(one) for one in ask))


async def outside(arguments: argparse.Namespace, folder: Path) -> dict[str, dict[str, float]]:
    """The first three doors, from this process."""
    server = Served()
    await server.start(folder)
    pid = server.processes[0].pid
    found: dict[str, dict[str, float]] = {}
    try:
        secure = [await server.connect() for _ in range(CLIENTS)]
        plain = [await server.connect_plainly() for _ in range(CLIENTS)]
        relayed = await Relayed().open(folder / "relay", server.token)
        doors: dict[str, list[Answered]] = {
            "TLS": [each.request for each in secure],
            "HTTP": [each.request for each in plain],
            "frames": [relayed.request] * CLIENTS,
        }
        await fill(doors["HTTP"])
        for turn in range(arguments.rounds):
            for door, ask in doors.items():
                for what, make in questions(f"{door}{turn}".lower()).items():
                    count = arguments.requests // (20 if "list" in what else 1)
                    before = loop_seconds(pid)
                    await drive(ask, make, count)
                    used = 1e6 * (loop_seconds(pid) - before) / count
                    found.setdefault(what, {})[door] = min(used, found.get(what, {}).get(door, used))
        found["watch"] = await watching(server, pid, secure, arguments.rounds)
        relayed.task.cancel()
    finally:
        await server.stop()
    return found


async def fill(ask: list[Answered]) -> None:
    for name in ("full", "bench"):
        await ask[0]("POST", "/api/v1/namespaces", encode({"metadata": {"name": name}}), "application/json")
    await asyncio.sleep(0.3)
    full = "/api/v1/namespaces/full/configmaps"
    await drive(ask, lambda n: ("POST", full, config_map(f"o-{n}"), "application/json"), 500)


async def watching(server: Served, pid: int, secure: list[Any], rounds: int) -> dict[str, float]:
    """One event to WATCHERS watchers over TLS, and to FRONTS that write the bytes they get to theirs; without its write."""

    async def cost(tag: str) -> float:
        each = []
        for turn in range(rounds):
            begun = loop_seconds(pid)
            create = questions(f"w-{tag}-{turn}")["create ConfigMap"]
            await drive([each.request for each in secure[:8]], create, EVENTS)
            await asyncio.sleep(0.5)
            each.append(1e6 * (loop_seconds(pid) - begun) / EVENTS)
        return min(each)

    alone = await cost("alone")
    figures = {}
    for door, count in (("one TLS", 1), ("TLS", WATCHERS), ("frames", FRONTS)):
        connect = server.connect if "TLS" in door else server.connect_plainly
        signs = [asyncio.Event() for _ in range(count)]
        tasks = [asyncio.ensure_future(listen(await connect(), sign)) for sign in signs]
        await asyncio.gather(*(sign.wait() for sign in signs))
        figures[door] = await cost(f"x{count}{door[0].lower()}") - alone
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.5)
    return figures


async def listen(connection: Any, ready: asyncio.Event) -> None:
    path = "/api/v1/namespaces/bench/configmaps?watch=1&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
    async for _ in connection.watch(path, ready):
        pass


class Served(Corral):
    """The server with all doors, a child of this program."""

    async def start(self, folder: Path) -> None:
        import ssl

        self._spawn(folder, [sys.executable, __file__, "--serve", folder])
        while not (folder / "ready").exists():
            if self.processes[0].poll() is not None:
                raise RuntimeError((folder / "corral-0.log").read_text())
            await asyncio.sleep(0.02)
        self.port, self.plain_port = map(int, (folder / "ready").read_text().split())
        self.token = (folder / "state" / "pki" / "tokens.csv").read_text().partition(",")[0]
        self.context = ssl.create_default_context(cafile=str(folder / "state" / "pki" / "ca.crt"))

    async def connect_plainly(self) -> Any:
        from client import Connection

        return await Connection(self.plain_port, self.token, None).open()


# the server's side


async def serve(folder: Path) -> None:
    from corral.clusters.embedded_api import EmbeddedApi
    from corral.server.gc_tuning import calm_collector
    from corral.server.http.connection import Connection

    calm_collector()
    cluster = EmbeddedApi(folder / "state")
    await cluster.start()
    shared = cluster.server.listener.shared
    assert shared is not None
    loop = asyncio.get_running_loop()
    plain = await loop.create_server(lambda: Connection(shared), "127.0.0.1", 0)
    relay = await loop.create_unix_server(lambda: RelayDoor(shared.app), folder / "relay")
    ready = f"{cluster.server.port} {plain.sockets[0].getsockname()[1]}"
    (folder / "ready.new").write_text(ready)
    (folder / "ready.new").rename(folder / "ready")
    async with plain, relay:
        await asyncio.Event().wait()


class RelayDoor(asyncio.Protocol):
    """Takes whole requests in frames and answers them in frames, those of one turn of the loop in one write."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._data = b""
        self._out: list[bytes] = []

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        from corral.server.http.message import Request

        data = self._data + data if self._data else data
        at, end = 0, len(data)
        while at + 4 <= end:
            size = int.from_bytes(data[at : at + 4], "big")
            if at + 4 + size > end:
                break
            number, method, target, fields, body = msgspec.msgpack.decode(memoryview(data)[at + 4 : at + 4 + size])
            at += 4 + size
            request = Request(method, target)
            request.fields, request.body = fields, body
            request.headers = dict(fields)
            answer = self._app.answer_now(request)
            if answer is not None:
                self._put(number, answer)
            else:
                self._loop.create_task(self._answer(number, request))
        self._data = data[at:]

    async def _answer(self, number: int, request: Any) -> None:
        self._put(number, await self._app.answer(request))

    def _put(self, number: int, answer: Any) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        frame = msgspec.msgpack.encode(
            (number, answer.status, (answer.content_type, answer.headers, answer.cache), answer.body)
        )
        self._out.append(len(frame).to_bytes(4, "big") + frame)

    def _flush(self) -> None:
        self._transport.write(b"".join(self._out))
        self._out.clear()


# inside the process


async def inside(arguments: argparse.Namespace, folder: Path) -> dict[str, dict[str, float]]:
    """The application called by itself: what is left of a request, and what of that are bodies and answers."""
    from corral.clusters.embedded_api import EmbeddedApi
    from corral.server.gc_tuning import calm_collector
    from corral.server.http.message import Request

    calm_collector()
    cluster = EmbeddedApi(folder / "inside")
    await cluster.start()
    assert cluster.server.listener.shared is not None
    app: Any = cluster.server.listener.shared.app
    token = cluster.server.admin_token

    async def ask(method: str, target: str, body: bytes = b"", media: str = "") -> tuple[int, bytes]:
        request = Request(method, target)
        request.body = body
        request.headers = {"authorization": f"Bearer {token}", "accept": "application/json", "user-agent": "bench/1"}
        if body:
            request.headers["content-type"] = media
        request.fields = list(request.headers.items())
        answer = app.answer_now(request) or await app.answer(request)
        return answer.status, answer.body

    await fill([ask] * CLIENTS)
    found: dict[str, dict[str, float]] = {}
    for turn in range(arguments.rounds):
        for what, make in questions(f"in{turn}").items():
            count = arguments.requests // (20 if "list" in what else 1)
            before = time.thread_time()
            await drive([ask] * CLIENTS, make, count)
            used = 1e6 * (time.thread_time() - before) / count
            row = found.setdefault(what, {})
            row["inside"] = min(used, row.get("inside", used))
    with timed() as spent:
        for what, make in questions("parts").items():
            spent.clear()
            count = arguments.requests // (20 if "list" in what else 1)
            await drive([ask] * CLIENTS, make, count)
            found[what].update({part: 1e6 * seconds / count for part, seconds in spent.items()})
    await cluster.stop()
    return found


@contextmanager
def timed() -> Iterator[Counter[str]]:
    """Within, what is spent on bodies and answers is counted, in seconds of CPU."""
    from corral.server import resources
    from corral.server.content import representations
    from corral.server.verbs import create_update, intake
    from corral.store import stored

    spent: Counter[str] = Counter()
    watched = [
        (resources, "read_object", "decode"), (resources, "read_patch", "decode"), (intake, "read", "read types"),
        (create_update, "_check_new", "check"), (create_update, "_check_changed", "check"),
        (stored, "_encode", "encode"), (representations, "list_body", "encode"),
    ]  # fmt: skip
    before = [getattr(module, name) for module, name, _ in watched]
    for (module, name, part), call in zip(watched, before, strict=True):

        def counted(*args: Any, part: str = part, call: Any = call, **options: Any) -> Any:
            began = time.thread_time()
            try:
                return call(*args, **options)
            finally:
                spent[part] += time.thread_time() - began

        setattr(module, name, counted)
    yield spent
    for (module, name, _), call in zip(watched, before, strict=True):
        setattr(module, name, call)


def show(found: dict[str, dict[str, float]]) -> None:
    print(
        "| us of the loop per request | TLS | HTTP | frames | inside | could leave | of it bodies: decode, read types, check, encode |"
    )
    print("|---|---:|---:|---:|---:|---:|---|")
    for what, row in found.items():
        if what == "watch":
            continue
        leaves = 1 - row["frames"] / row["TLS"]
        parts = ", ".join(f"{row.get(part, 0):.0f}" for part in ("decode", "read types", "check", "encode"))
        doors = " | ".join(f"{row[door]:.0f}" for door in ("TLS", "HTTP", "frames", "inside"))
        print(f"| {what} | {doors} | {leaves:.0%} | {parts} |")
    watch = ", ".join(f"{door} {value:.0f}" for door, value in found["watch"].items())
    print(f"one event, without its write: {watch} (to one watcher, {WATCHERS} watchers, {FRONTS} sockets without TLS)")


async def main(arguments: argparse.Namespace) -> None:
    random.seed(7)
    with tempfile.TemporaryDirectory(prefix="owner-bench-") as name:
        found = await outside(arguments, Path(name))
        for what, row in (await inside(arguments, Path(name))).items():
            found[what].update(row)
    show(found)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=4000, help="of each kind, in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", default="", help="also write the figures to this file")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    uvloop.install()
    given = parser.parse_args()
    asyncio.run(serve(given.serve) if given.serve else main(given))
