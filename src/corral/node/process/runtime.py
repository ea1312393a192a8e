"""The process runtime: containers are programs of this machine, run by the supervisor.

Everything needed after a restart is on disk: which pods there were, which run of which container, how each run ended. So
no container is started twice and none is forgotten, whichever process dies at whichever moment.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Protocol

from corral.core.meta import Obj, name_of, namespace_of, spec_of, uid_of
from corral.core.quantity import value
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
from corral.node import names
from corral.node.environment import MissingError, NodeFacts, Sources
from corral.node.exec import ProcessSession, session_id
from corral.node.images import Catalog, UnknownImageError
from corral.node.process import memory
from corral.node.process.allocation import Addresses, Devices, Exhausted
from corral.node.process.compose import Setting, compose, prepare_container_folder
from corral.node.process.connection import Ending, StartError, SupervisorConnection
from corral.node.process.folder import Holding, PodFolder, folders, parse_run_id, run_id
from corral.node.process.launch import Launch
from corral.node.process.probes import ProbeReports, ProbeTarget, has_probe, watch
from corral.node.process.streams import ProcessStreams
from corral.node.process.supervisor import MARK
from corral.node.process.volumes import VolumeContext, prepare_volumes
from corral.node.runtime import Observer, RuntimeProblem, Sandbox, StartedContainer, StartFailure
from corral.runtime.clock import Clock

log = logging.getLogger(__name__)

MAX_MESSAGE = 4096
REFRESH_S = 60.0
GPU = "nvidia.com/gpu"


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
    devices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The device numbers of each node; a node that is not named counts from 0."""


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
        self._devices = Devices()
        self._running: dict[str, Running] = {}
        self._prepared: dict[str, Setting] = {}
        self._containers: dict[str, Obj] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._is_isolating: bool | None = None
        self._hosts: dict[str, str] = {}
        self._capacity: Mapping[str, Mapping[str, str]] = {}
        self._on_end: dict[str, list[Callable[[int], None]]] = {}

    # Life

    async def open(self, observer: Observer, capacity: Mapping[str, Mapping[str, str]]) -> None:
        self._observer = observer
        self._capacity = capacity
        self.inputs.on_names = self.refresh_names
        api = (self.settings.api_host, int(self.settings.api_port)) if self.settings.api_port else None
        self.inputs.serve(self._service_network, api)
        self.settings.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.connection.on_exit = self._on_exit
        self.connection.on_lost = self._on_lost
        if await self.connection.connect_existing():
            for identity, run in (await self.connection.runs()).items():
                parts = parse_run_id(identity)
                # One that ended while the list was on its way is told about before the list is read.
                if parts is not None and self.folder(parts[0]).ending(parts[1], parts[2]) is None:
                    self._running[identity] = Running(run.at)
        else:
            self._kill_strays()
        self._restore_holdings()
        self._spawn(("", "refresh"), self._refresh())

    def _restore_holdings(self) -> None:
        """Take what pods of an earlier life hold. Those that do not run move, where the cluster's network is another one now."""
        moving: list[tuple[PodFolder, Holding]] = []
        running = {identity.partition("/")[0] for identity in self._running}
        for folder in folders(self.pods):
            if not (holding := folder.load()) or not holding.address:
                continue
            self._devices.restore(holding.node, folder.uid, holding.devices)
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
            running = {identity.partition("/")[0] for identity in self._running}
            for uid, setting in list(self._prepared.items()):
                if uid in running:
                    try:
                        await self.prepare(setting.pod)
                    except RuntimeProblem as problem:
                        log.info("volumes not refreshed", extra={"pod": uid, "error": problem.message})

    async def close(self) -> None:
        self._cancel(list(self._tasks))
        await self.connection.close()

    async def shut_down(self, grace: float = 2.0) -> None:
        self._cancel(list(self._tasks))
        await self.connection.shut_down(grace)

    def known(self) -> list[str]:
        return [folder.uid for folder in folders(self.pods)]

    def _kill_strays(self) -> None:
        """Programs of containers whose supervisor was killed, and that had left its reach."""
        marks = tuple(f"{MARK}={folder.uid}/".encode() for folder in folders(self.pods))
        if not marks:
            return
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and memory.has_any_mark(int(entry.name), marks):
                try:
                    os.kill(int(entry.name), signal.SIGKILL)
                except OSError:
                    pass

    # Pods

    async def recover(self, pod: Obj) -> PodRecord | None:
        folder = self.folder(uid_of(pod))
        holding = folder.load()
        if holding is None:
            return None
        if any(identity.startswith(folder.uid + "/") for identity in self._running):
            await self._take_up(pod)
        # From here to the return nothing is awaited: a container that ends meanwhile would be reported to nobody.
        recorded = record_from_status(pod, self.clock.now())
        record = new_record(pod, recorded.started_at or self.clock.now())
        for container in all_containers(pod):
            found = self._recover_container(folder, container, recorded.containers[container["name"]])
            if found is not None:
                record = record.with_container(found)
                if isinstance(found.state, Running):
                    self._containers[run_id(folder.uid, container["name"], found.attempt)] = container
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
        identity = run_id(folder.uid, name, attempt)
        previous = folder.ending(name, attempt - 1) if attempt else None
        last = self._ended(folder, container, attempt - 1, previous) if previous is not None else None
        if running := self._running.get(identity):
            is_ready = recorded.ready or not has_probe(container)
            is_started = recorded.started or not container.get("startupProbe")
            return ContainerRecord(
                name, running, attempt, attempt, last, started=is_started, ready=is_ready, id=container_id(identity)
            )
        ending = folder.ending(name, attempt)
        if ending is not None and ending.stopped:
            # The cluster was taken down under it. It is run again as the same run: neither a restart nor a failure to anybody.
            return ContainerRecord(name, Waiting("ContainerCreating"), attempt, attempt, last)
        if ending is None:
            now = self.clock.now()
            ending = Ending(identity, 137, now, now, failure="")
        state = self._ended(folder, container, attempt, ending)
        return ContainerRecord(name, state, attempt, attempt + 1, last, id=container_id(identity))

    async def prepare(self, pod: Obj) -> Sandbox:
        uid = uid_of(pod)
        folder = self.folder(uid)
        holding = folder.load() or self._allocate(pod, folder)
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
            context = VolumeContext(pod, folder.volumes, sources, facts, self.inputs.token, claims, self.clock.now())
            places = await prepare_volumes(context)
        except MissingError as error:
            raise RuntimeProblem("ContainerCreating", str(error), event="FailedMount") from error
        self._write_names(pod, folder, holding.address)
        if self._is_isolating is None:
            self._is_isolating = await self.connection.is_isolating()
        node_has_devices = value(self._capacity.get(holding.node, {}).get(GPU, "0")) > 0
        self._prepared[uid] = Setting(
            pod,
            folder,
            sources,
            facts,
            places,
            holding.devices,
            node_has_devices,
            self._is_isolating,
            self.inputs.lookup(namespace_of(pod)),
        )
        return Sandbox(holding.address)

    def _allocate(self, pod: Obj, folder: PodFolder) -> Holding:
        node = str(spec_of(pod).get("nodeName") or "")
        count = sum(
            value(((c.get("resources") or {}).get("limits") or {}).get(GPU, "0")) for c in spec_of(pod)["containers"]
        )
        available = self.settings.devices.get(node, range(value(self._capacity.get(node, {}).get(GPU, "0"))))
        try:
            devices = self._devices.take(node, folder.uid, count, available)
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
        self._devices.give_back(uid)
        self._prepared.pop(uid, None)
        self._hosts.pop(uid, None)

    async def remove(self, uid: str) -> None:
        self._cancel([key for key in self._tasks if key[0] == uid])
        for identity in [identity for identity in self._running if identity.startswith(uid + "/")]:
            await self.connection.signal(identity, signal.SIGKILL)
            self._running.pop(identity, None)
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
        running = {identity.partition("/")[0] for identity in self._running}
        for uid, setting in self._prepared.items():
            if uid in running:
                self._write_names(setting.pod, setting.folder, setting.facts.address)

    # Containers

    async def start(self, pod: Obj, container: Obj, attempt: int) -> StartedContainer:
        uid, name = uid_of(pod), container["name"]
        identity = run_id(uid, name, attempt)
        if running := self._running.get(identity):
            return StartedContainer(container_id(identity), running.started_at, has_probe(container))
        setting = self._prepared[uid]
        try:
            launch, note = compose(setting, container, attempt, self.settings.catalog)
        except MissingError as error:
            raise RuntimeProblem("CreateContainerConfigError", str(error)) from error
        except UnknownImageError as error:
            raise RuntimeProblem("ErrImagePull", str(error)) from error
        prepare_container_folder(setting, container, attempt)
        self._containers[identity] = container
        self._running[identity] = Running(self.clock.now())
        try:
            began = await self.connection.start(launch)
        except StartError as error:
            self._running.pop(identity, None)
            raise StartFailure(str(error)) from error
        if identity in self._running:  # else it has ended already
            self._running[identity] = Running(began.at)
            self._watch_probes(pod, container, attempt)
            await self._after_start(pod, container, identity)
        return StartedContainer(container_id(identity), began.at, has_probe(container), note)

    async def _after_start(self, pod: Obj, container: Obj, identity: str) -> None:
        if hook := (container.get("lifecycle") or {}).get("postStart"):
            await self._run_hook(pod, container, hook, 30.0)

    async def stop(self, pod: Obj, container: Obj, attempt: int, grace: float) -> None:
        uid, name = uid_of(pod), container["name"]
        identity = run_id(uid, name, attempt)
        self._cancel([(uid, name)])
        key = (uid, f"{name} stop")
        if identity not in self._running:
            return
        if key in self._tasks:
            if grace > 1:
                return
            self._cancel([key])
        self._spawn(key, self._end(pod, container, identity, grace))

    async def _end(self, pod: Obj, container: Obj, identity: str, grace: float) -> None:
        deadline = self.clock.monotonic() + grace
        if grace > 0:
            if hook := (container.get("lifecycle") or {}).get("preStop"):
                await self._run_hook(pod, container, hook, grace)
            await self.connection.signal_first(identity, signal.SIGTERM)
            await self.clock.sleep(max(deadline - self.clock.monotonic(), 0.0))
        await self.connection.signal(identity, signal.SIGKILL)

    async def _run_hook(self, pod: Obj, container: Obj, hook: Obj, timeout: float) -> None:
        if command := (hook.get("exec") or {}).get("command"):
            await self.execute(pod, container["name"], list(command), timeout)
        elif sleep := hook.get("sleep"):
            await self.clock.sleep(min(float(sleep["seconds"]), timeout))

    def _on_exit(self, ending: Ending) -> None:
        parts = parse_run_id(ending.id)
        if parts is None:
            return
        uid, name, attempt = parts
        self._running.pop(ending.id, None)
        for react in self._on_end.pop(ending.id, ()):
            react(ending.code)
        self._cancel([(uid, name), (uid, f"{name} stop")])
        container = self._containers.pop(ending.id, None)
        if container is None or self._observer is None or ending.failure:
            return
        self._observer.ended(uid, name, attempt, self._ended(self.folder(uid), container, attempt, ending))

    def _on_lost(self) -> None:
        """The supervisor died, and every program with it."""
        now = self.clock.now()
        log.warning("supervisor ended, its containers with it", extra={"containers": len(self._running)})
        for identity, running in list(self._running.items()):
            self._on_exit(Ending(identity, 137, running.started_at, now))
        self._kill_strays()

    def _ended(self, folder: PodFolder, container: Obj, attempt: int, ending: Ending) -> Ended:
        reason = "OOMKilled" if ending.out_of_memory else "Completed" if ending.code == 0 else "Error"
        reason = "StartError" if ending.failure else reason
        message = ending.failure or self._termination_message(folder, container, attempt, ending.code)
        return Ended(ending.code, reason, ending.started_at, ending.finished_at, message, container_id(ending.id))

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
        identity = self.running_id(uid_of(pod), container)
        base = self._launch_of(identity)
        order = Launch(
            id=session_id(),
            argv=tuple(command),
            env={**base.env, **({"TERM": "xterm"} if tty else {})},
            directory=base.directory,
            cwd=base.cwd,
            address=base.address,
            user=base.user,
            group=base.group,
            tty=tty,
            isolate=base.isolate,
            inside=identity,
        )
        return await ProcessSession.start(self.connection, order, stdin=stdin)

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

    def running_id(self, uid: str, container: str) -> str:
        prefix = f"{uid}/{container}/"
        for identity in self._running:
            if identity.startswith(prefix):
                return identity
        raise StartError(f"container not found ({container!r})")

    def _launch_of(self, identity: str) -> Launch:
        import json

        uid, name, attempt = parse_run_id(identity) or ("", "", 0)
        text = (self.folder(uid).run(name, attempt) / "launch.json").read_text()
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
        self._spawn((uid, name), watch(target, self.clock, reports))

    # Small things

    def folder(self, uid: str) -> PodFolder:
        return PodFolder(self.pods / uid)

    def on_end(self, identity: str, react: Callable[[int], None]) -> None:
        self._on_end.setdefault(identity, []).append(react)

    def is_running(self, uid: str, container: str, attempt: int) -> bool:
        return run_id(uid, container, attempt) in self._running

    def _spawn(self, key: tuple[str, str], work: Awaitable[None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except Exception:  # a probe or a stop must not take the node down with it
                log.exception("task of a pod failed", extra={"pod": key[0], "task": key[1]})

        task = asyncio.get_running_loop().create_task(guarded(), name=f"pod {key[0]} {key[1]}")
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._tasks.pop(key, None) if self._tasks.get(key) is done else None)

    def _cancel(self, keys: Iterable[tuple[str, str]]) -> None:
        for key in keys:
            if task := self._tasks.pop(key, None):
                task.cancel()


def container_id(identity: str) -> str:
    """The container ID a run shows in its status."""
    return "corral://" + hashlib.sha256(identity.encode()).hexdigest()
