"""MPIJobs of both versions, scenario by scenario, and the program that carries their commands."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import Stage, play, summary, template

from corral.clusters.operators import operator_plugins
from corral.core.errors import Forbidden
from corral.core.meta import Obj, labels_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.batch_job.operator import JobController
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.mpijob import agent as mpi_agent
from corral.jobs.mpijob.kind import MPI_JOBS
from corral.jobs.mpijob.operator import mpi_controllers
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, PODS, SECRETS, SERVICE_ACCOUNTS, SERVICES


def controllers(cluster: Any) -> list[Any]:
    return [JobController(cluster.manager), *mpi_controllers(cluster.manager)]


def plugins(cluster: Any) -> list[Any]:
    return operator_plugins(OperatorContext(cluster.manager))


def job(workers: int = 2, run: Obj | None = None, **spec: Any) -> Obj:
    launcher = {
        "replicas": 1,
        "template": {"spec": {"containers": [{"name": "mpi", "image": "i", "command": ["mpirun", "x"]}]}},
    }
    specs: Obj = {"Launcher": launcher}
    if workers:
        specs["Worker"] = {"replicas": workers, "template": template("mpi")}
    body: Obj = {"mpiReplicaSpecs": specs, **spec}
    if run is not None:
        body["runPolicy"] = run
    return {"metadata": {"name": "pi"}, "spec": body}


async def launcher_pods(stage: Stage) -> list[str]:
    return [pod["metadata"]["name"] for pod in await stage.pods(**{"training.kubeflow.org/job-role": "launcher"})]


WORKERS = ("pi-worker-0", "pi-worker-1")


def test_everything_is_created_and_owned() -> None:
    async def script(stage: Stage) -> None:
        made = await stage.create(MPI_JOBS, job())
        assert (await stage.names(SERVICES), await stage.names(JOBS)) == (["pi"], ["pi-launcher"])
        assert "pi-config" in await stage.names(CONFIG_MAPS)
        for resource, name in (
            (SERVICES, "pi"),
            (CONFIG_MAPS, "pi-config"),
            (SECRETS, "pi-ssh"),
            (PODS, "pi-worker-0"),
            (JOBS, "pi-launcher"),
        ):
            owners = (await stage.get(resource, name))["metadata"]["ownerReferences"]
            assert owners[0]["uid"] == made["metadata"]["uid"]
        hosts = (await stage.get(CONFIG_MAPS, "pi-config"))["data"]["hostfile"]
        assert hosts == "pi-worker-0.pi.default.svc slots=1\npi-worker-1.pi.default.svc slots=1\n"
        secret = await stage.get(SECRETS, "pi-ssh")
        assert (secret["type"], sorted(secret["data"])) == (
            "kubernetes.io/ssh-auth",
            ["ssh-privatekey", "ssh-publickey"],
        )
        worker = await stage.get(PODS, "pi-worker-1")
        assert (worker["spec"]["hostname"], worker["spec"]["subdomain"]) == ("pi-worker-1", "pi")
        assert labels_of(worker)["training.kubeflow.org/replica-index"] == "1"
        assert worker["spec"]["containers"][0]["command"] == ["python3", "/etc/mpi/mpi-agent", "serve"]
        launcher = (await stage.get(JOBS, "pi-launcher"))["spec"]
        assert launcher["podReplacementPolicy"] == "Failed"
        env = {entry["name"]: entry.get("value") for entry in launcher["template"]["spec"]["containers"][0]["env"]}
        assert env["K_MPI_JOB_ROLE"] == "launcher"
        assert env["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
        assert "NVIDIA_VISIBLE_DEVICES" in env

    play(controllers, script)


def test_runs_and_succeeds_and_cleans_its_workers() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(MPI_JOBS, job(run={"cleanPodPolicy": "Running"}))
        await stage.run(*WORKERS)
        assert summary(await stage.get(MPI_JOBS, "pi")) == [("Created", "True")]
        await stage.run(*await launcher_pods(stage))
        running = await stage.get(MPI_JOBS, "pi")
        assert summary(running) == [("Created", "True"), ("Running", "True")]
        assert running["status"]["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {"active": 2}}
        assert (
            "pi-worker-0.pi.default.svc:1" in (await stage.get(CONFIG_MAPS, "pi-config"))["data"]["discover_hosts.sh"]
        )
        await stage.succeed(*await launcher_pods(stage))
        done = await stage.get(MPI_JOBS, "pi")
        assert summary(done) == [("Created", "True"), ("Running", "False"), ("Succeeded", "True")]
        assert done["status"]["conditions"][-1]["message"] == "MPIJob default/pi successfully completed."
        await stage.pass_time(40)
        assert not set(WORKERS) & set(await stage.names(PODS))

    play(controllers, script)


def test_launcher_failure_is_the_jobs_failure() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(MPI_JOBS, job(run={"backoffLimit": 0}))
        await stage.run(*WORKERS)
        await stage.fail(*await launcher_pods(stage))
        await stage.pass_time(3)
        failed = await stage.get(MPI_JOBS, "pi")
        assert summary(failed) == [("Created", "True"), ("Running", "False"), ("Failed", "True")]
        assert failed["status"]["conditions"][-1]["reason"] == "BackoffLimitExceeded"
        assert "completionTime" in failed["status"]

    play(controllers, script)


def test_suspend_and_resume() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(MPI_JOBS, job(run={"suspend": True}))
        held = await stage.get(MPI_JOBS, "pi")
        assert summary(held) == [("Created", "True"), ("Suspended", "True")]
        assert "startTime" not in held["status"]
        assert await stage.names(PODS) == []
        assert (await stage.get(JOBS, "pi-launcher"))["spec"]["suspend"] is True
        assert await stage.names(SERVICES) == ["pi"]
        await stage.patch(MPI_JOBS, "pi", {"spec": {"runPolicy": {"suspend": False}}})
        await stage.run()
        assert summary(await stage.get(MPI_JOBS, "pi")) == [
            ("Created", "True"),
            ("Suspended", "False"),
            ("Running", "True"),
        ]
        await stage.patch(MPI_JOBS, "pi", {"spec": {"runPolicy": {"suspend": True}}})
        await stage.pass_time(40)
        halted = await stage.get(MPI_JOBS, "pi")
        assert await stage.names(PODS) == []
        assert summary(halted) == [("Created", "True"), ("Running", "False"), ("Suspended", "True")]
        launcher = {"template": {"spec": {"nodeSelector": {"flavor": "b"}}}}
        change = {"runPolicy": {"suspend": False}, "mpiReplicaSpecs": {"Launcher": launcher}}
        await stage.patch(MPI_JOBS, "pi", {"spec": change})
        await stage.pass_time(2)
        pod = (await stage.pods(**{"training.kubeflow.org/job-role": "launcher"}))[0]
        assert pod["spec"]["nodeSelector"] == {"flavor": "b"}

    play(controllers, script)


def test_launcher_may_wait_for_workers() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(MPI_JOBS, job(launcherCreationPolicy="WaitForWorkersReady"))
        assert await stage.names(JOBS) == []
        await stage.run(*WORKERS)
        assert await stage.names(JOBS) == ["pi-launcher"]

    play(controllers, script)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        (
            {"mpiImplementation": "Intel", "slotsPerWorker": 2},
            "pi-worker-0.pi.default.svc:2\npi-worker-1.pi.default.svc:2\n",
        ),
        ({"mpiImplementation": "MPICH"}, "pi-worker-0.pi.default.svc:1\npi-worker-1.pi.default.svc:1\n"),
        (
            {"runLauncherAsWorker": True},
            "pi-launcher.pi.default.svc slots=1\npi-worker-0.pi.default.svc slots=1\npi-worker-1.pi.default.svc slots=1\n",
        ),
    ],
    ids=["intel", "mpich", "launcher as worker"],
)
def test_hostfile(spec: Obj, want: str) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(MPI_JOBS, job(**spec))
        assert (await stage.get(CONFIG_MAPS, "pi-config"))["data"]["hostfile"] == want
        if spec.get("runLauncherAsWorker"):
            assert labels_of(await stage.get(PODS, "pi-worker-0"))["training.kubeflow.org/replica-index"] == "1"

    play(controllers, script)


def test_scaling_workers() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(MPI_JOBS, job(3))
        await stage.patch(MPI_JOBS, "pi", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 1}}}})
        await stage.pass_time(40)
        workers = await stage.pods(**{"training.kubeflow.org/job-role": "worker"})
        assert [pod["metadata"]["name"] for pod in workers] == ["pi-worker-0"]

    play(controllers, script)


def test_foreign_children_are_not_taken_over() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(
            SERVICES, {"metadata": {"name": "pi"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}
        )
        await stage.create(MPI_JOBS, job())
        assert "ErrResourceExists" in await stage.reasons()
        assert "ownerReferences" not in (await stage.get(SERVICES, "pi"))["metadata"]

    play(controllers, script)


def test_another_manager_is_left_alone_and_invalid_jobs_say_so() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(MPI_JOBS, job(run={"managedBy": "kueue.x-k8s.io/multikueue"}))
        await stage.pass_time(3)
        assert "status" not in await stage.get(MPI_JOBS, "pi")
        assert await stage.names(JOBS) == []
        bad = job()
        bad["metadata"] = {"name": "bad"}
        bad["spec"]["mpiReplicaSpecs"]["Launcher"]["replicas"] = 2
        await stage.create(MPI_JOBS, bad)
        assert "ValidationError" in await stage.reasons()

    play(controllers, script)


def test_manager_is_checked_and_immutable() -> None:
    async def script(stage: Stage) -> None:
        with pytest.raises(Forbidden, match="Unsupported value"):
            await stage.create(MPI_JOBS, job(run={"managedBy": "other.io/x"}))
        await stage.create(MPI_JOBS, job(run={"managedBy": "kubeflow.org/mpi-operator"}))
        with pytest.raises(Forbidden, match="field is immutable"):
            await stage.patch(MPI_JOBS, "pi", {"spec": {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}})

    play(controllers, script, plugins=plugins)


def test_v1_job_runs_on_pods_without_services() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(MPI_JOBS.at("v1"), {**job(), "apiVersion": "kubeflow.org/v1", "kind": "MPIJob"})
        assert await stage.names(PODS) == list(WORKERS)
        assert await stage.names(SERVICES) == await stage.names(JOBS) == []
        await stage.run()
        assert await stage.names(PODS) == ["pi-launcher", *WORKERS]
        data = (await stage.get(CONFIG_MAPS, "pi-config"))["data"]
        assert data["hostfile"] == "pi-worker-0 slots=1\npi-worker-1 slots=1\n"
        assert {"kubexec.sh", "discover_hosts.sh"} <= data.keys()
        assert "pi-launcher" in await stage.names(SERVICE_ACCOUNTS)
        await stage.run("pi-launcher")
        seen = await stage.get(MPI_JOBS.at("v1"), "pi")
        assert summary(seen)[-1] == ("Running", "True")
        await stage.succeed("pi-launcher")
        done = await stage.get(MPI_JOBS.at("v1"), "pi")
        assert done["apiVersion"] == "kubeflow.org/v1"
        assert done["status"]["conditions"][-1]["message"] == "MPIJob pi is successfully completed."
        assert (await stage.get(MPI_JOBS, "pi"))["metadata"]["annotations"]["corral.dev/written-in"] == "v1"

    play(controllers, script)


def test_agent_carries_commands_streams_and_exit_codes(tmp_path: Path) -> None:
    (tmp_path / "id_rsa").write_text("a key of this job")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    hosts = tmp_path / "hosts"
    hosts.write_text("worker-0 127.0.0.1\n")
    env = {
        **os.environ,
        "MPI_SSH_PATH": str(tmp_path),
        "MPI_AGENT_PORT": str(port),
        "MPI_HOSTS": str(hosts),
        "POD_IP": "127.0.0.2",
    }
    agent = tmp_path / "mpi-agent"  # as pods get it: a file of its own
    agent.write_text(Path(mpi_agent.__file__).read_text())
    program = [sys.executable, str(agent)]
    server = subprocess.Popen([*program, "serve"], env={**env, "POD_IP": "127.0.0.1"})
    try:
        call = [*program, "-o", "ConnectionAttempts=10", "-x", "worker-0"]
        done = subprocess.run(
            [*call, "read line; echo got $line; echo oops >&2; exit 3"],
            env=env,
            input=b"hello\n",
            capture_output=True,
            check=False,
            timeout=30,
        )
        assert (done.stdout, done.stderr, done.returncode) == (b"got hello\n", b"oops\n", 3)
        (tmp_path / "other").mkdir()
        (tmp_path / "other/id_rsa").write_text("a stranger's key")
        stranger = {**env, "MPI_SSH_PATH": str(tmp_path / "other")}
        refused = subprocess.run([*call, "true"], env=stranger, capture_output=True, check=False, timeout=30)
        assert refused.returncode == 255
        # A launcher that is a worker too reaches itself without an agent.
        own = {**stranger, "POD_IP": "127.0.0.1"}
        here = subprocess.run([*call, "exit 7"], env=own, capture_output=True, check=False, timeout=30)
        assert here.returncode == 7
    finally:
        server.terminate()
        server.wait(10)
