"""The simulated runtime: containers that start, run for a while and end, on wall or virtual time.

What a container does is written in annotations of its pod, or read from a command that says it (`sleep 30`, `exit 3`,
`pause`), else a default. Tens of thousands of them cost one timer each, no task.

    corral.dev/run-seconds       how long a container runs; "forever" until it is stopped
    corral.dev/exit-code         its exit code
    corral.dev/failures          how many of its runs end with that code (or 1) before one ends with 0
    corral.dev/start-seconds     how long the pod takes to start
    corral.dev/ready-seconds     how long it runs before it is ready
    corral.dev/stop-seconds      how long it takes to end after SIGTERM
    corral.dev/stop-exit-code    its exit code then

Each may end in `.<container>` to mean one container only.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from corral.core.errors import BadRequest
from corral.core.meta import Obj, annotations_of, name_of, status_of, uid_of
from corral.core.streams import ExecSession, LogOptions, PortStream
from corral.decide.pods.record import Ended, PodRecord, Running, all_containers, init_containers, is_sidecar
from corral.decide.pods.status import record_from_status
from corral.kinds.kubernetes.pods.simulated import SCHEME
from corral.node.process.allocation import Addresses
from corral.node.runtime import Observer, RuntimeProblem, Sandbox, StartedContainer
from corral.runtime.clock import Clock

NOT_HERE = "the pod is simulated: there is no process to talk to"
PREFIX = "corral.dev/"
_EXIT = re.compile(r"(?:^|[;&\s])exit\s+(\d+)\s*$")
_SLEEP = re.compile(r"(?:^|[;&\s])sleep\s+(\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a simulated container does."""

    run_s: float
    exit_code: int = 0
    failures: int = 0
    start_s: float = 0.0
    ready_s: float = 0.0
    stop_s: float = 0.0
    stop_code: int = 143

    def code(self, attempt: int) -> int:
        """The exit code of run number `attempt`."""
        if self.failures:
            return (self.exit_code or 1) if attempt < self.failures else 0
        return self.exit_code


def behaviour(pod: Obj, container: Obj, default_s: float) -> Behaviour:
    """What `container` does by its annotations and its command."""
    annotations, name = annotations_of(pod), container["name"]

    def annotated(field: str) -> str | None:
        return annotations.get(f"{PREFIX}{field}.{name}", annotations.get(f"{PREFIX}{field}"))

    argv = [*(container.get("command") or ()), *(container.get("args") or ())]
    is_first = any(entry["name"] == name and not is_sidecar(entry) for entry in init_containers(pod))
    run_s, code = guess(argv, 0.0 if is_first else default_s)
    if (text := annotated("run-seconds")) is not None:
        run_s = math.inf if text == "forever" else float(text)
    return Behaviour(
        run_s=run_s,
        exit_code=int(annotated("exit-code") or code),
        failures=int(annotated("failures") or 0),
        start_s=float(annotated("start-seconds") or 0),
        ready_s=float(annotated("ready-seconds") or 0),
        stop_s=float(annotated("stop-seconds") or 0),
        stop_code=int(annotated("stop-exit-code") or 143),
    )


def guess(argv: Sequence[str], default_s: float) -> tuple[float, int]:
    """How long a command would run and how it would end, when it is plain to see."""
    if not argv:
        return default_s, 0
    program = argv[0].rpartition("/")[2]
    words = [program, *argv[1:]]
    if program in ("true", "entrypoint-tester") or "entrypoint-tester" in words[:2]:
        return 0.0, 0
    if program == "false":
        return 0.0, 1
    if words[-1] in ("pause", "netexec") or "infinity" in words:
        return math.inf, 0
    text = " ".join(words)
    sleeps = [float(amount) for amount in _SLEEP.findall(text)]
    ending = _EXIT.search(text)
    return (sum(sleeps) if sleeps or ending else default_s), int(ending[1]) if ending else 0


@dataclass(slots=True)
class _Run:
    container: Obj
    attempt: int
    behaviour: Behaviour
    started_at: float
    timer: asyncio.TimerHandle | None = None
    ends_by: float = math.inf
    """When a stop that was asked for ends it at the latest."""


