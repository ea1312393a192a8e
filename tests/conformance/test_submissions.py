"""Objects made from a program are accepted as they are, for every kind that `corral submit` offers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corral.clusters.operators import set_up_operators
from corral.controllers.dispatch.runs.dependencies import named_objects
from corral.core.meta import labels_of
from corral.core.resource import Resource
from corral.jobs.framework.registry import adapter_for, made_from, submission_makers
from corral.jobs.framework.submission import Submission
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
from corral.testing import VirtualCluster, run_virtual

WANTED = Submission(
    name="train",
    namespace="default",
    command=("python", "train.py"),
    image="python",
    queue="team",
    workers=3,
    gpus=1,
    environment={"LR": "1"},
    code=("corral-code-0", "corral-code-1"),
)

every_kind = pytest.mark.parametrize("word", sorted(submission_makers()))


@every_kind
@pytest.mark.parametrize("workers", [1, 3])
def test_the_object_is_accepted_and_asks_for_what_was_asked_for(word: str, workers: int) -> None:
    job = made_from(word, replace(WANTED, workers=workers))
    group, _, version = job["apiVersion"].rpartition("/")
    adapter = adapter_for(Resource(group, version, "", job["kind"]))
    assert adapter is not None

    async def main() -> None:
        cluster = VirtualCluster()
        cluster._set_up = [lambda manager: cluster.api.chain.plugins.extend(set_up_operators(manager))]
        async with cluster:
            made = await cluster.client.create(adapter.resource, job)
            assert labels_of(made)["kueue.x-k8s.io/queue-name"] == "team"
            gpus = 0
            for pod_set in adapter.pod_sets(made, lambda *_: None):
                for container in pod_set.template["spec"]["containers"]:
                    requests = (container.get("resources") or {}).get("requests") or {}
                    gpus += pod_set.count * int(requests.get("nvidia.com/gpu") or 0)
            assert gpus == workers

    run_virtual(main)


@every_kind
def test_the_packed_folder_is_among_what_goes_with_the_job_to_its_worker(word: str) -> None:
    assert {(CONFIG_MAPS, name) for name in WANTED.code} <= set(named_objects(made_from(word, WANTED)["spec"]))


def test_a_job_without_a_folder_has_nothing_to_unpack() -> None:
    template = made_from("job", replace(WANTED, code=()))["spec"]["template"]["spec"]
    assert not {"initContainers", "volumes"} & set(template)


@every_kind
def test_memory_that_is_asked_for_is_also_the_most_each_pod_may_take(word: str) -> None:
    job = made_from(word, replace(WANTED, memory="211Mi"))
    group, _, version = job["apiVersion"].rpartition("/")
    adapter = adapter_for(Resource(group, version, "", job["kind"]))
    assert adapter is not None
    limits = [
        (container["resources"].get("limits") or {}).get("memory")
        for pod_set in adapter.pod_sets(job, lambda *_: None)
        for container in pod_set.template["spec"]["containers"]
        if ((container.get("resources") or {}).get("requests") or {}).get("memory") == "211Mi"
    ]
    assert limits
    assert set(limits) == {"211Mi"}
