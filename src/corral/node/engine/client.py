"""A container engine, by the program people talk to it with. All three take the same words; where they differ, it is said here."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PROGRAMS: Final[Mapping[str, str]] = {"podman": "podman", "docker": "docker", "containerd": "nerdctl"}
"""What a `runtime` of fleet.yaml is called on the command line."""
ITS_OWN: Final = (
    "PATH", "HOME", "USER", "LANG", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "CONTAINER_HOST", "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF", "CONTAINERD_ADDRESS", "CONTAINERD_NAMESPACE", "NERDCTL_TOML",
)  # fmt: skip
"""Variables the program itself is set up by."""
ANSWER_S: Final = 30.0
FAILED_ITSELF: Final = 125
"""The exit code of `run` when the engine could not make the container at all."""


class EngineMissing(Exception):
    """The engine is not there, or does not work; the text says which and what to do."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine, found on this machine."""

    kind: str
    program: str

    @classmethod
    def find(cls, kind: str) -> Engine:
        """The engine a cluster's `runtime` names."""
        program = shutil.which(PROGRAMS[kind])
        if program is None:
            raise EngineMissing(
                f"runtime {kind}: there is no `{PROGRAMS[kind]}` on the PATH; install it, or let pods be processes (runtime: process)"
            )
        return cls(kind, program)

    @property
    def own_environment(self) -> dict[str, str]:
        """What its program is started with."""
        return {name: os.environ[name] for name in ITS_OWN if name in os.environ}

    async def ask(self, *words: str, patience: float = ANSWER_S) -> tuple[int, str]:
        """One command to its end: the exit code, and everything it said."""
        process = await asyncio.create_subprocess_exec(
            self.program,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self.own_environment,
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), patience)
        except TimeoutError:
            _kill(process)
            await process.wait()
            return 1, f"`{PROGRAMS[self.kind]} {words[0]}` did not answer within {patience:g} s"
        except asyncio.CancelledError:
            _kill(process)
            raise
        return process.returncode or 0, said.decode(errors="replace").strip()

    async def check(self) -> None:
        """That it answers."""
        code, said = await self.ask("version")
        if code != 0:
            raise EngineMissing(f"runtime {self.kind}: `{PROGRAMS[self.kind]} version` failed: {last_line(said)}")

    async def has_image(self, image: str) -> bool:
        return (await self.ask("image", "inspect", image))[0] == 0

    async def pull(self, image: str) -> str:
        """Fetch an image; why it cannot be, or nothing."""
        code, said = await self.ask("pull", "--quiet", image, patience=3600.0)
        return "" if code == 0 else last_line(said) or f"exit code {code}"

    async def kill(self, container: str) -> None:
        await self.ask("kill", "--signal", "KILL", container)

    async def is_running(self, container: str) -> bool:
        _, said = await self.ask("inspect", "--format", "{{.State.Running}}", container)
        return said.lower() == "true"

    async def ran_out_of_memory(self, container: str) -> bool:
        _, said = await self.ask("inspect", "--format", "{{.State.OOMKilled}}", container)
        return said.lower() == "true"

    async def remove(self, *containers: str) -> None:
        """Containers away, also running ones; those that are gone already are no matter."""
        if containers:
            await self.ask("rm", "--force", "--volumes", *containers)

    async def remove_labelled(self, label: str) -> None:
        code, said = await self.ask("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={label}")
        if code == 0:
            await self.remove(*said.split())

    def gpus(self, names: str) -> tuple[str, ...]:
        """The options that give a container NVIDIA's devices of these names."""
        if self.kind == "podman":
            return tuple(word for name in names.split(",") for word in ("--device", f"nvidia.com/gpu={name}"))
        return ("--gpus", f'"device={names}"' if self.kind == "docker" else f"device={names}")


def _kill(process: asyncio.subprocess.Process) -> None:
    try:
        process.kill()
    except ProcessLookupError:
        pass  # it has just ended


def last_line(text: str) -> str:
    """What a program said last, which is where they say what is wrong."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
