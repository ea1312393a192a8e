"""`corral up`, `status` and `kubectl-config`: a fleet of clusters on this machine."""

from __future__ import annotations

import functools
import gc
import signal
import time
from collections.abc import Callable
from pathlib import Path

import click
from click.core import ParameterSource

from corral.configuration import fleet as config
from corral.fleet.folder import FleetFolder, FleetStatus
from corral.fleet.lock import FolderLock, Held
from corral.fleet.starter import SIGNALS, Interruptions, NotStarted, await_ready, spawn

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
    spec = _wanted(folder, workers, members, nodes, cpu, memory, gpu, file, simulated, bare)
    try:
        folder.create()
    except config.FleetError as error:
        raise click.ClickException(str(error)) from error
    with Interruptions() as interruptions, locked(folder) as lock:
        before = _last(folder)
        try:
            interruptions.check()
            folder.write_spec(spec)
            _start(spec, folder, lock, interruptions, foreground=foreground)
        except NotStarted as error:
            # The next `corral up` must not come back to what does not start.
            folder.write_spec(before)
            raise click.ClickException(str(error)) from error


def locked(folder: FleetFolder) -> FolderLock:
    """The folder for this fleet alone."""
    try:
        return FolderLock(folder.root)
    except Held as error:
        which, status = which_option(folder), folder.read_status()
        if status is not None and status.ready:
            raise click.ClickException(
                f"a fleet is already running in {folder.root}; "
                f"`corral status{which}` shows it, `corral down{which}` stops it"
            ) from error
        raise click.ClickException(
            f"process {error.pid} is starting or stopping a fleet in {folder.root}; `corral status{which}` shows when it is ready, "
            f"`corral down{which}` stops it"
        ) from error


def _start(
    spec: config.FleetSpec, folder: FleetFolder, lock: FolderLock, interruptions: Interruptions, *, foreground: bool
) -> None:
    started = time.monotonic()
    if foreground:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        interruptions.check()
        on_ready = functools.partial(_print_next_steps, spec, folder, started)
        try:
            _supervise(spec, folder, lock, on_ready)
        except OSError as error:
            raise click.ClickException(f"the fleet did not start: {error}") from error
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return
    supervisor = spawn(folder, lambda: _supervise(spec, folder, lock))
    _print_next_steps(spec, folder, started, await_ready(folder, supervisor, interruptions))


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
            _refuse_beside(f"what is started is described in {file}", "file")
            return config.load(file)
        if workers is None and not members and (known := folder.read_spec()) is not None:
            _refuse_beside(f"the fleet in {folder.root} comes back as it was; add --workers or --fleet to change it")
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


def _refuse_beside(why: str, *others: str) -> None:
    """Options that describe a fleet are refused where the fleet is described elsewhere, rather than ignored."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_given and name not in ("foreground", "state", *others):
            raise click.UsageError(f"{parameter.opts[0]} has no effect here: {why}")


def _supervise(
    spec: config.FleetSpec,
    folder: FleetFolder,
    lock: FolderLock,
    on_ready: Callable[[FleetStatus], None] = lambda status: None,
) -> None:
    # Nothing of what is imported is garbage; the clusters switch the collector on again.
    gc.disable()
    from corral.fleet.introduce import introduce
    from corral.fleet.process import preload, run_cluster
    from corral.fleet.supervisor import Supervisor
    from corral.runtime import logs

    preload(spec)
    logs.set_up(verbosity=1)
    supervisor = Supervisor(spec, folder, lock, run_cluster, introduce)
    supervisor.on_ready = on_ready
    supervisor.run()


def _print_next_steps(spec: config.FleetSpec, folder: FleetFolder, started: float, status: FleetStatus) -> None:
    seconds = time.monotonic() - started
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
    click.echo(f"  corral status{which_option(folder)}")
    click.echo(f"  corral down{which_option(folder)}")


def which_option(folder: FleetFolder) -> str:
    """The option that names a fleet, where it is not the usual one."""
    return "" if folder.root == FleetFolder.default().root else f" --state {folder.root}"


@click.command()
@state_option
def status(state: Path | None) -> None:
    """Show each cluster: its address, process, restarts and whether it answers."""
    from corral.client.sync import SyncClient
    from corral.core.errors import ApiError, ConnectionFailed

    folder = folder_of(state)
    found = folder.read_status()
    if found is None and folder.holder() is not None:
        raise click.ClickException(f"a fleet is being started or stopped in {folder.root}; ask again in a moment")
    if found is None:
        raise click.ClickException(
            f"no fleet is running in {folder.root}; `corral up{which_option(folder)}` starts one"
        )
    rows = [("CLUSTER", "URL", "PID", "RESTARTS", "STATE")]
    for cluster in found.clusters:
        answer = "starting"
        if cluster.url:
            try:
                SyncClient.from_kubeconfig(folder.admin_kubeconfig(cluster.name)).call("GET", "/readyz")
                answer = "ready"
            except ConnectionFailed as error:
                answer = f"not answering: {error}"
            except ApiError as error:
                answer = f"not ready: {str(error).splitlines()[0].removeprefix('[-]')}"
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
        raise click.ClickException(f"no kubeconfig in {folder.root}; `corral up{which_option(folder)}` writes one")
    click.echo(str(folder.kubeconfig) if path else f"export KUBECONFIG={folder.kubeconfig}")
