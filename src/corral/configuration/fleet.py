"""What a fleet is made of: the fleet.yaml file and the options of `corral up`, as typed values.

A fleet has clusters; a cluster has roles (what controllers run in it) and virtual nodes. Errors name the field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import yaml

from corral.configuration.document import read_configuration
from corral.configuration.part import ConfigurationError
from corral.core import yaml_documents
from corral.core.meta import Obj
from corral.core.names import check_label, check_subdomain
from corral.core.quantity import Quantity, QuantityError
from corral.core.server_limits import Limits
from corral.core.text_files import read_text
from corral.core.yaml_lines import line_of, steps

MANAGER = "manager"
WORKER = "worker"
HUB = "hub"
MEMBER = "member"
ROLES = (MANAGER, WORKER, HUB, MEMBER)
PROCESS = "process"
SIMULATED = "simulated"
ENGINES = ("podman", "docker", "containerd")
RUNTIMES = (PROCESS, SIMULATED, *ENGINES)
MOST_SHARES = 64
ONE_PREEMPTS = "MultiKueueOrchestratedPreemption"
OF_ONE_MAKER = {"propagateDependencies": True, "handBackImpossible": True}
"""What managers do whose workers were made for them."""


class FleetError(ValueError):
    """The description of the fleet is wrong; the message says where."""


class NodeGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """Virtual nodes that are alike. `{i}` in the name stands for the node's number, from 1.

    CPUs and memory that are not said are the node's share of the machine, and 8 and 32Gi where pods only pretend."""

    name: str = "node{i}"
    count: int = 1
    cpu: str | int = ""
    memory: str = ""
    pods: int = 110
    resources: dict[str, str | int] = {}
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []

    def capacity(self) -> dict[str, str]:
        """What each of them has, by resource."""
        said = {"cpu": self.cpu or "8", "memory": self.memory or "32Gi", "pods": self.pods, **self.resources}
        return {resource: str(amount) for resource, amount in said.items()}

    def names(self) -> list[str]:
        """The nodes."""
        numbered = self.name if self.count == 1 or "{i}" in self.name else self.name + "{i}"
        return [numbered.replace("{i}", str(number)) for number in range(1, self.count + 1)]


class GpuOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """Which GPUs of the machine are handed out (by number; all when not said), and how: each in `shares` parts, which count as
    `nvidia.com/gpu.shared`, or its MIG instances as `nvidia.com/gpu` (`single`) or under names of their own (`mixed`)."""

    use: list[int] | None = None
    shares: int = 1
    mig: Literal["none", "single", "mixed"] = "none"


class OperatorOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """How a cluster's operators are set up: who schedules gangs, whether pods start Ray or (false) stand in for it (when not
    said it is looked for on this machine, and Ray jobs fail where it is not), features switched away from their default, and switches that job kinds from outside have."""

    gang_scheduler: str = ""
    ray: bool | None = None
    features: dict[str, bool] = {}
    options: dict[str, bool] = {}

    def switches(self) -> dict[str, bool | None]:
        """Every switch of a single kind."""
        return {"ray": self.ray, **self.options}


class AuditLogOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """Where a cluster's requests are written down, and which: the level of all, and of some resources by their names, such as
    `secrets` or `leases.coordination.k8s.io`. A full file, of `max_size` MiB, is set aside as `.1`, and `max_backups` earlier ones
    are kept."""

    path: str = "audit.log"
    level: Literal["None", "Metadata"] = "Metadata"
    resources: dict[str, Literal["None", "Metadata"]] = {}
    max_size: Annotated[int, msgspec.Meta(ge=1)] = 100
    max_backups: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 3


class ClusterSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """One cluster. `runtime` is `process` (pods are local processes), `simulated`, or the engine of their containers: `podman`, `docker`
    or `containerd`."""

    name: str
    roles: list[str] = []
    nodes: list[NodeGroup] = []
    port: int = 0
    runtime: str = "process"
    labels: dict[str, str] = {}
    config: str = ""
    operators: OperatorOptions = OperatorOptions()
    limits: Limits = Limits()
    audit_log: AuditLogOptions | None = None
    webhook_networks: list[str] = []
    """Networks of this machine where the API server may call webhooks and aggregated APIs, beside those of its pods."""
    fronts: Annotated[int, msgspec.Meta(ge=0, le=64)] | None = None
    """Processes that answer clients in front of the one that owns the store; as many as there is work for where it is not said."""

    @property
    def is_simulated(self) -> bool:
        """Whether it has nodes whose pods only pretend."""
        return bool(self.nodes) and self.runtime == SIMULATED


class FleetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """A fleet: its clusters, the address they listen on, whether to set up queues ready to use, and what becomes of the machine's
    devices. Its nodes have no more together than the machine, unless they `overcommit`."""

    clusters: list[ClusterSpec]
    address: str = "127.0.0.1"
    queues: bool = True
    images: str = ""
    overcommit: bool = False
    introduced: bool = True
    """Whether managers are told of the workers, and members join the hub; else whoever runs the fleet does both."""
    gpus: GpuOptions = GpuOptions()
    encryption_provider: list[str] = []
    """The program, and its arguments, that wraps the keys under which Secrets are encrypted on disk."""

    def cluster(self, name: str) -> ClusterSpec:
        return next(cluster for cluster in self.clusters if cluster.name == name)

    def with_role(self, role: str) -> list[ClusterSpec]:
        return [cluster for cluster in self.clusters if role in cluster.roles]


def load(path: Path) -> FleetSpec:
    """The fleet described in a YAML file."""
    try:
        text = read_text(path)
        document = yaml_documents.load(text)
    except OSError as error:
        raise FleetError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise FleetError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    return _with_files(parse(document, str(path), text), path)


def _with_files(fleet: FleetSpec, path: Path) -> FleetSpec:
    """The files a fleet names, found beside fleet.yaml and from wherever the fleet is started again."""

    def found(name: str, field: str) -> str:
        if not name:
            return ""
        file = (path.parent / name).absolute()
        if not file.is_file():
            raise FleetError(f"{path}: {field}: there is no file {file}")
        return str(file)

    clusters = [
        msgspec.structs.replace(cluster, config=found(cluster.config, f"cluster {cluster.name}: config"))
        for cluster in fleet.clusters
    ]
    for cluster in clusters:
        configuration_of(fleet, cluster)
    return msgspec.structs.replace(fleet, clusters=clusters, images=found(fleet.images, "images"))


def configuration_of(fleet: FleetSpec, cluster: ClusterSpec) -> Obj:
    """The `config.kueue.x-k8s.io` document a cluster names, checked, and what a fleet of one maker adds to it."""
    try:
        document = read_configuration(Path(cluster.config)) if cluster.config else {}
    except ConfigurationError as error:
        raise FleetError(f"cluster {cluster.name}: config {error}") from error
    if cluster.roles and fleet.queues:
        # Of the workers that would have to preempt for a job of the manager's, one does. Both sides have to know. It marks the copies, so
        # whoever brings queues of his own, and what he runs over them, gets copies as upstream makes them unless he asks.
        document = {**document, "featureGates": {ONE_PREEMPTS: True, **(document.get("featureGates") or {})}}
    if MANAGER not in cluster.roles:
        return document
    # Workers of a fleet are made for its manager: what a job needs goes with it, unless the document says no.
    return {**document, "corral": {**OF_ONE_MAKER, **(document.get("corral") or {})}}


def parse(document: Any, origin: str, text: str = "") -> FleetSpec:
    """The fleet in a decoded document; `text` is what it was decoded from, to name lines of."""
    if document is None:
        raise FleetError(f"{origin} is empty; a fleet needs at least `clusters`")
    try:
        fleet = msgspec.convert(document, FleetSpec)
    except msgspec.ValidationError as error:
        line = line_of(text, _path(str(error)))
        raise FleetError(f"{origin}{f', line {line}' if line else ''}: {error}{_fields(str(error))}") from error
    for fault in faults(fleet):
        line = line_of(text, fault.at) if fault.at else 0
        raise FleetError(f"{origin}{f', line {line}' if line else ''}: {fault.text}")
    return fleet


