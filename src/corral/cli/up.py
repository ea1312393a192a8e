"""`corral up`, `status` and `kubectl-config`: a fleet of clusters on this machine."""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from click.core import ParameterSource

from corral.cli.output.listing import Listing, Output, output_options, show
from corral.configuration import fleet as config
from corral.fleet.folder import ClusterStatus, FleetFolder, FleetStatus
from corral.fleet.lock import FolderLock, Held
from corral.fleet.starter import SIGNALS, Interruptions, NotStarted, await_ready, spawn
from corral.inspect.asking import asked_at_once

if TYPE_CHECKING:
    from corral.client.sync import SyncClient

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
@click.option("--cpu", default="", help="CPUs of each node (default: its share of the machine).")
@click.option("--memory", default="", help="Memory of each node (default: its share of the machine).")
@click.option(
    "--gpu",
    multiple=True,
    metavar="RESOURCE=COUNT",
    help="Extended resource of each node, e.g. nvidia.com/gpu=4 (default: its share of the GPUs found).",
)
@click.option("--overcommit", is_flag=True, help="Let the nodes have more together than the machine.")
@click.option(
    "-f", "--file", "file", type=click.Path(path_type=Path), help="A fleet.yaml instead of the options above."
)
@click.option("--simulated", is_flag=True, help="Simulate pods instead of running processes.")
@click.option(
    "--runtime", type=click.Choice([config.PROCESS, *config.ENGINES]), default=config.PROCESS, show_default=True,
    help="What containers are: processes of this machine, or an engine's, with real images.",
)  # fmt: skip
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
    overcommit: bool,
    file: Path | None,
    simulated: bool,
    runtime: str,
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
    if simulated and runtime != config.PROCESS:
        raise click.UsageError("--simulated and --runtime exclude each other")
    spec = _wanted(folder, workers, members, nodes, cpu, memory, gpu, overcommit, file, simulated, runtime, bare)
    _find_engines(spec)
    try:
        folder.create()
        with Interruptions() as interruptions, locked(folder) as lock:
            before = _last(folder)
            try:
                interruptions.check()
                folder.write_spec(spec)
                _start(spec, folder, lock, interruptions, foreground=foreground)
            except NotStarted as error:
                # The next `corral up` must not come back to what does not start.
                with contextlib.suppress(OSError):  # what cannot be written is not what keeps it from starting
                    folder.write_spec(before)
                raise click.ClickException(str(error)) from error
    except config.FleetError as error:
        raise click.ClickException(str(error)) from error
    except BrokenPipeError:
        raise  # nobody reads what is said of a fleet that is up
    except OSError as error:
        raise click.ClickException(_no_start(folder, error)) from error


def _no_start(folder: FleetFolder, error: OSError) -> str:
    said = f"the fleet did not start: {f'{error.filename}: {error.strerror}' if error.filename else error}"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        said += f"\nCorral keeps the fleet's state in {folder.root} and has to write there; name another folder with --state"
    return said


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

        def on_ready(status: FleetStatus) -> None:
            _print_next_steps(spec, folder, started, status)

        try:
            _supervise(spec, folder, lock, on_ready)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return
    supervisor = spawn(folder, lambda: _supervise(spec, folder, lock))
    status = await_ready(folder, supervisor, interruptions)
    is_set_up = _print_next_steps(spec, folder, started, status)
    for sentence in not_ready(folder, status):  # a disk that was just large enough for the start is full now
        click.echo(f"Warning: {sentence}", err=True)
    if not is_set_up:
        sys.exit(1)


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
    overcommit: bool,
    file: Path | None,
    simulated: bool,
    runtime: str,
    bare: bool,
) -> config.FleetSpec:
    try:
        if file is not None:
            _refuse_beside(f"what is started is described in {file}", "file", "overcommit")
            described = _with_catalog(config.load(file))
            return _divided(msgspec.structs.replace(described, overcommit=overcommit or described.overcommit))
        if workers is None and not members and (known := folder.read_spec()) is not None:
            _refuse_beside(f"the fleet in {folder.root} comes back as it was; add --workers or --fleet to change it")
            return known
        extended = dict(entry.partition("=")[::2] for entry in gpu)
        if any(not count for count in extended.values()):
            raise click.BadParameter("write it as RESOURCE=COUNT, e.g. nvidia.com/gpu=4", param_hint="--gpu")
        default = 0 if members else 2
        fleet = config.standard(
            workers=default if workers is None else workers,
            members=members,
            nodes=nodes,
            cpu=cpu,
            memory=memory,
            extended=extended,
            runtime="simulated" if simulated else runtime,
            queues=not bare,
            overcommit=overcommit,
        )
        return _divided(fleet)
    except config.FleetError as error:
        raise click.ClickException(str(error)) from error


