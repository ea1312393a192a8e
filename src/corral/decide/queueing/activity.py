"""Can a ClusterQueue admit? If not, the reason and message of its Active condition."""

from __future__ import annotations

from collections.abc import Mapping

from corral.decide.queueing.clusterqueue import ClusterQueue
from corral.decide.queueing.model import AdmissionCheckSpec, FlavorSpec
from corral.decide.queueing.topology.cluster import TopologyCluster

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
PROVISIONING = "kueue.x-k8s.io/provisioning-request"

READY = ("Ready", "Can admit new workloads")
_TERMINATING = ("Terminating", "Can't admit new workloads; clusterQueue is terminating")
_CYCLE = ("Unknown", "Can't admit new workloads.")


def refresh_activity(
    queue: ClusterQueue,
    flavors: Mapping[str, FlavorSpec],
    checks: Mapping[str, AdmissionCheckSpec],
    topology: TopologyCluster,
    *,
    broken: bool,
    topology_aware: bool = True,
) -> None:
    """Bring everything that depends on other objects up to date: checks, topology flavors, activity."""
    spec = queue.spec
    every = spec.flavors
    known = [checks[rule.name] for rule in spec.checks if rule.name in checks]
    multikueue = sorted(check.name for check in known if check.controller == MULTIKUEUE)
    queue.has_multikueue = bool(multikueue)
    queue.provisioning_flavors = frozenset(
        flavor
        for rule in spec.checks
        if rule.name in checks and checks[rule.name].controller == PROVISIONING
        for flavor in (rule.on_flavors or every)
    )
    in_trees = [name for name in every if topology_aware and name in flavors and flavors[name].topology]
    queue.topology_flavors = {name: topology.capacities[name] for name in in_trees if name in topology.capacities}
    queue.is_topology_only = bool(every) and len(in_trees) == len(every)
    problems = _problems(queue, flavors, checks, in_trees, multikueue)
    if spec.deleting:
        queue.inactive = _TERMINATING
    elif problems:
        message = ", ".join(text for _, text in problems)
        queue.inactive = (problems[0][0], f"Can't admit new workloads: {message}.")
    else:
        queue.inactive = _CYCLE if broken else None


def _problems(
    queue: ClusterQueue,
    flavors: Mapping[str, FlavorSpec],
    checks: Mapping[str, AdmissionCheckSpec],
    in_trees: list[str],
    multikueue: list[str],
) -> list[tuple[str, str]]:
    """Reason and text of everything that keeps the queue from admitting, gravest first."""
    spec = queue.spec
    every = set(spec.flavors)
    missing_flavors = [name for name in spec.flavors if name not in flavors]
    missing = sorted(rule.name for rule in spec.checks if rule.name not in checks)
    inactive = sorted(rule.name for rule in spec.checks if rule.name in checks and not checks[rule.name].active)
    per_flavor = sorted(
        rule.name
        for rule in spec.checks
        if rule.name in multikueue and rule.on_flavors and set(rule.on_flavors) != every
    )
    provisioning = sorted(
        rule.name for rule in spec.checks if rule.name in checks and checks[rule.name].controller == PROVISIONING
    )
    found: list[tuple[str, str]] = []
    if spec.stop_policy != "None":
        found.append(("Stopped", "is stopped"))
    if missing_flavors:
        found.append(("FlavorNotFound", f"references missing ResourceFlavor(s): {','.join(missing_flavors)}"))
    if missing:
        found.append(("AdmissionCheckNotFound", f"references missing AdmissionCheck(s): {','.join(missing)}"))
    if inactive:
        found.append(("AdmissionCheckInactive", f"references inactive AdmissionCheck(s): {','.join(inactive)}"))
    if len(multikueue) > 1:
        text = "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: "
        found.append(("MultipleMultiKueueAdmissionChecks", text + ",".join(multikueue)))
    if per_flavor:
        text = "Cannot specify MultiKueue AdmissionCheck per flavor, found: "
        found.append(("MultiKueueAdmissionCheckAppliedPerFlavor", text + ",".join(per_flavor)))
    if multikueue and provisioning:
        text = "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: "
        names = f"{','.join(multikueue)}, {','.join(provisioning)}"
        found.append(("MultiKueueWithProvisioningRequest", text + names))
    if not multikueue:
        for name in in_trees:
            if name not in queue.topology_flavors:
                text = f'there is no Topology "{flavors[name].topology}" for TAS flavor "{name}"'
                found.append(("TopologyNotFound", text))
    return found
