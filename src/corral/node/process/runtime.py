"""The process runtime: containers are programs of this machine, run by the supervisor.

Everything needed after a restart is on disk: which pods there were, which run of which container, how each run ended. So
no container is started twice and none is forgotten, whichever process dies at whichever moment.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from corral.core.meta import Obj, name_of, namespace_of, spec_of, uid_of
from corral.decide.pods.record import (
    ContainerRecord,
    Ended,
    PodRecord,
    Running,
    Waiting,
    all_containers,
    new_record,
)
from corral.decide.pods.status import record_from_status
from corral.kinds.kubernetes.pods.simulated import SCHEME
from corral.node import names
from corral.node.environment import MissingError, NodeFacts, Sources
from corral.node.exec import ProcessSession, session_id
from corral.node.images import Catalog, UnknownImageError
from corral.node.machine.devices import Device
from corral.node.process import memory, storage
from corral.node.process.allocation import Addresses, Exhausted
from corral.node.process.compose import Setting, compose, prepare_container_folder
from corral.node.process.connection import Ending, StartError, SupervisorConnection
from corral.node.process.folder import Holding, PodFolder, RunId, folders
from corral.node.process.launch import Launch
from corral.node.process.pod_devices import PodDevices, asked_for
from corral.node.process.probes import ProbeReports, ProbeTarget, has_probe, watch
from corral.node.process.streams import ProcessStreams
from corral.node.process.supervisor import MARK
from corral.node.process.volumes import VolumeContext, prepare_volumes
from corral.node.runtime import Observer, RuntimeProblem, Sandbox, StartedContainer, StartFailure
from corral.runtime.clock import Clock

log = logging.getLogger(__name__)

MAX_MESSAGE = 4096
REFRESH_S = 60.0
WEIGH_S = 10.0
STRAY_ROUNDS = 100


class PodInputs(Protocol):
    """What pods need from the cluster around them."""

    async def sources(self, pod: Obj) -> Sources:
        """The ConfigMaps, Secrets and Services `pod` refers to."""
        ...

    async def token(self, pod: Obj, projection: Obj) -> str:
        """A token for the pod's service account."""
        ...

    def hosts(self, namespace: str) -> str:
        """Lines of a hosts file for the pods of a namespace."""
        ...

    def services_of(self, pod: Obj) -> list[Obj]:
        """The Services that select a pod."""
        ...

    def lookup(self, namespace: str) -> Mapping[str, str]:
        """The same as a table."""
        ...

    def serve(self, network: str, api: tuple[str, int] | None) -> None:
        """Answer for Services at addresses of `network`."""
        ...

    on_names: Callable[[], None]
    """Called when names have changed."""


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """How the process runtime of one cluster is set up."""

    state: Path
    pod_network: str = "127.64.0.0/16"
    """Loopback addresses of this cluster's own: one half for pods, the other for Services."""
    host_address: str = "127.0.0.1"
    api_host: str = ""
    api_port: str = ""
    orphan_s: float = 600.0
    catalog: Catalog = field(default_factory=Catalog.load)
    devices: Mapping[str, Sequence[Device]] = field(default_factory=dict)
    """The devices of each node; those of a node that is not named are pretended, as many as its capacity says."""
    vendors: tuple[str, ...] = ()
    """Whose devices the machine has, also where no node has any: programs see only what they were given."""


class PodTask(NamedTuple):
    """What goes on beside a pod: the probes of a container, the stopping of one, what its end brings, the refreshing and weighing of
    all volumes, the giving back of devices, what an engine clears away."""

    pod: str
    container: str
    purpose: Literal["probes", "stop", "refresh", "weigh", "devices", "end", "engine"]


