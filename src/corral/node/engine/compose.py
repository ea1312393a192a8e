"""From a pod and a container to the engine's client that runs it: what to type, and with which environment.

The client is a process of ours in the foreground. What the container writes comes out of it, what is sent to it goes in, SIGTERM goes
through it, and its exit code is the container's. Pure but for looking whether the machine has a device.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Final

from corral.core.meta import Obj, name_of, namespace_of, spec_of
from corral.core.quantity import milli, value
from corral.node import names
from corral.node.engine.client import Engine
from corral.node.environment import MissingError, command_line, container_environment
from corral.node.process.compose import DEFAULT_MESSAGE_PATH, Setting, groups_of_container, this_machine
from corral.node.process.folder import RunId
from corral.node.process.launch import Launch
from corral.node.process.supervisor import MARK
from corral.node.process.view import Mount
from corral.node.process.volumes import container_mounts, content_volumes
from corral.node.promises import refuse_broken

LABEL: Final = "corral.dev/"
DEVICES: Final = Path("/dev")


def container_name(owner: str, run: RunId) -> str:
    """What the engine calls one run of a container; `owner` is the cluster's own word for itself."""
    return f"corral-{owner}-{hashlib.sha256(str(run).encode()).hexdigest()[:20]}"


def owner_of(state: Path) -> str:
    return hashlib.sha256(str(state).encode()).hexdigest()[:8]


def compose_container(engine: Engine, owner: str, setting: Setting, container: Obj, attempt: int) -> Launch:
    """The order for run `attempt` of `container`."""
    pod, run = setting.pod, RunId(setting.folder.uid, container["name"], attempt)
    _refuse(pod, container)
    declared = container_environment(pod, container, setting.sources, setting.facts)
    command, args = command_line(container, declared)
    seen = dict(setting.devices.get(container["name"], {}))
    devices = _devices(engine, seen)
    variables = {"CORRAL_POD_IP": setting.facts.address, **seen, **declared}
    ours = {**engine.own_environment, MARK: str(run)}
    # A value is handed over by its name, so that nobody reads it in a list of processes; not where the client has a use for it.
    by_name = {name: text for name, text in variables.items() if name not in ours}
    words = [engine.program, "run", "--name", container_name(owner, run), "--pull", "never", "--network", "host"]
    words += ["--hostname", names.pod_hostname(pod)]
    if (
        engine.kind != "containerd"
    ):  # volumes are folders of this machine: SELinux is not to keep them from the container
        words += ["--security-opt", "label=disable"]
    for key, text in (("state", owner), ("pod", setting.folder.uid), ("name", f"{namespace_of(pod)}/{name_of(pod)}")):
        words += ["--label", f"{LABEL}{key}={text}"]
    for name, text in variables.items():
        words += ["--env", name if name in by_name else f"{name}={text}"]
    for mount in _mounts(setting, container, attempt, declared):
        words += ["--volume", f"{mount.path}:{mount.target}{':ro' if mount.read_only else ''}"]
    words += [*_limits(container), *_security(pod, container), *devices]
    words += ["--workdir", container["workingDir"]] if container.get("workingDir") else []
    words += ["--interactive"] if container.get("stdin") else []
    words += ["--tty"] if container.get("tty") else []
    words += ["--entrypoint", command[0]] if command else []
    return Launch(
        id=str(run),
        argv=(*words, container.get("image", ""), *command[1:], *args),
        env={**ours, **by_name},
        directory=str(setting.folder.run(container["name"], attempt)),
        stdin=bool(container.get("stdin")),
        stdin_once=bool(container.get("stdinOnce")),
        tty=bool(container.get("tty")),
        isolate=False,
    )


