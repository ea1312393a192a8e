"""`corral workload`: list, describe, stop, resume and delete workloads, and the pods of a job."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import click

from corral.cli.groups import Commands
from corral.cli.lookup import HOW_TO_NAME, get_named, object_named, resource_named
from corral.cli.objects.describe import print_description
from corral.cli.objects.targets import nothing_found
from corral.cli.options import client_of, cluster_options, namespace_of
from corral.cli.output.listing import Listing, Output, output_options, show
from corral.cli.output.tables import age, print_table
from corral.cli.queue import now
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import ApiError, Forbidden, NotFound
from corral.core.meta import (
    Key,
    Obj,
    is_owned_by,
    key_of,
    labels_of,
    name_of,
    owner_references_of,
    spec_of,
    status_of,
    uid_of,
)
from corral.core.meta import namespace_of as namespace_of_object
from corral.core.timestamps import parse_time
from corral.inspect.lookup import ALL_WAITING, Owner, pods_of, simulated_owners, waiting_path, workload_of
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kubernetes.pods.simulated import is_simulated
from corral.kinds.kueue import LOCAL_QUEUES, WORKLOADS
from corral.kinds.machinery.tables import human_duration
from corral.workload import workload as wl

STATUSES = ("all", "pending", "quotareserved", "admitted", "finished")


@click.group(cls=Commands)
def workload() -> None:
    """List, stop and resume workloads."""


@workload.command("list")
@click.option("-c", "--clusterqueue", "cluster_queue", default="", help="Only those of a ClusterQueue.")
@click.option("-q", "--localqueue", "local_queue", default="", help="Only those of a LocalQueue.")
@click.option("--status", "wanted", multiple=True, type=click.Choice(STATUSES), help="Only those in a status.")
@click.option("--for", "target", default="", help="Only those of TYPE/NAME.")
@click.option("-A", "--all-namespaces", is_flag=True)
@click.option("-l", "--selector", default="", help="Label selector.")
@click.option("--field-selector", default="", help="Field selector.")
@output_options
@cluster_options
def list_workloads(
    cluster_queue: str,
    local_queue: str,
    wanted: tuple[str, ...],
    target: str,
    all_namespaces: bool,
    selector: str,
    field_selector: str,
    output: Output,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """List workloads with their jobs, queues, status, place in the queue and age; on a manager also with their cluster.

    \b
    corral workload list --status pending --localqueue user-queue
    corral workload list --all-namespaces
    """
    client = client_of(kubeconfig_path, context)
    where = "" if all_namespaces else namespace_of(client, namespace)

    def listed() -> list[Listing]:
        found = client.list(WORKLOADS, where, labels=selector, fields=field_selector)["items"]
        if target:
            _, owner = object_named(client, (target,), namespace_of(client, namespace))
            found = [item for item in found if is_owned_by(item, uid_of(owner))]
        return [_listing(client, where, found, lambda item, queue: _is_hidden(item, queue, cluster_queue, local_queue, wanted))]  # fmt: skip

    show(output, listed)


HEADERS = (
    "NAMESPACE", "NAME", "JOB TYPE", "JOB NAME", "LOCALQUEUE", "CLUSTERQUEUE", "STATUS", "POSITION IN QUEUE", "EXEC TIME",
    "AGE", "CLUSTER",
)  # fmt: skip


def _listing(client: SyncClient, where: str, found: list[Obj], is_hidden: Callable[[Obj, str], bool]) -> Listing:
    """Workloads as a table; the cluster only where something is dispatched, the namespace only where there may be several."""
    queues = _cluster_queues(client, where)
    positions = _Positions(client)
    simulated = simulated_owners(client, where, {owner for item in found for owner in _owners(item)})
    rows, shown = [], []
    for item in found:
        queue = wl.cluster_queue_of(item) or queues.get((item["metadata"]["namespace"], wl.queue_of(item)), "")
        if not is_hidden(item, queue):
            rows.append([item["metadata"]["namespace"], *_row(item, queue, positions, simulated)])
            shown.append(item)
    listing = Listing(HEADERS, rows, shown, empty="" if shown else nothing_found(client, WORKLOADS, where))
    unused = [] if any(row[-1] for row in rows) else ["CLUSTER"]
    return listing.without([*unused, "NAMESPACE"] if where else unused)


def _is_hidden(item: Obj, queue: str, cluster_queue: str, local_queue: str, wanted: tuple[str, ...]) -> bool:
    if cluster_queue and queue != cluster_queue:
        return True
    if local_queue and wl.queue_of(item) != local_queue:
        return True
    return bool(wanted) and "all" not in wanted and wl.phase(item).lower() not in wanted


def _owners(item: Obj) -> Iterator[Owner]:
    namespace = namespace_of_object(item)
    return (Owner(namespace, str(one["kind"]), str(one["name"])) for one in owner_references_of(item))


def _row(item: Obj, queue: str, positions: _Positions, simulated: Collection[Owner]) -> list[object]:
    phase = wl.phase(item)
    owner = next(iter(owner_references_of(item)), {})
    position = positions.of(queue, item) if phase == "pending" else ""
    status = "FAILED" if wl.is_finished(item) and _has_failed(item) else phase.upper()
    if any(one in simulated for one in _owners(item)):
        status = f"{status} (simulated)"
    return [
        name_of(item),
        str(owner.get("kind", "")).lower(),
        owner.get("name", ""),
        wl.queue_of(item),
        queue,
        status,
        position,
        _execution_time(item),
        age(item, now()),
        status_of(item).get("clusterName", ""),
    ]


def _has_failed(item: Obj) -> bool:
    return (conditions.find(item, "Finished") or {}).get("reason") == "Failed"


def _execution_time(item: Obj) -> str:
    admitted = conditions.find(item, "Admitted")
    if admitted is None or admitted.get("status") != "True":
        return ""
    finished = conditions.find(item, "Finished")
    end = parse_time(finished["lastTransitionTime"]) if finished else now()
    past = int(status_of(item).get("accumulatedPastExecutionTimeSeconds") or 0)
    return human_duration(end - parse_time(admitted["lastTransitionTime"]) + past)


def _cluster_queues(client: SyncClient, namespace: str) -> dict[tuple[str, str], str]:
    found = client.list(LOCAL_QUEUES, namespace)["items"]
    return {
        (item["metadata"]["namespace"], name_of(item)): str(spec_of(item).get("clusterQueue", "")) for item in found
    }


class _Positions:
    """Places in ClusterQueues, asked for once per queue: of the ClusterQueue, or of a LocalQueue where only that is the
    user's to see."""

    def __init__(self, client: SyncClient) -> None:
        self._client = client
        self._known: dict[tuple[str, str], dict[Key, int] | None] = {}

    def of(self, queue: str, item: Obj) -> object:
        if not queue:
            return ""
        places = self._at((queue, ""))
        if places is None:
            places = self._at((wl.queue_of(item), namespace_of_object(item)))
        return (places or {}).get(key_of(item), "")

    def _at(self, asked: tuple[str, str]) -> dict[Key, int] | None:
        if asked not in self._known:
            self._known[asked] = self._load(asked)
        return self._known[asked]

    def _load(self, asked: tuple[str, str]) -> dict[Key, int] | None:
        try:
            items = self._client.call("GET", waiting_path(*asked), ALL_WAITING).get("items") or []
        except Forbidden:
            return None
        except ApiError:
            return {}  # no visibility API, no positions
        return {key_of(item): item["positionInClusterQueue"] for item in items}


