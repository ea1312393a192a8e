"""What the pods of a queued Deployment carry."""

from __future__ import annotations

import pytest

from corral.jobs.pod.deployment import QueuedDeployment
from corral.kinds.kueue import names


@pytest.mark.parametrize(
    "labels",
    [{}, {names.QUEUE_NAME: "lq"}, {names.QUEUE_NAME: "lq", names.PRIORITY_CLASS: "high"}],
    ids=["no queue", "queue", "queue and priority"],
)
def test_pods_take_queue_and_priority_of_their_deployment(labels: dict[str, str]) -> None:
    owner = {"metadata": {"name": "d", "labels": {**labels, "team": "a"}}, "spec": {"template": {"spec": {}}}}
    held = QueuedDeployment().with_held_templates(owner)["spec"]["template"]["metadata"]
    assert held["labels"] == {**labels, names.MANAGED: "true"}
    assert held["annotations"] == {names.POD_SUSPENDING_PARENT: "deployment"}