def _path(error: str) -> tuple[str | int, ...]:
    """The field an error is about."""
    found = re.search(r" - at `\$(?P<path>[^`]*)`", error)
    unknown = re.search(r"unknown field `([^`]*)`", error)
    return (*steps(found["path"] if found else ""), *((unknown[1],) if unknown else ()))


def _fields(error: str) -> str:
    """The fields there are, where an error is about one there is not."""
    found = re.search(r"unknown field `[^`]*`(?: - at `\$(?P<path>[^`]*)`)?", error)
    if found is None:
        return ""
    inside = re.sub(r"\[\d+\]", "", found["path"] or "").rpartition(".")[2]
    kinds: dict[str, type[msgspec.Struct]] = {
        "": FleetSpec,
        "clusters": ClusterSpec,
        "nodes": NodeGroup,
        "gpus": GpuOptions,
        "operators": OperatorOptions,
        "limits": Limits,
        "auditLog": AuditLogOptions,
    }
    kind = kinds.get(inside)
    return f"; there are {', '.join(one.encode_name for one in msgspec.structs.fields(kind))}" if kind else ""


NO_NETWORK = "{!r} is no network; write one such as 127.0.0.1/32"


def is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


class Fault(NamedTuple):
    """What is wrong, and the path of the field."""

    text: str
    at: tuple[str | int, ...] = ()

    def inside(self, place: str, *path: str | int) -> Fault:
        return Fault(f"{place}: {self.text}", (*path, *self.at))


def faults(fleet: FleetSpec) -> Iterator[Fault]:
    """What is wrong with a fleet beyond the types of its fields."""
    names = [cluster.name for cluster in fleet.clusters]
    if not names:
        yield Fault("clusters is empty; a fleet needs at least one", ("clusters",))
    for number, name in enumerate(names):
        if name in names[:number]:
            yield Fault("cluster names must differ", ("clusters", number, "name"))
    if not 1 <= fleet.gpus.shares <= MOST_SHARES:
        text = f"gpus.shares is {fleet.gpus.shares}; a GPU can be handed out in 1 to {MOST_SHARES} parts"
        yield Fault(text, ("gpus", "shares"))
    for number, cluster in enumerate(fleet.clusters):
        for fault in _cluster_faults(cluster):
            yield fault.inside(f"cluster {cluster.name}", "clusters", number)
    yield from _shared_audit_logs(fleet.clusters)


def _cluster_faults(cluster: ClusterSpec) -> Iterator[Fault]:
    yield from (Fault(f"name: {text}", ("name",)) for text in check_label(cluster.name))
    for number, role in enumerate(cluster.roles):
        if role not in ROLES:
            yield Fault(f"unknown role {role!r}; roles are {', '.join(ROLES)}", ("roles", number))
    if cluster.runtime not in RUNTIMES:
        yield Fault(f"runtime is {cluster.runtime!r}; it is one of {', '.join(RUNTIMES)}", ("runtime",))
    yield from (Fault(text, ("operators",)) for text in _operator_faults(cluster.operators))
    for number, group in enumerate(cluster.nodes):
        yield from (
            Fault(f"node {group.name.replace('{i}', '1')}: {text}", ("nodes", number)) for text in _node_faults(group)
        )
    for number, network in enumerate(cluster.webhook_networks):
        if not is_network(network):
            yield Fault(f"webhookNetworks: {NO_NETWORK.format(network)}", ("webhookNetworks", number))
    if cluster.audit_log is not None:
        yield from _audit_faults(cluster.audit_log)


def _audit_faults(audit: AuditLogOptions) -> Iterator[Fault]:
    if not audit.path or audit.path.endswith("/"):
        yield Fault("auditLog.path names no file", ("auditLog", "path"))
    for name in audit.resources:
        if problem := unknown_resource(name):
            yield Fault(f"auditLog.resources: {problem}", ("auditLog", "resources", name))