def _divided(fleet: config.FleetSpec) -> config.FleetSpec:
    """The fleet with what its nodes have of this machine."""
    from corral.fleet.machine_shares import divided, find_machine

    return divided(fleet, find_machine())


def _find_engines(spec: config.FleetSpec) -> None:
    """An engine that is not there, or does not answer, is told before anything starts."""
    for kind in sorted(
        {cluster.runtime for cluster in spec.clusters if cluster.nodes and cluster.runtime in config.ENGINES}
    ):
        import asyncio

        from corral.node.engine.client import Engine, EngineMissing

        try:
            asyncio.run(Engine.find(kind).check())
        except EngineMissing as error:
            raise click.ClickException(str(error)) from error


def _with_catalog(spec: config.FleetSpec) -> config.FleetSpec:
    """The fleet, once its image catalog has been read: a slip of the pen is told before anything starts."""
    if spec.images:
        from corral.node.images import Catalog

        try:
            Catalog.load(Path(spec.images))
        except (OSError, ValueError) as error:
            raise config.FleetError(str(error)) from error
    return spec


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
    from corral.fleet.process import end_programs, preload, run_cluster
    from corral.fleet.supervisor import Supervisor
    from corral.runtime import logs

    preload(spec)
    logs.set_up(verbosity=1)
    supervisor = Supervisor(spec, folder, lock, run_cluster, introduce, end_programs)
    supervisor.on_ready = on_ready
    supervisor.run()


def _print_next_steps(spec: config.FleetSpec, folder: FleetFolder, started: float, status: FleetStatus) -> bool:
    """What there is and what to type now; False where clusters run that could not be made a fleet."""
    seconds = time.monotonic() - started
    for cluster in status.clusters:
        described = spec.cluster(cluster.name)
        click.echo(f"{cluster.name:<12} {cluster.url:<28} {', '.join(described.roles) or 'cluster'}{_has(described)}")
    if status.problem:
        click.echo(
            f"Error: {status.problem}; the clusters run, and jobs do not: `corral down{which_option(folder)}` stops them",
            err=True,
        )
        return False
    click.echo(f"Ready in {seconds:.1f} s. State is in {folder.root}\n")
    click.echo(f"  export KUBECONFIG={folder.kubeconfig}")
    if spec.queues and (spec.with_role(config.MANAGER) or not spec.with_role(config.HUB)):
        where = "queued on the manager, run on a worker" if spec.with_role(config.MANAGER) else "queued, then run"
        click.echo(f"  corral run train.py                     # a script of yours: {where}")
        click.echo("  corral examples show job | corral apply -f -")
        click.echo("  corral explain job/NAME                 # where it went, or why it waits")
        click.echo("  corral logs job/NAME --follow           # what it writes")
    if spec.with_role(config.HUB):
        click.echo("  corral fleet members                    # who has joined, and what is free there")
        click.echo("  corral fleet placements                 # what is placed where")
    click.echo(f"  corral status{which_option(folder)}")
    click.echo(f"  corral down{which_option(folder)}")
    return True


def _has(cluster: config.ClusterSpec) -> str:
    """What the nodes of a cluster have together, to be read behind its roles."""
    if not cluster.nodes:
        return ""
    from corral.fleet.introduce import capacity

    amounts = capacity([cluster])
    cpu, memory = amounts.pop("cpu"), amounts.pop("memory")
    others = [f", {amount} {resource}" for resource, amount in amounts.items() if resource != "pods" and amount != "0"]
    pretends = ", simulated pods" if cluster.is_simulated else ""
    return f" ({cpu} CPU{'' if cpu == '1' else 's'}, {memory} memory{''.join(others)}{pretends})"


def which_option(folder: FleetFolder) -> str:
    """The option that names a fleet, where it is not the usual one."""
    return "" if folder.root == FleetFolder.default().root else f" --state {folder.root}"


