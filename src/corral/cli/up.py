"""`corral up`, `down`, `status` and `kubectl-config`: a fleet of clusters on this machine."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from corral.configuration import fleet as config
from corral.fleet.folder import FleetFolder, FleetStatus, is_running

START_TIMEOUT_S = 60.0
FULL_BYTES = 64 * 1024
GIVE_UP_AFTER = 2  # restarts of a cluster that has never been ready

state_option = click.option(
    "--state", type=click.Path(path_type=Path), envvar="CORRAL_HOME", help="Folder of the fleet (default ~/.corral)."
)


def folder_of(state: Path | None) -> FleetFolder:
    return FleetFolder(state.absolute()) if state else FleetFolder.default()


@click.command()
@click.option("--workers", type=click.IntRange(0, 100), default=None, help="Worker clusters beside the manager.")
@click.option(
    "--fleet", "members", type=click.IntRange(0, 100), default=0, help="Member clusters of a placement fleet."
)
@click.option("--nodes", type=click.IntRange(1), default=1, help="Virtual nodes in each worker.")
@click.option("--cpu", default="8", help="CPUs of each node.")
@click.option("--memory", default="32Gi", help="Memory of each node.")
@click.option(
    "--gpu", multiple=True, metavar="RESOURCE=COUNT", help="Extended resource of each node, e.g. nvidia.com/gpu=4."
)
@click.option(
    "-f", "--file", "file", type=click.Path(path_type=Path), help="A fleet.yaml instead of the options above."
)
@click.option("--simulated", is_flag=True, help="Simulate pods instead of running processes.")
@click.option("--bare", is_flag=True, help="Do not create queues; start with empty clusters.")
@click.option("--foreground", is_flag=True, help="Stay in the foreground; Ctrl-C stops the fleet.")
@state_option
def up(
    workers: int | None,
    members: int,
    nodes: int,
    cpu: str,
    memory: str,
    gpu: tuple[str, ...],
    file: Path | None,
    simulated: bool,
    bare: bool,
    foreground: bool,
    state: Path | None,
) -> None:
    """Start a manager and worker clusters, each its own process, and print what to do next. Without options, the
    fleet that was stopped comes back; the first time it is a manager and two workers.

    \b
    corral up --workers 3 --gpu nvidia.com/gpu=4     # a manager and three workers
    corral up --workers 0                            # one cluster that queues and runs jobs
    corral up --fleet 3                              # a hub and three members
    corral up -f fleet.yaml                          # what the file describes
    """
    folder = folder_of(state)
    if folder.read_status() is not None:
        which = _which(folder)
        raise click.ClickException(
            f"a fleet is already running in {folder.root}; `corral status{which}` shows it, `corral down{which}` stops it"
        )
    spec = _wanted(folder, workers, members, nodes, cpu, memory, gpu, file, simulated, bare)
    before = _last(folder)
    try:
        folder.create()
    except config.FleetError as error:
        raise click.ClickException(str(error)) from error
    folder.write_spec(spec)
    started = time.monotonic()
    if foreground:
        try:
            _supervise(spec, folder, lambda ready: _print_next_steps(spec, folder, ready, time.monotonic() - started))
        except OSError as error:
            raise click.ClickException(f"the fleet did not start: {error}") from error
        return
    supervisor = _spawn(spec, folder)
    try:
        status = _await_ready(folder, supervisor)
    except click.ClickException:
        # The next `corral up` must not come back to what does not start.
        folder.write_spec(before)
        raise
    _print_next_steps(spec, folder, status, time.monotonic() - started)


def _last(folder: FleetFolder) -> config.FleetSpec | None:
    """What was started before, if that can be known."""
    try:
        return folder.read_spec()
    except config.FleetError:
        return None


def _wanted(
    folder: FleetFolder,
    workers: int | None,
    members: int,
    nodes: int,
    cpu: str,
    memory: str,
    gpu: tuple[str, ...],
    file: Path | None,
    simulated: bool,
    bare: bool,
) -> config.FleetSpec:
    try:
        if file is not None:
            return config.load(file)
        if workers is None and not members and (known := folder.read_spec()) is not None:
            return known
        extended = dict(entry.partition("=")[::2] for entry in gpu)
        if any(not count for count in extended.values()):
            raise click.BadParameter("write it as RESOURCE=COUNT, e.g. nvidia.com/gpu=4", param_hint="--gpu")
        default = 0 if members else 2
        return config.standard(
            workers=default if workers is None else workers,
            members=members,
            nodes=nodes,
            cpu=cpu,
            memory=memory,
            extended=extended,
            runtime="simulated" if simulated else "process",
            queues=not bare,
        )
    except config.FleetError as error:
        raise click.ClickException(str(error)) from error


def _supervise(
    spec: config.FleetSpec, folder: FleetFolder, on_ready: Callable[[FleetStatus], None] = lambda status: None
) -> None:
    # Nothing of what is imported is garbage; the clusters switch the collector on again.
    gc.disable()
    from corral.fleet.introduce import introduce
    from corral.fleet.process import preload, run_cluster
    from corral.fleet.supervisor import Supervisor
    from corral.runtime import logs

    preload(spec)
    logs.set_up(verbosity=1)
    supervisor = Supervisor(spec, folder, run_cluster, introduce)
    supervisor.on_ready = on_ready
    supervisor.run()


def _spawn(spec: config.FleetSpec, folder: FleetFolder) -> int:
    """Start the supervisor in a session of its own, so that it outlives this command."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        log = os.open(folder.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        _supervise(spec, folder)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _await_ready(folder: FleetFolder, supervisor: int) -> FleetStatus:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        status = folder.read_status()
        if status is not None and status.supervisor != supervisor:
            status = None
        if status is not None and status.ready:
            return status
        failing = [cluster for cluster in status.clusters if cluster.restarts >= GIVE_UP_AFTER] if status else []
        if failing:
            _stop(supervisor)
            name = failing[0].name
            log = folder.root / "logs" / f"{name}.log"
            raise click.ClickException(f"cluster {name} does not start: {_last_line(log)}\nIts log is {log}")
        ended, _ = os.waitpid(supervisor, os.WNOHANG)
        if ended:
            is_full = shutil.disk_usage(folder.root).free < FULL_BYTES
            fallback = f"no space is left in {folder.root}" if is_full else f"see {folder.root / 'logs'}"
            why = _last_line(folder.supervisor_log) or fallback
            raise click.ClickException(f"the fleet did not start: {why}")
        time.sleep(0.02)
    os.kill(supervisor, signal.SIGTERM)
    raise click.ClickException(f"the fleet was not ready within {START_TIMEOUT_S:.0f} s; see {folder.root / 'logs'}")


