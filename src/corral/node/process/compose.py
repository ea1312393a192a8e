"""From a pod and a container to the order that starts it.

Pure: everything that had to be fetched or written is in the `Setting`. On machines without namespaces the paths and names
that mounts would provide are rewritten in the command line and the environment instead.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from corral.core.meta import Obj, spec_of
from corral.core.quantity import milli, value
from corral.node import names
from corral.node.environment import NodeFacts, Sources, command_line, container_environment
from corral.node.images import Catalog
from corral.node.process.folder import PodFolder, run_id
from corral.node.process.launch import Launch
from corral.node.process.supervisor import MARK
from corral.node.process.view import Mount
from corral.node.process.volumes import container_mounts

WORK = "/container"
DEFAULT_MESSAGE_PATH = "/dev/termination-log"
_PASSED_ON = ("LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class Setting:
    """A prepared pod."""

    pod: Obj
    folder: PodFolder
    sources: Sources
    facts: NodeFacts
    places: Mapping[str, Path]
    devices: tuple[int, ...]
    has_devices: bool
    """Whether the node has devices at all; then a pod without any sees none."""
    is_isolating: bool
    lookup: Mapping[str, str]
    """Names of the cluster and their addresses, for machines without namespaces."""


def compose(setting: Setting, container: Obj, attempt: int, catalog: Catalog) -> tuple[Launch, str]:
    """The order for run `attempt` of `container`, and a note for the user (or an empty text)."""
    pod, folder = setting.pod, setting.folder
    declared = container_environment(pod, container, setting.sources, setting.facts)
    command, args = command_line(container, declared)
    program = catalog.resolve(container.get("image", ""), command, args)
    identity = run_id(folder.uid, container["name"], attempt)
    environment = {**_base(setting, container, identity), **program.env, **declared}
    security = {**(spec_of(pod).get("securityContext") or {}), **(container.get("securityContext") or {})}
    limits = (container.get("resources") or {}).get("limits") or {}
    mounts = _mounts(setting, container, attempt, declared, container.get("workingDir") or program.workdir)
    launch = Launch(
        id=identity,
        argv=program.argv,
        env=environment,
        directory=str(folder.run(container["name"], attempt)),
        cwd=container.get("workingDir") or program.workdir or WORK,
        hostname=names.pod_hostname(pod),
        address="" if spec_of(pod).get("hostNetwork") else setting.facts.address,
        mounts=mounts,
        user=security.get("runAsUser"),
        group=security.get("runAsGroup"),
        memory=value(limits["memory"]) if limits.get("memory") else None,
        cpu_milli=milli(limits["cpu"]) if limits.get("cpu") else None,
        stdin=bool(container.get("stdin")),
        stdin_once=bool(container.get("stdinOnce")),
        tty=bool(container.get("tty")),
        isolate=setting.is_isolating,
    )
    return (launch if setting.is_isolating else _without_namespaces(launch, setting)), program.note


def _base(setting: Setting, container: Obj, identity: str) -> dict[str, str]:
    bin_folder = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment.update(
        PATH=path if bin_folder in path.split(":") else f"{bin_folder}:{path}",
        HOME=os.environ.get("HOME", "/root"),
        HOSTNAME=names.pod_hostname(setting.pod),
        CORRAL_POD_IP=setting.facts.address,
    )
    environment[MARK] = identity
    if container.get("tty"):
        environment["TERM"] = "xterm"
    if setting.has_devices:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, setting.devices))
    return environment


def _mounts(
    setting: Setting, container: Obj, attempt: int, declared: dict[str, str], workdir: str
) -> tuple[Mount, ...]:
    folder, private = setting.folder, setting.folder.container(container["name"])
    run = folder.run(container["name"], attempt)
    message_path = container.get("terminationMessagePath") or DEFAULT_MESSAGE_PATH
    mounts = [
        Mount(str(private / "work"), WORK),
        Mount(str(folder.hosts), "/etc/hosts"),
        Mount(str(run / "termination-log"), message_path),
    ]
    if Path("/etc/hostname").exists():
        mounts.append(Mount(str(folder.hostname), "/etc/hostname"))
    if not any(place.startswith("/tmp/") for place in (sys.prefix, sys.base_prefix, __file__)):
        mounts.append(Mount(str(private / "tmp"), "/tmp"))
    wanted = container_mounts(container, dict(setting.places), declared)
    targets = {mount.target for mount in wanted}
    mounts = [mount for mount in mounts if mount.target not in targets]
    if workdir and not Path(workdir).is_dir() and not any(_covers(target, workdir) for target in sorted(targets)):
        mounts.append(Mount(str(private / "work"), workdir))
    return (*mounts, *wanted)


def _covers(target: str, path: str) -> bool:
    return path == target or path.startswith(target.rstrip("/") + "/")


def prepare_container_folder(setting: Setting, container: Obj, attempt: int) -> None:
    """Create what the mounts of one run point at."""
    private = setting.folder.container(container["name"])
    for name in ("work", "tmp"):
        (private / name).mkdir(parents=True, exist_ok=True)
    (private / "tmp").chmod(0o1777)
    run = setting.folder.run(container["name"], attempt)
    run.mkdir(parents=True, exist_ok=True)
    (run / "termination-log").touch()
    (run / "termination-log").chmod(0o666)


# Without namespaces


def _without_namespaces(launch: Launch, setting: Setting) -> Launch:
    """The same order for a machine on which nothing can be mounted: real paths and addresses written out."""
    name = launch.id.split("/")[1]
    private_tmp = str(setting.folder.container(name) / "tmp")
    paths = {
        mount.target: mount.path
        for mount in launch.mounts
        if not mount.target.startswith("/etc/host") and mount.source != private_tmp
    }

    def rewritten(text: str) -> str:
        return names.rewrite(rewrite_paths(text, paths), setting.lookup)

    kept = ("PATH", "HOME", "HOSTNAME", MARK)
    environment = {name: text if name in kept else rewritten(text) for name, text in launch.env.items()}
    environment.setdefault("TMPDIR", private_tmp)
    argv = (launch.argv[0], *(rewritten(part) for part in launch.argv[1:]))
    return replace(launch, argv=argv, env=environment, cwd=rewrite_paths(launch.cwd, paths), mounts=())


def rewrite_paths(text: str, paths: Mapping[str, str]) -> str:
    """`text` with every mounted path replaced by where its content really is."""
    if not paths:
        return text
    longest_first = sorted(paths, key=len, reverse=True)
    targets = "|".join(re.escape(target) for target in longest_first)
    return re.sub(rf"(?<![\w./-])(?:{targets})(?=/|$|[^\w.-])", lambda match: paths[match[0]], text)
