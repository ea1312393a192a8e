"""A fleet whose clusters answer through front processes: jobs are admitted there by the rules that are in force."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.e2e.started import client, eventually, started

from corral.core.conditions import is_true
from corral.core.meta import Obj, name_of, spec_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS

pytestmark = pytest.mark.e2e
FLEET = """
clusters:
- {name: manager, roles: [manager], fronts: 1}
- {name: worker1, roles: [worker], fronts: 1, runtime: simulated, nodes: [{cpu: 100}]}
"""
SYSTEM = "kueue-system"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "fleet.yaml").write_text(FLEET)
    with started(folder / "state", "-f", str(folder / "fleet.yaml")) as state:
        yield state


def job(name: str) -> Obj:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": {"template": template}}


def test_jobs_are_held_back_as_they_are_made_by_the_rules_in_force(fleet: Path) -> None:
    manager = client(fleet)
    for number in range(5):
        made = manager.create(JOBS, job(f"j{number}"))
        assert spec_of(made)["suspend"] is True
        assert spec_of(made)["managedBy"] == "kueue.x-k8s.io/multikueue"
    for number in range(5):
        eventually(lambda number=number: is_true(manager.get(JOBS, f"j{number}", "default"), "Complete"))  # type: ignore[misc]

    found = manager.get(CONFIG_MAPS, "kueue-manager-config", SYSTEM)
    (key,) = found["data"]
    document = yaml.safe_load(found["data"][key])
    document["integrations"]["frameworks"].remove("batch/job")
    changed = {"data": {key: yaml.safe_dump(document)}}
    manager.patch(CONFIG_MAPS, "kueue-manager-config", SYSTEM, changed)
    restart = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
    patch = {"spec": {"template": {"metadata": {"annotations": restart}}}}
    manager.patch(DEPLOYMENTS, "kueue-controller-manager", SYSTEM, patch)

    def left_alone() -> bool:
        made = manager.create(
            JOBS, {**job(""), "metadata": {**job("")["metadata"], "name": "", "generateName": "free-"}}
        )
        manager.delete(JOBS, name_of(made), "default")
        return not spec_of(made).get("suspend")

    eventually(left_alone)
