"""A whole cluster as a user starts it: training pods that report their progress, and who may wrap what."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.started import PATIENCE_S, ROOT, eventually, started

FLEET = """
clusters:
  - name: one
    roles: [worker]
    nodes: [{cpu: 8}]
    operators:
      features: {TrainJobStatus: true}
"""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("options")
    (folder / "fleet.yaml").write_text(FLEET)
    with started(folder / "state", "-f", str(folder / "fleet.yaml")) as state:
        yield state


def kubectl(state: Path, *arguments: str, body: Any = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KUBECONFIG": str(state / "kubeconfig")}
    text = yaml.safe_dump(body) if body is not None else None
    command = ["kubectl", *arguments]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False
    )


REPORT = """
import json, os, ssl, urllib.request
url, token = os.environ["KUBEFLOW_TRAINER_SERVER_URL"], open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read()
context = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
def post(url, body):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
    try:
        return urllib.request.urlopen(request, context=context).status
    except urllib.error.HTTPError as error:
        return error.code
metrics = [{"name": "loss", "value": "0.25"}]
told = {"progressPercentage": 50, "metrics": metrics, "lastUpdatedTime": "2026-01-02T03:04:05Z"}
print("own", post(url, {"trainerStatus": told}), "too much", post(url, {"trainerStatus": {"progressPercentage": 101}}))
print("another's", post(url.replace("/reporting/", "/other/"), {"trainerStatus": told}))
"""


def test_a_training_pod_reports_its_progress(state: Path) -> None:
    runtimes = kubectl(state, "apply", "-f", str(ROOT / "examples/training-runtimes.yaml"))
    assert runtimes.returncode == 0, runtimes.stderr
    trainer = {"command": ["python3", "-c", REPORT]}
    body = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "reporting", "namespace": "default"},
        "spec": {"runtimeRef": {"name": "jax-distributed"}, "trainer": trainer},
    }
    made = kubectl(state, "create", "-f", "-", body=body)
    assert made.returncode == 0, made.stderr
    waited = kubectl(state, "wait", "--for=condition=Complete", "trainjob/reporting", "--timeout=150s")
    logs = kubectl(state, "logs", "-l", "jobset.sigs.k8s.io/jobset-name=reporting").stdout
    assert waited.returncode == 0, waited.stderr + logs
    assert logs.split("\n")[:2] == ["own 201 too much 422", "another's 403"]
    status = json.loads(kubectl(state, "get", "trainjob", "reporting", "-o", "json").stdout)["status"]
    assert status["trainerStatus"]["progressPercentage"] == 50
    assert status["trainerStatus"]["metrics"] == [{"name": "loss", "value": "0.25"}]


def test_nobody_wraps_what_he_may_not_create(state: Path) -> None:
    rules = ["--verb=create,get", "--resource=appwrappers.workload.codeflare.dev,jobs.batch"]
    assert kubectl(state, "create", "role", "wrapper", *rules).returncode == 0
    assert kubectl(state, "create", "rolebinding", "wrapper", "--role=wrapper", "--user=ann").returncode == 0
    pod = {"containers": [{"name": "c", "image": "busybox", "command": ["true"]}], "restartPolicy": "Never"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}}
    alone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod}

    def wrapper(name: str, *templates: Any) -> Any:
        return {
            "apiVersion": "workload.codeflare.dev/v1beta2",
            "kind": "AppWrapper",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"components": [{"template": template} for template in templates]},
        }

    eventually(lambda: kubectl(state, "create", "--as=ann", "-f", "-", body=wrapper("fine", job)).returncode == 0)
    refused = kubectl(state, "create", "--as=ann", "-f", "-", body=wrapper("too-much", job, alone))
    assert refused.returncode != 0
    assert "User ann is not authorized to create Pod in default" in refused.stderr
