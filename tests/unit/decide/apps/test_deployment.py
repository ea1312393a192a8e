"""Rollout steps of a Deployment as a table of small worlds."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.meta import Obj, name_of
from corral.decide.apps.deployment import DESIRED, MAXIMUM, REVISION, bounds, deployment_status, plan_rollout
from corral.decide.apps.revision import same_template, template_hash, without_hash

NOW = 1_767_225_600.0


def template(image: str) -> Obj:
    return {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def deployment(replicas: int = 4, image: str = "new", **spec: Any) -> Obj:
    base = {"replicas": replicas, "selector": {"matchLabels": {"app": "w"}}, "template": template(image)}
    metadata = {"name": "w", "namespace": "n", "uid": "d", "generation": 1}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {**base, **spec}}


def replica_set(
    name: str,
    image: str,
    size: int,
    available: int | None = None,
    *,
    revision: int = 1,
    desired: int = 4,
    maximum: int = 5,
) -> Obj:
    ready = size if available is None else available
    annotations = {REVISION: str(revision), DESIRED: str(desired), MAXIMUM: str(maximum)}
    metadata = {
        "name": name,
        "uid": name,
        "annotations": annotations,
        "creationTimestamp": f"2026-01-01T00:00:0{revision}Z",
    }
    status = {"replicas": size, "availableReplicas": ready, "readyReplicas": ready}
    return {"metadata": metadata, "spec": {"replicas": size, "template": template(image)}, "status": status}


@pytest.mark.parametrize(
    ("strategy", "replicas", "want"),
    [
        ({}, 4, (1, 1)),
        ({}, 10, (3, 2)),
        ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}, 4, (0, 1)),
        ({"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 3}}, 5, (3, 3)),
        ({"type": "Recreate"}, 4, (0, 0)),
    ],
)
def test_bounds(strategy: Obj, replicas: int, want: tuple[int, int]) -> None:
    assert bounds(deployment(replicas, strategy=strategy)) == want


STEPS = [
    pytest.param([], {}, "create 4", id="first"),
    pytest.param([replica_set("old", "old", 4)], {}, "create 1", id="surge allows one more"),
    pytest.param(
        [replica_set("old", "old", 4), replica_set("new", "new", 1, 0, revision=2)],
        {},
        "old=3",
        id="one old pod may be missing",
    ),
    pytest.param(
        [replica_set("old", "old", 3), replica_set("new", "new", 1, 1, revision=2)],
        {},
        "new=2",
        id="room for another new one",
    ),
    pytest.param(
        [replica_set("old", "old", 2, 0), replica_set("new", "new", 3, 3, revision=2)],
        {},
        "old=0",
        id="broken old pods go first",
    ),
    pytest.param([replica_set("new", "new", 4, revision=2)], {}, "nothing", id="done"),
    pytest.param([replica_set("new", "new", 4)], {"replicas": 7}, "new=7", id="resized"),
    pytest.param(
        [replica_set("old", "old", 2, desired=4), replica_set("new", "new", 3, desired=4, revision=2)],
        {"replicas": 8},
        "new=6 old=4",
        id="resized in proportion",
    ),
    pytest.param([replica_set("old", "old", 4)], {"paused": True}, "nothing", id="paused"),
    pytest.param(
        [replica_set("old", "old", 4)], {"strategy": {"type": "Recreate"}}, "old=0", id="recreate stops first"
    ),
    pytest.param(
        [replica_set("old", "old", 0)], {"strategy": {"type": "Recreate"}}, "create 4", id="recreate starts then"
    ),
]


@pytest.mark.parametrize(("sets", "changes", "want"), STEPS)
def test_next_step(sets: list[Obj], changes: Obj, want: str) -> None:
    subject = deployment(**changes)
    plan = plan_rollout(subject, sets, old_pods_left=False)
    words = [f"create {plan.create['spec']['replicas']}"] if plan.create else []
    words += sorted(f"{name_of(step.replica_set)}={step.replicas}" for step in plan.scale)
    assert (" ".join(words) or "nothing") == want


def test_recreate_waits_for_old_pods() -> None:
    subject = deployment(strategy={"type": "Recreate"})
    assert plan_rollout(subject, [replica_set("old", "old", 0)], old_pods_left=True).create is None


def test_revision_goes_up_and_old_ones_are_forgotten() -> None:
    sets = [replica_set(f"old{number}", f"v{number}", 0, revision=number) for number in (1, 2, 3)]
    subject = deployment(revisionHistoryLimit=1)
    assert plan_rollout(subject, sets, old_pods_left=False).revision == "4"
    done = plan_rollout(subject, [*sets, replica_set("new", "new", 4, revision=4)], old_pods_left=False)
    assert [name_of(entry) for entry in done.delete] == ["old1", "old2"]


def test_status_tells_progress() -> None:
    subject = deployment(progressDeadlineSeconds=600)
    half = deployment_status(subject, [replica_set("new", "new", 4, 2)], NOW)
    assert (half["availableReplicas"], half["unavailableReplicas"]) == (2, 2)
    assert [(entry["type"], entry["status"], entry["reason"]) for entry in half["conditions"]] == [
        ("Available", "False", "MinimumReplicasUnavailable"),
        ("Progressing", "True", "ReplicaSetUpdated"),
    ]
    later = deployment_status({**subject, "status": half}, [replica_set("new", "new", 4, 2)], NOW + 601)
    assert later["conditions"][-1]["reason"] == "ProgressDeadlineExceeded"


def test_template_hash_depends_on_content_only() -> None:
    one, two = template("a"), {"spec": template("a")["spec"], "metadata": {"labels": {"app": "w"}}}
    assert template_hash(one) == template_hash(two) != template_hash(template("b"))
    assert template_hash(one, 1) != template_hash(one)
    hashed = {**one, "metadata": {"labels": {"app": "w", "pod-template-hash": "x"}}}
    assert same_template(hashed, one)
    assert without_hash(hashed) == one
