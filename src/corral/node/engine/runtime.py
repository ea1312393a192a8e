"""The runtime of nodes whose containers are an engine's: the process runtime with the engine's clients for programs.

Everything that outlives a control plane does so as for processes: the supervisor owns the clients, their logs and exit codes. Images are
fetched before a container starts, and a container is removed once its client has ended; what a killed supervisor leaves behind is
found by its label and removed.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace

from corral.core.meta import Obj, uid_of
from corral.kinds.kubernetes.pods.simulated import wants_simulation
from corral.node.engine.client import FAILED_ITSELF, Engine, last_line
from corral.node.engine.compose import LABEL, compose_container, compose_session, container_name, owner_of
from corral.node.exec import session_id
from corral.node.process.compose import Setting
from corral.node.process.connection import Ending
from corral.node.process.folder import RunId
from corral.node.process.launch import Launch
from corral.node.process.runtime import PodInputs, PodTask, ProcessRuntime, ProcessSettings
from corral.node.runtime import RuntimeProblem, StartedContainer
from corral.runtime.clock import Clock

BEGIN_S = 60.0
LOOK_S = 0.1
PULLING_S = 1.0
PULL_AGAIN_S = 20.0
TAIL_BYTES = 4096


class EngineRuntime(ProcessRuntime):
    """Implements `PodRuntime` with containers."""

    def __init__(self, settings: ProcessSettings, inputs: PodInputs, clock: Clock, engine: Engine) -> None:
        super().__init__(settings, inputs, clock)
        # The clients are told nothing of namespaces: the engine makes its own, and a plain user's must not be inside of ours.
        self.connection.environment = {"CORRAL_ISOLATION": "none", "CORRAL_SOCKETS": "shared"}
        self.engine = engine
        self._owner = owner_of(settings.state)
        self._pulls: dict[str, asyncio.Task[str]] = {}
        self._fetched: set[RunId] = set()

    # Life

    async def _clear_away(self) -> None:
        await super()._clear_away()
        await self.engine.remove_labelled(f"{LABEL}state={self._owner}")

    async def close(self) -> None:
        for pull in self._pulls.values():
            pull.cancel()
        await super().close()

    async def shut_down(self, grace: float = 2.0) -> None:
        await super().shut_down(grace)
        await self.engine.remove_labelled(f"{LABEL}state={self._owner}")

    def _on_lost(self) -> None:
        super()._on_lost()
        self._spawn(PodTask("", "", "engine"), self.engine.remove_labelled(f"{LABEL}state={self._owner}"))

    async def remove(self, uid: str) -> None:
        await super().remove(uid)
        self._spawn(PodTask(uid, "", "engine"), self.engine.remove_labelled(f"{LABEL}pod={uid}"))

    # Containers

    async def start(self, pod: Obj, container: Obj, attempt: int) -> StartedContainer:
        run = RunId(uid_of(pod), container["name"], attempt)
        if run not in self._running and not wants_simulation(pod):
            await self._fetch(container, run)
            await self.engine.remove(container_name(self._owner, run))  # of the same run before everything was stopped
        started = await super().start(pod, container, attempt)
        self._fetched.discard(run)
        return started

    async def _fetch(self, container: Obj, run: RunId) -> None:
        """See that the image is here, as the container's policy says. Raises RuntimeProblem until it is."""
        image, policy = str(container.get("image") or ""), container.get("imagePullPolicy")
        if run in self._fetched:
            return
        if image not in self._pulls and policy != "Always" and await self.engine.has_image(image):
            return
        if policy == "Never":
            message = f'container image "{image}" is not present with pull policy of Never'
            raise RuntimeProblem("ErrImageNeverPull", message, PULL_AGAIN_S)
        pull = self._pulls.get(image)
        if pull is None:
            pull = self._pulls[image] = asyncio.get_running_loop().create_task(
                self.engine.pull(image), name=f"pull {image}"
            )
        if not pull.done():
            raise RuntimeProblem("ContainerCreating", "", PULLING_S)
        del self._pulls[image]
        if why := pull.result():
            raise RuntimeProblem("ErrImagePull", f'failed to pull image "{image}": {why}', PULL_AGAIN_S)
        self._fetched.add(run)

    def _order(self, setting: Setting, container: Obj, attempt: int) -> tuple[Launch, str]:
        if wants_simulation(setting.pod):
            return super()._order(setting, container, attempt)
        return compose_container(self.engine, self._owner, setting, container, attempt), ""

    async def _begun(self, run: RunId) -> None:
        """The client runs before its container does: nobody could enter that yet."""
        deadline = self.clock.monotonic() + BEGIN_S
        while run in self._running and self._is_engines(run) and self.clock.monotonic() < deadline:
            if await self.engine.is_running(container_name(self._owner, run)):
                return
            await self.clock.sleep(LOOK_S)

    def _session(self, run: RunId, base: Launch, command: list[str], *, stdin: bool, tty: bool) -> Launch:
        if not self._is_engines(run):
            return super()._session(run, base, command, stdin=stdin, tty=tty)
        return compose_session(
            self.engine, self._owner, run, session_id(), base.directory, command, stdin=stdin, tty=tty
        )

    def _is_engines(self, run: RunId) -> bool:
        return not self.folder(run.pod).is_simulated(run.container, run.attempt)

    async def _kill(self, run: RunId) -> None:
        if self._is_engines(run):
            await self.engine.kill(container_name(self._owner, run))
        await self.connection.signal(str(run), signal.SIGKILL)

    # Endings

    def _tell_end(self, run: RunId, container: Obj, ending: Ending) -> None:
        if not self._is_engines(run):
            super()._tell_end(run, container, ending)
            return
        self._spawn(PodTask(run.pod, run.container, "end"), self._settle(run, container, ending))

    async def _settle(self, run: RunId, container: Obj, ending: Ending) -> None:
        """Ask how it ended, remove the container, and tell."""
        name = container_name(self._owner, run)
        if ending.code != 0:
            ending = replace(ending, out_of_memory=await self.engine.ran_out_of_memory(name))
        if ending.code == FAILED_ITSELF:
            ending = replace(ending, failure=self._last_words(run))
        await self.engine.remove(name)
        super()._tell_end(run, container, ending)

    def _last_words(self, run: RunId) -> str:
        """Why the engine made no container, in its own words."""
        try:
            rows = (self.folder(run.pod).run(run.container, run.attempt) / "log").read_bytes()[-TAIL_BYTES:]
        except FileNotFoundError:
            return ""
        return f"failed to create container: {last_line(rows.decode(errors='replace')).partition(' F ')[2]}"