def _workload_named(client: SyncClient, name: str, namespace: str) -> Obj:
    """The Workload of that name, or that of a job written as KIND/NAME."""
    if "/" not in name:
        return get_named(client, WORKLOADS, name, namespace)
    resource, owner = object_named(client, (name,), namespace)
    found = workload_of(client, resource, owner, namespace)
    if found is None:
        raise click.ClickException(f"{name} has no Workload; `corral explain {name}` says why")
    return found


def _set_active(name: str, active: bool, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    client = client_of(kubeconfig_path, context)
    namespace = namespace_of(client, namespace)
    name = name_of(_workload_named(client, name, namespace))
    client.patch(WORKLOADS, name, namespace, {"spec": {"active": active}})
    click.echo(f"workload.kueue.x-k8s.io/{name} {'resumed' if active else 'stopped'}")


@workload.command()
@click.argument("name")
@cluster_options
def stop(name: str, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Take a workload out of its queue and stop its job until it is resumed. NAME is a Workload or KIND/NAME of a job.

    \b
    corral workload stop job/train
    """
    _set_active(name, False, namespace, context, kubeconfig_path)


@workload.command()
@click.argument("name")
@cluster_options
def resume(name: str, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Put a stopped workload back in its queue. NAME is a Workload or KIND/NAME of a job."""
    _set_active(name, True, namespace, context, kubeconfig_path)


@workload.command()
@click.argument("name")
@cluster_options
def describe(name: str, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Show a workload with its status and events. NAME is a Workload or KIND/NAME of a job."""
    client = client_of(kubeconfig_path, context)
    namespace = namespace_of(client, namespace)
    print_description(client, _workload_named(client, name, namespace), namespace)


@workload.command()
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All workloads of the namespace.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@cluster_options
def delete(
    names: tuple[str, ...], everything: bool, yes: bool, namespace: str, context: str, kubeconfig_path: Path | None
) -> None:
    """Delete workloads together with the jobs that own them."""
    client = client_of(kubeconfig_path, context)
    namespace = namespace_of(client, namespace)
    if everything:
        if names:
            raise click.UsageError("names and --all exclude each other")
        names = tuple(name_of(item) for item in client.list(WORKLOADS, namespace)["items"])
        if not names:
            click.echo(nothing_found(client, WORKLOADS, namespace), err=True)
            return
    if not names:
        raise click.UsageError("name a workload, or use --all")
    items = [_workload_named(client, name, namespace) for name in names]
    owned = [(item, next(iter(owner_references_of(item)), None)) for item in items]
    jobs = [f"{owner['kind'].lower()}/{owner['name']}" for _, owner in owned if owner]
    if not yes and jobs:
        click.confirm(f"This also deletes {', '.join(jobs)}. Go on?", abort=True)
    for item, owner in owned:
        _delete_with_owner(client, item, owner, namespace)


def _delete_with_owner(client: SyncClient, item: Obj, owner: Obj | None, namespace: str) -> None:
    if owner is not None:
        group = str(owner["apiVersion"]).rpartition("/")[0]
        resource = resource_named(client, f"{owner['kind']}.{group}" if group else str(owner["kind"]))
        try:
            client.delete(resource, str(owner["name"]), namespace)
            click.echo(f"{resource.group_resource}/{owner['name']} deleted")
        except NotFound:
            pass  # only the workload is left
    try:
        client.delete(WORKLOADS, name_of(item), namespace)
    except NotFound:
        pass  # it went with its job
    click.echo(f"workload.kueue.x-k8s.io/{name_of(item)} deleted")


@workload.command()
@click.argument("words", nargs=-1, metavar="[TYPE/NAME]")
@click.option("--for", "target", default="", help="TYPE/NAME of a job; the same as the argument.")
@cluster_options
def pods(words: tuple[str, ...], target: str, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """List the pods of a job, on a manager also those on its workers.

    \b
    corral workload pods job/train
    """
    if not words and not target:
        raise click.UsageError(HOW_TO_NAME)
    client = client_of(kubeconfig_path, context)
    namespace = namespace_of(client, namespace)
    resource, owner = object_named(client, words or (target,), namespace)
    found = workload_of(client, resource, owner, namespace)
    mine = (
        {name_of(pod) for pod in pods_of(client, resource, owner, namespace)} if resource.kind != "Workload" else set()
    )
    rows = []
    for item in client.list(PODS, namespace)["items"]:
        annotations = item["metadata"].get("annotations") or {}
        if name_of(item) in mine or (found and annotations.get("kueue.x-k8s.io/workload") == name_of(found)):
            where = labels_of(item).get("corral.dev/cluster", "")
            phase = f"{status_of(item).get('phase', 'Unknown')}{' (simulated)' if is_simulated(item) else ''}"
            rows.append((name_of(item), phase, where, age(item, now())))
    print_table(("NAME", "STATUS", "CLUSTER", "AGE"), rows)
