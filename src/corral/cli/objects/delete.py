"""`corral delete`: objects of any kind, by name, by selector or by manifest; waited for until they are gone."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

import click

from corral.cli.completion import complete_resource
from corral.cli.lookup import is_missing
from corral.cli.objects.apply import placed, resource_of
from corral.cli.objects.manifests import file_options, read_manifests
from corral.cli.objects.targets import objects_of, selection_options, typed, wanted_of
from corral.cli.options import client_of, cluster_options
from corral.cli.output.formats import typed_name
from corral.client.sync import SyncClient
from corral.core.errors import NotFound
from corral.core.meta import Obj, name_of, namespace_of, uid_of
from corral.core.resource import Resource
from corral.core.timestamps import parse_duration

POLL_S: Final = 0.2
CASCADES: Final = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}

Found = tuple[Resource, Obj]


@click.command()
@click.argument("words", nargs=-1, metavar="[KIND NAME... | KIND/NAME...]", shell_complete=complete_resource)
@file_options
@selection_options
@click.option("--all", "everything", is_flag=True, help="All objects of the kind in the namespace.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask, on a terminal, before all objects of a kind are deleted.")
@click.option("--ignore-not-found", is_flag=True, help="What is not there is no error.")
@click.option(
    "--cascade", type=click.Choice(sorted(CASCADES)), default="background", help="What becomes of what it owns."
)
@click.option("--grace-period", type=int, default=None, help="Seconds pods have to end.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted.")
@click.option("--wait/--no-wait", default=True, help="Wait until they are gone (default), or only ask for it.")
@click.option("--timeout", default="", help="Wait no longer, e.g. 30s; without it, as long as it takes.")
@cluster_options
def delete(
    words: tuple[str, ...],
    files: tuple[str, ...],
    recursive: bool,
    selector: str,
    field_selector: str,
    all_namespaces: bool,
    everything: bool,
    yes: bool,
    ignore_not_found: bool,
    cascade: str,
    grace_period: int | None,
    dry_run: bool,
    wait: bool,
    timeout: str,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Delete objects of any kind, with what they own.

    \b
    corral delete job/train pod/shell
    corral delete jobs -l team=vision
    corral delete -f job.yaml
    """
    client = client_of(kubeconfig_path, context)
    if bool(words) == bool(files):
        raise click.UsageError("name what to delete: KIND NAME..., KIND/NAME..., or manifests with -f")
    try:
        found = (
            [_of_manifest(client, manifest.obj, namespace) for manifest in read_manifests(files, recursive=recursive)]
            if files
            else _named(client, words, namespace, selector, field_selector, all_namespaces, everything)
        )
    except click.ClickException as error:
        if ignore_not_found and is_missing(error):
            return
        raise
    if everything and found and not yes and not dry_run and sys.stdin.isatty():
        click.confirm(f"Delete {len(found)} {found[0][0].plural}?", abort=True)
    deadline = _deadline(timeout)
    deleted, missing = [], []
    for resource, obj in found:
        try:
            client.delete(
                resource, name_of(obj), namespace_of(obj), propagation=CASCADES[cascade], grace=grace_period, dry_run=dry_run
            )  # fmt: skip
        except NotFound as error:
            missing.append(str(error))
            continue
        click.echo(f"{typed_name(obj)} deleted{' (server dry run)' if dry_run else ''}")
        deleted.append((resource, obj))
    if wait and not dry_run:
        _until_gone(client, deleted, deadline)
    if missing and not ignore_not_found:
        raise click.ClickException("; ".join(missing))


def _named(
    client: SyncClient,
    words: tuple[str, ...],
    namespace: str,
    selector: str,
    fields: str,
    everywhere: bool,
    everything: bool,
) -> list[Found]:
    wanted = wanted_of(client, words)
    selects = bool(selector or fields or everything)
    if any(one.name for one in wanted) and (selects or everywhere):
        raise click.UsageError("names and selectors exclude each other")
    if not any(one.name for one in wanted) and not selects:
        kind = wanted[0].resource.plural
        raise click.UsageError(f"name the {kind} to delete, select them with -l, or use --all")
    found = objects_of(client, wanted, namespace, labels=selector, fields=fields, everywhere=everywhere)
    if not found:
        click.echo(f"No {wanted[0].resource.plural} found.", err=True)
    return found


def _of_manifest(client: SyncClient, obj: Obj, namespace: str) -> Found:
    resource = resource_of(client, obj)
    if not obj["metadata"].get("name"):
        raise click.ClickException(f"{obj['kind']} has a generateName only: name what to delete")
    return resource, typed(resource, placed(client, resource, obj, namespace))


def _deadline(timeout: str) -> float | None:
    try:
        return time.monotonic() + parse_duration(timeout) if timeout else None
    except ValueError as error:
        raise click.BadParameter(f"{error}; write it as 30s or 5m", param_hint="--timeout") from error


def _until_gone(client: SyncClient, deleted: list[Found], deadline: float | None) -> None:
    """Until none of them is there any more, or another of the same name."""
    for resource, obj in deleted:
        while _is_there(client, resource, obj):
            if deadline is not None and time.monotonic() > deadline:
                raise click.ClickException(f"{typed_name(obj)} is being deleted and still there")
            time.sleep(POLL_S)


def _is_there(client: SyncClient, resource: Resource, obj: Obj) -> bool:
    try:
        found = client.get(resource, name_of(obj), namespace_of(obj))
    except NotFound:
        return False
    return not uid_of(obj) or uid_of(found) == uid_of(obj)
