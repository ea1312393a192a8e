"""`corral down`: stop a fleet, say what that means for the jobs that run, and delete its state where asked to."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Final

import click

from corral.cli.up import folder_of, state_option, which_option
from corral.client.kubeconfig import KubeconfigError
from corral.client.limits import ANSWER_S
from corral.client.sync import SyncClient
from corral.core.errors import ApiError, ConnectionFailed
from corral.core.meta import controller_of, status_of, uid_of
from corral.core.remote_pods import CLUSTER_LABEL
from corral.fleet.folder import FleetFolder
from corral.fleet.lock import FolderLock, Held
from corral.inspect.asking import asked_at_once
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import PODS

STOP_TIMEOUT_S: Final = 40.0
PAUSE_S: Final = 0.02
SERVICES: Final = ("ReplicaSet", "StatefulSet", "DaemonSet")


@click.command()
@click.option("--delete", is_flag=True, help="Also delete the fleet's state: all that Corral made, and nothing else.")
@click.option("-y", "--yes", is_flag=True, help="With --delete: do not ask.")
@state_option
def down(delete: bool, yes: bool, state: Path | None) -> None:
    """Stop the fleet. Its state is kept for the next `corral up` unless --delete is given.

    Programs of running jobs are stopped too (SIGTERM, then SIGKILL) and started again, as the same pods, when the fleet comes
    back; no job fails of it."""
    folder = folder_of(state)
    if delete and not yes and folder.marker.exists() and sys.stdin.isatty():
        question = f"Delete the fleet in {folder.root}, with all its jobs, logs and what its pods have written?"
        click.confirm(question, abort=True)
    if folder.holder() is None:
        click.echo(f"No fleet is running in {folder.root}.")
    else:
        _stop(folder)
    if delete:
        _delete(folder)


def _stop(folder: FleetFolder) -> None:
    """Ask whoever starts or runs the fleet to stop it, and wait until its last process has ended."""
    status = folder.read_status()
    if status is not None:
        _say_what_runs(folder, [cluster.name for cluster in status.clusters if cluster.url])
    deadline, asked = time.monotonic() + STOP_TIMEOUT_S, 0
    while (pid := folder.holder()) is not None:
        if pid != asked and pid:
            asked = pid
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass  # it was killed; its clusters notice and end
        if time.monotonic() > deadline:
            raise click.ClickException(
                f"the fleet in {folder.root} has not stopped within {STOP_TIMEOUT_S:.0f} s; its supervisor is process {pid}, "
                f"what it does is in {folder.supervisor_log}"
            )
        time.sleep(PAUSE_S)
    number = len(status.clusters) if status is not None else 0
    click.echo(f"Stopped {number} cluster{'' if number == 1 else 's'}." if status is not None else "Stopped.")


def _say_what_runs(folder: FleetFolder, clusters: list[str]) -> None:
    """How many jobs run in the clusters that answer; one that hangs is stopped all the same, and its jobs with it."""
    answers = asked_at_once({name: partial(_running_jobs, folder, name) for name in clusters})
    up = f"`corral up{which_option(folder)}`"
    if jobs := sum(answer for answer in answers.values() if isinstance(answer, int)):
        are, they = ("job is", "it continues") if jobs == 1 else ("jobs are", "they continue")
        click.echo(f"{jobs} {are} running; {they} at the next {up}.")
    for name, answer in answers.items():
        if isinstance(answer, TimeoutError | ConnectionFailed):
            click.echo(
                f"Cluster {name} does not answer: it is ended by force; jobs that run there continue at the next {up}."
            )


def _running_jobs(folder: FleetFolder, cluster: str) -> int:
    """How many jobs have pods that run in a cluster, and not only are shown by it; 0 where it cannot say."""
    try:
        client = SyncClient.from_kubeconfig(folder.admin_kubeconfig(cluster), timeout=ANSWER_S)
        pods, jobs = client.list(PODS, labels=f"!{CLUSTER_LABEL}")["items"], client.list(JOBS)["items"]
    except ConnectionFailed:
        raise
    except (ApiError, KubeconfigError):
        return 0
    wholes = {uid_of(job): str(owner["uid"]) for job in jobs if (owner := controller_of(job))}
    found = set()
    for pod in pods:
        owner = controller_of(pod)
        if status_of(pod).get("phase") == "Running" and (not owner or owner["kind"] not in SERVICES):
            uid = str(owner["uid"]) if owner else uid_of(pod)
            found.add(wholes.get(uid, uid))
    return len(found)


def _delete(folder: FleetFolder) -> None:
    from corral.fleet.removal import remove

    if not folder.marker.exists():
        if folder.root.exists():
            click.echo(
                f"Nothing is deleted: {folder.root} is not the folder of a fleet, it has no {folder.marker.name}."
            )
        return
    try:
        with FolderLock(folder.root):
            left = [path.name for path in remove(folder)]
    except Held as error:
        raise click.ClickException(f"nothing is deleted: process {error.pid} uses {folder.root}") from error
    if left:
        shown = ", ".join(left[:5]) + (", …" if len(left) > 5 else "")
        click.echo(
            f"Deleted the fleet in {folder.root}. The folder stays: it has files that Corral did not make ({shown})."
        )
    else:
        click.echo(f"Deleted {folder.root}." if not folder.root.exists() else f"Deleted the fleet in {folder.root}.")
