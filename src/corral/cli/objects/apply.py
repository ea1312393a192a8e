"""`corral apply`: manifests as the cluster should have them, by server-side apply."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from corral.cli.lookup import resource_named
from corral.cli.objects.manifests import Manifest, file_options, read_manifests
from corral.cli.objects.targets import typed
from corral.cli.options import client_of, cluster_options, namespace_of
from corral.cli.output.formats import Format, format_option, print_objects, typed_name
from corral.client.sync import SyncClient
from corral.core.errors import ApiError, Conflict, ConnectionFailed, NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource

BOOKKEEPING: Final = ("managedFields", "resourceVersion", "generation")


@click.command()
@file_options
@click.option("--dry-run", is_flag=True, help="Ask the server without changing anything.")
@click.option("--force-conflicts", is_flag=True, help="Also set fields that others manage.")
@format_option("json, yaml or name: print what the server made of it.")
@cluster_options
def apply(
    files: tuple[str, ...],
    recursive: bool,
    dry_run: bool,
    force_conflicts: bool,
    output: Format,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Create or change objects so that they are what manifests say. One that is refused does not keep the others away.

    \b
    corral apply -f job.yaml
    corral apply -f queues/ -f -
    """
    if not files:
        raise click.UsageError("name manifests with -f")
    client = client_of(kubeconfig_path, context)
    manifests = read_manifests(files, recursive=recursive)
    applied, refused = [], 0
    for manifest in manifests:
        try:
            obj, what = _apply(client, manifest, namespace, dry_run=dry_run, force=force_conflicts)
        except ConnectionFailed:
            raise
        except (ApiError, click.ClickException) as error:
            click.echo(f"Error: {manifest.origin}: {_reason(error)}", err=True)
            refused += 1
            continue
        applied.append(obj)
        if output.is_table:
            click.echo(f"{typed_name(obj)} {what}{' (server dry run)' if dry_run else ''}")
    if not output.is_table and applied:
        print_objects(output, applied, is_single=len(manifests) == 1)
    sys.exit(1 if refused else 0)


def _reason(error: Exception) -> str:
    if isinstance(error, Conflict):
        return f"{error}; --force-conflicts sets these fields all the same"
    return error.message if isinstance(error, click.ClickException) else str(error)


def resource_of(client: SyncClient, obj: Obj) -> Resource:
    """The kind of a manifest, in the version it is written in."""
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    found = resource_named(client, f"{obj['kind']}.{group}" if group else str(obj["kind"]))
    if found.group != group:
        raise click.ClickException(f"the server does not know kind {obj['kind']} of {obj['apiVersion']}")
    return found.at(version)


def placed(client: SyncClient, resource: Resource, obj: Obj, namespace: str) -> Obj:
    """The object with its namespace: its own, else the one to work in. Two that disagree are a mistake."""
    metadata = dict(obj["metadata"])
    if not resource.namespaced:
        metadata.pop("namespace", None)
    elif namespace and metadata.get("namespace", namespace) != namespace:
        raise click.ClickException(
            f"it is of namespace {metadata['namespace']}, and -n says {namespace}: leave one of them away"
        )
    else:
        metadata.setdefault("namespace", namespace_of(client, namespace))
    return {**obj, "metadata": metadata}


def _apply(client: SyncClient, manifest: Manifest, namespace: str, *, dry_run: bool, force: bool) -> tuple[Obj, str]:
    """The object as it is now, and what became of it."""
    resource = resource_of(client, manifest.obj)
    wanted = placed(client, resource, manifest.obj, namespace)
    if not wanted["metadata"].get("name"):  # the server makes the name: each time another object
        return typed(resource, client.create(resource, wanted, dry_run=dry_run)), "created"
    before = _before(client, resource, wanted)
    after = typed(resource, client.apply(resource, wanted, force=force, dry_run=dry_run))
    if before is None:
        return after, "created"
    return after, "unchanged" if _content(before) == _content(after) else "configured"


def _before(client: SyncClient, resource: Resource, obj: Obj) -> Obj | None:
    metadata = obj["metadata"]
    try:
        return typed(resource, client.get(resource, metadata["name"], metadata.get("namespace") or ""))
    except NotFound:
        return None


def _content(obj: Obj) -> Obj:
    """What a user may have changed."""
    kept = {key: value for key, value in obj["metadata"].items() if key not in BOOKKEEPING}
    return {**obj, "metadata": kept}
