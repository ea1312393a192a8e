"""MPIJobs of version v1, which the training operator runs."""

from __future__ import annotations

from typing import Any

from tests.conformance.jobs.operator_stage import Stage, play, summary
from tests.conformance.jobs.test_mpi import WORKERS, controllers, job

from corral.core.meta import Obj
from corral.jobs.mpijob.kind import MPI_JOBS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, PODS, SECRETS, SERVICE_ACCOUNTS, SERVICES
from corral.kinds.kubernetes.rbac import ROLE_BINDINGS, ROLES

V1 = MPI_JOBS.at("v1")


def v1_job(run: Obj | None = None, **spec: Any) -> Obj:
    return {**job(run=run, **spec), "apiVersion": "kubeflow.org/v1", "kind": "MPIJob"}


# 36 to 38 and 61: version 1


def test_v1_job_created_suspended_has_nothing() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(V1, v1_job({"suspend": True}))
        made = await stage.get(V1, "pi")
        assert summary(made) == [("Created", "True"), ("Suspended", "True")]
        assert "startTime" not in made["status"]
        assert await stage.names(PODS) == await stage.names(SERVICES) == []

    play(controllers, script)


def test_v1_job_is_suspended_and_resumed() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(V1, v1_job())
        await stage.run()
        await stage.run("pi-launcher")
        started = (await stage.get(V1, "pi"))["status"]["startTime"]
        await stage.patch(V1, "pi", {"spec": {"runPolicy": {"suspend": True}}})
        await stage.pass_time(40)
        halted = await stage.get(V1, "pi")
        assert await stage.names(PODS) == []
        assert summary(halted) == [("Created", "True"), ("Running", "False"), ("Suspended", "True")]
        await stage.patch(V1, "pi", {"spec": {"runPolicy": {"suspend": False}}})
        assert (await stage.get(V1, "pi"))["status"]["startTime"] > started
        await stage.run()
        assert await stage.names(PODS) == ["pi-launcher", *WORKERS]

    play(controllers, script)


def test_v1_job_of_another_manager_is_left_alone() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(V1, v1_job({"managedBy": "kueue.x-k8s.io/multikueue"}))
        for suspend in (True, False):
            await stage.patch(V1, "pi", {"spec": {"runPolicy": {"suspend": suspend}}})
        await stage.pass_time(5)
        assert "status" not in await stage.get(V1, "pi")
        assert await stage.names(PODS) == await stage.names(SECRETS) == await stage.reasons() == []
        assert "pi-config" not in await stage.names(CONFIG_MAPS)

    play(controllers, script)


def test_v1_launcher_may_look_at_its_workers_and_finds_those_that_run() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(V1, v1_job(slotsPerWorker=3))
        await stage.run("pi-worker-0")
        data = (await stage.get(CONFIG_MAPS, "pi-config"))["data"]
        assert data["discover_hosts.sh"] == "#!/bin/sh\necho pi-worker-0:3\n"
        assert "pi-launcher" not in await stage.names(PODS)  # it waits for all workers
        await stage.run("pi-worker-1")
        launcher = await stage.get(PODS, "pi-launcher")
        env = {entry["name"]: entry.get("value") for entry in launcher["spec"]["containers"][0]["env"]}
        assert env["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
        assert "kubexec.sh" in (env["OMPI_MCA_plm_rsh_agent"] or "")
        data = (await stage.get(CONFIG_MAPS, "pi-config"))["data"]
        assert data["hosts"] == "pi-worker-0 10.0.0.1\npi-worker-1 10.0.0.1\n"
        assert "pi-launcher" in await stage.names(SERVICE_ACCOUNTS)
        assert launcher["spec"]["serviceAccountName"] == "pi-launcher"
        role = await stage.get(ROLES, "pi-launcher")
        assert {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]} in role["rules"]
        assert next(rule for rule in role["rules"] if rule["resources"] == ["pods/exec"])["resourceNames"] == list(
            WORKERS
        )
        assert (await stage.get(ROLE_BINDINGS, "pi-launcher"))["subjects"][0]["name"] == "pi-launcher"

    play(controllers, script)


def test_v1_job_that_makes_no_sense_says_so() -> None:
    async def script(stage: Stage) -> None:
        bad = v1_job({"cleanPodPolicy": "All"}, cleanPodPolicy="None")
        await stage.create(V1, bad)
        await stage.pass_time(2)
        assert "MPIJobFailedValidation" in await stage.reasons()
        assert "status" not in await stage.get(V1, "pi")

    play(controllers, script)
