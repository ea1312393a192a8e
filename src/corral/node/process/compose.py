"""From a pod and a container to the order that starts it.

Pure: everything that had to be fetched or written is in the `Setting`. On machines without namespaces the paths and names
that mounts would provide are rewritten in the command line and the environment instead.
"""

from __future__ import annotations

import os
import pwd
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from corral.core.meta import Obj, spec_of
from corral.core.quantity import milli, value
from corral.kinds.kubernetes.pods.simulated import SIMULATE_ANNOTATION, wants_simulation
from corral.node import names
from corral.node.environment import NodeFacts, Sources, command_line, container_environment
from corral.node.images import Catalog, Program, pretending
from corral.node.process import filters, kernel
from corral.node.process.folder import PodFolder, RunId
from corral.node.process.launch import Launch
from corral.node.process.supervisor import MARK
from corral.node.process.view import Mount
from corral.node.process.volumes import container_mounts, content_volumes
from corral.node.promises import Machine, refuse_broken
from corral.node.simulated import behaviour

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
    devices: Mapping[str, Mapping[str, str]]
    """The variables that tell each container which devices are its own."""
    is_isolating: bool
    lookup: Mapping[str, str]
    """Names of the cluster and their addresses, for machines without namespaces."""


def compose(setting: Setting, container: Obj, attempt: int, catalog: Catalog) -> tuple[Launch, str]:
    """The order for run `attempt` of `container`, and why it only pretends (an empty text where it does not)."""
    pod, folder = setting.pod, setting.folder
    declared = container_environment(pod, container, setting.sources, setting.facts)
    command, args = command_line(container, declared)
    program = _program(pod, container, command, args, catalog)
    identity = str(RunId(folder.uid, container["name"], attempt))
    environment = {**_base(setting, container, identity), **program.env, **declared}
    security = {**(spec_of(pod).get("securityContext") or {}), **(container.get("securityContext") or {})}
    refuse_broken(pod, container, this_machine(is_isolating=setting.is_isolating))
    capabilities = security.get("capabilities") or {}
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
        group=_group(security),
        groups=groups_of_container(security),
        dropped=_capability_names(capabilities.get("drop")),
        kept=_capability_names(capabilities.get("add")),
        no_new_privileges=security.get("allowPrivilegeEscalation") is False,
        read_only_root=bool(security.get("readOnlyRootFilesystem")),
        filtered=_is_filtered(security),
        all_devices=bool(security.get("privileged")),
        memory=value(limits["memory"]) if limits.get("memory") else None,
        cpu_milli=milli(limits["cpu"]) if limits.get("cpu") else None,
        stdin=bool(container.get("stdin")),
        stdin_once=bool(container.get("stdinOnce")),
        tty=bool(container.get("tty")),
        isolate=setting.is_isolating,
    )
    return (launch if setting.is_isolating else _without_namespaces(launch, setting, container["name"])), program.note


def _program(pod: Obj, container: Obj, command: list[str], args: list[str], catalog: Catalog) -> Program:
    if not wants_simulation(pod):
        return catalog.resolve(container.get("image", ""), command, args)
    found = behaviour(pod, container, catalog.simulate_s)
    return pretending(found.run_s, found.exit_code, f"the pod has the annotation {SIMULATE_ANNOTATION}")


def this_machine(*, is_isolating: bool) -> Machine:
    """What this process can promise to a container."""
    return Machine(
        user=os.geteuid(),
        group=os.getegid(),
        groups=frozenset(os.getgroups()),
        is_isolating=is_isolating,
        has_filters=kernel.can_filter_calls() and filters.is_known_machine(),
        sysctl=_sysctl,
    )


def _sysctl(name: str) -> str | None:
    parts = name.replace("/", ".").split(".")
    try:
        return None if ".." in name else Path("/proc/sys", *parts).read_text()
    except OSError:
        return None


def _capability_names(given: list[str] | None) -> tuple[str, ...]:
    return tuple(name.upper().removeprefix("CAP_") for name in given or ())


def _is_filtered(security: Obj) -> bool:
    """Whether the default profile is asked for. One who is privileged is under no profile, as with a kubelet."""
    return (security.get("seccompProfile") or {}).get("type") == "RuntimeDefault" and not security.get("privileged")


def _group(security: Obj) -> int | None:
    """The group to run as: the one asked for, else that of the user, never the one of the node."""
    user, group = security.get("runAsUser"), security.get("runAsGroup")
    if group is None and user is None and security.get("supplementalGroupsPolicy") == "Strict":
        return os.getegid()  # named, so that the other groups of Corral's user are left behind
    if group is not None or user is None:
        return group
    try:
        return pwd.getpwuid(user).pw_gid
    except KeyError:
        return int(user)


def groups_of_container(security: Obj) -> tuple[int, ...]:
    """Supplementary groups: those asked for, the group of the volumes, and those this machine's user is in."""
    groups = [*(security.get("supplementalGroups") or ())]
    if security.get("fsGroup") is not None:
        groups.append(security["fsGroup"])
    user = security.get("runAsUser")
    if user and security.get("supplementalGroupsPolicy") != "Strict":
        groups.extend(_groups_of(user))
    return tuple(dict.fromkeys(groups))


def _groups_of(user: int) -> list[int]:
    try:
        entry = pwd.getpwuid(user)
    except KeyError:
        return []
    return [group for group in os.getgrouplist(entry.pw_name, entry.pw_gid) if group != entry.pw_gid]


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
    return {**environment, **setting.devices.get(container["name"], {})}


def _mounts(
    setting: Setting, container: Obj, attempt: int, declared: dict[str, str], workdir: str
) -> tuple[Mount, ...]:
    folder, private = setting.folder, setting.folder.container(container["name"])
    run = folder.run(container["name"], attempt)
    is_fixed = bool((container.get("securityContext") or {}).get("readOnlyRootFilesystem"))
    message_path = container.get("terminationMessagePath") or DEFAULT_MESSAGE_PATH
    mounts = [
        Mount(str(private / "work"), WORK, is_fixed),
        Mount(str(folder.hosts), "/etc/hosts", is_fixed),
        Mount(str(run / "termination-log"), message_path),
    ]
    if Path("/etc/hostname").exists():
        mounts.append(Mount(str(folder.hostname), "/etc/hostname"))
    if not any(place.startswith("/tmp/") for place in (sys.prefix, sys.base_prefix, __file__)):
        mounts.append(Mount(str(private / "tmp"), "/tmp", is_fixed))
    wanted = container_mounts(container, dict(setting.places), declared, content_volumes(setting.pod))
    targets = {mount.target for mount in wanted}
    mounts = [mount for mount in mounts if mount.target not in targets]
    if workdir and not Path(workdir).is_dir() and not any(_covers(target, workdir) for target in sorted(targets)):
        mounts.append(Mount(str(private / "work"), workdir, is_fixed))
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


def _without_namespaces(launch: Launch, setting: Setting, name: str) -> Launch:
    """The same order for a machine on which nothing can be mounted: real paths and addresses written out."""
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