class SimulatedRuntime:
    """Implements `PodRuntime` without running anything."""

    def __init__(self, clock: Clock, *, run_s: float = 10.0, network: str = "10.0.0.0/8") -> None:
        self.clock = clock
        self.default_s = run_s
        self._addresses = Addresses(network)
        self._observer: Observer | None = None
        self._runs: dict[str, dict[str, _Run]] = {}
        self._due: dict[str, float] = {}

    async def open(self, observer: Observer, capacity: Mapping[str, Mapping[str, str]]) -> None:
        self._observer = observer

    async def close(self) -> None:
        for runs in self._runs.values():
            for run in runs.values():
                if run.timer is not None:
                    run.timer.cancel()

    async def shut_down(self, grace: float = 2.0) -> None:
        await self.close()

    def known(self) -> list[str]:
        return list(self._runs)

    async def recover(self, pod: Obj) -> PodRecord | None:
        """Go on where the status says the pod is: its containers have kept running meanwhile."""
        if not status_of(pod).get("startTime"):
            return None
        record = record_from_status(pod, self.clock.now())
        if record.address:
            self._addresses.restore(uid_of(pod), record.address)
        for container in all_containers(pod):
            entry = record.containers[container["name"]]
            if isinstance(entry.state, Running):
                self._begin(pod, container, entry.attempt, entry.state.started_at)
        return record

    async def prepare(self, pod: Obj) -> Sandbox:
        uid = uid_of(pod)
        if uid not in self._runs:
            delay = max(behaviour(pod, container, 0).start_s for container in all_containers(pod))
            due = self._due.setdefault(uid, self.clock.now() + delay)
            if due > self.clock.now():
                raise RuntimeProblem("ContainerCreating", "", due - self.clock.now())
            self._due.pop(uid, None)
            self._runs[uid] = {}
        return Sandbox(self._addresses.take(uid))

    async def start(self, pod: Obj, container: Obj, attempt: int) -> StartedContainer:
        run = self._begin(pod, container, attempt, self.clock.now())
        identity = f"{SCHEME}{uid_of(pod)}/{container['name']}/{attempt}"
        return StartedContainer(identity, run.started_at, run.behaviour.ready_s > 0)

    def _begin(self, pod: Obj, container: Obj, attempt: int, started_at: float) -> _Run:
        uid, name = uid_of(pod), container["name"]
        runs = self._runs.setdefault(uid, {})
        known = runs.get(name)
        if known is not None and known.attempt == attempt:
            return known
        run = runs[name] = _Run(container, attempt, behaviour(pod, container, self.default_s), started_at)
        passed = self.clock.now() - started_at
        loop = asyncio.get_running_loop()
        if run.behaviour.ready_s > passed:
            loop.call_later(run.behaviour.ready_s - passed, self._ready, uid, name, attempt)
        if run.behaviour.run_s != math.inf:
            delay = max(run.behaviour.run_s - passed, 0.0)
            run.timer = loop.call_later(delay, self._end, uid, name, attempt, run.behaviour.code(attempt))
        return run

    async def stop(self, pod: Obj, container: Obj, attempt: int, grace: float) -> None:
        uid, name = uid_of(pod), container["name"]
        run = self._runs.get(uid, {}).get(name)
        if run is None or run.attempt != attempt or self.clock.now() + grace > run.ends_by - 1:
            return
        if run.timer is not None:
            run.timer.cancel()
        run.ends_by = self.clock.now() + grace
        is_killed = run.behaviour.stop_s > grace
        delay, code = (grace, 137) if is_killed else (run.behaviour.stop_s, run.behaviour.stop_code)
        run.timer = asyncio.get_running_loop().call_later(delay, self._end, uid, name, attempt, code)

    def release(self, uid: str) -> None:
        self._addresses.give_back(uid)

    async def remove(self, uid: str) -> None:
        for run in self._runs.pop(uid, {}).values():
            if run.timer is not None:
                run.timer.cancel()
        self._due.pop(uid, None)
        self._addresses.give_back(uid)

    # Streams

    async def logs(self, pod: Obj, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """A simulated container prints nothing but what it is."""
        yield f"simulated: {name_of(pod)} runs nothing\n".encode()

    async def exec(self, pod: Obj, container: str, command: Sequence[str], *, stdin: bool, tty: bool) -> ExecSession:
        raise BadRequest(NOT_HERE)

    async def attach(self, pod: Obj, container: str, *, stdin: bool, tty: bool) -> ExecSession:
        raise BadRequest(NOT_HERE)

    async def port_forward(self, pod: Obj, port: int) -> PortStream:
        raise BadRequest(NOT_HERE)

    def _ready(self, uid: str, name: str, attempt: int) -> None:
        run = self._runs.get(uid, {}).get(name)
        if run is not None and run.attempt == attempt and self._observer is not None:
            self._observer.probed(uid, name, True, True)

    def _end(self, uid: str, name: str, attempt: int, code: int) -> None:
        run = self._runs.get(uid, {}).get(name)
        if run is None or run.attempt != attempt or self._observer is None:
            return
        del self._runs[uid][name]
        reason = "Completed" if code == 0 else "Error"
        identity = f"{SCHEME}{uid}/{name}/{attempt}"
        self._observer.ended(uid, name, attempt, Ended(code, reason, run.started_at, self.clock.now(), "", identity))
