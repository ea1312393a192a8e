"""What a fleet is made of: the fleet.yaml file and the options of `corral up`, as typed values.

A fleet has clusters; a cluster has roles (what controllers run in it) and virtual nodes. Errors name the field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from corral.configuration.document import read_configuration
from corral.configuration.part import ConfigurationError
from corral.core.meta import Obj
from corral.core.names import check_label, check_subdomain
from corral.core.quantity import Quantity, QuantityError
from corral.core.text_files import read_text

MANAGER = "manager"
WORKER = "worker"
HUB = "hub"
MEMBER = "member"
ROLES = (MANAGER, WORKER, HUB, MEMBER)


class FleetError(ValueError):
    """The description of the fleet is wrong; the message says where."""


class NodeGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """Virtual nodes that are alike. `{i}` in the name stands for the node's number, from 1."""

    name: str = "node{i}"
    count: int = 1
    cpu: str | int = "8"
    memory: str = "32Gi"
    pods: int = 110
    resources: dict[str, str | int] = {}
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []


class OperatorOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """How a cluster's operators are set up: who schedules gangs, whether pods can start Ray (looked for on this machine
    when not said), features switched away from their default, and switches that job kinds from outside have."""

    gang_scheduler: str = ""
    ray: bool | None = None
    features: dict[str, bool] = {}
    options: dict[str, bool] = {}

    def switches(self) -> dict[str, bool | None]:
        """Every switch of a single kind."""
        return {"ray": self.ray, **self.options}


class ClusterSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """One cluster. `runtime` is `process` (pods are local processes) or `simulated`."""

    name: str
    roles: list[str] = []
    nodes: list[NodeGroup] = []
    port: int = 0
    runtime: str = "process"
    labels: dict[str, str] = {}
    config: str = ""
    operators: OperatorOptions = OperatorOptions()


class FleetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """A fleet: its clusters, the address they listen on, and whether to set up queues ready to use."""

    clusters: list[ClusterSpec]
    address: str = "127.0.0.1"
    queues: bool = True
    images: str = ""

    def cluster(self, name: str) -> ClusterSpec:
        return next(cluster for cluster in self.clusters if cluster.name == name)

    def with_role(self, role: str) -> list[ClusterSpec]:
        return [cluster for cluster in self.clusters if role in cluster.roles]


def load(path: Path) -> FleetSpec:
    """The fleet described in a YAML file."""
    try:
        document = yaml.safe_load(read_text(path))
    except OSError as error:
        raise FleetError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise FleetError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    return _with_files(parse(document, str(path)), path)


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
        configuration_of(cluster)
    return msgspec.structs.replace(fleet, clusters=clusters, images=found(fleet.images, "images"))


def configuration_of(cluster: ClusterSpec) -> Obj:
    """The `config.kueue.x-k8s.io` document a cluster names, checked; empty when it names none."""
    if not cluster.config:
        return {}
    try:
        return read_configuration(Path(cluster.config))
    except ConfigurationError as error:
        raise FleetError(f"cluster {cluster.name}: config {error}") from error


def parse(document: Any, origin: str) -> FleetSpec:
    """The fleet in a decoded document."""
    if document is None:
        raise FleetError(f"{origin} is empty; a fleet needs at least `clusters`")
    try:
        fleet = msgspec.convert(document, FleetSpec)
    except msgspec.ValidationError as error:
        raise FleetError(f"{origin}: {error}{_fields(str(error))}") from error
    for fault in faults(fleet):
        raise FleetError(f"{origin}: {fault}")
    return fleet


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
        "operators": OperatorOptions,
    }
    kind = kinds.get(inside)
    return f"; there are {', '.join(one.encode_name for one in msgspec.structs.fields(kind))}" if kind else ""


def faults(fleet: FleetSpec) -> Iterator[str]:
    """What is wrong with a fleet beyond the types of its fields."""
    names = [cluster.name for cluster in fleet.clusters]
    if not names:
        yield "clusters is empty; a fleet needs at least one"
    if len(set(names)) != len(names):
        yield "cluster names must differ"
    for cluster in fleet.clusters:
        yield from (f"cluster {cluster.name}: {fault}" for fault in _cluster_faults(cluster))


def _cluster_faults(cluster: ClusterSpec) -> Iterator[str]:
    yield from (f"name: {fault}" for fault in check_label(cluster.name))
    for role in cluster.roles:
        if role not in ROLES:
            yield f"unknown role {role!r}; roles are {', '.join(ROLES)}"
    if cluster.runtime not in ("process", "simulated"):
        yield "runtime must be process or simulated"
    yield from _operator_faults(cluster.operators)
    for group in cluster.nodes:
        yield from (f"node {group.name}: {fault}" for fault in _node_faults(group))


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
    for resource, amount in {"cpu": group.cpu, "memory": group.memory, **group.resources}.items():
        try:
            is_negative = Quantity.parse(amount) < Quantity.parse(0)
        except QuantityError:
            yield f"{resource} is {amount!r}; write a quantity such as 8, 500m or 32Gi"
        else:
            if is_negative:
                yield f"{resource} is {amount}, and a node cannot have less than nothing"
    for field, number in (("count", group.count), ("pods", group.pods)):
        if number < 0:
            yield f"{field} is {number}; it must be 0 or more"


def standard(
    *,
    workers: int = 0,
    members: int = 0,
    nodes: int = 1,
    cpu: str = "8",
    memory: str = "32Gi",
    extended: dict[str, str] | None = None,
    runtime: str = "process",
    queues: bool = True,
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
    fleet = FleetSpec(clusters=clusters, queues=queues)
    for fault in faults(fleet):
        raise FleetError(fault)
    return fleet
