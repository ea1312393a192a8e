"""The process behind `corral up`: starts one process per cluster, restarts those that crash, and says so.

It stays single-threaded and plain, and forks: a child shares the imported code with its parent, so a cluster starts in
a fraction of a second and costs little memory. When all clusters are ready it introduces them to each other.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from corral.client import kubeconfig
from corral.configuration.fleet import ClusterSpec, FleetSpec
from corral.fleet.folder import ClusterStatus, FleetFolder, FleetStatus
from corral.fleet.lock import FolderLock
from corral.fleet.machine_shares import Machine, equipped, find_machine
from corral.fleet.networks import Claims, network
from corral.fleet.starter import SIGNALS
from corral.node.machine.devices import Equipment
from corral.node.process.kernel import die_with_parent

log = logging.getLogger(__name__)

RESTART_DELAYS_S = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
STEADY_AFTER_S = 60.0
STOP_TIMEOUT_S = 20.0
HEARD_S = 5.0
"""How long a cluster that is up has to hear that it shall stop; one that does not is hung, and ended by force."""
AGAIN_S = 1.0
"""After so long the status is written again that could not be."""
STOPPING = b"stopping\n"
"""What a cluster that has heard it writes where it wrote its address."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where on this machine a cluster lives: the port of its API, the network of its pods and Services ("" for none), and what its
    nodes have of the machine's devices."""

    port: int
    network: str = ""
    equipment: Equipment = field(default_factory=Equipment)


RunCluster = Callable[[FleetSpec, ClusterSpec, FleetFolder, Place, int], None]
Introduce = Callable[[FleetSpec, FleetFolder], None]
EndPrograms = Callable[[FleetFolder, str], None]
"""End what runs in the pods of a cluster that cannot do so itself."""


@dataclass
class _Child:
    spec: ClusterSpec
    place: Place
    pid: int = 0
    url: str = ""
    ready_pipe: int = -1
    started_at: float = 0.0
    restarts: int = 0
    restart_at: float | None = None
    last_exit: str = ""

    def status(self) -> ClusterStatus:
        return ClusterStatus(
            self.spec.name, self.pid, self.place.port, self.url, self.restarts, self.last_exit, self.place.network
        )