def compose_session(
    engine: Engine, owner: str, run: RunId, identity: str, directory: str, command: list[str], *, stdin: bool, tty: bool
) -> Launch:
    """The order for a command in a running container."""
    words = [engine.program, "exec", *(["--interactive"] if stdin else [])]
    words += ["--tty", "--env", "TERM=xterm"] if tty else []
    return Launch(
        id=identity,
        argv=(*words, container_name(owner, run), *command),
        env=engine.own_environment,
        directory=directory,
        tty=tty,
        isolate=False,
        inside=str(run),
    )


def _refuse(pod: Obj, container: Obj) -> None:
    """What cannot be kept; an engine can do what root with namespaces can, and more."""
    if spec_of(pod).get("shareProcessNamespace"):
        raise MissingError(
            "the pod has shareProcessNamespace, and its containers are containers of their own here: leave it out"
        )
    able = replace(this_machine(is_isolating=True), user=0, group=0, has_filters=True)
    plain = {**pod, "spec": {key: text for key, text in spec_of(pod).items() if key not in ("hostPID", "hostIPC")}}
    refuse_broken(plain, container, able)


def _mounts(setting: Setting, container: Obj, attempt: int, declared: dict[str, str]) -> tuple[Mount, ...]:
    run = setting.folder.run(container["name"], attempt)
    wanted = container_mounts(container, dict(setting.places), declared, content_volumes(setting.pod))
    own = (
        Mount(str(setting.folder.hosts), "/etc/hosts"),
        Mount(str(run / "termination-log"), container.get("terminationMessagePath") or DEFAULT_MESSAGE_PATH),
    )
    targets = {mount.target for mount in wanted}
    return (*(mount for mount in own if mount.target not in targets), *wanted)


def _limits(container: Obj) -> list[str]:
    limits = (container.get("resources") or {}).get("limits") or {}
    words = []
    if limits.get("memory"):
        words += ["--memory", str(value(limits["memory"])), "--memory-swap", str(value(limits["memory"]))]
    if limits.get("cpu"):
        words += ["--cpus", f"{milli(limits['cpu']) / 1000:g}"]
    return words


def _security(pod: Obj, container: Obj) -> list[str]:
    spec = spec_of(pod)
    security = {**(spec.get("securityContext") or {}), **(container.get("securityContext") or {})}
    user, group = security.get("runAsUser"), security.get("runAsGroup")
    words = ["--user", str(user or 0) + ("" if group is None else f":{group}")] if (user, group) != (None, None) else []
    for other in groups_of_container(security):
        words += ["--group-add", str(other)]
    capabilities = security.get("capabilities") or {}
    for option, given in (("--cap-drop", capabilities.get("drop")), ("--cap-add", capabilities.get("add"))):
        for name in given or ():
            words += [option, str(name).upper().removeprefix("CAP_")]
    words += ["--security-opt", "no-new-privileges"] if security.get("allowPrivilegeEscalation") is False else []
    unconfined = (security.get("seccompProfile") or {}).get("type") == "Unconfined"
    words += ["--security-opt", "seccomp=unconfined"] if unconfined else []
    words += ["--read-only"] if security.get("readOnlyRootFilesystem") else []
    words += ["--privileged"] if security.get("privileged") else []
    words += ["--pid", "host"] if spec.get("hostPID") else []
    return words + (["--ipc", "host"] if spec.get("hostIPC") else [])


def _devices(engine: Engine, seen: dict[str, str]) -> list[str]:
    """The options for the devices a container was given. In the container those are all there are, numbered from 0: the variables that
    would choose among them go. Devices that are only pretended are variables by their variables."""
    words: list[str] = []
    nvidia = seen.get("NVIDIA_VISIBLE_DEVICES", "")
    if nvidia not in ("", "void") and (DEVICES / "nvidiactl").exists():
        words += engine.gpus(nvidia)
        for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
            seen.pop(name, None)
    if seen.get("ROCR_VISIBLE_DEVICES") and (DEVICES / "kfd").exists():
        words += ["--device", str(DEVICES / "kfd"), "--device", str(DEVICES / "dri")]
    return words
