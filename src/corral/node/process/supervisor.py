"""The supervisor: a small process that owns the pods' processes and outlives the control plane.

It starts programs, keeps their logs, notices their end, writes the exit to disk before it tells anybody, and enforces
memory limits. The control plane connects by a Unix socket in the state folder, sends one JSON object per line, and may go
away and come back at any time. If nobody comes back for `--orphan-seconds`, or the state folder is gone, everything is
killed: nothing is ever leaked. It uses the machine's clock directly: it is a world of its own, outside any simulation.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corral.node.machine.claims import DeviceClaims, holder_of
from corral.node.process import kernel, memory
from corral.node.process.cgroups import Cgroups, Group
from corral.node.process.launch import Abilities, Launch, let_go, probe, spawn
from corral.node.process.logfile import LogFile
from corral.node.process.sockets import PodPorts, answer

SOCKET_NAME = "supervisor.sock"
READ_BYTES = 64 * 1024
IDLE_EXIT_S = 30.0
MEMORY_CHECK_S = 0.25
PROCESS_CHECK_S = 1.0
POD_PROCESSES = 8192
"""How many processes and threads a container may have, unless CORRAL_POD_PROCESSES says otherwise; 0 is no limit."""
SWEEP_ROUNDS = 500
SWEEP_PAUSE_S = 0.002
STDIN_BYTES = 4 * 1024 * 1024
"""An order may bring this much for the input of a container."""
MARK = "CORRAL_RUN"

Message = dict[str, Any]


class Feed:
    """Bytes on their way to a container's input; None closes it. Whoever sent them is answered when they are in."""

    def __init__(self, client: Connection, seq: object, data: bytes | None) -> None:
        self.client = client
        self.seq = seq
        self.data = data


class Run:
    """One started program."""

    def __init__(self, launch: Launch, log: LogFile | None, client: Connection) -> None:
        self.launch = launch
        self.pid = 0
        self.log = log
        self.client = client
        self.outputs: dict[int, str] = {}
        self.watchers: list[Connection] = []
        self.stdin: int | None = None
        self.unread: deque[Feed] = deque()
        """What its input has not taken yet, with those who wait for that."""
        self.listener: int | None = None
        self.report: socket.socket | None = None
        self.seq: object = None
        self.started_at = time.time()
        self.out_of_memory = False
        self.group: Group | None = None
        self.failure = ""
        self.namespace = 0
        """The mount namespace of its own that it runs in; 0 when it shares that of the machine."""


