"""Probes of running containers: startup, readiness, liveness; by command, HTTP or TCP."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from corral.core.meta import Obj
from corral.runtime.clock import Clock

Execute = Callable[[list[str], float], Awaitable[tuple[int, str]]]
"""Run a command in the container: (argv, timeout) -> (exit code, output)."""


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """A running container to probe."""

    container: Obj
    address: str
    execute: Execute


@dataclass(frozen=True, slots=True)
class ProbeReports:
    """What becomes of probe results."""

    started: Callable[[bool], None]
    ready: Callable[[bool], None]
    unhealthy: Callable[[str, str, bool], None]
    """(kind of probe, message, whether the container is to be restarted)"""


def has_probe(container: Obj) -> bool:
    return bool(container.get("startupProbe") or container.get("readinessProbe"))


async def watch(target: ProbeTarget, clock: Clock, reports: ProbeReports) -> None:
    """Probe until cancelled, or until liveness fails: then the container is to be restarted."""
    container = target.container
    if (startup := container.get("startupProbe")) and not await _startup(startup, target, clock, reports):
        return
    reports.started(True)
    readiness, liveness = container.get("readinessProbe"), container.get("livenessProbe")
    if not readiness:
        reports.ready(True)
    async with asyncio.TaskGroup() as group:
        if readiness:
            group.create_task(_readiness(readiness, target, clock, reports))
        if liveness:
            group.create_task(_liveness(liveness, target, clock, reports))


async def _startup(probe: Obj, target: ProbeTarget, clock: Clock, reports: ProbeReports) -> bool:
    await clock.sleep(float(probe.get("initialDelaySeconds") or 0))
    failures = 0
    while True:
        problem = await check(probe, target)
        if problem is None:
            return True
        failures += 1
        is_over = failures >= int(probe.get("failureThreshold") or 3)
        reports.unhealthy("Startup", problem, is_over)
        if is_over:
            return False
        await clock.sleep(_period(probe))


async def _readiness(probe: Obj, target: ProbeTarget, clock: Clock, reports: ProbeReports) -> None:
    await clock.sleep(float(probe.get("initialDelaySeconds") or 0))
    successes = failures = 0
    while True:
        problem = await check(probe, target)
        successes, failures = (successes + 1, 0) if problem is None else (0, failures + 1)
        if problem is not None:
            reports.unhealthy("Readiness", problem, False)
        if successes >= int(probe.get("successThreshold") or 1):
            reports.ready(True)
        elif failures >= int(probe.get("failureThreshold") or 3):
            reports.ready(False)
        # Until it is ready a container is looked at every second at most, so that readiness is noticed soon.
        await clock.sleep(_period(probe) if successes else min(_period(probe), 1.0))


async def _liveness(probe: Obj, target: ProbeTarget, clock: Clock, reports: ProbeReports) -> None:
    await clock.sleep(float(probe.get("initialDelaySeconds") or 0))
    failures = 0
    while True:
        await clock.sleep(_period(probe))
        problem = await check(probe, target)
        failures = 0 if problem is None else failures + 1
        if problem is not None:
            is_over = failures >= int(probe.get("failureThreshold") or 3)
            reports.unhealthy("Liveness", problem, is_over)
            if is_over:
                return


def _period(probe: Obj) -> float:
    return float(probe.get("periodSeconds") or 10)


async def check(probe: Obj, target: ProbeTarget) -> str | None:
    """None when the probe succeeds, else why not."""
    timeout = float(probe.get("timeoutSeconds") or 1)
    try:
        if handler := probe.get("exec"):
            code, output = await target.execute(list(handler.get("command") or ()), timeout)
            return None if code == 0 else output or f"command exited with {code}"
        if handler := probe.get("httpGet"):
            return await asyncio.wait_for(_http(handler, target), timeout)
        if handler := probe.get("tcpSocket") or probe.get("grpc"):
            return await asyncio.wait_for(_tcp(handler, target), timeout)
    except TimeoutError:
        return "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    return None


async def _tcp(handler: Obj, target: ProbeTarget) -> str | None:
    host, port = handler.get("host") or target.address, _port(handler, target)
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return f"dial tcp {host}:{port}: connect: connection refused"
    writer.close()
    return None


async def _http(handler: Obj, target: ProbeTarget) -> str | None:
    host, port = handler.get("host") or target.address, _port(handler, target)
    path = handler.get("path") or "/"
    is_tls = handler.get("scheme") == "HTTPS"
    context: ssl.SSLContext | None = None
    if is_tls:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # as kubelet: only liveness is asked
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
    except OSError:
        url = f"{'https' if is_tls else 'http'}://{host}:{port}{path}"
        return f'Get "{url}": dial tcp {host}:{port}: connect: connection refused'
    try:
        headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/1.34", "Connection": "close"}
        headers.update({entry["name"]: entry["value"] for entry in handler.get("httpHeaders") or ()})
        lines = "".join(f"{name}: {text}\r\n" for name, text in headers.items())
        writer.write(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        status = (await reader.readline()).split()
    except (OSError, ValueError) as error:  # a line without end, for one
        return str(error)
    finally:
        writer.close()
    code = int(status[1]) if len(status) > 1 and status[1].isdigit() and len(status[1]) == 3 else 0
    return None if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"


def _port(handler: Obj, target: ProbeTarget) -> int:
    port = handler["port"]
    if isinstance(port, int) or str(port).isdigit():
        return int(port)
    for entry in target.container.get("ports") or ():
        if entry.get("name") == port:
            return int(entry["containerPort"])
    return 0
