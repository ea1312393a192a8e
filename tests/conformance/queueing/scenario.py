"""Scheduling scenarios as short texts: what there is, what waits, what one cycle must do.

    flavor spot taint key=val:NoSchedule label type=spot
    cohort eng in root: default cpu=10/5/3
    queue alpha in eng: on-demand cpu=50/50, spot cpu=100/0 | model-a gpu=20 ; within=LowerPriority reclaim=Any strict
    run a @alpha: on-demand cpu=40 p=1 t=5
    wait b @alpha: cpu=11 p=2 t=1
    wait c @alpha: one 10x cpu=1 min=5, two 2x gpu=1
    ->
    admit c: one 8x cpu@on-demand, two 2x gpu@model-a
    preempt a for b: InClusterQueue
    parked b: couldn't assign flavors to pod set main: …
    left d: Workload no longer fits after processing another workload

Quota is nominal/borrowing limit/lending limit. `left` waits in the heap, `parked` until something changes; both may
leave out the message. Expectations are complete: anything else that happens is an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from corral.core.meta import Key, Obj
from corral.core.timestamps import format_time
from corral.decide.queueing.cycle.plan import Admit, CyclePlan, Evict, Preempt, Wait
from corral.decide.queueing.model.settings import Features, QueueingSettings
from corral.decide.queueing.state import QueueingState
from corral.testing.queueing import (
    EPOCH,
    make_assignment,
    make_cluster_queue,
    make_cohort,
    make_flavor,
    make_local_queue,
    make_pod_set,
    make_workload,
    reserve,
)


@dataclass
class Outcome:
    admitted: dict[str, str] = field(default_factory=dict)
    victims: dict[str, tuple[str, str]] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    parked: dict[str, str] = field(default_factory=dict)
    evicted: dict[str, str] = field(default_factory=dict)


class Scenario:
    """One text, built and run."""

    def __init__(self, text: str, settings: QueueingSettings | None = None, **features: bool) -> None:
        base = settings or QueueingSettings()
        self.settings = QueueingSettings(
            **{**{name: getattr(base, name) for name in base.__struct_fields__}, "max_rounds": 1}
            | ({"features": Features(**features)} if features else {})
        )
        self.state = QueueingState(self.settings)
        given, _, wanted = text.partition("->")
        self.flavors: set[str] = set()
        self._version = 0
        for line in filter(None, (line.strip() for line in given.splitlines())):
            self._read(line)
        self.wanted = wanted

    def _read(self, line: str) -> None:
        kind, _, rest = line.partition(" ")
        getattr(self, f"_read_{kind}")(rest)

    def _read_namespace(self, text: str) -> None:
        name, *labels = text.split()
        self.state.upsert_namespace({"metadata": {"name": name, "labels": dict(pair.split("=") for pair in labels)}})

    def _read_flavor(self, text: str) -> None:
        name, *words = text.split()
        spec: Obj = {}
        for kind, value in zip(words[::2], words[1::2], strict=True):
            key, _, rest = value.partition("=")
            if kind == "label":
                spec.setdefault("nodeLabels", {})[key] = rest
            elif kind == "taint":
                amount, _, effect = rest.partition(":")
                spec.setdefault("nodeTaints", []).append({"key": key, "value": amount, "effect": effect})
            elif kind == "tolerates":
                spec.setdefault("tolerations", []).append({"key": key, "operator": "Exists"})
            elif kind == "topology":
                spec["topologyName"] = value
        self.flavors.add(name)
        self.state.upsert_flavor(make_flavor(name, **spec))

    def _read_cohort(self, text: str) -> None:
        head, _, quotas = text.partition(":")
        name, _, parent = head.strip().partition(" in ")
        quotas, _, options = quotas.partition(";")
        weight = dict(pair.split("=") for pair in options.split()).get("weight")
        groups = [self._flavors(group) for group in quotas.split("|") if group.strip()]
        self.state.upsert_cohort(make_cohort(name, parent.strip(), *groups, weight=weight))

    def _read_queue(self, text: str) -> None:
        head, _, body = text.partition(":")
        name, _, cohort = head.strip().partition(" in ")
        quotas, _, options = body.partition(";")
        extra: dict[str, Any] = {}
        for word in options.split():
            key, _, value = word.partition("=")
            if key == "borrow":
                policy, _, threshold = value.partition("<=")
                extra["borrow"] = {"policy": policy, **({"maxPriorityThreshold": int(threshold)} if threshold else {})}
            elif key == "strict":
                extra["strict"] = True
            elif key in ("whenCanBorrow", "whenCanPreempt", "preference"):
                extra.setdefault("flavorFungibility", {})[key] = value
            elif key == "selector":
                label, _, wanted = value.partition(":")
                extra["namespaceSelector"] = {"matchLabels": {label: wanted}}
            elif key == "checks":
                extra["admissionChecksStrategy"] = {"admissionChecks": [_check(check) for check in value.split(",")]}
            else:
                extra[key] = value
        groups = [self._flavors(group) for group in quotas.split("|") if group.strip()]
        self.state.upsert_cluster_queue(make_cluster_queue(name, *groups, cohort=cohort.strip(), **extra))
        self.state.upsert_local_queue(make_local_queue(f"lq-{name}", name))

    def _flavors(self, text: str) -> dict[str, dict[str, Any]]:
        flavors: dict[str, dict[str, Any]] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            flavor, *quotas = part.split()
            if flavor not in self.flavors and not flavor.startswith("missing"):
                self.flavors.add(flavor)
                self.state.upsert_flavor(make_flavor(flavor))
            for quota in quotas:
                resource, _, limits = quota.partition("=")
                values = [value or None for value in limits.split("/")]
                flavors.setdefault(flavor, {})[resource] = tuple(values)
        return flavors

    def _read_run(self, text: str) -> None:
        self._put(*self._workload(text, running=True))

    def _read_wait(self, text: str) -> None:
        self._put(*self._workload(text, running=False))

    def _put(self, workload: Obj, queue: str, assignments: list[Obj], at: float) -> None:
        self._version += 1
        workload["metadata"]["resourceVersion"] = str(self._version)
        if assignments:
            admitted = not any(entry.get("delayedTopologyRequest") == "Pending" for entry in assignments)
            workload = reserve(workload, queue, *assignments, at=at, admitted=admitted)
            workload["status"]["conditions"] = [*workload["status"]["conditions"], *self._evicted]
        self.state.upsert_workload(workload)

    def _workload(self, text: str, *, running: bool) -> tuple[Obj, str, list[Obj], float]:
        head, _, body = text.partition(":")
        name, _, place = head.strip().partition(" @")
        queue, _, namespace = place.partition(" in ")
        options: dict[str, str] = {}
        pod_sets: list[Obj] = []
        assignments: list[Obj] = []
        for part in body.split(","):
            pod_set, assignment = self._pod_set(part.split(), options, running=running)
            pod_sets.append(pod_set)
            assignments.append(assignment)
        self._evicted = [{"type": "Evicted", "status": "True", "reason": "Preempted"}] if "evicted" in options else []
        workload = make_workload(
            name,
            f"lq-{queue}",
            *pod_sets,
            namespace=namespace or "default",
            priority=int(options.get("p", 0)),
            created=float(options.get("t", 0)),
        )
        if "gated" in options:
            workload["spec"]["preemptionGates"] = [{"name": "gate"}]
        if "check" in options:
            state, _, _ = options["check"].partition("/")
            workload["status"] = {"admissionChecks": [{"name": "check", "state": state}]}
        if "replaces" in options:
            workload["metadata"]["annotations"] = {
                "kueue.x-k8s.io/workload-slice-replacement-for": f"default/{options['replaces']}"
            }
        return workload, queue, assignments if running else [], float(options.get("r", 0))

    def _pod_set(self, words: list[str], options: dict[str, str], *, running: bool) -> tuple[Obj, Obj]:
        name, count, flavor = "main", 1, ""
        requests: dict[str, str] = {}
        limits: dict[str, str] = {}
        flavors: dict[str, str] = {}
        spec: Obj = {}
        minimum = None
        for word in words:
            key, _, value = word.partition("=")
            if re.fullmatch(r"\d+x", word):
                count = int(word[:-1])
            elif key in ("p", "t", "r", "check", "replaces", "evicted", "gated"):
                options[key] = value
            elif key == "min":
                minimum = int(value)
            elif key == "tolerates":
                spec.setdefault("tolerations", []).append({"key": value, "operator": "Exists"})
            elif key.startswith("node."):
                spec.setdefault("nodeSelector", {})[key[5:]] = value
            elif key.startswith("limit."):
                limits[key[6:]] = value
            elif value:
                requests[key] = value
                flavors[key] = flavor
            elif word in self.flavors and running:
                flavor = word
            else:
                name = word
        pod_set = make_pod_set(name, count, requests, min_count=minimum, **spec)
        if limits:
            pod_set["template"]["spec"]["containers"][0]["resources"]["limits"] = limits
        usage = {resource: _times(quantity, count) for resource, quantity in requests.items()}
        return pod_set, make_assignment(name, flavors, usage, count)

    # -- running --------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        return self.outcome(self.state.plan_cycle(EPOCH))

    def outcome(self, plan: CyclePlan) -> Outcome:
        outcome = Outcome()
        messages: dict[str, str] = {}
        for decision in plan.decisions:
            match decision:
                case Admit():
                    outcome.admitted[decision.key.name] = ", ".join(
                        " ".join(
                            [entry.name, f"{entry.count}x"]
                            + [f"{resource}@{flavor}" for resource, flavor in sorted(entry.flavors.items())]
                        )
                        for entry in decision.pod_sets
                    )
                case Preempt():
                    messages[decision.key.name] = decision.message
                    for victim in decision.victims:
                        outcome.victims[victim.key.name] = (decision.key.name, victim.reason)
                case Wait():
                    messages[decision.key.name] = decision.message
                case Evict():
                    outcome.evicted[decision.key.name] = decision.message
        for pending in self.state.world.pending.values():
            for key in pending.items:
                place = outcome.parked if pending.is_parked(key) else outcome.left
                place[key.name] = messages.get(key.name, "")
        return outcome

    def check(self) -> None:
        """Run one cycle and compare with what the text wants."""
        got, want = self.run(), Outcome()
        quiet: set[str] = set()
        for line in filter(None, (line.strip() for line in self.wanted.splitlines())):
            kind, _, rest = line.partition(" ")
            head, _, value = rest.partition(":")
            value = value.strip()
            if kind == "admit":
                want.admitted[head] = value or got.admitted.get(head, "not admitted")
            elif kind == "preempt":
                victim, _, preemptor = head.partition(" for ")
                want.victims[victim] = (preemptor, value)
            elif kind in ("left", "parked"):
                getattr(want, kind)[head] = value
                if not value:
                    quiet.add(head)
            elif kind == "evict":
                want.evicted[head] = value
        for place in (got.left, got.parked):
            for name in quiet & place.keys():
                place[name] = ""
        assert got == want

    def explain(self, name: str, namespace: str = "default") -> Any:
        return self.state.questions.explain(Key(namespace, name))


def _check(text: str) -> Obj:
    name, _, flavors = text.partition("@")
    return {"name": name, **({"onFlavors": flavors.split("+")} if flavors else {})}


def _times(quantity: str, count: int) -> str:
    match = re.fullmatch(r"(\d+)(.*)", quantity)
    assert match is not None
    return f"{int(match.group(1)) * count}{match.group(2)}"


def at(seconds: float) -> str:
    return format_time(EPOCH + seconds)
