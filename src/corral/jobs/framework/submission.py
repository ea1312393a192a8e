"""What somebody with a program and no manifest asks for, and the parts every kind of job makes of it.

A kind names its makers in `JobKind.submissions`: functions of a `Submission` that return the object to create. They are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from corral.core.meta import Obj
from corral.kinds.kueue import names

CODE, WORKSPACE = "/corral/code", "/workspace"
"""Where the pieces of a packed folder are mounted, and where they are unpacked and the program starts."""
_UNPACK = f"cat {CODE}/part-* | tar -xzf - -C {WORKSPACE}"
PACKAGES = f"{WORKSPACE}/.corral-packages"
"""Where packages that a job asks for are installed: the interpreter and what it has stay as they are."""
_INSTALL = (
    'if "$0" -m pip --version >/dev/null 2>&1; then set -- "$0" -m pip install --quiet --disable-pip-version-check "$@"; '
    'elif command -v uv >/dev/null; then set -- uv pip install --quiet --python "$0" "$@"; '
    'else echo "$0 has neither pip nor uv to install $2 with" >&2; exit 1; fi; exec "$@"'
)
"""Installs into a folder, by what there is: environments made by uv have no pip."""
_LISTENING, _UNCHANGED = f"{WORKSPACE}/.corral-fetching", f"{WORKSPACE}/.corral-unchanged"
_COPY = 'for file; do to="$0/$file"; mkdir -p "${to%/*}" && cp -Pp "$file" "$to.corral-part" && mv -f "$to.corral-part" "$to"; done'
_FETCH = (
    'copy=$1; home=$2; shift 2; bring() { IFS=; for pattern; do for path in $pattern; do [ -e "$path" ] && '
    f'find "$path" -name \'.corral-*\' -prune -o ! -type d -newer {_UNCHANGED} -exec sh -c "$copy" "$home" {{}} +; '
    "done; done; }; "
    f"touch -t 197002010000 {_UNCHANGED}; "
    f"trap 'kill $!; bring \"$@\"; exit 0' TERM; : > {_LISTENING}; while :; do sleep 3600 & wait $!; done"
)
"""Waits for the end of the program, which the pod tells by SIGTERM, and copies what was asked for: into `$2`, by the patterns that follow.
What was packed is as old as time itself, and stays at home where the program did not write it: its user may have changed it since."""
FETCH_S: Final = 300
"""How long copying may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One program to run, on how many pods, with what."""

    name: str
    namespace: str
    command: tuple[str, ...]
    image: str
    queue: str = ""
    priority: str = ""
    workers: int = 1
    cpus: str = "1"
    memory: str = ""
    gpus: int = 0
    gpu_resource: str = "nvidia.com/gpu"
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    """A folder of the machine to run in, where pods are its processes; empty is one of the pod's own."""
    home: str = ""
    """The folder of the machine that what it fetches is brought back to."""
    fetch: tuple[str, ...] = ()
    """What is brought back when the program has ended: files and folders by their place in the job's own, also as patterns."""
    code: tuple[str, ...] = ()
    """The ConfigMaps that hold a packed folder, in order."""
    requirements: str = ""
    """A file of the packed folder that names packages to install before the program starts."""
    python: str = "python3"
    """The interpreter they are installed for."""
    retries: int = 0
    warning: str = ""
    """What its user should know before it is submitted."""


Maker = Callable[[Submission], Obj]


def metadata_of(wanted: Submission) -> Obj:
    labels = {names.QUEUE_NAME: wanted.queue} if wanted.queue else {}
    if wanted.priority:
        labels[names.PRIORITY_CLASS] = wanted.priority
    return {"name": wanted.name, "namespace": wanted.namespace, **({"labels": labels} if labels else {})}


def template_of(wanted: Submission, container: str, *, command: tuple[str, ...] | None = None, **spec: object) -> Obj:
    """A pod template whose one container runs the command; with `command=()` the image's own entry."""
    runs = wanted.command if command is None else command
    main: Obj = {"name": container, "image": wanted.image}
    if runs:
        main["command"] = list(runs)
    if environment := _environment(wanted):
        main["env"] = [{"name": name, "value": value} for name, value in environment.items()]
    main["resources"] = _resources(wanted)
    pod: Obj = {**spec, "containers": [main]}
    return {"spec": _with_folders(wanted, pod, main)}


