"""Submits many small jobs to a fleet of `corral up`, in one call and by kubectl, one after the other in the same run:

    KUBE_TOOLS=DIR python bench/submit/run.py [--jobs N]

The queue is stopped, so that it is submitting that is measured and not running. kubectl is run in three ways: once for each
job, as a loop in a shell does; the same, 16 at a time; and once for one file with all of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import yaml

from corral import Client

CORRAL = [sys.executable, "-m", "corral.cli.main"]


@contextmanager
def fleet() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder, "fleet")
        try:
            run([*CORRAL, "up", "--state", str(state), "--workers", "1"])
            yield state
        finally:
            run([*CORRAL, "down", "--state", str(state)])


def run(command: list[str], **options: object) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)  # type: ignore[call-overload]


def kubectl() -> str:
    named = Path(os.environ.get("KUBE_TOOLS", ""), "kubectl")
    found = str(named) if named.is_file() else shutil.which("kubectl")
    if not found:
        sys.exit("there is no kubectl; KUBE_TOOLS names its folder")
    return found


def manifests(client: Client, folder: Path, count: int) -> list[Path]:
    """The jobs that one call makes, as files: the same size, the same volumes."""
    (model,) = client.submit_many("train.py", 1, workdir=folder, name="model")
    made = model.manifest()
    spec = {name: value for name, value in made["spec"].items() if name not in ("selector", "managedBy")}
    spec["template"]["metadata"] = {}
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    files = []
    for number in range(count):
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"kubectl-{number}", "labels": labels},
            "spec": spec,
        }
        files.append(folder.parent / f"{number}.yaml")
        files[-1].write_text(yaml.safe_dump(job))
    return files


def measured(name: str, client: Client, count: int, submit: Callable[[], object]) -> float:
    before, began = len(client.jobs()), time.monotonic()
    submit()
    seconds = time.monotonic() - began
    while len(client.jobs()) < before + count:  # until every job has its Workload
        time.sleep(0.1)
    queued = time.monotonic() - began
    print(
        f"  {name:<44} {seconds:7.2f} s   all queued after {queued:7.2f} s   {count / seconds:6.0f} jobs/s", flush=True
    )
    for row in client.jobs():
        client.job(row.target).delete()
    while client.jobs():
        time.sleep(0.1)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    count = parser.parse_args().jobs
    with fleet() as state, tempfile.TemporaryDirectory() as temporary:
        os.environ["KUBECONFIG"] = str(state / "kubeconfig")
        folder = Path(temporary, "project")
        folder.mkdir()
        (folder / "train.py").write_text("print('hello')\n")
        run([*CORRAL, "queue", "stop", "clusterqueue", "cluster-queue"])
        program = kubectl()
        with Client() as client:
            files = manifests(client, folder, count)
            everything = Path(temporary, "all.yaml")
            everything.write_text("\n---\n".join(file.read_text() for file in files))
            print(f"{count} jobs, load {os.getloadavg()[0]:.1f}", flush=True)
            command = [*CORRAL, "submit", "--count", str(count), "--name", "cli", "train.py"]
            own = measured("corral submit --count", client, count, lambda: run(command, cwd=folder))
            measured(
                "Client.submit_many", client, count,
                lambda: client.submit_many("train.py", count, workdir=folder, name="library"),
            )  # fmt: skip

            def create(file: Path) -> None:
                run([program, "create", "-f", str(file)])

            def at_once() -> None:
                with ThreadPoolExecutor(16) as pool:
                    list(pool.map(create, files))

            one = measured("kubectl create -f, one file", client, count, lambda: create(everything))
            many = measured("kubectl create -f, a process for each, 16 at once", client, count, at_once)
            each = measured("kubectl create -f, a process for each", client, count, lambda: list(map(create, files)))
    print(
        f"  beside corral submit: one file {one / own:.1f}x, 16 at once {many / own:.1f}x, one by one {each / own:.1f}x"
    )


if __name__ == "__main__":
    main()
