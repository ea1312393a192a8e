"""Can a ClusterQueue admit? If not, the reason and message of its Active condition."""

from __future__ import annotations

from collections.abc import Mapping

from corral.decide.queueing.model.values import AdmissionCheckSpec, ClusterQueueSpec
from corral.decide.queueing.quota.cluster_queue import ClusterQueue
from corral.decide.queueing.world import World

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
PROVISIONING = "kueue.x-k8s.io/provisioning-request"

READY = ("Ready", "Can admit new workloads")
_TERMINATING = ("Terminating", "Can't admit new workloads; clusterQueue is terminating")
_CYCLE = ("Unknown", "Can't admit new workloads.")

Problem = tuple[str, str]
"""Reason and text."""


def refresh_activity(world: World, queue: ClusterQueue) -> None:
    """Bring everything that depends on other objects up to date: checks, topology flavors, activity."""
    spec = queue.spec
    queue.has_multikueue = bool(_run_by(MULTIKUEUE, spec, world.checks))
    provisioning = _run_by(PROVISIONING, spec, world.checks)
    queue.provisioning_flavors = frozenset(
        flavor for rule in spec.checks if rule.name in provisioning for flavor in (rule.on_flavors or spec.flavors)
    )
    in_trees = _flavors_in_trees(world, spec)
    capacities = world.topology.capacities
    queue.topology_flavors = {name: capacities[name] for name in in_trees if name in capacities}
    queue.is_topology_only = bool(spec.flavors) and len(in_trees) == len(spec.flavors)
    queue.inactive = _inactivity(world, queue)


def _inactivity(world: World, queue: ClusterQueue) -> Problem | None:
    if queue.spec.deleting:
        return _TERMINATING
    problems = _problems(world, queue)
    if problems:
        message = ", ".join(text for _, text in problems)
        return problems[0][0], f"Can't admit new workloads: {message}."
    return _CYCLE if world.forest.is_broken(queue.node) else None


def _problems(world: World, queue: ClusterQueue) -> list[Problem]:
    """Everything that keeps the queue from admitting, gravest first."""
    spec = queue.spec
    stopped = [("Stopped", "is stopped")] if spec.stop_policy != "None" else []
    missing = [name for name in spec.flavors if name not in world.flavors]
    flavors = _naming("FlavorNotFound", "references missing ResourceFlavor(s)", missing)
    return [*stopped, *flavors, *_check_problems(spec, world.checks), *_topology_problems(world, queue)]


def _check_problems(spec: ClusterQueueSpec, checks: Mapping[str, AdmissionCheckSpec]) -> list[Problem]:
    multikueue, provisioning = _run_by(MULTIKUEUE, spec, checks), _run_by(PROVISIONING, spec, checks)
    missing = sorted(rule.name for rule in spec.checks if rule.name not in checks)
    inactive = sorted(rule.name for rule in spec.checks if rule.name in checks and not checks[rule.name].active)
    per_flavor = sorted(
        rule.name
        for rule in spec.checks
        if rule.name in multikueue and rule.on_flavors and set(rule.on_flavors) != set(spec.flavors)
    )
    problems = [
        *_naming("AdmissionCheckNotFound", "references missing AdmissionCheck(s)", missing),
        *_naming("AdmissionCheckInactive", "references inactive AdmissionCheck(s)", inactive),
        *_naming(
            "MultipleMultiKueueAdmissionChecks",
            "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found",
            multikueue if len(multikueue) > 1 else [],
        ),
        *_naming(
            "MultiKueueAdmissionCheckAppliedPerFlavor",
            "Cannot specify MultiKueue AdmissionCheck per flavor, found",
            per_flavor,
        ),
    ]
    if multikueue and provisioning:
        text = "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found"
        names = f"{','.join(multikueue)}, {','.join(provisioning)}"
        problems.append(("MultiKueueWithProvisioningRequest", f"{text}: {names}"))
    return problems


def _topology_problems(world: World, queue: ClusterQueue) -> list[Problem]:
    """With MultiKueue it is the workers that need the topologies."""
    if queue.has_multikueue:
        return []
    return [
        ("TopologyNotFound", f'there is no Topology "{world.flavors[name].topology}" for TAS flavor "{name}"')
        for name in _flavors_in_trees(world, queue.spec)
        if name not in queue.topology_flavors
    ]


def _naming(reason: str, text: str, names: list[str]) -> list[Problem]:
    return [(reason, f"{text}: {','.join(names)}")] if names else []


def _run_by(controller: str, spec: ClusterQueueSpec, checks: Mapping[str, AdmissionCheckSpec]) -> list[str]:
    """Checks of the queue that this controller answers."""
    named = [checks[rule.name] for rule in spec.checks if rule.name in checks]
    return sorted(check.name for check in named if check.controller == controller)


def _flavors_in_trees(world: World, spec: ClusterQueueSpec) -> list[str]:
    if not world.settings.features.topology:
        return []
    return [name for name in spec.flavors if name in world.flavors and world.flavors[name].topology]
