"""The job SDKs from the Python registry, unmodified: kubeflow, kubeflow-training and codeflare-sdk.

They pin another release of the Kubernetes client than the other client tests, so they live in an interpreter of their
own: CORRAL_SDK_PYTHON, or .venv-sdk in the source tree (`python -m venv .venv-sdk && .venv-sdk/bin/pip install kubeflow
kubeflow-training codeflare-sdk`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INTERPRETER = Path(os.environ.get("CORRAL_SDK_PYTHON") or ROOT / ".venv-sdk/bin/python")

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not INTERPRETER.exists(), reason="the job SDKs are not installed (see CORRAL_SDK_PYTHON)"),
]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    state = tmp_path_factory.mktemp("operated")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.clients.serve_operated", str(state)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
    assert server.stdout is not None
    path = server.stdout.readline().strip()
    assert path
    yield path
    server.terminate()
    server.wait(120)


def script(kubeconfig: str, text: str, timeout: float = 400) -> list[str]:
    """Run a script with the SDKs' interpreter; what it printed on lines that begin with `=`."""
    environment = {**os.environ, "KUBECONFIG": kubeconfig, "PYTHONPATH": str(ROOT)}
    program = Path(kubeconfig).with_name("script.py")  # a file: the SDK reads the source of the function to train
    program.write_text(textwrap.dedent(text))
    done = subprocess.run(
        [str(INTERPRETER), str(program)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.removeprefix("=") for line in done.stdout.splitlines() if line.startswith("=")]


def test_trainer_client(kubeconfig: str) -> None:
    runtimes = ROOT / "examples/training-runtimes.yaml"
    lines = script(
        kubeconfig,
        f"""
        import yaml
        from kubernetes import client, config
        from kubeflow.trainer import CustomTrainer, TrainerClient
        from tests.waiting import eventually
        config.load_kube_config()
        api = client.CustomObjectsApi()
        for body in yaml.safe_load_all(open({str(runtimes)!r})):
            api.create_cluster_custom_object("trainer.kubeflow.org", "v1alpha1", "clustertrainingruntimes", body)
        trainer = TrainerClient()
        print("=" + ",".join(sorted(runtime.name for runtime in trainer.list_runtimes())))
        def train():
            import os
            print("rank", os.environ["JAX_PROCESS_ID"], "of", os.environ["JAX_NUM_PROCESSES"], flush=True)
        # The runtime whose nodes start Python itself: torch's starts torchrun, which comes with torch.
        name = trainer.train(runtime=trainer.get_runtime("jax-distributed"), trainer=CustomTrainer(func=train, num_nodes=2))
        job = trainer.wait_for_job_status(name, status={{"Complete"}}, timeout=240)
        print("=" + job.status, ",".join(f"{{step.name}} {{step.status}}" for step in job.steps))
        print("=" + "|".join(trainer.get_job_logs(name)))
        print("=" + str(name in [entry.name for entry in trainer.list_jobs()]))
        wanted = {{"AllJobsCompleted", "Scheduled"}}
        eventually(lambda: wanted <= {{event.reason for event in trainer.get_job_events(name)}}, what="both events")
        print("=" + ",".join(sorted(wanted)))
        trainer.delete_job(name)
        """,
    )
    assert lines == [
        "deepspeed-distributed,jax-distributed,mlx-distributed,torch-distributed,torchtune-llama3.2-1b,"
        "torchtune-llama3.2-3b,torchtune-qwen2.5-1.5b,xgboost-distributed",
        "Complete node-0 Succeeded,node-1 Succeeded",
        "rank 0 of 2",
        "True",
        "AllJobsCompleted,Scheduled",
    ]


def test_training_client(kubeconfig: str) -> None:
    lines = script(
        kubeconfig,
        """
        from kubernetes import client
        from kubeflow.training import KubeflowOrgV1PyTorchJob, KubeflowOrgV1PyTorchJobSpec, TrainingClient
        from kubeflow.training import KubeflowOrgV1ReplicaSpec, KubeflowOrgV1RunPolicy
        command = ["sh", "-c", 'echo "rank $RANK of $WORLD_SIZE"']
        container = client.V1Container(name="pytorch", image="python:3.12", command=command)
        pod = client.V1PodTemplateSpec(spec=client.V1PodSpec(containers=[container]))
        replica = lambda count: KubeflowOrgV1ReplicaSpec(replicas=count, restart_policy="OnFailure", template=pod)
        spec = KubeflowOrgV1PyTorchJobSpec(
            run_policy=KubeflowOrgV1RunPolicy(clean_pod_policy="None"),
            pytorch_replica_specs={"Master": replica(1), "Worker": replica(2)},
        )
        job = KubeflowOrgV1PyTorchJob(
            api_version="kubeflow.org/v1", kind="PyTorchJob", metadata=client.V1ObjectMeta(name="sdk-job"), spec=spec
        )
        training = TrainingClient(job_kind="PyTorchJob")
        training.create_job(job)
        done = training.wait_for_job_conditions("sdk-job", timeout=240, polling_interval=1)
        print("=" + done.status.conditions[-1].type, training.is_job_succeeded("sdk-job"))
        print("=" + ",".join(sorted(training.get_job_pod_names("sdk-job"))))
        logs, _ = training.get_job_logs("sdk-job")
        print("=" + ",".join(text.strip() for text in logs.values()))
        training.delete_job("sdk-job")
        """,
    )
    assert lines == ["Succeeded True", "sdk-job-master-0,sdk-job-worker-0,sdk-job-worker-1", "rank 0 of 3"]


def test_codeflare_sdk(kubeconfig: str) -> None:
    lines = script(
        kubeconfig,
        """
        from kubernetes import config
        from tests.waiting import eventually
        from codeflare_sdk import Cluster, ClusterConfiguration, RayJob
        config.load_kube_config()
        sizes = {f"{who}_{what}_{bound}": 1 for who in ("head", "worker") for what in ("cpu", "memory") for bound in ("requests", "limits")}
        cluster = Cluster(ClusterConfiguration(name="cf", namespace="default", num_workers=1, image="rayproject/ray:2.58.0", **sizes))
        cluster.apply(timeout=1)
        ready = lambda: "READY" in str(cluster.status(print_to_console=False)[0]).upper()
        eventually(ready, 240, what="the cluster's start", pause=1)
        print("=" + cluster.status(print_to_console=False)[0].name)
        print("=" + cluster.details(print_to_console=False).name)
        cluster.down()
        config = ClusterConfiguration(name="cfjob", namespace="default", num_workers=1, image="rayproject/ray:2.58.0", **sizes)
        job = RayJob(job_name="cfjob", entrypoint="echo hello", cluster_config=config, namespace="default")
        job.submit()
        ended = lambda: job.status(print_to_console=False)[0].name in ("COMPLETE", "FAILED")
        eventually(ended, 240, what="the job's end", pause=1)
        print("=" + job.status(print_to_console=False)[0].name)
        job.delete()
        """,
        timeout=600,
    )
    assert lines == ["READY", "cf", "COMPLETE"]