def _stop(supervisor: int) -> None:
    os.kill(supervisor, signal.SIGTERM)
    os.waitpid(supervisor, 0)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return re.sub(r"^[\w.]*Error: ", "", last)  # what was raised is the program's business, why is the user's


def _print_next_steps(spec: config.FleetSpec, folder: FleetFolder, status: FleetStatus, seconds: float) -> None:
    for cluster in status.clusters:
        roles = ", ".join(spec.cluster(cluster.name).roles) or "cluster"
        click.echo(f"{cluster.name:<12} {cluster.url:<28} {roles}")
    if status.problem:
        click.echo(f"Warning: {status.problem}", err=True)
    click.echo(f"Ready in {seconds:.1f} s. State is in {folder.root}\n")
    click.echo(f"  export KUBECONFIG={folder.kubeconfig}")
    click.echo("  kubectl config get-contexts")
    if spec.queues and (spec.with_role(config.MANAGER) or not spec.with_role(config.HUB)):
        where = "queued on the manager, run on a worker" if spec.with_role(config.MANAGER) else "queued, then run"
        click.echo(f"  kubectl create -f examples/job.yaml     # {where}")
        click.echo("  corral explain job/NAME                 # where it went, or why it waits")
        click.echo("  corral logs job/NAME --follow           # what it writes")
    if spec.with_role(config.HUB):
        click.echo("  corral fleet members                    # who has joined, and what is free there")
        click.echo("  corral fleet placements                 # what is placed where")
    click.echo(f"  corral status{_which(folder)}")
    click.echo(f"  corral down{_which(folder)}")