class Connection:
    """One control plane (or one exec session) on the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = b""
        self.descriptors: list[int] = []
        self.out = b""


class Supervisor:
    """The loop."""

    def __init__(self, state: Path, orphan_s: float) -> None:
        self.state = state
        self.orphan_s = orphan_s
        self.selector = selectors.DefaultSelector()
        self.runs: dict[str, Run] = {}
        self.by_pid: dict[int, Run] = {}
        self.pods: dict[str, PodPorts] = {}
        self.connections: list[Connection] = []
        self.alone_since = time.monotonic()
        self.memory_due = 0.0
        self.stopping = False
        self.kill_at = 0.0
        self.processes = int(os.environ.get("CORRAL_POD_PROCESSES") or POD_PROCESSES)
        self.devices = DeviceClaims()
        self.cgroups = Cgroups()
        self.leaving: list[Group] = []
        """Control groups of ended containers in which something is still ending."""
        self._end_leftovers()
        self.abilities = self._find_abilities()

    def _group_name(self, run: str = "") -> str:
        """The name of a control group: what all of this state have in common, and one run's own part."""
        of_state = hashlib.sha256(str(self.state).encode()).hexdigest()[:12]
        return f"{of_state}-" + (hashlib.sha256(run.encode()).hexdigest()[:12] if run else "")

    def _end_leftovers(self) -> None:
        """What a supervisor that was killed has left running: its containers died with it, but not what had left them."""
        for group in self.cgroups.leftovers(self._group_name()):
            group.kill()
            self.leaving.append(group)

    def _find_abilities(self) -> Abilities:
        is_real_root = os.geteuid() == 0
        root = self.state / "root"
        root.mkdir(exist_ok=True)
        can_isolate = os.environ.get("CORRAL_ISOLATION") != "none"
        if can_isolate:
            try:
                if not is_real_root:
                    kernel.become_root_of_new_users()
                kernel.unshare(kernel.NEW_MOUNTS)
                kernel.detach_propagation()
            except OSError:
                can_isolate = False
        watches = os.environ.get("CORRAL_SOCKETS") != "shared" and kernel.can_watch_socket_calls()
        return probe(Abilities(str(root), can_isolate, watches, is_real_root))

    # The loop

    def serve(self, server: socket.socket) -> None:
        """Run until told to stop or abandoned."""
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._stop())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        server.setblocking(False)
        self.selector.register(server, selectors.EVENT_READ, lambda: self._accept(server))
        self.selector.register(wake_read, selectors.EVENT_READ, lambda: self._woken(wake_read))
        while not self._finished():
            for key, _ in self.selector.select(self._patience()):
                if self.selector.get_map().get(key.fd) is key:  # an earlier reaction may have closed it
                    self._guard(key.data)
            self._guard(self._reap)
            self._guard(self._check_memory)
            self._guard(self._kill_when_due)

    @staticmethod
    def _guard(react: Callable[[], object]) -> None:
        try:
            react()
        except Exception:  # every container dies with the supervisor: no single failure may end it
            traceback.print_exc()

    def _finished(self) -> bool:
        if self.stopping:
            return not self.by_pid
        if self.connections:
            return False
        alone = time.monotonic() - self.alone_since
        if not (self.state / SOCKET_NAME).exists() or (self.runs and alone > self.orphan_s):
            self._stop()
            return not self.by_pid
        return not self.runs and alone > IDLE_EXIT_S

    def _patience(self) -> float | None:
        if any(_is_watched(run) for run in self.runs.values()):
            return MEMORY_CHECK_S
        if any(map(self._is_counted, self.runs.values())):
            return PROCESS_CHECK_S
        if self.leaving:
            return 0.1
        return 0.1 if self.stopping else None if self.connections else 5.0

    @staticmethod
    def _woken(descriptor: int) -> None:
        try:
            os.read(descriptor, 4096)
        except BlockingIOError:
            pass

    def _stop(self, grace: float = 0.0) -> None:
        """End everything: ask first when there is time, then kill."""
        self._reap()  # what has ended by itself so far did not end because of this
        self.kill_at = time.monotonic() + grace
        if grace > 0 and not self.stopping:
            for run in self.runs.values():
                self._signal(run, signal.SIGTERM, group=False)
        self.stopping = True
        self._kill_when_due()

    def _kill_when_due(self) -> None:
        if self.stopping and time.monotonic() >= self.kill_at:
            for run in list(self.runs.values()):
                self._signal(run, signal.SIGKILL)

    # Connections

    def _accept(self, server: socket.socket) -> None:
        sock, _ = server.accept()
        sock.setblocking(False)
        connection = Connection(sock)
        self.connections.append(connection)
        self.selector.register(sock, selectors.EVENT_READ, lambda: self._receive(connection))

    def _receive(self, connection: Connection) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(connection.sock, READ_BYTES, 3)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._hang_up(connection)
            return
        connection.descriptors += descriptors
        *lines, connection.buffer = (connection.buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            try:
                reply = self._obey(connection, message)
            except (OSError, KeyError, TypeError, ValueError) as error:
                reply = {"error": f"{type(error).__name__}: {error}"}
            if reply is not None:
                self._send(connection, {"seq": message.get("seq"), **reply})

    def _send(self, connection: Connection, message: Message) -> None:
        if connection not in self.connections:
            return
        connection.out += json.dumps(message).encode() + b"\n"
        self._flush(connection)

    def _flush(self, connection: Connection) -> None:
        try:
            sent = connection.sock.send(connection.out)
            connection.out = connection.out[sent:]
        except BlockingIOError:
            pass
        except OSError:
            connection.out = b""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.out else 0)
        react = (lambda: self._flush(connection)) if connection.out else (lambda: self._receive(connection))
        self.selector.modify(connection.sock, events, react)

    def _hang_up(self, connection: Connection) -> None:
        self.selector.unregister(connection.sock)
        connection.sock.close()
        self.connections.remove(connection)
        for descriptor in connection.descriptors:
            os.close(descriptor)
        # Containers go on when the control plane goes away; that is what this process is for. Exec sessions do not.
        for run in [run for run in self.runs.values() if run.launch.inside and run.client is connection]:
            self._signal(run, signal.SIGKILL)  # an exec session whose user went away
        self.alone_since = time.monotonic()

    # Orders

    def _obey(self, connection: Connection, message: Message) -> Message | None:
        operation = message["op"]
        if operation == "start":
            return self._start(connection, Launch.from_json(message["launch"]), message.get("seq"))
        if operation == "signal":
            run = self.runs.get(message["id"])
            if run is not None:
                self._signal(run, message["signal"], group=message.get("group", True))
            return {"found": run is not None}
        if operation == "stdin":
            return self._feed(self.runs[message["id"]], connection, message)
        if operation == "attach":
            run = self.runs[message["id"]]
            (run.watchers.append if message["on"] else run.watchers.remove)(connection)
            return {}
        if operation == "list":
            return {"runs": [self._describe(run) for run in self.runs.values()], "isolated": self.abilities.can_isolate}
        if operation == "claim":
            return self._claim(message)
        if operation == "unclaim":
            self.devices.give_back(message["holder"])
            return {}
        if operation == "stop":
            self._stop(float(message.get("grace", 0)))
            return {}
        return {"error": f"unknown operation {operation}"}

    def _claim(self, message: Message) -> Message:
        """Devices for a pod, held by this process so that nobody on the machine has them, too."""
        names = self.devices.take(message["holder"], message["count"], message["among"])
        holders = {} if names else {name: holder_of(name) for name in message["among"]}
        return {"names": names, "holders": holders}

    def _describe(self, run: Run) -> Message:
        return {"id": run.launch.id, "pid": run.pid, "startedAt": run.started_at}

    def _start(self, connection: Connection, launch: Launch, seq: object) -> Message | None:
        # Starting is idempotent by id: a control plane that lost the answer, or was restarted, asks again.
        known = self.runs.get(launch.id)
        if known is not None:
            return {"pid": known.pid, "startedAt": known.started_at}
        inner = self.runs.get(launch.inside)
        if launch.inside and inner is None:
            return {"error": "container not found"}
        given: list[int] = []
        if launch.inside:
            given, connection.descriptors = connection.descriptors, []
        run, streams = self._prepare(connection, launch, given)
        enter = inner.pid if inner is not None and self.abilities.can_isolate else None
        run.pid, run.report = spawn(launch, streams, self.abilities, enter)
        run.seq = seq
        self._confine(run, inner)
        let_go(run.report)
        for descriptor in sorted({*streams}):
            os.close(descriptor)
        self.runs[launch.id] = self.by_pid[run.pid] = run
        run.report.setblocking(False)
        self.selector.register(run.report, selectors.EVENT_READ, lambda: self._reported(run))
        return None

    def _confine(self, run: Run, inner: Run | None) -> None:
        """Before it becomes its program: a container gets limits of its own, a session in one those of its container."""
        launch = run.launch
        if inner is not None:
            if inner.group is not None:
                inner.group.add(run.pid)
            return
        name = self._group_name(launch.id)
        run.group = self.cgroups.confine(name, run.pid, launch.memory, launch.cpu_milli, self.processes or None)

    def _prepare(self, connection: Connection, launch: Launch, given: list[int]) -> tuple[Run, tuple[int, int, int]]:
        """The run and its three streams: those the client passed, or pipes into the log."""
        if launch.inside:
            first, second, third = given if len(given) == 3 else given * 3
            return Run(launch, None, connection), (first, second, third)
        directory = Path(launch.directory)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "launch.json").write_text(json.dumps(launch.to_json()))
        (directory / "exit.json").unlink(missing_ok=True)  # of a run that was stopped with everything, and goes on now
        run = Run(launch, LogFile(directory / "log"), connection)
        if launch.tty:
            ours, theirs = os.openpty()
            run.stdin = os.dup(ours)  # shares the mode of `ours`, which does not block
            self._listen(run, ours, "stdout")
            return run, (theirs, theirs, theirs)
        out_ours, out_theirs = os.pipe2(os.O_CLOEXEC)
        err_ours, err_theirs = os.pipe2(os.O_CLOEXEC)
        self._listen(run, out_ours, "stdout")
        self._listen(run, err_ours, "stderr")
        if launch.stdin:
            in_theirs, run.stdin = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(run.stdin, False)
        else:
            in_theirs = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return run, (in_theirs, out_theirs, err_theirs)

    def _listen(self, run: Run, descriptor: int, stream: str) -> None:
        os.set_blocking(descriptor, False)
        os.set_inheritable(descriptor, False)
        run.outputs[descriptor] = stream
        self.selector.register(descriptor, selectors.EVENT_READ, lambda: self._pump(run, descriptor))

    def _reported(self, run: Run) -> None:
        """The child told us something: a listener for its socket calls, a failure, or by closing that it runs."""
        if run.report is None:
            return
        try:
            data, descriptors, _, _ = socket.recv_fds(run.report, 4096, 1)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if descriptors:
            self._watch_sockets(run, descriptors[0])
        run.failure += data.removeprefix(b"+").decode(errors="replace")
        if data:
            return
        self.selector.unregister(run.report)
        run.report.close()
        run.report = None
        own = memory.mount_namespace(run.pid)
        run.namespace = own if own != memory.mount_namespace(os.getpid()) and not run.launch.inside else 0
        answer = {"error": run.failure} if run.failure else {"pid": run.pid, "startedAt": run.started_at}
        self._send(run.client, {"seq": run.seq, **answer})

    def _watch_sockets(self, run: Run, listener: int) -> None:
        run.listener = listener
        pod = self.pods.setdefault(run.launch.address, PodPorts(run.launch.address))
        self.selector.register(listener, selectors.EVENT_READ, lambda: answer(listener, pod))

    def _feed(self, run: Run, connection: Connection, message: Message) -> Message | None:
        """Take bytes for a container's input. The answer comes when they are in: nobody sends more than it reads."""
        if run.stdin is None:
            return {"error": "the container has no standard input"}
        data = message.get("data")
        if data is not None and len(data) > STDIN_BYTES:
            return {"error": f"more than {STDIN_BYTES} bytes at once"}
        run.unread.append(Feed(connection, message.get("seq"), None if data is None else data.encode("latin-1")))
        if len(run.unread) == 1:
            self._push(run)
        return None

    def _push(self, run: Run) -> None:
        """Let a container's input take what it can."""
        descriptor = run.stdin
        while run.unread and descriptor is not None:
            feed = run.unread[0]
            try:
                if feed.data:
                    feed.data = feed.data[os.write(descriptor, feed.data) :]
            except BlockingIOError:
                pass
            except OSError as error:
                self._close_stdin(run, f"{type(error).__name__}: {error}")
                return
            if feed.data:
                if descriptor not in self.selector.get_map():
                    self.selector.register(descriptor, selectors.EVENT_WRITE, lambda: self._push(run))
                return
            run.unread.popleft()
            if feed.data is None:
                self._close_stdin(run, "the input was closed")
                descriptor = None
            self._send(feed.client, {"seq": feed.seq})
        if descriptor is not None and descriptor in self.selector.get_map():
            self.selector.unregister(descriptor)

    def _close_stdin(self, run: Run, why: str) -> None:
        if run.stdin is None:
            return
        if run.stdin in self.selector.get_map():
            self.selector.unregister(run.stdin)
        os.close(run.stdin)
        run.stdin = None
        while run.unread:
            feed = run.unread.popleft()
            self._send(feed.client, {"seq": feed.seq, "error": why})

    # Running programs

    def _pump(self, run: Run, descriptor: int) -> bool:
        """Move what one output has into the log; False at its end."""
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            data = b""  # a terminal whose other side is gone
        if not data:
            self._forget(descriptor)
            del run.outputs[descriptor]
            return False
        stream = run.outputs[descriptor]
        if run.log is not None:
            try:
                run.log.write(stream, data)
            except OSError:
                traceback.print_exc()  # a full disk costs the log, not the container
        for watcher in run.watchers:
            text = data.decode("latin-1")
            self._send(watcher, {"event": "output", "id": run.launch.id, "stream": stream, "data": text})
        return True

    def _signal(self, run: Run, number: int, *, group: bool = True) -> None:
        # The pid is still that of the run: it is not given to another process before `_reap` has waited for it, and the
        # run leaves `runs` in the same turn of this one thread.
        try:
            (os.killpg if group else os.kill)(run.pid, number)
        except ProcessLookupError:
            try:
                os.kill(run.pid, number)  # not yet the leader of its group
            except ProcessLookupError:
                pass

    def _reap(self) -> None:
        self._wait_for_children()
        self.leaving = [group for group in self.leaving if not group.remove()]

    def _wait_for_children(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            run = self.by_pid.pop(pid, None)
            if run is not None:
                self._ended(run, status)

    def _ended(self, run: Run, status: int) -> None:
        finished_at = time.time()
        while run.report is not None:
            self._reported(run)
        self._sweep(run)
        self._close(run)
        if run.group is not None:
            run.out_of_memory = run.out_of_memory or (status != 0 and run.group.out_of_memory())
            if not run.group.remove():
                self.leaving.append(run.group)
        self.runs.pop(run.launch.id, None)
        code = os.waitstatus_to_exitcode(status)
        ending: Message = {
            "id": run.launch.id,
            "code": 128 - code if code < 0 else code,
            "oom": run.out_of_memory,
            "startedAt": run.started_at,
            "finishedAt": finished_at,
            "failure": run.failure,
            # Not the program's own end: whoever comes back runs it again.
            "stopped": self.stopping,
        }
        if run.launch.inside:
            self._send(run.client, {"event": "exit", **ending})
            return
        # On disk before anybody hears of it: a control plane that dies now, or comes back later, finds how it ended. The
        # other way round an exit could be announced once and never be known again.
        try:
            write_whole(Path(run.launch.directory) / "exit.json", json.dumps(ending))
        except FileNotFoundError:
            pass  # the pod is gone already, and nobody will ask
        for connection in self.connections:
            self._send(connection, {"event": "exit", **ending})

    def _close(self, run: Run) -> None:
        """Take in the last output and let go of every descriptor."""
        for descriptor in list(run.outputs):
            while self._pump(run, descriptor) and memory.has_input(descriptor):
                pass
            if descriptor in run.outputs:
                self._forget(descriptor)
                del run.outputs[descriptor]
        if run.log is not None:
            run.log.close()
        self._close_stdin(run, "the container ended")
        if run.listener is not None:
            self._forget(run.listener)
        if not any(other.launch.address == run.launch.address for other in self.runs.values() if other is not run):
            self.pods.pop(run.launch.address, None)

    def _forget(self, descriptor: int) -> None:
        self.selector.unregister(descriptor)
        os.close(descriptor)

    def _sweep(self, run: Run) -> None:
        """Kill whatever the ended program left behind: a container ends with its first process."""
        try:
            os.killpg(run.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        if run.launch.inside:
            return
        for inner in [inner for inner in self.runs.values() if inner.launch.inside == run.launch.id]:
            self._signal(inner, signal.SIGKILL)
        if run.group is not None:
            run.group.kill()
        for _ in range(SWEEP_ROUNDS):
            left = self._left_behind(run)
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not left:
                return
            time.sleep(SWEEP_PAUSE_S)  # what they have started meanwhile is ours in the next round

    def _left_behind(self, run: Run) -> list[int]:
        """What lives on of an ended program.

        It becomes our child, with everything below it. It may have dropped the mark with its environment, but not the
        namespace it was born in; and when no other container is left, it can be of no other.
        """
        mark = f"{MARK}={run.launch.id}".encode()
        is_last = not any(other is not run and not other.launch.inside for other in self.runs.values())
        found: list[int] = []
        for child in memory.children_of(os.getpid()):
            if child in self.by_pid:
                continue
            family = memory.descendants_of(child)
            is_of_run = is_last or any(
                memory.has_mark(pid, mark) or (run.namespace and memory.mount_namespace(pid) == run.namespace)
                for pid in family
            )
            found += [pid for pid in family if is_of_run and memory.is_alive(pid)]
        return found

    def _check_memory(self) -> None:
        """Enforce what the kernel does not: by looking now and then."""
        now = time.monotonic()
        watched = [run for run in self.runs.values() if _is_watched(run) or self._is_counted(run)]
        if not watched or now < self.memory_due:
            return
        for run in watched:
            if _is_watched(run) and memory.exceeds(run.pid, run.launch.memory or 0):
                run.out_of_memory = True
                self._signal(run, signal.SIGKILL)
            elif self._is_counted(run) and memory.tasks_of(run.pid) > self.processes:
                self._signal(run, signal.SIGKILL)
        # Looking costs time of its own: never more than a fiftieth of it.
        self.memory_due = now + max(MEMORY_CHECK_S, 50 * (time.monotonic() - now))

    def _is_counted(self, run: Run) -> bool:
        """Whether the limit of its processes is ours to enforce."""
        is_limited = bool(self.processes) and not run.launch.inside
        return is_limited and (run.group is None or run.group.processes is None)


def _is_watched(run: Run) -> bool:
    """Whether its memory limit is ours to enforce, because the kernel does not."""
    return bool(run.launch.memory) and (run.group is None or run.group.memory is None)


def write_whole(path: Path, text: str) -> None:
    """Write a file that readers see whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


def main() -> None:
    import argparse  # clusters import this module too

    parser = argparse.ArgumentParser(prog="corral-supervisor")
    parser.add_argument("state", type=Path)
    parser.add_argument("--orphan-seconds", type=float, default=600.0)
    options = parser.parse_args()
    os.umask(0o077)  # programs get the usual one back before they start
    os.chdir(options.state)  # socket addresses are short; a relative name always fits
    server = socket.socket(socket.AF_UNIX)
    Path(SOCKET_NAME).unlink(missing_ok=True)
    server.bind(SOCKET_NAME)
    server.listen(128)
    Path(SOCKET_NAME).chmod(0o600)
    kernel.adopt_orphans()
    supervisor = Supervisor(Path(options.state).absolute(), options.orphan_seconds)
    gc.collect()
    gc.freeze()  # forked children share these pages
    (supervisor.state / "supervisor.pid").write_text(str(os.getpid()))
    supervisor.serve(server)
    sys.exit(0)


if __name__ == "__main__":
    main()
