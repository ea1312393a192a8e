"""What is measured. Each scenario gets a running server and returns its figures; objects live in a namespace of its own."""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import random
import resource
import string
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from multiprocessing.synchronize import Semaphore

from client import Connection
from processes import in_processes
from servers import Server

random.seed(7)
_LETTERS = string.ascii_letters + string.digits
_DATA = {f"key-{number:02d}": "".join(random.choices(_LETTERS, k=230)) for number in range(12)}
_numbers = itertools.count(1)
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
_fork = multiprocessing.get_context("fork")


@dataclass
class Result:
    figures: dict[str, float]


Act = Callable[[Connection, int, int], Awaitable[tuple[int, bytes]]]
Scenario = Callable[[Server, int, float], Awaitable[Result]]


def encode(obj: object) -> bytes:
    return json.dumps(obj, separators=(",", ":")).encode()


def config_map(name: str, **labels: str) -> bytes:
    metadata = {"name": name, "labels": {"app": "b", **labels}}
    return encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": _DATA})


def _template() -> object:
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "command": ["python", "train.py"],
        "args": ["--epochs", "10", "--lr", "0.001"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "resources": {
            "requests": {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": "1"},
            "limits": {"nvidia.com/gpu": "1"},
        },
    }
    return {"metadata": {"labels": {"app": "b"}}, "spec": {"restartPolicy": "Never", "containers": [container]}}


def job(name: str, **labels: str) -> bytes:
    spec = {
        "suspend": True,
        "parallelism": 4,
        "completions": 4,
        "completionMode": "Indexed",
        "backoffLimit": 3,
        "template": _template(),
    }
    metadata = {"name": name, "labels": {"app": "b", **labels}}
    return encode({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})


def workload(name: str) -> bytes:
    pod_sets = [{"name": "main", "count": 4, "template": _template()}]
    spec = {"active": True, "queueName": "team-a", "priority": 0, "podSets": pod_sets}
    return encode(
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": name}, "spec": spec}
    )


def condition(type_: str, message: str) -> bytes:
    value = {
        "type": type_,
        "status": "True",
        "reason": "Bench",
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return encode({"status": {"conditions": [value]}})


async def namespace(server: Server) -> str:
    name = f"bench-{next(_numbers)}"
    connection = await server.connect()
    status, body = await connection.request("POST", "/api/v1/namespaces", encode({"metadata": {"name": name}}))
    assert status == 201, body
    connection.close()
    await asyncio.sleep(0.2)  # until its service account is there
    return name


async def drive(server: Server, clients: int, seconds: float, act: Act) -> Result:
    """All clients act for a while; rate, latencies and CPU."""
    processes = min(server.client_processes, clients)
    cpu = server.cpu_seconds()

    async def some(process: int) -> tuple[list[float], float, float, list[bytes]]:
        return await _drive(server, range(process, clients, processes), seconds, act)

    parts = await in_processes(processes, some)
    times = [each for part in parts for each in part[0]]
    wall = max(part[1] for part in parts)
    bad = [each for part in parts for each in part[3]]
    if bad:
        print(f"  {len(bad)} requests failed: {bad[0]!r}")
    return Result(
        {
            "per_s": len(times) / wall,
            "p50_ms": 1000 * percentile(times, 0.5),
            "p99_ms": 1000 * percentile(times, 0.99),
            "server_cpu": (server.cpu_seconds() - cpu) / wall,
            "client_cpu": sum(part[2] for part in parts) / wall,
        }
    )


async def _drive(
    server: Server, numbers: range, seconds: float, act: Act
) -> tuple[list[float], float, float, list[bytes]]:
    connections = {number: await server.connect() for number in numbers}
    for connection in connections.values():
        await connection.request("GET", "/version")
    times: list[float] = []
    bad: list[bytes] = []
    own, started = _own_cpu(), time.perf_counter()

    async def work(number: int, connection: Connection) -> None:
        for step in itertools.count():
            begin = time.perf_counter()
            if begin - started > seconds:
                return
            status, body = await act(connection, number, step)
            if status >= 300:
                bad.append(body[:200])
                if len(bad) > 20:
                    return
            else:
                times.append(time.perf_counter() - begin)

    await asyncio.gather(*(work(number, connection) for number, connection in connections.items()))
    wall = time.perf_counter() - started
    for connection in connections.values():
        connection.close()
    return times, wall, _own_cpu() - own, bad


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def creator(path: str, make: Callable[[str], bytes]) -> Scenario:
    async def scenario(server: Server, clients: int, seconds: float) -> Result:
        where = path.format(ns=await namespace(server))
        tag = f"o{next(_numbers)}"
        return await drive(server, clients, seconds, lambda c, n, i: c.request("POST", where, make(f"{tag}-{n}-{i}")))

    return scenario


async def fill(server: Server, path: str, make: Callable[[str], bytes], count: int, clients: int = 32) -> None:
    processes = server.client_processes

    async def some(process: int) -> None:
        numbers = iter(range(process, count, processes))

        async def work() -> None:
            connection = await server.connect()
            for number in numbers:
                status, body = await connection.request("POST", path, make(f"o-{number}"))
                assert status in (201, 409), body[:200]
            connection.close()

        await asyncio.gather(*(work() for _ in range(max(1, clients // processes))))

    await in_processes(processes, some)


def patcher(path: str, make: Callable[[str], bytes], kind: str) -> Scenario:
    async def scenario(server: Server, clients: int, seconds: float) -> Result:
        where = path.format(ns=await namespace(server))
        await fill(server, where, make, 320)

        def act(connection: Connection, number: int, step: int) -> Awaitable[tuple[int, bytes]]:
            target = f"{where}/o-{(number + clients * step) % 320}/status"
            return connection.request("PATCH", target, condition(kind, f"step {number}-{step}"), MERGE)

        return await drive(server, clients, seconds, act)

    return scenario


async def apply_job(server: Server, clients: int, seconds: float) -> Result:
    """Server-side apply that changes a label of an existing Job."""
    where = f"/apis/batch/v1/namespaces/{await namespace(server)}/jobs"
    connection = await server.connect()
    for number in range(320):
        await connection.request("PATCH", f"{where}/o-{number}?fieldManager=b&force=true", job(f"o-{number}"), APPLY)
    connection.close()

    def act(connection: Connection, number: int, step: int) -> Awaitable[tuple[int, bytes]]:
        name = f"o-{(number + clients * step) % 320}"
        body = job(name, step=f"{number}-{step}")
        return connection.request("PATCH", f"{where}/{name}?fieldManager=b&force=true", body, APPLY)

    return await drive(server, clients, seconds, act)


async def get(server: Server, clients: int, seconds: float) -> Result:
    where = f"/api/v1/namespaces/{await namespace(server)}/configmaps"
    await fill(server, where, config_map, 1000)
    return await drive(
        server, clients, seconds, lambda c, n, i: c.request("GET", f"{where}/o-{random.randrange(1000)}")
    )


def lister(count: int, query: str = "") -> Scenario:
    async def scenario(server: Server, clients: int, seconds: float) -> Result:
        where = f"/api/v1/namespaces/{await namespace(server)}/configmaps"
        await fill(server, where, config_map, count)
        return await drive(server, 1, seconds, lambda c, n, i: c.request("GET", where + query))

    return scenario


async def watch_latency(server: Server, clients: int, seconds: float) -> Result:
    """From sending a create to its event at one watcher, at 20 creates a second: enough of them for a p99."""
    return await _fan_out(server, 1, max(int(20 * seconds), 200), pace=1 / 20)


def fan_out(watchers: int) -> Scenario:
    async def scenario(server: Server, clients: int, seconds: float) -> Result:
        return await _fan_out(server, watchers, max(200, 40_000 // watchers))

    return scenario


async def _fan_out(server: Server, watchers: int, creates: int, pace: float = 0.0) -> Result:
    """Watchers in processes of their own; each object says when it was sent, by the clock that all processes share."""
    where = f"/api/v1/namespaces/{await namespace(server)}/configmaps"
    processes = min(server.client_processes, watchers)
    ready = _fork.Semaphore(0)

    async def some(process: int) -> tuple[list[float], float, float]:
        return await _watch(server, where, len(range(process, watchers, processes)), creates, ready)

    watching = asyncio.ensure_future(in_processes(processes, some))
    loop = asyncio.get_running_loop()
    listening = asyncio.gather(*(loop.run_in_executor(None, ready.acquire) for _ in range(processes)))
    await asyncio.wait([watching, listening], return_when=asyncio.FIRST_COMPLETED)
    if watching.done():
        watching.result()  # it failed
    numbers = iter(range(creates))
    cpu, own, started = server.cpu_seconds(), _own_cpu(), time.perf_counter()

    async def create() -> None:
        connection = await server.connect()
        for number in numbers:
            if pace:
                await asyncio.sleep(max(0.0, started + number * pace - time.perf_counter()))
            await connection.request("POST", where, config_map(f"w-{number}", sent=f"{time.monotonic():.6f}"))
        connection.close()

    await asyncio.gather(*(create() for _ in range(1 if pace else 8)))
    parts = await watching
    delays = [each for part in parts for each in part[0]]
    wall = max(part[1] for part in parts) - started
    return Result(
        {
            "per_s": len(delays) / wall,
            "p50_ms": 1000 * percentile(delays, 0.5),
            "p99_ms": 1000 * percentile(delays, 0.99),
            "server_cpu": (server.cpu_seconds() - cpu) / wall,
            "client_cpu": (_own_cpu() - own + sum(part[2] for part in parts)) / wall,
        }
    )


async def _watch(
    server: Server, where: str, watchers: int, creates: int, ready: Semaphore
) -> tuple[list[float], float, float]:
    """How long each event took to each of these watchers, when the last came, and the CPU it took here."""
    delays: list[float] = []
    own = _own_cpu()

    async def listen(sign: asyncio.Event) -> None:
        connection = await server.connect()
        seen = 0
        async for line in connection.watch(f"{where}?watch=1&timeoutSeconds=600", sign):
            # Found by text, not by parsing: the client must not become the thing measured.
            start = line.find(b'"sent":"')
            if start >= 0:
                delays.append(time.monotonic() - float(line[start + 8 : line.find(b'"', start + 8)]))
                seen += 1
                if seen >= creates:
                    break

    signs = [asyncio.Event() for _ in range(watchers)]
    tasks = [asyncio.ensure_future(listen(sign)) for sign in signs]
    await asyncio.wait_for(asyncio.gather(*(sign.wait() for sign in signs)), 60)
    ready.release()
    await asyncio.wait_for(asyncio.gather(*tasks), 120)
    return delays, time.perf_counter(), _own_cpu() - own


async def memory(server: Server, clients: int, seconds: float) -> Result:
    where = f"/api/v1/namespaces/{await namespace(server)}/configmaps"
    started = time.perf_counter()
    await fill(server, where, config_map, 50_000)
    wall = time.perf_counter() - started
    await asyncio.sleep(server.settles_s)
    return Result({"rss_mb": server.rss_mb(), "per_s": 50_000 / wall})


_WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{ns}/workloads"
_JOBS = "/apis/batch/v1/namespaces/{ns}/jobs"

SCENARIOS: dict[str, Scenario] = {
    "create-configmap": creator("/api/v1/namespaces/{ns}/configmaps", config_map),
    "create-job": creator(_JOBS, job),
    "create-workload": creator(_WORKLOADS, workload),
    "status-patch-job": patcher(_JOBS, job, "BenchState"),
    "status-patch-workload": patcher(_WORKLOADS, workload, "QuotaReserved"),
    "apply-job": apply_job,
    "get": get,
    "list-1k": lister(1000),
    "list-10k": lister(10_000),
    "list-10k-page": lister(10_000, "?limit=500"),
    "watch-latency": watch_latency,
    "fan-out-100": fan_out(100),
    "fan-out-1000": fan_out(1000),
    "memory-50k": memory,
}
