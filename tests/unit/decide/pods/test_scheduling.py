"""Choosing nodes: what fits where, what is said when nothing does, who has to leave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from corral.core.meta import Obj
from corral.decide.pods.scheduling import Chosen, Decision, PreemptPods, Unschedulable, schedule
from corral.decide.pods.workload import NodeState, pod_requests, view_node, view_pod


def node(
    name: str, *, labels: dict[str, str] | None = None, taints: list[Obj] | None = None, **resources: str
) -> NodeState:
    allocatable = {
        "cpu": "4",
        "memory": "8Gi",
        "pods": "10",
        **{key.replace("gpu", "nvidia.com/gpu"): value for key, value in resources.items()},
    }
    return view_node(
        {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "spec": {"taints": taints or []},
            "status": {"allocatable": allocatable},
        }
    )  # fmt: skip


def pod(
    name: str = "p",
    *,
    cpu: str = "1",
    gpu: str = "",
    priority: int = 0,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Obj:
    requests = {"cpu": cpu, **({"nvidia.com/gpu": gpu} if gpu else {})}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": labels or {}},
        "spec": {"priority": priority, "containers": [{"name": "c", "resources": {"requests": requests}}], **spec},
    }  # fmt: skip


def required(*expressions: Obj) -> Obj:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def away_from(app: str, key: str = "kubernetes.io/hostname") -> Obj:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def close_to(app: str, key: str = "kubernetes.io/hostname") -> Obj:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(skew: int = 1, key: str = "zone") -> list[Obj]:
    return [{"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "x"}}}]  # fmt: skip


GPU_TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@dataclass(frozen=True)
class Case:
    pod: Obj
    nodes: list[NodeState]
    want: Decision
    on: dict[str, list[Obj]] = field(default_factory=dict)
    others_have_rules: bool = False


def waits(reasons: str, preemption: str) -> Unschedulable:
    return Unschedulable(f"{reasons} no new claims to deallocate, preemption: {preemption}")


NO_VICTIMS_1 = "0/1 nodes are available: 1 No preemption victims found for incoming pod."
NOT_HELPFUL_1 = "0/1 nodes are available: 1 Preemption is not helpful for scheduling."


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(pod(), [node("a"), node("b")], Chosen("a")), id="equal nodes go by name"),
        pytest.param(
            Case(pod(), [node("a"), node("b")], Chosen("b"), {"a": [pod("o")]}), id="the emptier node is preferred"
        ),
        pytest.param(Case(pod(), [], Unschedulable("no nodes available to schedule pods")), id="no nodes"),
        pytest.param(
            Case(
                pod(gpu="4"),
                [node("a", gpu="8")],
                waits("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", NO_VICTIMS_1),
                {"a": [pod("x", gpu="4"), pod("y", gpu="4")]},
            ),
            id="the recorded message of a full GPU node",
        ),
        pytest.param(
            Case(
                pod(cpu="5"),
                [node("a"), node("b", taints=[GPU_TAINT])],
                waits(
                    "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {gpu: yes}.",
                    "0/2 nodes are available: 1 No preemption victims found for incoming pod, "
                    "1 Preemption is not helpful for scheduling.",
                ),
            ),
            id="reasons are counted over nodes",
        ),
        pytest.param(
            Case(
                pod(tolerations=[{"key": "gpu", "operator": "Exists"}], nodeSelector={"kind": "gpu"}),
                [node("a"), node("b", taints=[GPU_TAINT], labels={"kind": "gpu"})],
                Chosen("b"),
            ),
            id="tolerated taint and node selector",
        ),
        pytest.param(
            Case(
                pod(affinity=required({"key": "size", "operator": "Gt", "values": ["3"]})),
                [node("a", labels={"size": "3"}), node("b", labels={"size": "4"})],
                Chosen("b"),
            ),
            id="required node affinity compares numbers",
        ),
        pytest.param(
            Case(
                pod(nodeSelector={"x": "y"}),
                [node("a")],
                waits("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.", NOT_HELPFUL_1),
            ),
            id="node selector that nothing matches",
        ),
        pytest.param(
            Case(
                pod(
                    affinity={
                        "nodeAffinity": {
                            "preferredDuringSchedulingIgnoredDuringExecution": [
                                {
                                    "weight": 50,
                                    "preference": {"matchExpressions": [{"key": "fast", "operator": "Exists"}]},
                                }
                            ]
                        }
                    }
                ),
                [node("a"), node("b", labels={"fast": ""})],
                Chosen("b"),
            ),
            id="preferred node affinity",
        ),
        pytest.param(
            Case(
                pod(labels={"app": "x"}, affinity=away_from("x")),
                [node("a"), node("b")],
                Chosen("b"),
                {"a": [pod("o", cpu="0", labels={"app": "x"})], "b": [pod("q", cpu="3")]},
            ),
            id="anti-affinity keeps two of a kind apart",
        ),
        pytest.param(
            Case(
                pod(labels={"app": "quiet"}),
                [node("a")],
                waits(
                    "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.", NO_VICTIMS_1
                ),
                {"a": [pod("o", affinity=away_from("quiet"))]},
                others_have_rules=True,
            ),
            id="somebody else's anti-affinity counts too",
        ),
        pytest.param(
            Case(
                pod(affinity=close_to("db")),
                [node("a"), node("b")],
                Chosen("b"),
                {"b": [pod("o", labels={"app": "db"})]},
            ),
            id="affinity draws pods together",
        ),
        pytest.param(
            Case(pod(labels={"app": "x"}, affinity=close_to("x")), [node("a")], Chosen("a")),
            id="the first of a group does not wait for itself",
        ),
        pytest.param(
            Case(
                pod(labels={"app": "x"}, topologySpreadConstraints=spread()),
                [node("a", labels={"zone": "1"}), node("b", labels={"zone": "2"}, cpu="2")],
                Chosen("b"),
                {"a": [pod("o", cpu="0", labels={"app": "x"})]},
            ),
            id="topology spread",
        ),
        pytest.param(
            Case(
                pod(labels={"app": "x"}, topologySpreadConstraints=spread()),
                [node("a")],
                waits(
                    "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label).",
                    NO_VICTIMS_1,
                ),
            ),
            id="topology spread without the label",
        ),
        pytest.param(
            Case(
                pod(cpu="1", preemptionPolicy="Never", priority=9),
                [node("a", cpu="1")],
                waits("0/1 nodes are available: 1 Insufficient cpu.", "not eligible due to preemptionPolicy=Never."),
                {"a": [pod("low")]},
            ),
            id="a pod that may not preempt",
        ),
    ],
)
def test_schedule_decides(case: Case) -> None:
    for held in case.nodes:
        for other in case.on.get(held.name, ()):
            held.add(view_pod(other))
    assert schedule(view_pod(case.pod), case.nodes, others_have_rules=case.others_have_rules) == case.want


def preempted(decision: Decision) -> tuple[str, set[str]]:
    assert isinstance(decision, PreemptPods)
    return decision.node, {victim.uid for victim in decision.victims}


def test_preemption_takes_the_fewest_and_least_important() -> None:
    a, b = node("a", cpu="4"), node("b", cpu="4")
    for other in (pod("a1", cpu="2", priority=5), pod("a2", cpu="2", priority=1)):
        a.add(view_pod(other))
    for other in (pod("b1", cpu="3", priority=6), pod("b2", cpu="1", priority=1)):
        b.add(view_pod(other))
    assert preempted(schedule(view_pod(pod("new", cpu="2", priority=10)), [a, b])) == ("a", {"a2"})


def test_preemption_spares_equals_and_what_would_not_help() -> None:
    held = node("a", cpu="4")
    held.add(view_pod(pod("equal", cpu="4", priority=10)))
    assert isinstance(schedule(view_pod(pod("new", cpu="1", priority=10)), [held]), Unschedulable)
    assert isinstance(schedule(view_pod(pod("huge", cpu="9", priority=99)), [held]), Unschedulable)


def test_nominated_pods_keep_their_room() -> None:
    held = node("a", cpu="2")
    waiting = view_pod(pod("important", cpu="2", priority=10))
    held.nominated[waiting.uid] = waiting
    assert isinstance(schedule(view_pod(pod("small", cpu="1")), [held]), Unschedulable)
    assert schedule(waiting, [held]) == Chosen("a")
    assert schedule(view_pod(pod("vip", cpu="1", priority=11)), [held]) == Chosen("a")


def test_requests_take_the_peak_of_init_containers_and_add_sidecars() -> None:
    spec = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}}],
        "initContainers": [
            {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
            {"name": "init", "resources": {"requests": {"cpu": "3"}}},
        ],
        "overhead": {"cpu": "100m"},
    }
    assert pod_requests({"spec": spec}) == {"cpu": 3600, "nvidia.com/gpu": 2}
