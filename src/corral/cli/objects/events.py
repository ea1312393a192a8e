"""`corral events`: what was told about everything in a namespace, or about jobs, their Workloads and pods wherever these run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from corral.cli.completion import complete_target
from corral.cli.lookup import targets_named
from corral.cli.machine.workers import as_the_user
from corral.cli.objects.describe import age_of, last_seen
from corral.cli.objects.targets import nothing_found
from corral.cli.options import cluster_options
from corral.cli.output.listing import Listing, Output, output_options, show
from corral.cli.pods.choosing import Chooser
from corral.client.kubeconfig import KubeconfigError
from corral.client.sync import SyncClient
from corral.core.errors import ApiError, Forbidden, NotFound
from corral.core.meta import Obj, name_of, namespace_of, owner_references_of
from corral.core.resource import Resource
from corral.inspect.lookup import workload_of
from corral.inspect.placed_pods import KUEUE, cluster_of
from corral.kinds.kubernetes.core.kinds import EVENTS

Thing = tuple[str, str]
"""Kind and name."""


@click.command()
@click.argument("words", nargs=-1, metavar="[TARGET...]", shell_complete=complete_target)
@click.option("-A", "--all-namespaces", is_flag=True, help="In all namespaces.")
@click.option("--types", default="", metavar="TYPE,...", help="Only these types, e.g. Warning.")
@click.option("--kueue-namespace", default=KUEUE, help="Where the manager keeps its workers' kubeconfigs.")
@output_options
@cluster_options
def events(
    words: tuple[str, ...],
    all_namespaces: bool,
    types: str,
    kueue_namespace: str,
    output: Output,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Show events, the latest last; of a TARGET (job/NAME …) also those of its Workload and pods, and those of the worker
    it was sent to.

    \b
    corral events
    corral events job/train --watch
    corral events -A --types Warning
    """
    if words and all_namespaces:
        raise click.UsageError("-A has no effect on what is named")
    chooser = Chooser.of(kubeconfig_path, context, namespace, kueue_namespace)
    wanted = {part.strip().lower() for part in types.split(",") if part.strip()}

    def source() -> list[Listing]:
        if not words:
            where = "" if all_namespaces else chooser.namespace
            found = [("", event) for event in chooser.client.list(EVENTS, where)["items"]]
            empty = "" if found else nothing_found(chooser.client, EVENTS, where)
        else:
            found = _of_targets(chooser.anew(), words)
            empty = f"There are no events of {', '.join(words)}; servers keep them for an hour."
        kept = [one for one in found if not wanted or str(one[1].get("type")).lower() in wanted]
        return [_listing(kept, empty, everywhere=all_namespaces)]

    show(output, source)


def _of_targets(chooser: Chooser, words: tuple[str, ...]) -> list[tuple[str, Obj]]:
    found: dict[tuple[str, str], tuple[str, Obj]] = {}
    for resource, obj in targets_named(chooser.client, words, chooser.namespace):
        for cluster, event in _of_target(chooser, resource, obj):
            found.setdefault((cluster, str(event["metadata"].get("uid") or name_of(event))), (cluster, event))
    return list(found.values())


def _of_target(chooser: Chooser, resource: Resource, obj: Obj) -> Iterable[tuple[str, Obj]]:
    where = namespace_of(obj)
    try:
        workload = workload_of(chooser.client, resource, obj, where)
    except (NotFound, Forbidden):
        workload = None  # no queueing here, or not this user's to see
    things = _things(chooser.client, resource, obj, workload, chooser)
    for event in _about(chooser.client, things, where):
        yield "", event
    cluster = cluster_of(workload)
    if not cluster:
        return
    try:
        known = chooser.workers.client(cluster).access
        worker = SyncClient(as_the_user(known, chooser.kubeconfig_path))
        theirs = list(_about(worker, things, where))
    except (ApiError, KubeconfigError) as error:
        click.echo(f"# what cluster {cluster} tells is not shown: {error}", err=True)
        return
    for event in theirs:
        yield cluster, event


def _things(client: SyncClient, resource: Resource, obj: Obj, workload: Obj | None, chooser: Chooser) -> set[Thing]:
    """An object, its Workload, its pods and what stands between: all have the same names on a worker."""
    things = {(resource.kind, name_of(obj))}
    if workload is not None:
        things.add(("Workload", name_of(workload)))
    try:
        pods = [pod for _, pod in chooser.places(resource, obj, namespace_of(obj))] if namespace_of(obj) else []
    except ApiError:
        pods = []  # a worker that does not answer is told of where its events are
    for pod in pods:
        things.add(("Pod", name_of(pod)))
        things |= {(str(owner["kind"]), str(owner["name"])) for owner in owner_references_of(pod)}
    return things


def _about(client: SyncClient, things: set[Thing], namespace: str) -> Iterable[Obj]:
    for event in client.list(EVENTS, namespace or "default")["items"]:
        about = event.get("involvedObject") or {}
        if (about.get("kind"), about.get("name")) in things:
            yield event


def _listing(found: list[tuple[str, Obj]], empty: str, *, everywhere: bool) -> Listing:
    ordered = sorted(found, key=lambda one: (last_seen(one[1]), name_of(one[1])))
    rows = []
    for cluster, event in ordered:
        about = event.get("involvedObject") or {}
        series = event.get("series") or {}
        rows.append(
            (
                age_of(event),
                namespace_of(event),
                cluster or "-",
                event.get("type"),
                event.get("reason"),
                f"{str(about.get('kind')).lower()}/{about.get('name')}",
                str(event.get("message") or "").strip(),
                series.get("count") or event.get("count") or 1,
            )
        )
    headers = ("LAST SEEN", "NAMESPACE", "CLUSTER", "TYPE", "REASON", "OBJECT", "MESSAGE", "COUNT")
    listing = Listing(headers, rows, [event for _, event in ordered], wide=frozenset({7}), empty=empty)
    unused = [] if everywhere else ["NAMESPACE"]
    return listing.without(unused if any(cluster for cluster, _ in found) else [*unused, "CLUSTER"])
