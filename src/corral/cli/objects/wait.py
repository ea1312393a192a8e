"""`corral wait`: until jobs have ended, or until objects are what somebody waits for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from corral.cli.completion import complete_target
from corral.cli.lookup import is_missing, targets_meant
from corral.cli.objects.targets import selector_option, typed
from corral.cli.options import client_of, cluster_options, namespace_of
from corral.cli.output.formats import typed_name
from corral.cli.output.templates import TemplateError, checked_path, plain
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import NotFound
from corral.core.meta import Obj, labels_of, name_of
from corral.core.meta import namespace_of as namespace_of_object
from corral.core.resource import Resource
from corral.core.timestamps import parse_duration
from corral.inspect.concerns import Attention
from corral.inspect.job_explanation import is_job
from corral.inspect.lookup import workload_of
from corral.jobs.framework.registry import ENDINGS
from corral.kinds.kueue import names
from corral.kinds.machinery import jsonpath

POLL_S: Final = 0.3
TIMED_OUT: Final = 1
HOW_TO: Final = "finished, admitted, delete, condition=TYPE[=STATUS] or jsonpath=PATH[=VALUE]"

Held = bool | None
"""Whether what is waited for has come (True), can never come (False), or has not come yet (None)."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What is waited for."""

    text: str
    holds: Callable[[SyncClient, Resource, Obj], Held]
    is_deletion: bool = False


@click.command()
@click.argument("words", nargs=-1, metavar="TARGET...", shell_complete=complete_target)
@selector_option
@click.option("--for", "aim", default="finished", show_default=True, metavar="WHAT", help=f"{HOW_TO}.")
@click.option("--timeout", default="", help="Give up after this long, e.g. 10m; without it, as long as it takes.")
@cluster_options
def wait(
    words: tuple[str, ...],
    selector: str,
    aim: str,
    timeout: str,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Wait until every TARGET has ended. The exit code is 0 if all succeeded, and 1 if one failed or time ran out. What keeps
    a job from running is said once, meanwhile.

    \b
    corral wait job/train
    corral wait job/a job/b --timeout 2h
    corral wait pytorchjob/mnist --for admitted
    corral wait -l corral.dev/batch=sweep
    corral wait pod/shell --for condition=Ready
    """
    client = client_of(kubeconfig_path, context)
    wanted = _aim(aim)
    deadline = None if not timeout else time.monotonic() + _seconds(timeout)
    try:
        found = targets_meant(client, words, selector, namespace_of(client, namespace))
    except click.ClickException as error:
        if wanted.is_deletion and is_missing(error):
            return  # it is gone already
        raise
    jobs = [(resource, namespace_of_object(obj), name_of(obj)) for resource, obj in found if is_job(resource)]
    attention = Attention(jobs, time.monotonic())
    reached = [_until(client, resource, typed(resource, obj), wanted, deadline, attention) for resource, obj in found]
    sys.exit(0 if all(reached) else 1)


def _until(
    client: SyncClient, resource: Resource, obj: Obj, aim: Aim, deadline: float | None, attention: Attention
) -> bool:
    name, namespace = name_of(obj), namespace_of_object(obj)
    while True:
        if (held := aim.holds(client, resource, obj)) is not None:
            attention.drop(resource, namespace, name)
            click.echo(f"{typed_name(obj)} {_end(aim, held)}")
            return held
        if deadline is not None and time.monotonic() > deadline:
            click.echo(
                f"Error: time ran out: {typed_name(obj)} is not {aim.text} yet; "
                f"`corral explain {resource.kind.lower()}/{name}` says why",
                err=True,
            )
            return False
        for sentence in attention.look(client, time.monotonic()):
            click.echo(f"# {sentence}", err=True)
        time.sleep(POLL_S)
        try:
            obj = typed(resource, client.get(resource, name, namespace))
        except NotFound:
            attention.drop(resource, namespace, name)
            click.echo(f"{typed_name(obj)} deleted", err=not aim.is_deletion)
            return aim.is_deletion


def _end(aim: Aim, held: bool) -> str:
    if aim.text == "finished":
        return "succeeded" if held else "failed"
    return aim.text if held else f"failed, and was not {aim.text}"


def _aim(text: str) -> Aim:
    kind, _, rest = text.partition("=")
    if text == "finished":
        return Aim(text, _finished)
    if text == "admitted":
        return Aim(text, _admitted)
    if text == "delete":
        return Aim("deleted", lambda client, resource, obj: None, is_deletion=True)
    if kind == "condition" and rest:
        condition, _, status = rest.partition("=")
        return Aim(rest, lambda client, resource, obj: _is(obj, condition, status or "True"))
    if kind == "jsonpath" and rest:
        return _at_path(rest)
    raise click.BadParameter(f"{text!r} is not one of {HOW_TO}", param_hint="--for")


def _at_path(text: str) -> Aim:
    closing = text.rfind("}=") + 1 if text.startswith("{") else text.rfind("=")
    path, value = (text[:closing], text[closing + 1 :]) if closing > 0 else (text, "")
    try:
        path = checked_path(path)
    except TemplateError as error:
        raise click.BadParameter(str(error), param_hint="--for") from error

    def holds(client: SyncClient, resource: Resource, obj: Obj) -> Held:
        found = [plain(one) for one in jsonpath.find(path, obj)]
        return True if (value in found if value else found) else None

    return Aim(text, holds)


def _finished(client: SyncClient, resource: Resource, obj: Obj) -> Held:
    """Whether a job has ended well; a kind that is none of ours tells it by its Workload."""
    if resource.kind == "Pod":
        return {"Succeeded": True, "Failed": False}.get(str((obj.get("status") or {}).get("phase")))
    if ENDINGS.knows(resource.group, resource.kind):
        return ENDINGS.success(obj)
    workload = workload_of(client, resource, obj, namespace_of_object(obj))
    if workload is None:
        if names.QUEUE_NAME in labels_of(obj):
            return None
        raise click.ClickException(
            f"a {resource.kind} has no end of its own; say what to wait for with --for: {HOW_TO}"
        )
    finished = conditions.find(workload, names.FINISHED) or {}
    return finished.get("reason") != "Failed" if finished.get("status") == "True" else None


def _admitted(client: SyncClient, resource: Resource, obj: Obj) -> Held:
    workload = workload_of(client, resource, obj, namespace_of_object(obj))
    if workload is None:
        return None
    if conditions.is_true(workload, "Admitted"):
        return True
    return False if conditions.is_true(workload, names.FINISHED) else None


def _is(obj: Obj, condition: str, status: str) -> Held:
    found = next((one for one in conditions.conditions_of(obj) if one["type"].lower() == condition.lower()), None)
    return True if found is not None and str(found.get("status")).lower() == status.lower() else None


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}; write it as 90s or 10m", param_hint="--timeout") from error
