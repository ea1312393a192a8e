"""Scheduling scenarios with nodes: the notation of `scenario.py`, and where pods are and go.

    topology t: block rack host
    flavor tas topology t
    node x1 b1/r1: cpu=1 memory=1Gi pods=10
    node x2 b1/r1 cordoned: cpu=1
    check prov: kueue.x-k8s.io/provisioning-request
    queue q: tas cpu=50 ; checks=prov@tas
    run old @q: tas 2x cpu=1 required=rack on=x1:1+x2:1 unhealthy=x1
    wait w @q: one 3x cpu=1 preferred=rack slices=host:2, two cpu=1 unconstrained
    ->
    admit w: one 3x cpu@tas on=x1:1+x3:2, two 1x cpu@tas delayed=Pending
    evict old: Workload was evicted …

A node's domains are named from the level above hosts upwards. `tolerates=key:value` tolerates one value only;
`likes=key:value:weight` prefers nodes with a label. A workload that holds quota but finds no place is `parked`, too.
"""

from __future__ import annotations

from typing import Any

from scenario import Outcome, Scenario

from corral.core.meta import Obj
from corral.decide.queueing.cycle.plan import Admit, CyclePlan, PodSetAssignment, Wait
from corral.testing.queueing import make_node, make_topology

LEVELS = {"block": "cloud/block", "rack": "cloud/rack", "host": "kubernetes.io/hostname"}
ABOVE = (LEVELS["rack"], LEVELS["block"])
WORDS = ("required", "preferred", "slices", "on", "delayed", "layers", "unhealthy", "tolerates", "ready", "likes")


class TopologyScenario(Scenario):
    """A scenario whose nodes matter."""

    def _read_topology(self, text: str) -> None:
        name, _, levels = text.partition(":")
        self.state.upsert_topology(make_topology(name, *(LEVELS[level] for level in levels.split())))

    def _read_node(self, text: str) -> None:
        head, _, amounts = text.partition(":")
        name, *words = head.split()
        labels: dict[str, str] = {}
        for word in words:
            if "=" in word:
                labels.update([word.split("=")])
            elif word != "cordoned":
                labels.update(zip(ABOVE, reversed(word.split("/")), strict=False))
        allocatable = dict(pair.split("=") for pair in amounts.split())
        node = make_node(name, labels, **{"pods": "10", **allocatable})
        node["spec"]["unschedulable"] = "cordoned" in words
        self.state.upsert_node(node)

    def _read_pod(self, text: str) -> None:
        """A pod that nobody placed: `pod daemon on x1: cpu=1`."""
        head, _, amounts = text.partition(":")
        name, _, node = head.split()
        requests = dict(pair.split("=") for pair in amounts.split())
        self.state.upsert_pod(
            {
                "metadata": {"name": name, "namespace": "kube-system"},
                "spec": {"nodeName": node, "containers": [{"resources": {"requests": requests}}]},
                "status": {"phase": "Running"},
            }
        )

    def _read_check(self, text: str) -> None:
        name, _, controller = text.partition(":")
        active = {"conditions": [{"type": "Active", "status": "True"}]}
        spec = {"controllerName": controller.strip()}
        self.state.upsert_admission_check({"metadata": {"name": name}, "spec": spec, "status": active})

    def _workload(self, text: str, *, running: bool) -> tuple[Obj, str, list[Obj], float]:
        self._nodes: list[str] = []
        self._checks: list[Obj] = []
        workload, queue, assignments, at = super()._workload(text, running=running)
        if self._nodes or self._checks:
            status: dict[str, Any] = {"unhealthyNodes": [{"name": name} for name in self._nodes]}
            workload["status"] = {**workload.get("status", {}), **status, "admissionChecks": self._checks}
        return workload, queue, assignments, at

    def _pod_set(self, words: list[str], options: dict[str, str], *, running: bool) -> tuple[Obj, Obj]:
        own = [word for word in words if word.partition("=")[0] in WORDS or word == "unconstrained"]
        pod_set, assignment = super()._pod_set([word for word in words if word not in own], options, running=running)
        request: Obj = {}
        for word in own:
            key, _, value = word.partition("=")
            if key in ("required", "preferred"):
                request[key] = LEVELS[value]
            elif key == "unconstrained":
                request[key] = True
            elif key == "slices":
                level, _, size = value.partition(":")
                request.update(podSetSliceRequiredTopology=LEVELS[level], podSetSliceSize=int(size))
            elif key == "layers":
                pairs = [layer.split(":") for layer in value.split("+")]
                request["podsetSliceRequiredTopologyConstraints"] = [
                    {"topology": LEVELS[level], "size": int(size)} for level, size in pairs
                ]
            elif key == "on":
                assignment["topologyAssignment"] = written_places(value)
            elif key == "delayed":
                assignment["delayedTopologyRequest"] = value
            elif key == "unhealthy":
                self._nodes.append(value)
            elif key == "ready":
                self._checks.append({"name": value, "state": "Ready"})
            elif key == "likes":
                like(pod_set["template"]["spec"], *value.split(":"))
            elif key == "tolerates":
                name, _, only = value.partition(":")
                pod_set["template"]["spec"].setdefault("tolerations", []).append(
                    {"key": name, "operator": "Equal", "value": only, "effect": "NoSchedule"}
                )
        if request:
            pod_set["topologyRequest"] = request
        return pod_set, assignment

    def outcome(self, plan: CyclePlan) -> Outcome:
        outcome = super().outcome(plan)
        for decision in plan.decisions:
            if isinstance(decision, Wait) and decision.second_pass:
                outcome.parked[decision.key.name] = decision.message
            if isinstance(decision, Admit):
                texts = outcome.admitted[decision.key.name].split(", ")
                outcome.admitted[decision.key.name] = ", ".join(
                    text + places(entry) for text, entry in zip(texts, decision.pod_sets, strict=True)
                )
        return outcome


def like(spec: Obj, key: str, value: str, weight: str) -> None:
    """Prefer nodes with a label."""
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    affinity.setdefault("preferredDuringSchedulingIgnoredDuringExecution", []).append(
        {"weight": int(weight), "preference": term}
    )


def places(entry: PodSetAssignment) -> str:
    """How an admission names where pods go."""
    text = ""
    if entry.topology is not None:
        text = " on=" + "+".join(f"{'/'.join(domain.values)}:{domain.pods}" for domain in entry.topology.domains)
    return text + (f" delayed={entry.delayed_topology}" if entry.delayed_topology else "")


def written_places(text: str) -> Obj:
    """A recorded assignment to hosts, `x1:2+x2:1`."""
    pairs = [part.split(":") for part in text.split("+")]
    return {
        "levels": [LEVELS["host"]],
        "slices": [
            {
                "domainCount": 1,
                "valuesPerLevel": [{"universal": host}],
                "podCounts": {"universal": int(pods)},
            }
            for host, pods in pairs
        ],
    }
