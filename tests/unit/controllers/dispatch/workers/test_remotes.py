"""What a worker's objects say of the Workloads they belong to."""

from __future__ import annotations

import pytest

from corral.controllers.dispatch.workers.remotes import _workload_index
from corral.kinds.kueue import names


@pytest.mark.parametrize("held_in", ["labels", "annotations"])
def test_a_pod_belongs_to_the_workload_of_its_group_wherever_it_names_it(held_in: str) -> None:
    pod = {"metadata": {"name": "p", "namespace": "default", held_in: {names.POD_GROUP_NAME: "g"}}}
    assert list(_workload_index(pod)) == ["default/g"]
