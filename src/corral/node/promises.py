"""What a pod asks of the machine beyond running its programs, and what becomes of each wish where pods are processes.

One row per field: which values are kept, which hold of every program here anyway, and which are refused. Nothing is taken
and then ignored: a container whose pod asks for what this machine cannot give does not start, and waits with a sentence.
The table of `docs/concepts/pods-as-processes.md` is made from these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.core.meta import Obj, annotations_of, spec_of
from corral.decide.pods.status import pod_identity
from corral.node.environment import MissingError

APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
ADVICE = "leave it out, or run the pod in a real cluster"


@dataclass(frozen=True, slots=True)
class Machine:
    """What promises are measured against: who runs the programs, and what the kernel allows."""

    user: int
    group: int
    groups: frozenset[int]
    is_isolating: bool
    """Whether every container has a view of the files of its own."""
    has_filters: bool
    """Whether system calls of a program can be refused."""
    sysctl: Callable[[str], str | None]
    """The value of a kernel setting as it is now."""

    @property
    def is_root(self) -> bool:
        return self.user == 0

    @property
    def seems_root(self) -> bool:
        """Whether programs of a plain user see themselves as root, in a user namespace."""
        return not self.is_root and self.is_isolating


@dataclass(frozen=True, slots=True)
class Wish:
    """A value that a pod gives for a field, and what stands around it."""

    value: Any
    machine: Machine
    context: Mapping[str, Any] = field(default_factory=dict)
    """The security context the field stands in, that of the pod and of the container in one."""


def _always_held(wish: Wish) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Promise:
    """One field. The three texts say for which values it is kept, true already and refused; `broken` says why it is refused."""

    field: str
    kept: str = ""
    true_already: str = ""
    refused: str = ""
    broken: Callable[[Wish], str] = _always_held


# Reasons


def _user(wish: Wish) -> str:
    machine, user = wish.machine, wish.value
    if machine.is_root or user == machine.user or (user == 0 and machine.seems_root):
        return ""
    return f"programs run as the user of Corral ({machine.user}), and only root can start one as user {user}"


def _group(wish: Wish) -> str:
    machine, group = wish.machine, wish.value
    if machine.is_root or group == machine.group or (group == 0 and machine.seems_root):
        return ""
    return f"programs run in the group of Corral's user ({machine.group}), and only root can start one in group {group}"


def _non_root(wish: Wish) -> str:
    if not wish.value:
        return ""
    user = wish.context.get("runAsUser")
    if user == 0:
        return "container's runAsUser breaks non-root policy"
    return "container has runAsNonRoot and image will run as root" if user is None and wish.machine.is_root else ""


def _groups(wish: Wish) -> str:
    machine = wish.machine
    missing = sorted(set(wish.value) - machine.groups - {machine.group})
    if machine.is_root or not missing:
        return ""
    return f"the user of Corral is not in group {missing[0]}, and only root can add it"


def _groups_policy(wish: Wish) -> str:
    machine = wish.machine
    listed = {machine.group, *(wish.context.get("supplementalGroups") or ()), wish.context.get("fsGroup")}
    if wish.value != "Strict" or machine.is_root or machine.groups <= listed:
        return ""
    return "programs are in all groups of Corral's user, and only root can take groups away"


def _volume_group(wish: Wish) -> str:
    return _groups(Wish([wish.value], wish.machine))


def _sysctls(wish: Wish) -> str:
    for setting in wish.value or ():
        name, wanted = str(setting.get("name")), str(setting.get("value"))
        now = wish.machine.sysctl(name)
        if now is None or now.split() != wanted.split():
            shown = "is not there" if now is None else f'is "{" ".join(now.split())}"'
            return f'"{name}" {shown} on this machine, and pods share its kernel settings'
    return ""


def _seccomp(wish: Wish) -> str:
    kind = (wish.value or {}).get("type")
    if kind in (None, "Unconfined"):
        return ""
    if kind == "RuntimeDefault":
        return "" if wish.machine.has_filters else "this kernel does not let us refuse system calls"
    return f"profiles of type {kind} are files of a kubelet, and there is none"


def _apparmor(wish: Wish) -> str:
    kind = (wish.value or {}).get("type")
    return "" if kind in (None, "Unconfined") else "programs are not put under AppArmor profiles"


def _given(reason: str) -> Callable[[Wish], str]:
    """Refused whenever the field says anything."""
    return lambda wish: reason if wish.value else ""


def _privileged(wish: Wish) -> str:
    return "programs run as the user of Corral, who is not root" if wish.value and not wish.machine.is_root else ""


def _added(wish: Wish) -> str:
    if not wish.value or wish.machine.is_root:
        return ""
    return "programs run as the user of Corral, who is not root and has no capability to give"


def _read_only(wish: Wish) -> str:
    if not wish.value or wish.machine.is_isolating:
        return ""
    return "this machine has no mount namespaces to keep that"


def _proc_mount(wish: Wish) -> str:
    return "programs see all of the machine's /proc, nothing is masked" if wish.value == "Default" else ""


def _own_users(wish: Wish) -> str:
    return "pods have no user namespaces of their own" if wish.value is False else ""


def _system(wish: Wish) -> str:
    name = (wish.value or {}).get("name")
    return "" if name in (None, "linux") else f"pods are processes of this machine, which does not run {name}"


def _pod_limits(wish: Wish) -> str:
    limits = (wish.value or {}).get("limits")
    return "limits are kept for containers, not for the pod as a whole: give each container its own" if limits else ""


def _propagation(wish: Wish) -> str:
    if any(mount.get("mountPropagation") not in (None, "None") for mount in wish.value or ()):
        return "mounts do not travel between containers and the machine"
    return ""


def _recursive(wish: Wish) -> str:
    if any(mount.get("recursiveReadOnly") == "Enabled" for mount in wish.value or ()):
        return "only the volume itself is mounted read-only, not what is mounted below it"
    return ""


# The table

POD = (
    Promise("hostNetwork", kept="`true`: the address of the machine", true_already="`false`: an address of its own"),
    Promise("hostPID", true_already="`true`: programs see the processes of the machine"),
    Promise("hostIPC", true_already="`true`: programs share the machine's IPC namespace"),
    Promise("shareProcessNamespace", true_already="`true`: containers see each other's processes"),
    Promise("hostUsers", "", "`true`", "`false`: pods have no user namespace of their own", _own_users),
    Promise("os", "", "`linux`", "`windows`", _system),
    Promise("runtimeClassName", refused="any: there is no choice of container runtimes",
            broken=_given("there are no container runtimes to choose from")),
    Promise("resources", refused="`limits` of the pod as a whole", broken=_pod_limits),
)  # fmt: skip

POD_CONTEXT = (
    Promise("supplementalGroups", "as root: any", "groups of Corral's user", "others, without root", _groups),
    Promise("supplementalGroupsPolicy", "as root", "`Merge`", "`Strict` without root, where the user has more groups", _groups_policy),
    Promise("fsGroup", "volumes belong to the group: any as root, else a group of Corral's user", "", "others, without root", _volume_group),
    Promise("fsGroupChangePolicy", "with `fsGroup`"),
    Promise("sysctls", "", "those that have the value already", "all others: the kernel's settings are the machine's", _sysctls),
    Promise("seLinuxChangePolicy", true_already="any: no file gets another label"),
)  # fmt: skip

EITHER_CONTEXT = (
    Promise("runAsUser", "as root: any", "Corral's own user; 0 in a user namespace", "others, without root", _user),
    Promise("runAsGroup", "as root: any", "the group of Corral's user; 0 in a user namespace", "others, without root", _group),
    Promise("runAsNonRoot", "`true`", "`false`", "`true` for a container that would run as root", _non_root),
    Promise("seccompProfile", "`RuntimeDefault`: calls that change the machine are refused", "`Unconfined`",
            "`Localhost`; `RuntimeDefault` where the kernel has no filters", _seccomp),
    Promise("appArmorProfile", "", "`Unconfined`", "`RuntimeDefault`, `Localhost`", _apparmor),
    Promise("seLinuxOptions", refused="any", broken=_given("programs are not given SELinux labels")),
    Promise("windowsOptions", refused="any", broken=_given("pods are processes of this machine, which does not run Windows")),
)  # fmt: skip

CONTAINER_CONTEXT = (
    Promise("capabilities.drop", kept="any"),
    Promise("capabilities.add", "with `drop: [ALL]`, as root", "others, as root: programs have all", "without root", _added),
    Promise("privileged", "`true` as root: also all devices", "`false`", "`true` without root", _privileged),
    Promise("allowPrivilegeEscalation", "`false`", "`true`"),
    Promise("readOnlyRootFilesystem", "`true`", "`false`", "`true` where there are no mount namespaces", _read_only),
    Promise("procMount", "", "`Unmasked`", "`Default`: nothing of /proc is masked", _proc_mount),
)  # fmt: skip

CONTAINER = (
    Promise("volumeMounts[].mountPropagation", "", "`None`", "`HostToContainer`, `Bidirectional`", _propagation),
    Promise("volumeMounts[].recursiveReadOnly", "", "`Disabled`, `IfPossible`", "`Enabled`", _recursive),
    Promise("volumeDevices", refused="any", broken=_given("there are no block devices to hand on")),
    Promise("resources.limits.memory", "with control groups; else looked at four times a second"),
    Promise("resources.limits.cpu", "with control groups; else for scheduling only"),
    Promise("resources.limits.ephemeral-storage",
            "what it writes to its log, `/tmp`, `/container` and `emptyDir` volumes is measured every ten seconds, and too much evicts the pod"),
)  # fmt: skip


# Keeping them


def refuse_broken(pod: Obj, container: Obj, machine: Machine) -> None:
    """Raise for the first thing `container` or its pod asks for that this machine cannot keep."""
    for name, reason in broken(pod, container, machine):
        where = f'(pod: "{pod_identity(pod)}", container: {container["name"]})'
        if name == "runAsNonRoot":
            raise MissingError(f"{reason} {where}")
        raise MissingError(f"container has {name}, and {reason}: {ADVICE} {where}")


def broken(pod: Obj, container: Obj, machine: Machine) -> Iterator[tuple[str, str]]:
    """Fields whose value cannot be kept, and why."""
    spec = spec_of(pod)
    of_pod, of_container = spec.get("securityContext") or {}, container.get("securityContext") or {}
    context = {**of_pod, **of_container}
    groups: tuple[tuple[Mapping[str, Any], tuple[Promise, ...]], ...] = (
        (spec, POD),
        (of_pod, POD_CONTEXT),
        (context, EITHER_CONTEXT),
        (of_container, CONTAINER_CONTEXT),
        (container, CONTAINER),
    )
    for given, promises in groups:
        for promise in promises:
            value = _at(given, promise.field)
            if value is not None and (reason := promise.broken(Wish(value, machine, context))):
                yield promise.field, reason
    annotated = annotations_of(pod).get(APPARMOR_ANNOTATION + str(container["name"]))
    if annotated not in (None, "unconfined") and not context.get("appArmorProfile"):
        yield f"the annotation {APPARMOR_ANNOTATION}{container['name']}", "programs are not put under AppArmor profiles"
    yield from _unknown(of_pod, (*POD_CONTEXT, *EITHER_CONTEXT))
    yield from _unknown(of_container, (*CONTAINER_CONTEXT, *EITHER_CONTEXT))


def _at(given: Mapping[str, Any], path: str) -> Any:
    """The value at a path; a list that its parts stand in as a whole."""
    found: Any = given
    for part in path.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part.removesuffix("[]"))
        if part.endswith("[]"):
            return found
    return found


def _unknown(context: Mapping[str, Any], promises: tuple[Promise, ...]) -> Iterator[tuple[str, str]]:
    known = {promise.field.partition(".")[0] for promise in promises}
    for name in sorted(set(context) - known):
        if context[name] is not None:
            yield f"securityContext.{name}", "this version of Corral does not know that field"


# Words


def markdown() -> str:
    """The table for the page about pods as processes."""
    rows = ["| field | kept | true already | refused |", "|---|---|---|---|"]
    for place, promises, where in (
        ("spec.", POD, ""),
        ("spec.securityContext.", POD_CONTEXT, ""),
        ("securityContext.", EITHER_CONTEXT, " of pod or container"),
        ("containers[].securityContext.", CONTAINER_CONTEXT, ""),
        ("containers[].", CONTAINER, ""),
    ):
        for promise in promises:
            texts = (f"`{place}{promise.field}`{where}", promise.kept, promise.true_already, promise.refused)
            rows.append(f"| {' | '.join(texts)} |")
    return "\n".join(rows) + "\n"
