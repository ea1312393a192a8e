"""MPIJobs of version v2beta1: launcher and workers, their hosts, and which failures end the job."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import Stage, play, summary
from tests.conformance.jobs.test_mpi import WORKERS, controllers, job, launcher_pods

from corral.core.meta import Obj, annotations_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.registry import adapter
from corral.jobs.mpijob.kind import MPI_JOBS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, PODS, SECRETS, SERVICES
from corral.kinds.kueue import names

# 63: failures


def test_launcher_failure_names_the_reason_of_its_pod() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(MPI_JOBS, job(run={"backoffLimit": 0, "cleanPodPolicy": "All"}))
        await stage.run()
        (name,) = await launcher_pods(stage)
        lost = {"status": {"reason": "NodeLost", "message": "the node is gone"}}
        await stage.client.patch(PODS, name, "default", lost, subresource="status")
        await stage.fail(name)
        await stage.pass_time(40)
        failed = (await stage.get(MPI_JOBS, "pi"))["status"]["conditions"][-1]
        assert failed["reason"] == "BackoffLimitExceeded/NodeLost"
        assert failed["message"].endswith(": the node is gone")
        assert not set(WORKERS) & set(await stage.names(PODS))

    play(controllers, script)


def test_evicted_workers_fail_the_job() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(MPI_JOBS, job())
        await stage.run()
        evicted = {"status": {"phase": "Failed", "reason": "Evicted"}}
        await stage.client.patch(PODS, "pi-worker-1", "default", evicted, subresource="status")
        await stage.pass_time(2)
        failed = (await stage.get(MPI_JOBS, "pi"))["status"]["conditions"][-1]
        assert (failed["reason"], failed["message"]) == ("MPIJobEvicted", "1/2 workers are evicted")

    play(controllers, script)


# 64: what belongs to somebody else


FOREIGN: list[tuple[Any, Obj]] = [
    (SERVICES, {"metadata": {"name": "pi"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}),
    (CONFIG_MAPS, {"metadata": {"name": "pi-config"}, "data": {"mine": "1"}}),
    (SECRETS, {"metadata": {"name": "pi-ssh"}, "stringData": {"mine": "1"}}),
    (PODS, {"metadata": {"name": "pi-worker-0"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    (
        JOBS,
        {
            "metadata": {"name": "pi-launcher"},
            "spec": {
                "suspend": True,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
            },
        },
    ),
]


@pytest.mark.parametrize(("resource", "body"), FOREIGN, ids=[resource.kind for resource, _ in FOREIGN])
def test_no_kind_of_child_is_taken_over(resource: Any, body: Obj) -> None:
    async def script(stage: Stage) -> None:
        theirs = await stage.create(resource, body)
        await stage.create(MPI_JOBS, job())
        await stage.pass_time(2)
        assert "ErrResourceExists" in await stage.reasons()
        now = await stage.get(resource, theirs["metadata"]["name"])
        assert now["metadata"]["uid"] == theirs["metadata"]["uid"]
        assert "ownerReferences" not in now["metadata"]

    play(controllers, script)


# 65: the launcher's start is forgotten when the job resumes


def test_resuming_clears_the_start_of_the_launcher() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(MPI_JOBS, job())
        await stage.run()
        first = (await stage.get(JOBS, "pi-launcher"))["status"]["startTime"]
        own = (await stage.get(MPI_JOBS, "pi"))["status"]["startTime"]
        await stage.patch(MPI_JOBS, "pi", {"spec": {"runPolicy": {"suspend": True}}})
        await stage.pass_time(60)
        assert "startTime" not in (await stage.get(MPI_JOBS, "pi"))["status"]
        directives = {
            "metadata": {"labels": {"l": "1"}, "annotations": {"a": "2"}},
            "spec": {"tolerations": [{"key": "t", "operator": "Exists"}]},
        }
        change = {"runPolicy": {"suspend": False}, "mpiReplicaSpecs": {"Launcher": {"template": directives}}}
        await stage.patch(MPI_JOBS, "pi", {"spec": change})
        await stage.pass_time(2)
        launcher = await stage.get(JOBS, "pi-launcher")
        assert launcher["status"]["startTime"] > first
        assert (await stage.get(MPI_JOBS, "pi"))["status"]["startTime"] > own
        pod = launcher["spec"]["template"]
        assert (pod["metadata"]["labels"]["l"], pod["metadata"]["annotations"]["a"]) == ("1", "2")
        assert pod["spec"]["tolerations"] == [{"key": "t", "operator": "Exists"}]

    play(controllers, script)


# 66: how far the launcher is


def test_running_needs_the_launcher_and_every_worker() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(MPI_JOBS, job())
        await stage.run(*await launcher_pods(stage), "pi-worker-0")
        assert summary(await stage.get(MPI_JOBS, "pi")) == [("Created", "True")]
        await stage.run("pi-worker-1")
        running = await stage.get(MPI_JOBS, "pi")
        assert summary(running) == [("Created", "True"), ("Running", "True")]
        assert running["status"]["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {"active": 2}}

    play(controllers, script)


# 67: long names


def test_hostfile_with_a_long_name() -> None:
    async def script(stage: Stage) -> None:
        body = job(runLauncherAsWorker=True)
        body["metadata"]["name"] = name = "a" * 45
        await stage.create(MPI_JOBS, body)
        hosts = (await stage.get(CONFIG_MAPS, f"{name}-config"))["data"]["hostfile"].splitlines()
        roles = ("launcher", "worker-0", "worker-1")
        assert hosts == [f"{name}-{role}.{name}.default.svc slots=1" for role in roles]
        workers = await stage.pods(**{"training.kubeflow.org/job-role": "worker"})
        assert [pod["metadata"]["labels"]["training.kubeflow.org/replica-index"] for pod in workers] == ["1", "2"]

    play(controllers, script)


# 69: discovery follows the workers


def test_discovery_follows_scaling() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(MPI_JOBS, job())
        await stage.run()

        async def found() -> str:
            return str((await stage.get(CONFIG_MAPS, "pi-config"))["data"]["discover_hosts.sh"])

        line = "echo pi-worker-{}.pi.default.svc:1\n"
        assert await found() == "#!/bin/sh\n" + line.format(0) + line.format(1)
        await stage.patch(MPI_JOBS, "pi", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 1}}}})
        await stage.pass_time(40)
        assert await found() == "#!/bin/sh\n" + line.format(0)
        await stage.patch(MPI_JOBS, "pi", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 3}}}})
        await stage.run()
        assert await found() == "#!/bin/sh\n" + "".join(map(line.format, range(3)))

    play(controllers, script)


@pytest.mark.parametrize(
    ("working", "grouped", "expected"),
    [(True, False, "1"), (True, True, None), (False, False, None)],
    ids=["a launcher that works", "one placed with its workers", "a launcher that only launches"],
)
def test_workers_are_counted_from_one_beside(*, working: bool, grouped: bool, expected: str | None) -> None:
    body = copy.deepcopy(job(runLauncherAsWorker=working))
    specs = body["spec"]["mpiReplicaSpecs"]
    if grouped:
        specs["Launcher"]["template"].setdefault("metadata", {})["annotations"] = {names.PODSET_GROUP_NAME: "g"}
    prepared = adapter("kubeflow.org/mpijob").prepared(body)
    marks = annotations_of(prepared["spec"]["mpiReplicaSpecs"]["Worker"]["template"])
    assert marks.get(names.POD_INDEX_OFFSET) == expected
