"""A queue in words: whether it admits, what of its quota is used, and who waits in it."""

from __future__ import annotations

import click

from corral.cli.output.tables import print_table
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import ApiError, Forbidden, NotFound
from corral.core.meta import Obj, name_of, namespace_of, spec_of, status_of
from corral.inspect.lookup import waiting_path
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS

MAX_WAITING = 10


def describe_queue(client: SyncClient, queue: Obj) -> None:
    """Print a ClusterQueue, or a LocalQueue and the ClusterQueue behind it."""
    if queue["kind"] == "ClusterQueue":
        _describe_cluster_queue(client, queue)
        return
    target = str(spec_of(queue).get("clusterQueue") or "")
    click.echo(f"{_headline(queue)}, feeds ClusterQueue {target}")
    try:
        _describe_cluster_queue(client, client.get(CLUSTER_QUEUES, target), of=queue)
    except NotFound:
        click.echo(f"  -> ClusterQueue {target} does not exist: create it.")
    except Forbidden:
        click.echo(f"  ClusterQueue {target} is not yours to see; this is what its LocalQueue uses of it:")
        print_table(("FLAVOR", "RESOURCE", "RESERVED"), [(one[0], one[1], one[2]) for one in _use_rows(queue)])
        _print_waiting(client, (name_of(queue), namespace_of(queue)), None)


def _describe_cluster_queue(client: SyncClient, queue: Obj, of: Obj | None = None) -> None:
    click.echo(_headline(queue))
    spec = spec_of(queue)
    checks = [str(one.get("name")) for one in (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or []]
    lines = {
        "cohort": spec.get("cohortName"),
        "strategy": spec.get("queueingStrategy"),
        "admission checks": ", ".join(checks),
        "LocalQueues": ", ".join(_feeders(client, name_of(queue))) if of is None else "",
    }
    for label, value in lines.items():
        if value:
            click.echo(f"  {label}: {value}")
    print_table(("FLAVOR", "RESOURCE", "QUOTA", "RESERVED", "BORROWED", "LIMIT"), _quota_rows(queue))
    _print_waiting(client, (name_of(queue), ""), of)


def _print_waiting(client: SyncClient, asked: tuple[str, str], of: Obj | None) -> None:
    waiting = _waiting(client, asked, of)
    if waiting:
        click.echo()
        print_table(("AHEAD", "NAMESPACE", "WORKLOAD", "WAITS FOR"), waiting)


def _headline(queue: Obj) -> str:
    active = conditions.find(queue, "Active") or {}
    state = (
        "active" if active.get("status") == "True" else f"not active ({active.get('message') or 'not looked at yet'})"
    )
    status = status_of(queue)
    counts = f"{status.get('pendingWorkloads', 0)} waiting, {status.get('admittedWorkloads', 0)} admitted"
    return f"{queue['kind']} {name_of(queue)}: {state}, {counts}"


def _feeders(client: SyncClient, name: str) -> list[str]:
    try:
        queues = client.list(LOCAL_QUEUES)["items"]
    except ApiError:
        return []  # those of other namespaces are not everybody's to see
    return [f"{namespace_of(one)}/{name_of(one)}" for one in queues if spec_of(one).get("clusterQueue") == name]


def _use_rows(queue: Obj) -> list[tuple[str, str, str]]:
    return [
        (str(flavor["name"]), str(resource["name"]), str(resource.get("total", "0")))
        for flavor in status_of(queue).get("flavorsReservation") or []
        for resource in flavor.get("resources") or []
    ]


def _quota_rows(queue: Obj) -> list[tuple[object, ...]]:
    used: dict[tuple[str, str], Obj] = {
        (flavor["name"], resource["name"]): resource
        for flavor in status_of(queue).get("flavorsReservation") or []
        for resource in flavor.get("resources") or []
    }
    rows: list[tuple[object, ...]] = []
    for group in spec_of(queue).get("resourceGroups") or []:
        for flavor in group.get("flavors") or []:
            for quota in flavor.get("resources") or []:
                usage = used.get((flavor["name"], quota["name"]), {})
                limit = quota.get("borrowingLimit")
                rows.append(
                    (
                        flavor["name"],
                        quota["name"],
                        quota.get("nominalQuota"),
                        usage.get("total", "0"),
                        usage.get("borrowed", "0"),
                        f"{limit} borrowed" if limit is not None else "",
                    )
                )
    return rows


def _waiting(client: SyncClient, asked: tuple[str, str], of: Obj | None) -> list[tuple[object, ...]]:
    """Who waits and how many are ahead of them: of the whole ClusterQueue, or of one LocalQueue."""
    try:
        items = client.call("GET", waiting_path(*asked)).get("items") or []
    except ApiError:
        return []  # the visibility API is optional
    rows: list[tuple[object, ...]] = []
    for item in items:
        namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
        if of is not None and (namespace, item.get("localQueueName")) != (namespace_of(of), name_of(of)):
            continue
        if len(rows) == MAX_WAITING:
            rows.append(("…", "", "", ""))
            break
        rows.append((item["positionInClusterQueue"], namespace, name, _why(client, name, namespace)))
    return rows


def _why(client: SyncClient, name: str, namespace: str) -> str:
    try:
        found = conditions.find(client.get(WORKLOADS, name, namespace), "QuotaReserved") or {}
    except ApiError:
        return ""  # deleted meanwhile, or we may not read it
    return str(found.get("message") or "")