def _environment(wanted: Submission) -> dict[str, str]:
    """The variables of the program; packages that were asked for come before what is there."""
    given = dict(wanted.environment)
    if wanted.requirements:
        given["PYTHONPATH"] = ":".join(filter(None, (PACKAGES, given.get("PYTHONPATH", ""))))
    return given


def _resources(wanted: Submission) -> Obj:
    """Memory that was asked for is also the most there is: a program that grows without end ends itself, not the machine."""
    memory = {"memory": wanted.memory} if wanted.memory else {}
    devices = {wanted.gpu_resource: str(wanted.gpus)} if wanted.gpus else {}
    limits = {**memory, **devices}
    return {"requests": {"cpu": wanted.cpus, **limits}, **({"limits": limits} if limits else {})}


def _with_folders(wanted: Submission, pod: Obj, main: Obj) -> Obj:
    """What it works in: a folder of the machine, or one of the pod's own, for what is unpacked and installed before it starts."""
    starts: list[Obj] = []
    volumes: list[Obj] = []
    mounts: list[Obj] = []
    if wanted.folder:
        volumes.append({"name": "folder", "hostPath": {"path": wanted.folder, "type": "Directory"}})
        mounts.append({"name": "folder", "mountPath": wanted.folder})
    if wanted.code or wanted.requirements:
        volumes.append({"name": "workspace", "emptyDir": {}})
        mounts.append({"name": "workspace", "mountPath": WORKSPACE})
    if wanted.code:
        pieces = [{"configMap": {"name": name}} for name in wanted.code]
        volumes.append({"name": "code", "projected": {"sources": pieces}})
        starts.append(_unpacking(wanted, mounts))
    if wanted.requirements:
        starts.append(_installation(wanted, mounts))
    if wanted.fetch:
        volumes.append({"name": "home", "hostPath": {"path": wanted.home, "type": "Directory"}})
        starts.append(_fetching(wanted, mounts))
        pod = {"terminationGracePeriodSeconds": FETCH_S, **pod}
    if mounts:
        main |= {"workingDir": wanted.folder or WORKSPACE, "volumeMounts": mounts}
    return {**pod, **({"initContainers": starts} if starts else {}), **({"volumes": volumes} if volumes else {})}


def _unpacking(wanted: Submission, mounts: list[Obj]) -> Obj:
    """Unpacks the folder, with what every image has: a shell, cat and tar."""
    return {
        "name": "code",
        "image": wanted.image,
        "command": ["sh", "-c", _UNPACK],
        "volumeMounts": [*mounts, {"name": "code", "mountPath": CODE, "readOnly": True}],
    }


def _installation(wanted: Submission, mounts: list[Obj]) -> Obj:
    """Installs what the program needs; what goes wrong is in the pod's status, where `corral explain` finds it."""
    arguments = ["--requirement", wanted.requirements, "--target", PACKAGES]
    return {
        "name": "requirements",
        "image": wanted.image,
        "command": ["sh", "-c", _INSTALL, wanted.python, *arguments],
        "workingDir": wanted.folder or WORKSPACE,
        "volumeMounts": mounts,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _fetching(wanted: Submission, mounts: list[Obj]) -> Obj:
    """Brings back what the program wrote, whoever looks on: a sidecar, which ends after the program and before the pod. The program starts
    when it listens: a signal that comes earlier is lost."""
    return {
        "name": "fetch",
        "image": wanted.image,
        "restartPolicy": "Always",
        "startupProbe": {
            "exec": {"command": ["test", "-e", _LISTENING]},
            "periodSeconds": 1,
            "failureThreshold": FETCH_S,
        },
        "command": ["sh", "-c", _FETCH, "fetch", _COPY, wanted.home, *(f"./{path}" for path in wanted.fetch)],
        "workingDir": WORKSPACE,
        "volumeMounts": [*mounts, {"name": "home", "mountPath": wanted.home}],
    }