class Supervisor:
    """Runs the clusters of one fleet until told to stop. It shares `lock` with whoever took it for the folder."""

    def __init__(
        self,
        fleet: FleetSpec,
        folder: FleetFolder,
        lock: FolderLock,
        run: RunCluster,
        introduce: Introduce,
        end_programs: EndPrograms = lambda folder, name: None,
        machine: Machine | None = None,
    ) -> None:
        self._fleet = fleet
        self._machine = machine or find_machine()
        self._folder = folder
        self._lock = lock
        self._run = run
        self._introduce = introduce
        self._end_programs = end_programs
        self.on_ready: Callable[[FleetStatus], None] = lambda status: None
        self._claims = Claims()
        self._children = self._placed()
        self._stopping = False
        self._ready = False
        self._is_up = False
        """Ready, and that was told: from here on nothing but a signal ends the fleet."""
        self._problem = ""
        self._untold = False
        """Whether what has changed could not be written: the disk was full, for one."""

    def run(self) -> None:
        """Start everything and keep it running until SIGTERM or SIGINT. One that came before, while they were blocked, counts."""
        self._lock.name_this_process()
        for number in SIGNALS:
            signal.signal(number, self._on_stop)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        try:
            self._run_all(wake_read)
        finally:  # also where something went wrong: no cluster is left behind
            self._stopping = True
            self._stop_all()

    def _run_all(self, wake: int) -> None:
        if not self._stopping:
            for child in self._children:
                self._start(child)
            self._write_status()
        while not self._stopping:
            self._wait(wake)
            self._collect()
            self._restart_due()
            if not self._ready and all(child.url for child in self._children):
                self._finish_setup()
            if self._untold:
                self._write_status()

    def _placed(self) -> list[_Child]:
        """The clusters where they were last time, as far as that is free."""
        last = self._folder.last_status()
        before = {entry.name: entry for entry in (last.clusters if last else [])}
        children = []
        equipment = equipped(self._fleet, self._machine, str(self._folder.root))
        for number, spec in enumerate(self._fleet.clusters):
            known = before.get(spec.name) or ClusterStatus(spec.name)
            address = self._fleet.address
            port = fixed_port(address, spec) or free_port(address, known.port)
            pods = self._claim(spec, [known.network, network(number)])
            children.append(_Child(spec, Place(port, pods, equipment[spec.name])))
        return children

    def _claim(self, spec: ClusterSpec, preferred: list[str]) -> str:
        """Loopback addresses of the cluster's own, so that pods of all of them can listen on one port."""
        if not spec.nodes or spec.is_simulated:
            return ""
        return self._claims.claim(filter(None, preferred))

    def _on_stop(self, *_: object) -> None:
        self._stopping = True

    def _wait(self, wake: int) -> None:
        pipes = [child.ready_pipe for child in self._children if child.ready_pipe >= 0]
        due = [child.restart_at for child in self._children if child.restart_at is not None]
        timeout = max(0.0, min(due) - time.monotonic()) if due else 60.0
        timeout = min(timeout, AGAIN_S) if self._untold else timeout
        readable, _, _ = select.select([wake, *pipes], [], [], timeout)
        if wake in readable:
            os.read(wake, 4096)
        for child in self._children:
            if child.ready_pipe in readable:
                self._read_ready(child)

    def _read_ready(self, child: _Child) -> None:
        message = os.read(child.ready_pipe, 4096)
        if not message:
            os.close(child.ready_pipe)
            child.ready_pipe = -1
        elif not child.url:
            child.url = message.decode().strip()
            self._write_status()

    def _start(self, child: _Child) -> None:
        read, write = os.pipe()
        # A signal in between would be taken by the handler of the supervisor, in the process that is not it any more.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become(child, write, supervisor)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.close(write)
        child.pid, child.ready_pipe, child.url = pid, read, ""
        child.started_at = time.monotonic()
        child.restart_at = None

    def _become(self, child: _Child, ready: int, supervisor: int) -> None:
        """In the forked process: turn into the cluster, and never return."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (*SIGNALS, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            # A fleet whose supervisor was killed is not left half: its clusters stop, and the next `corral up` finds none of them.
            die_with_parent(signal.SIGTERM)
            if os.getppid() != supervisor:
                os._exit(code)
            descriptor = os.open(self._folder.log(child.spec.name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            self._run(self._fleet, child.spec, self._folder, child.place, ready)
            code = 0
        except BaseException:  # the child must end here, whatever happened
            logging.getLogger(__name__).exception("cluster process failed")
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _collect(self) -> None:
        while True:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = next((child for child in self._children if child.pid == pid), None)
            if child is not None:
                self._exited(child, wait_status)

    def _exited(self, child: _Child, wait_status: int) -> None:
        code = os.waitstatus_to_exitcode(wait_status)
        child.last_exit = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        child.pid, child.url = 0, ""
        if child.ready_pipe >= 0:
            os.close(child.ready_pipe)
            child.ready_pipe = -1
        if self._stopping:
            return
        if time.monotonic() - child.started_at > STEADY_AFTER_S:
            child.restarts = 0
        delay = RESTART_DELAYS_S[min(child.restarts, len(RESTART_DELAYS_S) - 1)]
        child.restarts += 1
        child.restart_at = time.monotonic() + delay
        log.warning(
            "cluster process ended, restarting it",
            extra={"cluster": child.spec.name, "how": child.last_exit, "in_seconds": delay},
        )
        self._write_status()

    def _restart_due(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.restart_at is not None and child.restart_at <= now:
                self._start(child)
                self._write_status()

    def _finish_setup(self) -> None:
        documents = [kubeconfig.load(self._folder.admin_kubeconfig(child.spec.name)) for child in self._children]
        current = documents[0]["current-context"]
        kubeconfig.write(kubeconfig.merged(documents, current), self._folder.kubeconfig)
        try:
            self._introduce(self._fleet, self._folder)
            self._problem = ""
        except Exception as error:  # a fleet that could not be introduced is still a set of clusters
            log.exception("setting up the fleet failed")
            self._problem = f"setting up the fleet failed: {error}"
        self._ready = True
        status = self._write_status()
        self._is_up = True
        self.on_ready(status)

    def _write_status(self) -> FleetStatus:
        clusters = [child.status() for child in self._children]
        status = FleetStatus(os.getpid(), self._ready, self._problem, clusters)
        try:
            self._folder.write_status(status)
            self._untold = False
        except OSError as error:
            if not self._is_up:
                raise  # a fleet that starts is to be seen, or not to be there
            if not self._untold:
                log.warning("what runs cannot be written down, which is tried again", extra={"error": str(error)})
            self._untold = True
        return status

    def _stop_all(self) -> None:
        running = [child for child in self._children if child.pid]
        for child in running:
            os.kill(child.pid, signal.SIGTERM)
        forced: dict[str, None] = {}
        heard: set[str] = set()
        began = time.monotonic()
        while any(child.pid for child in running):
            waited = time.monotonic() - began
            for child in running:
                if child.ready_pipe >= 0 and select.select([child.ready_pipe], [], [], 0)[0]:
                    heard.add(child.spec.name)
                is_hung = bool(child.url) and child.spec.name not in heard
                if child.pid and waited > (HEARD_S if is_hung else STOP_TIMEOUT_S):
                    forced[child.spec.name] = None
                    os.kill(child.pid, signal.SIGKILL)
            self._collect()
            time.sleep(0.02)
        for name in forced:
            log.warning("cluster process did not stop and was ended by force", extra={"cluster": name})
            self._end_programs(self._folder, name)


def fixed_port(address: str, spec: ClusterSpec) -> int:
    """The port a cluster asks for, 0 for any."""
    if spec.port and free_port(address, spec.port) != spec.port:
        raise OSError(f"port {spec.port} of cluster {spec.name} is in use on {address}")
    return spec.port


def free_port(address: str, wanted: int = 0) -> int:
    """`wanted` if it is free, else any free port."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError(f"no free port on {address}")
