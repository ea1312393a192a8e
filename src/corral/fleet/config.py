"""What a fleet is made of: the fleet.yaml file and the options of `corral up`, as typed values.

A fleet has clusters; a cluster has roles (what controllers run in it) and virtual nodes. Errors name the field.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

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


class ClusterSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """One cluster. `runtime` is `process` (pods are local processes) or `simulated`."""

    name: str
    roles: list[str] = []
    nodes: list[NodeGroup] = []
    port: int = 0
    runtime: str = "process"
    labels: dict[str, str] = {}
    config: str = ""


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
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise FleetError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise FleetError(f"{path} is not YAML: {error}") from error
    return parse(document, str(path))


def parse(document: Any, origin: str) -> FleetSpec:
    """The fleet in a decoded document."""
    try:
        fleet = msgspec.convert(document, FleetSpec)
    except msgspec.ValidationError as error:
        raise FleetError(f"{origin}: {error}") from error
    names = [cluster.name for cluster in fleet.clusters]
    if not names:
        raise FleetError(f"{origin}: clusters is empty; a fleet needs at least one")
    if len(set(names)) != len(names):
        raise FleetError(f"{origin}: cluster names must differ")
    for cluster in fleet.clusters:
        unknown = [role for role in cluster.roles if role not in ROLES]
        if unknown:
            raise FleetError(
                f"{origin}: cluster {cluster.name}: unknown role {unknown[0]!r}; roles are {', '.join(ROLES)}"
            )
        if cluster.runtime not in ("process", "simulated"):
            raise FleetError(f"{origin}: cluster {cluster.name}: runtime must be process or simulated")
    return fleet


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
    """The fleet of `corral up --workers N` or `--fleet N`: a manager (and hub), and N clusters that run the jobs."""

    def group(cluster: str) -> NodeGroup:
        return NodeGroup(
            name=f"{cluster}-node{{i}}", count=nodes, cpu=cpu, memory=memory, resources=dict(extended or {})
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
        name = f"member{number}"
        clusters.append(ClusterSpec(name=name, roles=[WORKER, MEMBER], nodes=[group(name)], runtime=runtime))
    return FleetSpec(clusters=clusters, queues=queues)