def _which(folder: FleetFolder) -> str:
    """The option that names a fleet, where it is not the usual one."""
    return "" if folder.root == FleetFolder.default().root else f" --state {folder.root}"


@click.command()
@click.option("--delete", is_flag=True, help="Also delete the fleet's state: all that Corral made, and nothing else.")
@click.option("-y", "--yes", is_flag=True, help="With --delete: do not ask.")
@state_option
def down(delete: bool, yes: bool, state: Path | None) -> None:
    """Stop the fleet. Its state is kept for the next `corral up` unless --delete is given."""
    folder = folder_of(state)
    if delete and not yes and folder.marker.exists() and sys.stdin.isatty():
        question = f"Delete the fleet in {folder.root}, with all its jobs, logs and what its pods have written?"
        click.confirm(question, abort=True)
    status = folder.read_status()
    if status is None:
        click.echo(f"No fleet is running in {folder.root}.")
    else:
        os.kill(status.supervisor, signal.SIGTERM)
        deadline = time.monotonic() + 30
        while is_running(status.supervisor) and time.monotonic() < deadline:
            time.sleep(0.02)
        number = len(status.clusters)
        click.echo(f"Stopped {number} cluster{'' if number == 1 else 's'}.")
    if delete:
        _delete(folder)


def _delete(folder: FleetFolder) -> None:
    from corral.fleet.removal import remove

    if not folder.marker.exists():
        if folder.root.exists():
            click.echo(
                f"Nothing is deleted: {folder.root} is not the folder of a fleet, it has no {folder.marker.name}."
            )
        return
    left = [path.name for path in remove(folder)]
    if left:
        shown = ", ".join(left[:5]) + (", …" if len(left) > 5 else "")
        click.echo(
            f"Deleted the fleet in {folder.root}. The folder stays: it has files that Corral did not make ({shown})."
        )
    else:
        click.echo(f"Deleted {folder.root}." if not folder.root.exists() else f"Deleted the fleet in {folder.root}.")


@click.command()
@state_option
def status(state: Path | None) -> None:
    """Show each cluster: its address, process, restarts and whether it answers."""
    from corral.client.sync import SyncClient
    from corral.core.errors import ApiError

    folder = folder_of(state)
    found = folder.read_status()
    if found is None:
        raise click.ClickException(f"no fleet is running in {folder.root}; `corral up{_which(folder)}` starts one")
    rows = [("CLUSTER", "URL", "PID", "RESTARTS", "STATE")]
    for cluster in found.clusters:
        answer = "starting"
        if cluster.url:
            try:
                SyncClient.from_kubeconfig(folder.admin_kubeconfig(cluster.name)).call("GET", "/readyz")
                answer = "ready"
            except ApiError as error:
                answer = f"not answering: {error}"
        elif cluster.last_exit:
            answer = f"restarting ({cluster.last_exit})"
        rows.append((cluster.name, cluster.url, str(cluster.pid), str(cluster.restarts), answer))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if found.problem:
        click.echo(f"Warning: {found.problem}", err=True)


@click.command("kubectl-config")
@click.option("--path", is_flag=True, help="Print only the file's path.")
@state_option
def kubectl_config(path: bool, state: Path | None) -> None:
    """Print how to point kubectl at the fleet."""
    folder = folder_of(state)
    if not folder.kubeconfig.exists():
        raise click.ClickException(f"no kubeconfig in {folder.root}; `corral up{_which(folder)}` writes one")
    click.echo(str(folder.kubeconfig) if path else f"export KUBECONFIG={folder.kubeconfig}")
