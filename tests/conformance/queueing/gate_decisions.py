"""What decides otherwise with a feature gate on than with it off: scheduling scenarios under a configuration that sets the gate.

Everything goes through `load_config`, so a gate that is read and lost on the way to the decision shows no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import test_devices as devices
from scenario import Outcome
from topology_notation import TopologyScenario

from corral.configuration.queueing import load_config
from corral.core.meta import Key, Obj
from corral.decide.queueing.model.settings import QueueingSettings
from corral.decide.queueing.state import QueueingState
from corral.testing.queueing import (
    EPOCH,
    make_assignment,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
    make_node,
    make_pod_set,
    make_topology,
    make_workload,
    reserve,
)

Gates = Mapping[str, bool]
Observe = Callable[[Gates], Any]
HOST = "kubernetes.io/hostname"
FAIR = {"fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}}
POD = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
HOSTS = """
    topology t: host
    flavor tas topology t
"""
SELECTOR = {"cel": {"expression": devices.A100}}
DEVICE_MAPPINGS = [
    {"name": "gpus", "deviceClassNames": ["gpu.example.com"]},
    {
        "name": "gpu-memory",
        "deviceClassNames": ["mig.example.com"],
        "sources": [{"counter": {"driver": "gpu.example.com", "name": "memory", "deviceSelector": SELECTOR}}],
    },
]


def settings(gates: Gates, document: Obj | None = None) -> QueueingSettings:
    return load_config({"featureGates": dict(gates), **(document or {})}).settings()


def outcome(text: str, gates: Gates, document: Obj | None = None) -> Outcome:
    return TopologyScenario(text, settings(gates, document)).run()


def victims(text: str, document: Obj | None = None) -> Observe:
    return lambda gates: outcome(text, gates, document).victims


def admitted(text: str, document: Obj | None = None) -> Observe:
    return lambda gates: outcome(text, gates, document).admitted


def place_of_a_failed_pod(gates: Gates) -> str:
    """The host of a Workload that a Pod owns, after its own went bad."""
    built = QueueingState(settings(gates))
    built.upsert_topology(make_topology("t", HOST))
    built.upsert_flavor(make_flavor("tas", topologyName="t"))
    built.upsert_node(make_node("x2", cpu="1"))
    built.upsert_cluster_queue(make_cluster_queue("cq", {"tas": {"cpu": 9}}))
    built.upsert_local_queue(make_local_queue("lq", "cq"))
    workload = make_workload("w", "lq", make_pod_set("main", 1, {"cpu": 1}, topology={"required": HOST}))
    workload["metadata"]["ownerReferences"] = [POD]
    assignment = make_assignment("main", {"cpu": "tas"}, {"cpu": 1})
    assignment["topologyAssignment"] = {"levels": [HOST], "domains": [{"values": ["x1"], "count": 1}]}
    workload = reserve(workload, "cq", assignment)
    workload["status"]["unhealthyNodes"] = [{"name": "x1"}]
    built.upsert_workload(workload)
    (admission,) = built.plan_cycle(EPOCH).admissions
    topology = admission.pod_sets[0].topology
    assert topology is not None
    return topology.domains[0].values[0]


def asked_for(*known: Obj, workload: Obj) -> Observe:
    """What a Workload that wants devices counts for."""

    def observe(gates: Gates) -> dict[str, int] | str:
        wanted = settings(gates, {"resources": {"deviceClassMappings": DEVICE_MAPPINGS}})
        return devices.asked_for(devices.state(*known, settings=wanted), workload)

    return observe


def counted_after_reclaiming(gates: Gates) -> dict[str, int]:
    """What a Workload of four pods, two of them done, counts for while it waits."""
    built = QueueingState(settings(gates))
    built.upsert_flavor(make_flavor("f"))
    built.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"cpu": 9}}))
    built.upsert_local_queue(make_local_queue("lq", "cq"))
    workload = make_workload("w", "lq", make_pod_set("main", 4, {"cpu": 1}))
    workload["status"] = {"reclaimablePods": [{"name": "main", "count": 2}]}
    built.upsert_workload(workload)
    return {"pods": built.world.workloads[Key("default", "w")].pod_sets[0].count}


def flavor_after_a_skip(gates: Gates) -> str | None:
    """The flavor of a Workload that was skipped once because another took the first flavor."""
    scenario = TopologyScenario(
        """
        cohort pool: one cpu=1, two cpu=1
        queue a in pool: one cpu=0, two cpu=0
        queue b in pool: one cpu=0, two cpu=0
        wait first @a: cpu=1 t=1
        wait second @b: cpu=1 t=2
        """,
        settings(gates),
    )
    scenario.run()
    scenario.state.delete_workload(Key("default", "first"))
    (admission,) = scenario.state.plan_cycle(EPOCH).admissions
    return admission.pod_sets[0].flavors["cpu"]


DECISIONS: dict[str, tuple[Observe, Any, Any]] = {
    "FairSharingPreemptWithinNominal": (
        victims(
            """
            queue a in co: one cpu=3/9 ; reclaim=Any
            queue b in co: one cpu=6/9 ; reclaim=Any
            run big @b: one cpu=9 p=5
            wait w @a: cpu=3
            """,
            FAIR,
        ),
        {"big": ("w", "InCohortFairSharing")},
        {"big": ("w", "InCohortReclamation")},
    ),
    "FairSharingPrioritizeNonBorrowing": (
        admitted(
            """
            queue a in co: one cpu=4 memory=4
            queue b in co: one cpu=4 memory=4
            queue c in co: one cpu=0 memory=40
            run old @a: one memory=20
            wait within @a: cpu=4 t=2
            wait beyond @b: cpu=6 t=1
            """,
            FAIR,
        ),
        {"beyond": "main 1x cpu@one"},
        {"within": "main 1x cpu@one"},
    ),
    "FlavorFungibility": (
        admitted(
            """
            queue a in co: one cpu=4/12, two cpu=12/12 ; whenCanBorrow=TryNextFlavor
            queue b in co: one cpu=12/12
            wait w @a: cpu=12
            """
        ),
        {"w": "main 1x cpu@one"},
        {"w": "main 1x cpu@two"},
    ),
    "FlavorFungibilityPreserveScanProgress": (flavor_after_a_skip, "one", "two"),
    "KueueDRAIntegration": (
        asked_for(devices.template(devices.exactly(count=2)), workload=devices.claiming("gpus")),
        "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled",
        {"cpu": 1000, "gpus": 2},
    ),
    "KueueDRAIntegrationExtendedResource": (
        asked_for(
            devices.device_class("gpu.example.com", provides="example.com/gpu"),
            workload=devices.claiming(requests={"example.com/gpu": "2"}),
        ),
        {"example.com/gpu": 2},
        {"gpus": 2},
    ),
    "KueueDRAIntegrationPartitionableDevices": (
        asked_for(
            devices.template(devices.exactly("mig.example.com", 1)),
            devices.MIG_CLASS,
            devices.published(devices.device("a", "A100")),
            workload=devices.claiming("gpus"),
        ),
        {"cpu": 1000, "gpu-memory": 1},
        {"cpu": 1000, "gpu-memory": 10 * 2**30},
    ),
    "KueueDRARejectWorkloadsWhenDRADisabled": (
        lambda gates: asked_for(devices.template(devices.exactly()), workload=devices.claiming("gpus"))(
            {**gates, "KueueDRAIntegration": False}
        ),
        {"cpu": 1000},
        "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled",
    ),
    "PartialAdmission": (
        admitted("queue q: one cpu=10\nwait w @q: 20x cpu=1 min=5"),
        {},
        {"w": "main 10x cpu@one"},
    ),
    "PrioritySortingWithinCohort": (
        admitted(
            """
            cohort co: one cpu=4
            queue a in co: one cpu=0
            queue b in co: one cpu=0
            wait low @a: cpu=4 t=1
            wait high @b: cpu=4 t=2 p=9
            """
        ),
        {"low": "main 1x cpu@one"},
        {"high": "main 1x cpu@one"},
    ),
    "ReclaimablePods": (counted_after_reclaiming, {"pods": 4}, {"pods": 2}),
    "RecomputeAssignmentUponPreemptionTargetsOverlap": (
        victims(
            """
            queue a in co: one cpu=5 ; reclaim=Any
            queue b in co: one cpu=5 ; reclaim=Any
            queue c in co: one cpu=0
            run low @c: one cpu=5 p=1
            run mid @c: one cpu=5 p=2
            wait first @a: cpu=3 p=10 t=1
            wait second @b: cpu=3 p=10 t=2
            """
        ),
        {"low": ("first", "InCohortReclamation")},
        {"low": ("first", "InCohortReclamation"), "mid": ("second", "InCohortReclamation")},
    ),
    "SchedulingEquivalenceHashing": (
        lambda gates: set(outcome("queue q: one cpu=1\nwait v @q: cpu=9 t=1\nwait w @q: cpu=9 t=2", gates).parked),
        {"v"},
        {"v", "w"},
    ),
    "SchedulerTimestampPreemptionBuffer": (
        victims(
            """
            queue a: one cpu=4 ; within=LowerOrNewerEqualPriority
            run newer @a: one cpu=4 t=60
            wait older @a: cpu=4 t=1
            """
        ),
        {"newer": ("older", "InClusterQueue")},
        {},
    ),
    "SkipReassignmentForPodOwnedWorkloads": (place_of_a_failed_pod, "x2", "x1"),
    "TASBalancedPlacement": (
        admitted(
            """
            topology t: rack host
            flavor tas topology t
            node x1 r1: cpu=15 pods=99
            node x2 r2: cpu=15 pods=99
            queue q: tas cpu=50
            wait w @q: 25x cpu=1 preferred=rack
            """
        ),
        {"w": "main 25x cpu@tas on=x1:15+x2:10"},
        {"w": "main 25x cpu@tas on=x1:13+x2:12"},
    ),
    "TASHandleOverlappingFlavors": (
        admitted(
            """
            topology t: host
            flavor one topology t
            flavor two topology t
            node x1: cpu=1
            node x2: cpu=1
            queue p: one cpu=9
            queue q: two cpu=9
            run old @p: one cpu=1 required=host on=x1:1
            wait w @q: cpu=1 required=host
            """
        ),
        {"w": "main 1x cpu@two on=x1:1"},
        {"w": "main 1x cpu@two on=x2:1"},
    ),
    "TASProfileMixed": (
        admitted(
            f"""{HOSTS}
            node x1: cpu=3
            node x2: cpu=2
            node x3: cpu=1
            queue q: tas cpu=9
            wait w @q: 4x cpu=1 unconstrained
            """
        ),
        {"w": "main 4x cpu@tas on=x1:3+x3:1"},
        {"w": "main 4x cpu@tas on=x1:1+x2:2+x3:1"},
    ),
    "TASRecomputeAssignmentWithinSchedulingCycle": (
        lambda gates: set(
            outcome(
                f"""{HOSTS}
                node x1: cpu=1
                node x2: cpu=1
                queue a in co: tas cpu=9
                queue b in co: tas cpu=9
                wait first @a: cpu=1 required=host t=1
                wait second @b: cpu=1 required=host t=2
                """,
                gates,
            ).admitted
        ),
        {"first"},
        {"first", "second"},
    ),
    "TASRespectNodeAffinityPreferred": (
        admitted(
            f"""{HOSTS}
            node x1 region=east: cpu=1
            node x2 region=west: cpu=8
            queue q: tas cpu=9
            wait w @q: cpu=1 preferred=host likes=region:west:10
            """
        ),
        {"w": "main 1x cpu@tas on=x1:1"},
        {"w": "main 1x cpu@tas on=x2:1"},
    ),
    "TopologyAwareScheduling": (
        admitted(f"{HOSTS}\nnode x1: cpu=3\nqueue q: tas cpu=9\nwait w @q: cpu=1 required=host"),
        {"w": "main 1x cpu@tas"},
        {"w": "main 1x cpu@tas on=x1:1"},
    ),
}
