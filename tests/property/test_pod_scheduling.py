"""Whatever pods and nodes there are: no node is overfull, nobody waits beside a free place, victims are less important."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.meta import Obj
from corral.decide.pods.matching import PodRules
from corral.decide.pods.scheduling import Chosen, PreemptPods, fixed_obstacles, obstacles, schedule
from corral.decide.pods.workload import NodeState, view_node, view_pod

ZONES = ("a", "b")
TAINT = {"key": "t", "value": "v", "effect": "NoSchedule"}


@st.composite
def nodes(draw: st.DrawFn) -> list[NodeState]:
    found = []
    for number in range(draw(st.integers(1, 5))):
        status = {"allocatable": {"cpu": str(draw(st.integers(1, 6))), "pods": str(draw(st.integers(1, 6)))}}
        labels = {"zone": draw(st.sampled_from(ZONES)), "kubernetes.io/hostname": f"n{number}"}
        spec = {"taints": [TAINT]} if draw(st.booleans()) else {}
        found.append(view_node({"metadata": {"name": f"n{number}", "labels": labels}, "spec": spec, "status": status}))
    return found


@st.composite
def pods(draw: st.DrawFn) -> list[Obj]:
    found = []
    for number in range(draw(st.integers(1, 15))):
        spec: Obj = {
            "priority": draw(st.integers(0, 3)),
            "containers": [{"name": "c", "resources": {"requests": {"cpu": f"{draw(st.integers(0, 3500))}m"}}}],
        }
        if draw(st.booleans()):
            spec["tolerations"] = [{"operator": "Exists"}]
        if draw(st.integers(0, 4)) == 0:
            spec["nodeSelector"] = {"zone": draw(st.sampled_from(ZONES))}
        if draw(st.integers(0, 4)) == 0:
            term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        labels = {"app": draw(st.sampled_from(("x", "y")))}
        found.append(
            {"metadata": {"name": f"p{number}", "namespace": "ns", "uid": f"p{number}", "labels": labels}, "spec": spec}
        )
    return found


@settings(max_examples=100, deadline=None)
@given(nodes(), pods())
def test_scheduling_safety(world: list[NodeState], arriving: list[Obj]) -> None:
    by_name = {node.name: node for node in world}
    for entry in arriving:
        pod = view_pod(entry)
        decision = schedule(pod, world, others_have_rules=True)
        fixed = fixed_obstacles(pod, world)
        rules = PodRules(pod, world, True)
        free = [node for node in world if node.name not in fixed and not obstacles(pod, node, rules)]
        if isinstance(decision, Chosen):
            assert by_name[decision.node] in free
            by_name[decision.node].add(pod)
        else:
            assert free == []
        if isinstance(decision, PreemptPods):
            assert decision.victims
            assert all(victim.priority < pod.priority for victim in decision.victims)
            assert {victim.uid for victim in decision.victims} <= set(by_name[decision.node].pods)
            for victim in decision.victims:
                by_name[decision.node].remove(victim.uid)
            assert isinstance(schedule(pod, world, others_have_rules=True), Chosen)
            by_name[decision.node].add(pod)
    for node in world:
        assert len(node.pods) <= node.allocatable["pods"]
        assert sum(pod.requests.get("cpu", 0) for pod in node.pods.values()) == node.used.get("cpu", 0)
        assert node.used.get("cpu", 0) <= node.allocatable["cpu"]