@click.command()
@output_options
@state_option
def status(output: Output, state: Path | None) -> None:
    """Show each cluster: its address, process, restarts and whether it answers. One that hangs is said to, and not
    waited for."""
    folder = folder_of(state)
    show(output, lambda: [_clusters(folder, is_talking=output.format.is_table)])


def _clusters(folder: FleetFolder, *, is_talking: bool) -> Listing:
    """The clusters of a fleet, all asked at once; what else they want to be known is said on the way."""
    found = folder.read_status()
    if found is None and folder.holder() is not None:
        raise click.ClickException(f"a fleet is being started or stopped in {folder.root}; ask again in a moment")
    if found is None:
        raise click.ClickException(
            f"no fleet is running in {folder.root}; `corral up{which_option(folder)}` starts one"
        )
    answers = _answers(folder, found)
    spec = _last(folder)
    simulated = {cluster.name for cluster in spec.clusters if cluster.is_simulated} if spec else set()
    rows, objects = [], []
    for cluster in found.clusters:
        pretends = ", pods are simulated" if cluster.name in simulated else ""
        state = _state(cluster, answers.get(cluster.name)) + pretends
        rows.append((cluster.name, cluster.url, cluster.pid, cluster.restarts, state))
        fields = {"url": cluster.url, "pid": cluster.pid, "restarts": cluster.restarts, "state": state}
        objects.append({"kind": "Cluster", "metadata": {"name": cluster.name}, **fields})
    if is_talking:
        for name, answer in answers.items():
            for sentence in answer if isinstance(answer, list) else ():
                click.echo(f"{name}: {sentence}", err=True)
        if found.problem:
            click.echo(f"Warning: {found.problem}", err=True)
    return Listing(("CLUSTER", "URL", "PID", "RESTARTS", "STATE"), rows, objects)


def not_ready(folder: FleetFolder, status: FleetStatus) -> list[str]:
    """What is wrong with each cluster of a fleet that is up."""
    answers = _answers(folder, status)
    states = {cluster.name: _state(cluster, answers.get(cluster.name)) for cluster in status.clusters}
    return [f"cluster {name} is {state}" for name, state in states.items() if state != "ready"]


def _answers(folder: FleetFolder, status: FleetStatus) -> dict[str, list[str] | Exception]:
    asked = {cluster.name: functools.partial(_ask, folder, cluster.name) for cluster in status.clusters if cluster.url}
    return asked_at_once(asked)


def _ask(folder: FleetFolder, cluster: str) -> list[str]:
    """What a cluster that is ready wants to be known."""
    from corral.client.limits import ANSWER_S
    from corral.client.sync import SyncClient

    client = SyncClient.from_kubeconfig(folder.admin_kubeconfig(cluster), timeout=ANSWER_S)
    client.call("GET", "/readyz")
    return _notices_of(client)


def _state(cluster: ClusterStatus, answer: list[str] | Exception | None) -> str:
    from corral.core.errors import ApiError, ConnectionFailed

    if answer is None:
        return f"restarting ({cluster.last_exit})" if cluster.last_exit else "starting"
    if isinstance(answer, ConnectionFailed | TimeoutError):
        return f"not answering: {answer}"
    if isinstance(answer, ApiError):
        return f"not ready: {str(answer).splitlines()[0].removeprefix('[-]')}"
    if isinstance(answer, Exception):
        raise answer
    return "ready"


def _notices_of(client: SyncClient) -> list[str]:
    """What a cluster wants to be known about itself."""
    from corral.core.errors import NotFound
    from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
    from corral.kinds.kubernetes.notices import NAME, NAMESPACE, sentences

    try:
        return sentences(client.get(CONFIG_MAPS, NAME, NAMESPACE))
    except NotFound:
        return []


@click.command("kubectl-config")
@click.option("--path", is_flag=True, help="Print only the file's path.")
@state_option
def kubectl_config(path: bool, state: Path | None) -> None:
    """Print how to point kubectl at the fleet."""
    folder = folder_of(state)
    if not folder.kubeconfig.exists():
        raise click.ClickException(f"no kubeconfig in {folder.root}; `corral up{which_option(folder)}` writes one")
    click.echo(str(folder.kubeconfig) if path else f"export KUBECONFIG={folder.kubeconfig}")