def unknown_resource(name: str) -> str:
    """What is wrong with the name of a resource such as `secrets` or `jobs.batch`; nothing where somebody may define it."""
    from difflib import get_close_matches  # few fleets name any

    from corral.jobs.framework.served_kinds import full_registry

    plural, _, group = name.partition(".")
    known = [kind.group_resource for kind in full_registry()]
    if name in known:
        return ""
    is_foreign = group and not any(each.partition(".")[2] == group for each in known)
    same = [each for each in known if each.partition(".")[0] == plural]
    close = get_close_matches(name, known, n=1, cutoff=0.9 if is_foreign else 0.6) or (same if not is_foreign else [])
    if is_foreign and not close:
        return ""
    return f"there is no resource {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")


def _shared_audit_logs(clusters: Sequence[ClusterSpec]) -> Iterator[Fault]:
    """Two clusters that rotate one file would lose lines."""
    seen: dict[str, str] = {}
    for number, cluster in enumerate(clusters):
        path = cluster.audit_log.path if cluster.audit_log is not None else ""
        if not Path(path).is_absolute():
            continue
        if path in seen:
            text = f"clusters {seen[path]} and {cluster.name} write the same auditLog, {path}"
            yield Fault(text, ("clusters", number, "auditLog", "path"))
        seen[path] = cluster.name


def _operator_faults(operators: OperatorOptions) -> Iterator[str]:
    if not operators.features and not operators.options:
        return
    from corral.jobs.framework.registry import features, options  # most fleets leave their operators as they are

    for feature in operators.features:
        if feature not in features():
            yield f"operators.features: unknown feature {feature!r}; there are {', '.join(sorted(features()))}"
    for option in operators.options:
        if option not in options():
            yield f"operators.options: unknown option {option!r}; there are {', '.join(options())}"


def _node_faults(group: NodeGroup) -> Iterator[str]:
    yield from check_subdomain(group.name.replace("{i}", "1"))
    for resource, amount in group.capacity().items():
        try:
            is_negative = Quantity.parse(amount) < Quantity.parse(0)
        except QuantityError:
            yield f"{resource} is {amount!r}; write a quantity such as 8, 500m or 32Gi"
        else:
            if is_negative:
                yield f"{resource} is {amount}, and a node cannot have less than nothing"
    if group.count < 0:
        yield f"count is {group.count}; it must be 0 or more"


def standard(
    *,
    workers: int = 0,
    members: int = 0,
    nodes: int = 1,
    cpu: str = "",
    memory: str = "",
    extended: dict[str, str] | None = None,
    runtime: str = "process",
    queues: bool = True,
    overcommit: bool = False,
) -> FleetSpec:
    """The fleet of `corral up --workers N` or `--fleet N`: a manager (and hub), and N clusters that run the jobs.

    Members of a placement fleet differ, so that there is something to choose: the second has twice the nodes of the
    first, the third three times as many."""

    def group(cluster: str, times: int = 1) -> NodeGroup:
        return NodeGroup(
            name=f"{cluster}-node{{i}}", count=nodes * times, cpu=cpu, memory=memory, resources=dict(extended or {})
        )

    head_roles = ([MANAGER] if workers or not members else []) + ([HUB] if members else [])
    alone = not workers and not members
    clusters = [
        ClusterSpec(
            name="manager" if not members or workers else "hub",
            roles=[WORKER] if alone else head_roles,
            nodes=[group("manager")] if alone else [],
            runtime=runtime,
        )
    ]
    for number in range(1, workers + 1):
        name = f"worker{number}"
        clusters.append(ClusterSpec(name=name, roles=[WORKER], nodes=[group(name)], runtime=runtime))
    for number in range(1, members + 1):
        name = f"cluster-{number}"
        clusters.append(ClusterSpec(name=name, roles=[WORKER, MEMBER], nodes=[group(name, number)], runtime=runtime))
    fleet = FleetSpec(clusters=clusters, queues=queues, overcommit=overcommit)
    for fault in faults(fleet):
        raise FleetError(fault.text)
    return fleet
