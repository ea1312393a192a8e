"""`corral describe`: all there is of an object, why its job waits, and what was told about it."""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from corral.cli.completion import complete_resource
from corral.cli.objects.targets import objects_of, refuse_selection_of_names, selection_options, wanted_of
from corral.cli.options import client_of, cluster_options
from corral.cli.output.formats import without_bookkeeping
from corral.cli.output.tables import print_table
from corral.client.sync import SyncClient
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Obj
from corral.core.meta import namespace_of as namespace_of_object
from corral.core.resource import Resource
from corral.core.timestamps import parse_time
from corral.inspect.evidence import collect_evidence
from corral.inspect.explain import explain
from corral.inspect.lookup import events_of, workload_of
from corral.kinds.machinery.tables import human_duration
from corral.runtime.clock import WallClock


@click.command()
@click.argument(
    "words", nargs=-1, required=True, metavar="KIND [NAME...] | KIND/NAME...", shell_complete=complete_resource
)
@selection_options
@cluster_options
def describe(
    words: tuple[str, ...],
    selector: str,
    field_selector: str,
    all_namespaces: bool,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Show objects in full, each with its events; of a job also where it is and why.

    \b
    corral describe job/train
    corral describe pods -l job-name=train
    """
    client = client_of(kubeconfig_path, context)
    wanted = wanted_of(client, words)
    refuse_selection_of_names(wanted, selector, field_selector, all_namespaces)
    found = objects_of(client, wanted, namespace, labels=selector, fields=field_selector, everywhere=all_namespaces)
    for number, (resource, obj) in enumerate(found):
        if number:
            click.echo("---")
        print_description(client, obj, namespace_of_object(obj), explanation_of(client, resource, obj))
    if not found:
        click.echo(f"There is nothing to describe: no {wanted[0].resource.plural} were found.", err=True)


def explanation_of(client: SyncClient, resource: Resource, obj: Obj) -> str:
    """The sentence `corral explain` begins with, for what is queued; nothing for everything else."""
    namespace = namespace_of_object(obj)
    if not resource.namespaced or not namespace:
        return ""
    try:
        workload = workload_of(client, resource, obj, namespace)
        return explain(workload, collect_evidence(client, workload, namespace)).headline if workload else ""
    except ApiError:
        return ""  # no queueing here, or not this user's to see


def print_description(client: SyncClient, obj: Obj, namespace: str, explanation: str = "") -> None:
    """An object as YAML without bookkeeping, then where it is, then its events."""
    click.echo(yaml.safe_dump(without_bookkeeping(obj), sort_keys=False, allow_unicode=True).rstrip())
    if explanation:
        click.echo(f"Explanation: {explanation}")
    try:
        found = events_of(client, obj, namespace or "default")
    except NotFound:
        found = []
    if found:
        click.echo("Events:")
        rows = [
            (f"  {age_of(event)}", event.get("type"), event.get("reason"), event.get("count", 1), event.get("message"))
            for event in sorted(found, key=last_seen)
        ]
        print_table(("  AGE", "TYPE", "REASON", "COUNT", "MESSAGE"), rows)


def last_seen(event: Obj) -> str:
    """When an event happened last, in whichever of its fields that is written."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next(filter(None, times), "") or (event.get("metadata") or {}).get("creationTimestamp") or "")


def age_of(event: Obj) -> str:
    seen = last_seen(event)
    return human_duration(max(0.0, WallClock().now() - parse_time(seen))) if seen else "<unknown>"
