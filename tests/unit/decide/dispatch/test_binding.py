"""Late binding's filters and scores: where a Workload could run, in which order workers are preferred, and why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.core.meta import Obj
from corral.decide.dispatch.binding import WorkerView, choose, rebind
from corral.decide.dispatch.room import FlavorRoom, Group
from corral.decide.queueing.model.values import FlavorSpec, Taint

RACK = "example.com/rack"


def room(name: str = "default", *, free: int = 8, of: int = 8, lent: int = 0, **spec: object) -> FlavorRoom:
    levels = spec.pop("levels", None)
    amounts = {"free": {"cpu": free * 1000}, "lent": {"cpu": lent * 1000}, "nominal": {"cpu": of * 1000}}
    flavor = FlavorSpec(name=name, **spec)  # type: ignore[arg-type]
    return FlavorRoom(flavor, levels, most={"cpu": (of + lent) * 1000}, **amounts)  # type: ignore[arg-type]


def worker(name: str, *groups: Group, **more: object) -> WorkerView:
    return WorkerView(name, groups=groups or ((room(),),), **more)  # type: ignore[arg-type]


def workload(*cpus: str, topology: Obj | None = None, annotations: dict[str, str] | None = None, **pod: object) -> Obj:
    pod_sets = [
        {
            "name": f"set{index}",
            "count": 1,
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **pod}},
            "topologyRequest": topology or {"podIndexLabel": "x"},
        }
        for index, cpu in enumerate(cpus)
    ]
    return {"metadata": {"annotations": annotations or {}}, "spec": {"podSets": pod_sets}}


def order(subject: Obj, *workers: WorkerView) -> list[str]:
    return [entry.name for entry in choose(subject, None, workers).ranked]


@pytest.mark.parametrize(
    ("subject", "view", "why"),
    [
        (workload("1"), worker("w", connected=False), "cannot be reached"),
        (workload("1"), worker("w", answers=False), "does not answer"),
        (workload("1"), worker("w", serves_kind=False), "does not serve this kind of job"),
        (workload("1"), worker("w", queue_found=False), "has no queue of that name in this namespace"),
        (workload("1"), worker("w", queue_active=False), "its queue is not active"),
        (workload("9"), worker("w"), "can never give so much cpu"),
        (workload("6"), worker("w", (room("a", of=4), room("b", of=4))), "can never give so much cpu"),
        (workload("5", "5"), worker("w"), "can never give so much cpu"),
        (
            workload("1", nodeSelector={"gpu": "h100"}),
            worker("w", (room(node_labels={"gpu": "a100"}),)),
            "has no flavor with nodes its pods ask for",
        ),
        (
            workload("1"),
            worker("w", (room(taints=(Taint("spot", "true", "NoSchedule"),)),)),
            "has no flavor with nodes its pods ask for",
        ),
        (
            workload("1", topology={"required": RACK}),
            worker("w", (room(), room("racks", levels=("example.com/block",)))),
            "has no flavor with the topology its pods ask for",
        ),
        (
            workload("1", annotations={"corral.dev/cluster-affinity": "site=a"}),
            worker("w", labels={"site": "b"}),
            "does not match the cluster affinity",
        ),
        (
            workload("1", annotations={"corral.dev/cluster-anti-affinity": "site=b"}),
            worker("w", labels={"site": "b"}),
            "is excluded by the cluster anti-affinity",
        ),
    ],
)
def test_a_worker_is_out_because_it(subject: Obj, view: WorkerView, why: str) -> None:
    choice = choose(subject, None, [view])
    assert (choice.ranked, dict(choice.rejected)) == ((), {"w": why})


def test_an_annotation_that_is_no_selector_is_told() -> None:
    subject = workload("1", annotations={"corral.dev/cluster-affinity": "site in ("})
    choice = choose(subject, None, [worker("w")])
    assert choice.rejected["w"].startswith("cannot be judged: corral.dev/cluster-affinity: ")


def test_a_resource_without_quota_is_named() -> None:
    subject = workload("1")
    requests = subject["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]
    requests["nvidia.com/gpu"] = "1"
    assert dict(choose(subject, None, [worker("w")]).rejected) == {"w": "has no quota for nvidia.com/gpu"}


@pytest.mark.parametrize(
    ("subject", "view"),
    [
        (workload("4", "4"), worker("w", (room("a", of=4, free=4), room("b", of=4, free=4)))),
        (workload("1", nodeSelector={"gpu": "h100"}), worker("w", (room(), room("b", node_labels={"gpu": "h100"})))),
        (
            workload("1", tolerations=[{"key": "spot", "operator": "Exists"}]),
            worker("w", (room(taints=(Taint("spot", "true", "NoSchedule"),)),)),
        ),
        (workload("1", topology={"required": RACK}), worker("w", (room(), room("racks", levels=(RACK,))))),
    ],
    ids=["each pod set in its own flavor", "the flavor its nodes are in", "a tolerated taint", "its topology"],
)
def test_a_workload_fits_flavor_by_flavor(subject: Obj, view: WorkerView) -> None:
    (found,) = choose(subject, None, [view]).ranked
    assert (found.starts_now, found.why) == (True, "has room now")


def test_room_in_two_flavors_together_is_no_room() -> None:
    split = worker("a", (room("x", free=2), room("y", free=2)))
    (found,) = choose(workload("3"), None, [split]).ranked
    assert (found.starts_now, found.why) == (False, "has to wait for cpu behind 0 others")
    assert order(workload("3"), split, worker("b", (room(free=3),))) == ["b", "a"]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (worker("z", labels={"corral.dev/tier": "9"}), worker("a", (room(free=0),))),
        (worker("z", labels={"corral.dev/price": "9"}), worker("a", labels={"corral.dev/tier": "1"})),
        (
            worker("z", labels={"data.corral.dev/imagenet": "", "corral.dev/price": "9"}),
            worker("a", labels={"corral.dev/price": "1"}),
        ),
        (worker("z", labels={"corral.dev/price": "1"}), worker("a", labels={"corral.dev/price": "2"})),
        (worker("z"), worker("a", (room(free=0, lent=8),))),
        (worker("z", (room(free=0),), waiting=2), worker("a", (room(free=0),), waiting=3)),
        (worker("z"), worker("a", (room(free=4),))),
        (worker("z"), worker("a", promised={"cpu": 4000})),
        (worker("z"), worker("a", refused=True)),
    ],
    ids=["room", "tier", "data", "price", "no borrowing", "queue", "spread", "promised", "refused"],
)
def test_workers_are_preferred_by(better: WorkerView, worse: WorkerView) -> None:
    subject = workload("2", annotations={"corral.dev/data": "imagenet"})
    assert order(subject, worse, better) == ["z", "a"]


def test_a_bound_workload_moves_only_where_it_starts_at_once() -> None:
    full, empty = worker("full", (room(free=0),)), worker("empty")
    assert rebind(choose(workload("2"), None, [full, empty]), "full") == "empty"
    assert rebind(choose(workload("2"), None, [full, replace(full, name="other")]), "full") == "full"
    assert rebind(choose(workload("2"), None, [empty, replace(empty, name="best")]), "empty") == "empty"
    assert rebind(choose(workload("2"), None, [replace(empty, refused=True), worker("next")]), "empty") == "next"
    assert rebind(choose(workload("99"), None, [empty]), "empty") == ""


def test_names_decide_between_equals() -> None:
    assert order(workload("1"), worker("b"), worker("a")) == ["a", "b"]