class ProcessRuntime(ProcessStreams):
    """Implements `PodRuntime` with local processes."""

    def __init__(self, settings: ProcessSettings, inputs: PodInputs, clock: Clock) -> None:
        self.settings = settings
        self.inputs = inputs
        self.clock = clock
        self.pods = settings.state / "pods"
        self.connection = SupervisorConnection(settings.state, clock, orphan_s=settings.orphan_s)
        self._observer: Observer | None = None
        pods, services = (str(half) for half in IPv4Network(settings.pod_network).subnets())
        self._addresses = Addresses(pods)
        self._service_network = services
        self._devices = PodDevices(settings.state, self.connection, settings.devices, settings.vendors)
        self._with_devices: set[str] = set()
        self._running: dict[RunId, Running] = {}
        self._prepared: dict[str, Setting] = {}
        self._containers: dict[RunId, Obj] = {}
        self._tasks: dict[PodTask, asyncio.Task[None]] = {}
        self._is_isolating: bool | None = None
        self._hosts: dict[str, str] = {}
        self._capacity: Mapping[str, Mapping[str, str]] = {}
        self._on_end: dict[RunId, list[Callable[[int], None]]] = {}

    # Life

    async def open(self, observer: Observer, capacity: Mapping[str, Mapping[str, str]]) -> None:
        self._observer = observer
        self._capacity = capacity
        self._devices.open(capacity)
        self.inputs.on_names = self.refresh_names
        api = (self.settings.api_host, int(self.settings.api_port)) if self.settings.api_port else None
        self.inputs.serve(self._service_network, api)
        self.settings.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.connection.on_exit = self._on_exit
        self.connection.on_lost = self._on_lost
        if await self.connection.connect_existing():
            for name, started in (await self.connection.runs()).items():
                run = RunId.parse(name)
                # One that ended while the list was on its way is told about before the list is read.
                if run is not None and self.folder(run.pod).ending(run.container, run.attempt) is None:
                    self._running[run] = Running(started.at)
        else:
            await self._clear_away()
        self._restore_holdings()
        self._spawn(PodTask("", "", "refresh"), self._refresh())
        self._spawn(PodTask("", "", "weigh"), self._weigh())

    def _restore_holdings(self) -> None:
        """Take what pods of an earlier life hold. Those that do not run move, where the cluster's network is another one now."""
        moving: list[tuple[PodFolder, Holding]] = []
        running = {run.pod for run in self._running}
        for folder in folders(self.pods):
            if not (holding := folder.load()) or not holding.address:
                continue
            if holding.devices:
                self._with_devices.add(folder.uid)
            if self._addresses.covers(holding.address):
                self._addresses.restore(folder.uid, holding.address)
            elif folder.uid not in running and holding.address != self.settings.host_address:
                moving.append((folder, holding))
        for folder, holding in moving:
            folder.save(replace(holding, address=self._addresses.take(folder.uid)))

    async def _refresh(self) -> None:
        """Bring the volumes of running pods up to date now and then: changed ConfigMaps and Secrets, new tokens."""
        while True:
            await self.clock.sleep(REFRESH_S)
            running = {run.pod for run in self._running}
            for uid, setting in list(self._prepared.items()):
                if uid in running:
                    try:
                        await self.prepare(setting.pod)
                    except RuntimeProblem as problem:
                        log.info("volumes not refreshed", extra={"pod": uid, "error": problem.message})

    async def _weigh(self) -> None:
        """Look now and then at what running pods have written."""
        while True:
            await self.clock.sleep(WEIGH_S)
            running = {run.pod for run in self._running}
            for uid, setting in list(self._prepared.items()):
                if uid not in running or not storage.has_limits(setting.pod):
                    continue
                written = await asyncio.to_thread(storage.measure, setting.pod, setting.folder)
                if (message := storage.excess(setting.pod, written)) and self._observer is not None:
                    self._observer.exceeded(uid, message)

    async def close(self) -> None:
        self._cancel(list(self._tasks))
        await self.connection.close()

    async def shut_down(self, grace: float = 2.0) -> None:
        self._cancel(list(self._tasks))
        await self.connection.shut_down(grace)

    def known(self) -> list[str]:
        return [folder.uid for folder in folders(self.pods)]

    async def _clear_away(self) -> None:
        """End what an earlier life has left running."""
        self._kill_strays()

    def _kill_strays(self) -> None:
        """Programs of containers whose supervisor was killed, and that had left its reach.

        They are known by their environment, and those that dropped it by what they see: a folder of a pod of ours at a place
        of a container. Control groups that are left are the next supervisor's to end.
        """
        marks = tuple(f"{MARK}={folder.uid}/".encode() for folder in folders(self.pods))
        if not marks:
            return
        places = frozenset(place for folder in folders(self.pods) for place in folder.places())
        for _ in range(STRAY_ROUNDS):  # one that is just starting another may be missed once
            processes = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
            strays = [pid for pid in processes if memory.has_any_mark(pid, marks) or memory.sees(pid, places)]
            strays = [pid for pid in strays if memory.is_alive(pid)]
            for pid in strays:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            if not strays:
                return

    # Pods

    async def recover(self, pod: Obj) -> PodRecord | None:
        folder = self.folder(uid_of(pod))
        holding = folder.load()
        if holding is None:
            return None
        if any(run.pod == folder.uid for run in self._running):
            await self._take_up(pod)
        # From here to the return nothing is awaited: a container that ends meanwhile would be reported to nobody.
        recorded = record_from_status(pod, self.clock.now())
        record = new_record(pod, recorded.started_at or self.clock.now())
        for container in all_containers(pod):
            found = self._recover_container(folder, container, recorded.containers[container["name"]])
            if found is not None:
                record = record.with_container(found)
                if isinstance(found.state, Running):
                    self._containers[RunId(folder.uid, container["name"], found.attempt)] = container
                    self._watch_probes(pod, container, found.attempt)
        return PodRecord(record.containers, holding.address, record.started_at)

    async def _take_up(self, pod: Obj) -> None:
        try:
            await self.prepare(pod)
        except RuntimeProblem as problem:
            log.info("pod taken up without its volumes", extra={"pod": name_of(pod), "error": problem.message})

    def _recover_container(
        self, folder: PodFolder, container: Obj, recorded: ContainerRecord
    ) -> ContainerRecord | None:
        name = container["name"]
        attempts = folder.attempts(name)
        if not attempts:
            return None
        attempt = attempts[-1]
        run = RunId(folder.uid, name, attempt)
        previous = folder.ending(name, attempt - 1) if attempt else None
        last = self._ended(folder, container, attempt - 1, previous) if previous is not None else None
        if running := self._running.get(run):
            is_ready = recorded.ready or not has_probe(container)
            is_started = recorded.started or not container.get("startupProbe")
            return ContainerRecord(
                name, running, attempt, attempt, last, started=is_started, ready=is_ready, id=self._container_id(run)
            )
        ending = folder.ending(name, attempt)
        if ending is not None and ending.stopped:
            # The cluster was taken down under it. It is run again as the same run: neither a restart nor a failure to anybody.
            return ContainerRecord(name, Waiting("ContainerCreating"), attempt, attempt, last)
        if ending is None:
            now = self.clock.now()
            ending = Ending(str(run), 137, now, now, failure="")
        state = self._ended(folder, container, attempt, ending)
        return ContainerRecord(name, state, attempt, attempt + 1, last, id=self._container_id(run))

    async def prepare(self, pod: Obj) -> Sandbox:
        uid = uid_of(pod)
        folder = self.folder(uid)
        holding = await self._hold(pod, folder)
        try:
            sources = await self.inputs.sources(pod)
            facts = NodeFacts(
                holding.address,
                self.settings.host_address,
                holding.node,
                self._capacity.get(holding.node, {}),
                self.settings.api_host,
                self.settings.api_port,
            )
            claims = self.settings.state / "claims"
            is_new = not any(folder.attempts(container["name"]) for container in all_containers(pod))
            context = VolumeContext(
                pod, folder.volumes, sources, facts, self.inputs.token, claims, self.clock.now(), is_new
            )
            places = await prepare_volumes(context)
        except MissingError as error:
            raise RuntimeProblem("ContainerCreating", str(error), event="FailedMount") from error
        self._write_names(pod, folder, holding.address)
        if self._is_isolating is None:
            self._is_isolating = await self.connection.is_isolating()
        seen = {
            container["name"]: self._devices.environment(pod, container, holding.node, holding.devices)
            for container in all_containers(pod)
        }
        self._prepared[uid] = Setting(
            pod,
            folder,
            sources,
            facts,
            places,
            seen,
            self._is_isolating,
            self.inputs.lookup(namespace_of(pod)),
        )
        return Sandbox(holding.address)

    async def _hold(self, pod: Obj, folder: PodFolder) -> Holding:
        """What the pod occupies: an address of its own, and devices that nobody else on this machine has meanwhile."""
        known = folder.load()
        devices: tuple[str, ...] = ()
        if asked_for(pod) and (known is None or known.devices):
            # Also of a pod that has some: whoever held them for it may have died since.
            self._with_devices.add(folder.uid)
            devices = await self._devices.claim(pod, folder.uid, known.devices if known else ())
        if known is None:
            return self._allocate(pod, folder, devices)
        if known.devices != devices:
            known = replace(known, devices=devices)
            folder.save(known)
        return known

    def _allocate(self, pod: Obj, folder: PodFolder, devices: tuple[str, ...]) -> Holding:
        node = str(spec_of(pod).get("nodeName") or "")
        try:
            address = (
                self.settings.host_address if spec_of(pod).get("hostNetwork") else self._addresses.take(folder.uid)
            )
        except Exhausted as error:
            raise RuntimeProblem("ContainerCreating", str(error)) from error
        holding = Holding(namespace_of(pod), name_of(pod), node, address, devices)
        folder.save(holding)
        return holding

    def release(self, uid: str) -> None:
        if self._prepared.pop(uid, None) is None:
            return
        folder = self.folder(uid)
        if (holding := folder.load()) is not None:
            folder.save(replace(holding, address="", devices=()))
        self._forget(uid)

    def _forget(self, uid: str) -> None:
        self._addresses.give_back(uid)
        if uid in self._with_devices:
            self._with_devices.discard(uid)
            self._spawn(PodTask(uid, "", "devices"), self._devices.give_back(uid))
        self._prepared.pop(uid, None)
        self._hosts.pop(uid, None)

    async def remove(self, uid: str) -> None:
        self._cancel([task for task in self._tasks if task.pod == uid])
        for run in [run for run in self._running if run.pod == uid]:
            await self.connection.signal(str(run), signal.SIGKILL)
            self._running.pop(run, None)
        self._forget(uid)
        folder = self.folder(uid)
        await asyncio.to_thread(folder.remove)

    # Names

    def _write_names(self, pod: Obj, folder: PodFolder, address: str) -> None:
        inputs = self.inputs
        text = names.pod_hosts(pod, address, inputs.hosts(namespace_of(pod)), inputs.services_of(pod))
        if self._hosts.get(folder.uid) != text or not folder.hosts.exists():
            # In place: the file is mounted into running containers, and a mount follows the file, not its name.
            folder.hosts.write_text(text)
            self._hosts[folder.uid] = text
        if not folder.hostname.exists():
            folder.hostname.write_text(names.pod_hostname(pod) + "\n")

    def refresh_names(self) -> None:
        """Names of the cluster have changed: bring every pod's hosts file up to date."""
        running = {run.pod for run in self._running}
        for uid, setting in self._prepared.items():
            if uid in running:
                self._write_names(setting.pod, setting.folder, setting.facts.address)

    # Containers

    async def start(self, pod: Obj, container: Obj, attempt: int) -> StartedContainer:
        uid, name = uid_of(pod), container["name"]
        run = RunId(uid, name, attempt)
        if running := self._running.get(run):
            return StartedContainer(self._container_id(run), running.started_at, has_probe(container))
        setting = self._prepared[uid]
        try:
            launch, note = self._order(setting, container, attempt)
        except MissingError as error:
            raise RuntimeProblem("CreateContainerConfigError", str(error)) from error
        except UnknownImageError as error:
            raise RuntimeProblem("ErrImagePull", str(error)) from error
        prepare_container_folder(setting, container, attempt)
        if note:
            setting.folder.mark_simulated(name, attempt)
        self._containers[run] = container
        self._running[run] = Running(self.clock.now())
        try:
            began = await self.connection.start(launch)
        except StartError as error:
            self._running.pop(run, None)
            raise StartFailure(str(error)) from error
        await self._begun(run)
        if run in self._running:  # else it has ended already
            self._running[run] = Running(began.at)
            self._watch_probes(pod, container, attempt)
            await self._after_start(pod, container)
        return StartedContainer(self._container_id(run), began.at, has_probe(container), note)

    def _order(self, setting: Setting, container: Obj, attempt: int) -> tuple[Launch, str]:
        """What to start for a run, and why it only pretends, if it does."""
        return compose(setting, container, attempt, self.settings.catalog)

    async def _begun(self, run: RunId) -> None:
        """Until a container runs whose program was started."""

    async def _after_start(self, pod: Obj, container: Obj) -> None:
        if hook := (container.get("lifecycle") or {}).get("postStart"):
            await self._run_hook(pod, container, hook, 30.0)

    async def stop(self, pod: Obj, container: Obj, attempt: int, grace: float) -> None:
        uid, name = uid_of(pod), container["name"]
        run = RunId(uid, name, attempt)
        self._cancel([PodTask(uid, name, "probes")])
        stopping = PodTask(uid, name, "stop")
        if run not in self._running:
            return
        if stopping in self._tasks:
            if grace > 1:
                return
            self._cancel([stopping])
        self._spawn(stopping, self._end(pod, container, run, grace))

    async def _end(self, pod: Obj, container: Obj, run: RunId, grace: float) -> None:
        deadline = self.clock.monotonic() + grace
        if grace > 0:
            if hook := (container.get("lifecycle") or {}).get("preStop"):
                await self._run_hook(pod, container, hook, grace)
            await self.connection.signal_first(str(run), signal.SIGTERM)
            await self.clock.sleep(max(deadline - self.clock.monotonic(), 0.0))
        await self._kill(run)

    async def _kill(self, run: RunId) -> None:
        await self.connection.signal(str(run), signal.SIGKILL)

    async def _run_hook(self, pod: Obj, container: Obj, hook: Obj, timeout: float) -> None:
        if command := (hook.get("exec") or {}).get("command"):
            await self.execute(pod, container["name"], list(command), timeout)
        elif sleep := hook.get("sleep"):
            await self.clock.sleep(min(float(sleep["seconds"]), timeout))

    def _on_exit(self, ending: Ending) -> None:
        run = RunId.parse(ending.id)
        if run is None:
            return
        uid, name, _ = run
        self._running.pop(run, None)
        for react in self._on_end.pop(run, ()):
            react(ending.code)
        self._cancel([PodTask(uid, name, "probes"), PodTask(uid, name, "stop")])
        container = self._containers.pop(run, None)
        if container is not None and not ending.failure:
            self._tell_end(run, container, ending)

    def _tell_end(self, run: RunId, container: Obj, ending: Ending) -> None:
        if self._observer is not None:
            ended = self._ended(self.folder(run.pod), container, run.attempt, ending)
            self._observer.ended(run.pod, run.container, run.attempt, ended)

    def _on_lost(self) -> None:
        """The supervisor died, and every program with it."""
        now = self.clock.now()
        log.warning("supervisor ended, its containers with it", extra={"containers": len(self._running)})
        for run, running in list(self._running.items()):
            self._on_exit(Ending(str(run), 137, running.started_at, now))
        self._kill_strays()

    def _ended(self, folder: PodFolder, container: Obj, attempt: int, ending: Ending) -> Ended:
        reason = "OOMKilled" if ending.out_of_memory else "Completed" if ending.code == 0 else "Error"
        reason = "StartError" if ending.failure else reason
        identity = self._container_id(RunId(folder.uid, container["name"], attempt))
        message = ending.failure or self._termination_message(folder, container, attempt, ending.code)
        return Ended(ending.code, reason, ending.started_at, ending.finished_at, message, identity)

    @staticmethod
    def _termination_message(folder: PodFolder, container: Obj, attempt: int, code: int) -> str:
        run = folder.run(container["name"], attempt)
        try:
            text = (run / "termination-log").read_bytes()[:MAX_MESSAGE].decode(errors="replace")
            if not text and code != 0 and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
                rows = (run / "log").read_bytes()[-4 * MAX_MESSAGE :].splitlines()[-80:]
                text = "\n".join(row.split(b" ", 3)[-1].decode(errors="replace") for row in rows)[-2048:]
            return text
        except FileNotFoundError:
            return ""

    # Sessions and probes

    async def open_session(
        self, pod: Obj, container: str, command: list[str], *, stdin: bool, tty: bool
    ) -> ProcessSession:
        run = self.running(uid_of(pod), container)
        order = self._session(run, self._launch_of(run), command, stdin=stdin, tty=tty)
        return await ProcessSession.start(self.connection, order, stdin=stdin)

    def _session(self, run: RunId, base: Launch, command: list[str], *, stdin: bool, tty: bool) -> Launch:
        """What to start for a command in a running container."""
        return Launch(
            id=session_id(),
            argv=tuple(command),
            env={**base.env, **({"TERM": "xterm"} if tty else {})},
            directory=base.directory,
            cwd=base.cwd,
            address=base.address,
            user=base.user,
            group=base.group,
            groups=base.groups,
            dropped=base.dropped,
            kept=base.kept,
            no_new_privileges=base.no_new_privileges,
            filtered=base.filtered,
            tty=tty,
            isolate=base.isolate,
            inside=str(run),
        )

    async def execute(self, pod: Obj, container: str, command: list[str], timeout: float) -> tuple[int, str]:
        """Run a command to its end: exit code and combined output."""
        try:
            session = await self.open_session(pod, container, command, stdin=False, tty=False)
        except StartError as error:
            return 126, str(error)

        async def collect() -> tuple[int, str]:
            output = b"".join([data async for _, data in session.read()])
            return await session.wait(), output[:10240].decode(errors="replace").strip()

        try:
            return await asyncio.wait_for(collect(), timeout)
        except TimeoutError:
            return 1, f"command timed out after {timeout:g}s"
        finally:
            await session.kill()

    def running(self, uid: str, container: str) -> RunId:
        for run in self._running:
            if (run.pod, run.container) == (uid, container):
                return run
        raise StartError(f"container not found ({container!r})")

    def _launch_of(self, run: RunId) -> Launch:
        text = (self.folder(run.pod).run(run.container, run.attempt) / "launch.json").read_text()
        return Launch.from_json(json.loads(text))

    def _watch_probes(self, pod: Obj, container: Obj, attempt: int) -> None:
        if not has_probe(container) and not container.get("livenessProbe"):
            return
        uid, name = uid_of(pod), container["name"]
        observer, setting = self._observer, self._prepared.get(uid)
        if observer is None or setting is None:
            return

        async def execute(command: list[str], timeout: float) -> tuple[int, str]:
            return await self.execute(pod, name, command, timeout)

        reports = ProbeReports(
            started=lambda ok: observer.probed(uid, name, ok, None),
            ready=lambda ok: observer.probed(uid, name, None, ok),
            unhealthy=lambda kind, message, over: observer.unhealthy(uid, name, kind, message, over),
        )
        target = ProbeTarget(container, setting.facts.address, execute)
        self._spawn(PodTask(uid, name, "probes"), watch(target, self.clock, reports))

    # Small things

    def folder(self, uid: str) -> PodFolder:
        return PodFolder(self.pods / uid)

    def _container_id(self, run: RunId) -> str:
        """The container ID a run shows in its status; it tells a run that only pretends from one that is real."""
        is_simulated = self.folder(run.pod).is_simulated(run.container, run.attempt)
        return (SCHEME if is_simulated else "corral://") + hashlib.sha256(str(run).encode()).hexdigest()

    def on_end(self, run: RunId, react: Callable[[int], None]) -> None:
        self._on_end.setdefault(run, []).append(react)

    def is_running(self, run: RunId) -> bool:
        return run in self._running

    def _spawn(self, key: PodTask, work: Awaitable[None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except Exception:  # a probe or a stop must not take the node down with it
                log.exception(
                    "task of a pod failed", extra={"pod": key.pod, "container": key.container, "task": key.purpose}
                )

        task = asyncio.get_running_loop().create_task(guarded(), name=f"pod {key.pod} {key.container} {key.purpose}")
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._tasks.pop(key, None) if self._tasks.get(key) is done else None)

    def _cancel(self, keys: Iterable[PodTask]) -> None:
        for key in keys:
            if task := self._tasks.pop(key, None):
                task.cancel()
