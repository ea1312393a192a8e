"""`corral demo`, which is what `make demo` runs: three kinds of jobs, where each went, what it wrote, how it ended."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.e2e.started import ROOT

pytestmark = pytest.mark.e2e

JOBS = {
    "Job demo-job": r"demo-job-\w+ \| epoch 3 of 3",
    "PyTorchJob demo-pytorch": r"demo-pytorch-worker-0 \| rank 1 of 2 meets at demo-pytorch-master-0",
    "TrainJob demo-train": r"demo-train-node-0-1-\w+ \| node 1 of 2",
}


def test_the_demo_shows_where_each_job_went_and_its_logs_and_ends_by_itself() -> None:
    command = [sys.executable, "-m", "corral.cli.main", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for job, log in JOBS.items():
        assert f"{job} queued on the manager" in done.stdout
        assert re.search(rf"{job} went to worker\d: .+", done.stdout), done.stdout
        assert re.search(log, done.stdout), done.stdout
        assert f"{job} Succeeded" in done.stdout
    assert set(re.findall(r"went to (worker\d)", done.stdout)) == {"worker1", "worker2"}
