"""`corral run` and `corral submit`: a program becomes a job in a queue, without a manifest."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml
from click.core import ParameterSource

from corral.cli.completion import complete_kind, complete_queue
from corral.cli.following import Follower
from corral.cli.lookup import as_click_errors
from corral.cli.options import client_of, cluster_options
from corral.cli.output.interruptions import INTERRUPTED, PutOff
from corral.client.sync import SyncClient
from corral.core.meta import Obj, name_of
from corral.core.text_files import read_text
from corral.jobs.framework.registry import submission_makers
from corral.submit.archive import Archive
from corral.submit.request import Request, is_embedded, object_of, submission_for
from corral.submit.submitting import create, send

F = TypeVar("F", bound=Callable[..., Any])
_RUNNABLE = {"allow_interspersed_args": False}  # what follows the program is its own


def _job_options(command: F) -> F:
    for option in reversed((
        click.option("--gpus", type=click.IntRange(0), default=0, help="GPUs of each pod."),
        click.option("--cpus", default="", help="CPUs of each pod (default: 1, or what lets the job fit the largest worker)."),
        click.option("--memory", default="", help="Memory of each pod, such as 4Gi; one that takes more is ended."),
        click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Pods that run it."),
        click.option("--kind", default="job", show_default=True, shell_complete=complete_kind,
                     help=f"What kind of job: {', '.join(sorted(submission_makers()))}."),
        click.option("--env", "environment", multiple=True, metavar="K=V", help="Environment variable; repeatable."),
        click.option("--requirements", type=click.Path(), default="", metavar="FILE",
                     help="File of the folder whose packages are installed before the start."),
        click.option("--python", default="", help="Interpreter (default: the active environment's)."),
        click.option("--workdir", type=click.Path(path_type=Path, exists=True, file_okay=False), default=Path(),
                     help="Folder that goes with the job (default: this one)."),
        click.option("--in-place", is_flag=True,
                     help="Run in the folder itself, not in a copy: what the program writes stays there."),
        click.option("--fetch", multiple=True, metavar="PATH",
                     help="File, folder or pattern that the program writes: brought back here when it has ended; repeatable."),
        click.option("--no-code", is_flag=True, help="Send no folder: the image has everything."),
        click.option("--image", default="", help="Container image; needed where pods are containers."),
        click.option("--name", default="", help="Name of the job (default: from the script, with a suffix)."),
        click.option("--queue", default="", shell_complete=complete_queue,
                     help="LocalQueue (default: the only one of the namespace)."),
        click.option("--priority", default="", help="WorkloadPriorityClass."),
        click.option("--retries", type=click.IntRange(0), default=0, help="How often a failed pod is tried again."),
        click.option("--gpu-resource", default="nvidia.com/gpu", show_default=True, help="What a GPU is called."),
        click.option("--dry-run", is_flag=True, help="Print the object instead of creating it."),
        click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default=None,
                     help="How --dry-run prints it (default: yaml)."),
        cluster_options,
        click.option("-m", "module", is_flag=True, help="PROGRAM is a module of Python's, as of `python -m`."),
        click.argument("program", nargs=-1, required=True, type=click.Path()),
    )):  # fmt: skip
        command = option(command)
    return command


@click.command(context_settings=_RUNNABLE)
@_job_options
def run(**options: Any) -> None:
    """Run PROGRAM as a job, show its way and its logs, and end with its exit code. Ctrl-C cancels it.

    \b
    corral run train.py --lr 3e-4
    corral run --requirements requirements.txt train.py -- --lr 3e-4
    corral run --gpus 1 --workers 4 --kind pytorch train.py
    """
    _submit(follow=True, cancels=True, **options)


@click.command(context_settings=_RUNNABLE)
@click.option("-f", "--follow", is_flag=True, help="Show its way and its logs until it ends; Ctrl-C leaves it running.")
@click.option(
    "--count", type=click.IntRange(1), default=None, help="As many jobs at once; each finds its number in CORRAL_INDEX."
)
@click.option("--map", "each", type=click.Path(path_type=Path, exists=True, dir_okay=False), default=None, metavar="FILE",
              help="A job for every line of FILE, whose words follow the program's.")  # fmt: skip
@_job_options
def submit(follow: bool, count: int | None, each: Path | None, **options: Any) -> None:
    """Submit PROGRAM as a job and print its name.

    \b
    corral submit --queue team-a --name nightly train.py --epochs 90
    corral submit --dry-run -o yaml train.py
    corral submit --count 1000 --name sweep train.py
    corral submit --map parameters.txt train.py
    """
    if count is not None or each is not None:
        if count is not None and each is not None:
            raise click.UsageError("--count and --map exclude each other")
        if follow or options["dry_run"]:
            raise click.UsageError("--follow and --dry-run show one job; leave --count and --map away")
        _submit_many([()] * (count or 0) if each is None else _lines(each), **options)
        return
    _submit(follow=follow, cancels=False, **options)


def _submit(*, follow: bool, cancels: bool, dry_run: bool, output: str | None, **options: Any) -> None:
    if output and not dry_run:
        raise click.UsageError("-o says how --dry-run prints the object; use both")
    client = client_of(options.pop("kubeconfig_path"), options.pop("context"))
    request = _request(**options)
    with as_click_errors():
        request.check()
        archive = request.archive()
        wanted = submission_for(client, request, archive)
        resource, job = object_of(client, request.kind, wanted)
        for warning in filter(None, (wanted.warning, _about_image(client, request))):
            click.echo(f"# {warning}", err=True)
        if dry_run:
            _show(job, archive, output)
            return
        with PutOff(f"{wanted.name}: interrupted while it is created; it is taken back") as interruptions:
            made = create(client, resource, job, send(client, archive, wanted.namespace) if archive else [])
        if interruptions.seen:
            sys.exit(Follower(client, resource, made).cancel())
    click.echo(f"{resource.kind.lower()}/{name_of(made)}", err=follow)
    if follow:
        code = Follower(client, resource, made).follow(cancels=cancels)
        if code != INTERRUPTED:
            _tell_missing(request)
        sys.exit(code)


def _tell_missing(request: Request) -> None:
    for path in request.fetch:
        if Path(path).parts and not any(request.folder.glob(path)):
            click.echo(
                f"# {path} was not fetched: the program wrote no such thing into the folder it started in", err=True
            )


def _submit_many(each: Sequence[Sequence[str]], *, dry_run: bool, output: str | None, **options: Any) -> None:
    """Many jobs of one request; their names, in order."""
    import asyncio

    from corral.sdk.connection import Connection
    from corral.sdk.errors import CorralError
    from corral.sdk.many import create_many

    if output:
        raise click.UsageError("-o says how --dry-run prints the object; use both")

    async def create_all() -> None:
        connection = Connection(options.pop("kubeconfig_path"), options.pop("context"), options["namespace"])
        try:
            resource, made = await create_many(connection, _request(**options), each, {})
        finally:
            await connection.close()
        click.echo("\n".join(f"{resource.kind.lower()}/{name_of(job)}" for job in made))

    try:
        asyncio.run(create_all())
    except CorralError as error:
        raise click.ClickException(str(error)) from error


def _lines(file: Path) -> list[list[str]]:
    """The words of every line of a file, quoted as in a shell; empty lines and comments are left out."""
    found = []
    for number, line in enumerate(read_text(file).splitlines(), 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise click.ClickException(f"{file}:{number}: {error}") from error
        if words:
            found.append(words)
    if not found:
        raise click.ClickException(f"{file} has no lines: there is nothing to submit")
    return found


def _request(
    *, program: tuple[str, ...], module: bool, workdir: Path, no_code: bool, environment: tuple[str, ...], **rest: Any
) -> Request:
    if no_code and click.get_current_context().get_parameter_source("workdir") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--workdir names the folder that goes with the job, and --no-code sends none")
    if len(program) > 1 and program[1] == "--":  # for those who separate the script's own words
        program = (program[0], *program[2:])
    if module:
        program = ("-m", *program)
    return Request(
        program=program,
        folder=workdir.absolute(),
        sends_folder=not no_code,
        environment=dict(_pair(text) for text in environment),
        **rest,
    )


def _about_image(client: SyncClient, request: Request) -> str:
    """An image is taken for what it is where containers are run, and is a name where programs are."""
    if not request.image or not is_embedded(client):
        return ""
    return (
        f"image {request.image} is used where an engine runs containers (`corral up --runtime podman`); where pods are processes, "
        "this machine's own programs run"
    )


def _show(job: Obj, archive: Archive | None, output: str | None) -> None:
    if output == "json":
        click.echo(json.dumps(job, indent=2))
        return
    if archive is not None:
        pieces = archive.config_maps(job["metadata"]["namespace"])
        click.echo(f"# what goes with it: {len(archive.names)} files, packed, in {', '.join(map(name_of, pieces))}")
    apart = json.loads(json.dumps(job))  # what is there twice is written twice, and not as an anchor
    click.echo(yaml.safe_dump(apart, sort_keys=False, allow_unicode=True), nl=False)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.ClickException(f"--env {text}: write NAME=VALUE")
    return name, value
