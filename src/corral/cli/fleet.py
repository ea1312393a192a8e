"""`corral fleet`: members and placements of a hub — list, describe, drain, uncordon, approve."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click

from corral.cli.groups import Commands
from corral.cli.lookup import get_named, shortened
from corral.cli.objects.targets import typed
from corral.cli.options import client_of, cluster_options
from corral.cli.output.listing import Listing, Output, output_options, show
from corral.cli.output.tables import age
from corral.client.sync import SyncClient
from corral.core.conditions import conditions_of, find
from corral.core.errors import Conflict, Forbidden
from corral.core.meta import Obj, is_deleting, labels_of, name_of, namespace_of, spec_of, status_of
from corral.core.resource import Resource
from corral.core.timestamps import format_time, parse_time
from corral.fleet.membership import NAMESPACE, join_member
from corral.inspect.lookup import events_of
from corral.kinds.fleet import (
    APPROVAL_REQUESTS,
    BINDINGS,
    CLUSTER_APPROVAL_REQUESTS,
    CLUSTER_BINDINGS,
    CLUSTER_RESOURCE_PLACEMENTS,
    EVICTIONS,
    MEMBER_CLUSTERS,
    RESOURCE_PLACEMENTS,
)
from corral.kinds.machinery.tables import human_duration
from corral.runtime.clock import WallClock
from corral.runtime.random import Random

GROUP = "placement.kubernetes-fleet.io"
CORDON: Obj = {"key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule"}
PARENT = "kubernetes-fleet.io/parent-CRP"
NO_HUB = "there are none at all: is this a hub?"
NO_PLACEMENTS = "`corral fleet placements` lists those of all namespaces"
STARTED_BY_QUEUE = (
    "The queue started the job, which is what /spec/suspend tells; nothing failed. Annotate the job with "
    "corral.dev/queue-friendly=true, and the placement says so."
)


def _now() -> float:
    return WallClock().now()


@click.group(cls=Commands)
def fleet() -> None:
    """Members and placements of a hub."""


@fleet.command()
@click.option("-l", "--selector", default="", help="Label selector.")
@output_options
@cluster_options
def members(selector: str, output: Output, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """List members: whether they have joined, when they were last seen, and what they have free."""
    hub = client_of(kubeconfig_path, context)
    show(output, lambda: [_members(hub, selector)])


def _members(hub: SyncClient, selector: str) -> Listing:
    found = hub.list(MEMBER_CLUSTERS, labels=selector)["items"]
    headers = ("NAME", "JOINED", "HEALTHY", "LAST-SEEN", "NODES", "CPU", "MEMORY", "TAINTS", "AGE")
    empty = "This cluster has no members; `corral fleet join NAME --member-context CONTEXT` adds one."
    empty = f"No members have the labels {selector}." if selector else empty
    return Listing(headers, [_member_row(member) for member in found], found, empty=empty)


def _member_row(member: Obj) -> list[object]:
    status = status_of(member)
    agent: Obj = next(iter(status.get("agentStatus") or []), {})
    seen = agent.get("lastReceivedHeartbeat")
    healthy = find(agent.get("conditions") or [], "Healthy") or {}
    available = (status.get("resourceUsage") or {}).get("available") or {}
    nodes = ((status.get("properties") or {}).get("kubernetes-fleet.io/node-count") or {}).get("value")
    return [
        name_of(member),
        (find(member, "Joined") or {}).get("status", "Unknown"),
        healthy.get("status", "Unknown"),
        human_duration(_now() - parse_time(seen)) if seen else "never",
        nodes or "",
        available.get("cpu", ""),
        available.get("memory", ""),
        len(spec_of(member).get("taints") or ()),
        age(member, _now()),
    ]


@fleet.command()
@click.argument("name")
@click.option("--member-context", default="", help="Context of the member in the kubeconfig.")
@click.option("--member-kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig of the member, if another file.")
@click.option("--label", "labels", multiple=True, help="Label of the member, KEY=VALUE; may be repeated.")
@click.option("--heartbeat", default=60, help="Seconds between heartbeats.")
@cluster_options
def join(
    name: str,
    member_context: str,
    member_kubeconfig: Path | None,
    labels: tuple[str, ...],
    heartbeat: int,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Make the cluster of a kubeconfig context a member called NAME. Doing it again renews its credentials.

    A MemberCluster NAME that is there keeps the identity it names.

    \b
    corral fleet join west --member-context west-admin --label region=west
    """
    hub = client_of(kubeconfig_path, context)
    member = client_of(member_kubeconfig or kubeconfig_path, member_context or f"corral-{name}")
    pairs = dict(label.partition("=")[::2] for label in labels)
    identity = join_member(hub, member, name, pairs, heartbeat)
    click.echo(f"member {name} added; its agent reads Secret hub-kubeconfig in {NAMESPACE}")
    if identity["kind"] != "ServiceAccount":
        click.echo(
            f"MemberCluster {name} says that it is {identity['kind']} {identity['name']}: put a kubeconfig of the hub with "
            "credentials of that user into the Secret, key `kubeconfig`, and the member's name, key `member-name`"
        )


@fleet.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="Those of all namespaces, as without -n.")
@click.option("-l", "--selector", default="", help="Label selector.")
@output_options
@cluster_options
def placements(
    all_namespaces: bool,
    selector: str,
    output: Output,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """List placements: how many clusters they are on, how far they are, and what holds them up."""
    if all_namespaces and namespace:
        raise click.UsageError("-n and -A exclude each other")
    hub = client_of(kubeconfig_path, context)

    def listed() -> list[Listing]:
        found = list(_placements(hub, namespace, selector))
        headers = ("NAMESPACE", "NAME", "TYPE", "CLUSTERS", "AVAILABLE", "STATE", "AGE")
        empty = f"No placements have the labels {selector}." if selector else "Nothing is placed from this cluster."
        return [Listing(headers, [_placement_row(placement) for placement in found], found, empty=empty)]

    show(output, listed)


def _placements(hub: SyncClient, namespace: str, selector: str = "") -> Iterator[Obj]:
    kinds = (RESOURCE_PLACEMENTS,) if namespace else (CLUSTER_RESOURCE_PLACEMENTS, RESOURCE_PLACEMENTS)
    for resource in kinds:
        for item in hub.list(resource, namespace, labels=selector)["items"]:
            yield typed(resource, item)


def _placement_row(placement: Obj) -> list[object]:
    entries = [one for one in status_of(placement).get("placementStatuses") or () if one.get("clusterName")]
    available = [one for one in entries if (find(one["conditions"], "Available") or {}).get("status") == "True"]
    return [
        namespace_of(placement) or "-",
        name_of(placement),
        (spec_of(placement).get("policy") or {}).get("placementType") or "PickAll",
        ",".join(one["clusterName"] for one in entries) or "-",
        f"{len(available)}/{len(entries)}",
        _state(placement),
        age(placement, _now()),
    ]


def _state(placement: Obj) -> str:
    """The first condition that is not True, in words; or that all is done."""
    entries = conditions_of(placement)
    blocked = next((one for one in entries if one["status"] != "True"), None)
    if blocked is not None:
        return str(blocked["reason"])
    if any(entry["type"].startswith("corral.dev/JobsFinished") for entry in entries):
        return "Finished"
    done = any(entry["type"].endswith(("Available", "DiffReported")) for entry in entries)
    return "Available" if done else "Pending"


@fleet.command()
@click.argument("name")
@cluster_options
def describe(name: str, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Show a member or a placement. A ResourcePlacement is looked for in all namespaces, or in that of -n."""
    hub = client_of(kubeconfig_path, context)
    members = [] if namespace else hub.list(MEMBER_CLUSTERS)["items"]
    placements = list(_placements(hub, namespace))
    found = [placement for placement in placements if name_of(placement) == name]
    for placement in found:
        _describe_placement(hub, placement)
    for member in members:
        if name_of(member) == name:
            _describe_member(hub, member)
            return
    if not found:
        where = f" in namespace {namespace}" if namespace else ""
        known = [f"members {shortened(map(name_of, members))}"] if members else []
        known += [f"placements {shortened(map(_qualified, placements))}"] if placements else []
        raise click.ClickException(
            f"there is no {'' if namespace else 'member and no '}placement called {name}{where}; "
            + (f"there are {' and '.join(known)}" if known else NO_PLACEMENTS if namespace else NO_HUB)
        )


def _qualified(obj: Obj) -> str:
    return f"{namespace_of(obj)}/{name_of(obj)}" if namespace_of(obj) else name_of(obj)


def _describe_placement(hub: SyncClient, placement: Obj) -> None:
    click.echo(f"{placement['kind']} {name_of(placement)}: {_state(placement)}")
    for entry in conditions_of(placement):
        click.echo(f"  {entry['type']}: {entry['status']} ({entry['reason']}) {entry['message']}")
    for one in status_of(placement).get("placementStatuses") or ():
        last: Obj = (one.get("conditions") or [{}])[-1]
        where = one.get("clusterName") or "(no cluster)"
        click.echo(f"{where}: {last.get('type')} {last.get('status')} ({last.get('reason')}) {last.get('message')}")
        for failed in one.get("failedPlacements") or ():
            click.echo(f"  failed {_object(failed)}: {failed['condition'].get('message')}")
        for drifted in one.get("driftedPlacements") or ():
            paths = ", ".join(drift["path"] for drift in drifted.get("observedDrifts") or ())
            click.echo(f"  drifted {_object(drifted)}: {paths}")
            if "/spec/suspend" in paths:
                click.echo(f"  -> {STARTED_BY_QUEUE}")
        for diffed in one.get("diffedPlacements") or ():
            paths = ", ".join(diff["path"] for diff in diffed.get("observedDiffs") or ())
            click.echo(f"  differs {_object(diffed)}: {paths}")
    for event in events_of(hub, placement, namespace_of(placement) or "default"):
        click.echo(f"{event['type']} {event['reason']}: {event['message']}")


def _object(entry: Obj) -> str:
    named = f"{entry.get('namespace')}/{entry.get('name')}" if entry.get("namespace") else str(entry.get("name"))
    return f"{entry.get('kind')} {named}"


def _describe_member(hub: SyncClient, member: Obj) -> None:
    click.echo(f"MemberCluster {name_of(member)}")
    for entry in conditions_of(member):
        click.echo(f"  {entry['type']}: {entry['status']} ({entry['reason']}) {entry.get('message', '')}")
    for taint in spec_of(member).get("taints") or ():
        click.echo(f"  taint {taint['key']}={taint.get('value', '')}:{taint['effect']}")
    usage = status_of(member).get("resourceUsage") or {}
    for part in ("capacity", "allocatable", "available"):
        amounts = ", ".join(f"{name} {amount}" for name, amount in (usage.get(part) or {}).items())
        click.echo(f"  {part}: {amounts or '-'}")
    placed = [labels_of(one).get(PARENT, "") for one in _bindings_on(hub, name_of(member))]
    placed += [
        f"{namespace_of(one)}/{labels_of(one).get(PARENT, '')}" for one in _bindings_on(hub, name_of(member), BINDINGS)
    ]
    click.echo(f"  placements: {', '.join(sorted(placed)) or '-'}")


def _bindings_on(hub: SyncClient, cluster: str, kind: Resource = CLUSTER_BINDINGS) -> list[Obj]:
    found: list[Obj] = hub.list(kind)["items"]
    return [one for one in found if spec_of(one).get("targetCluster") == cluster and not is_deleting(one)]


@fleet.command()
@click.argument("cluster")
@click.option("--timeout", default=300.0, help="Seconds to wait for the evictions.")
@cluster_options
def drain(cluster: str, timeout: float, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Taint CLUSTER so that nothing new comes, then evict every ClusterResourcePlacement from it. ResourcePlacements stay,
    as KubeFleet's own drain leaves them.

    \b
    corral fleet drain cluster-3
    """
    hub = client_of(kubeconfig_path, context)
    _set_taints(hub, cluster, lambda taints: taints if CORDON in taints else [*taints, CORDON])
    click.echo(f"Successfully cordoned member cluster {cluster} by adding cordon taint")
    blocked = _evict_all(hub, cluster, timeout)
    for placement, reason in blocked:
        click.echo(f"placement {placement} stays: {reason}", err=True)
    if blocked:
        raise click.ClickException(f"drain was not successful for cluster {cluster}")
    click.echo(f"drain was successful for cluster {cluster}; `corral fleet uncordon {cluster}` lets it back in")


def _evict_all(hub: SyncClient, cluster: str, timeout: float) -> list[tuple[str, str]]:
    """Evict what is on a cluster; returns the placements that would not go, and why."""
    asked: dict[str, str] = {}
    blocked: list[tuple[str, str]] = []
    random = Random()
    for placement in sorted({labels_of(one).get(PARENT, "") for one in _bindings_on(hub, cluster)}):
        name = f"drain-eviction-{placement}-{cluster}-{random.uid()[:8]}"
        body = {"metadata": {"name": name}, "spec": {"placementName": placement, "clusterName": cluster}}
        try:
            hub.create(EVICTIONS, body)
        except Forbidden as error:
            blocked.append((placement, error.message))
            continue
        asked[placement] = name
    deadline = _now() + timeout
    for placement, name in asked.items():
        outcome = _await_eviction(hub, name, deadline)
        if outcome:
            blocked.append((placement, outcome))
        else:
            click.echo(f"placement {placement} evicted")
    return blocked


def _await_eviction(hub: SyncClient, name: str, deadline: float) -> str:
    """Wait until an eviction has an end; the reason it did not happen, or nothing. What is gone already has been evicted."""
    while _now() < deadline:
        eviction = hub.get(EVICTIONS, name)
        valid, executed = find(eviction, "Valid"), find(eviction, "Executed")
        if valid is not None and valid["status"] == "False":
            return "" if valid["message"].startswith("Failed to find") else str(valid["message"])
        if executed is not None:
            return "" if executed["status"] == "True" else str(executed["message"])
        time.sleep(0.2)
    return "the eviction was not answered in time"


@fleet.command()
@click.argument("cluster")
@cluster_options
def uncordon(cluster: str, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Let placements come to CLUSTER again: take off the taint that `drain` put there."""
    hub = client_of(kubeconfig_path, context)
    _set_taints(hub, cluster, lambda taints: [taint for taint in taints if taint != CORDON])
    click.echo(f"Successfully uncordoned member cluster {cluster} by removing cordon taint")


def _set_taints(hub: SyncClient, cluster: str, change: object) -> None:
    assert callable(change)
    for _ in range(5):
        member = get_named(hub, MEMBER_CLUSTERS, cluster)
        version = member["metadata"]["resourceVersion"]
        patch = {
            "metadata": {"resourceVersion": version},
            "spec": {"taints": change(spec_of(member).get("taints") or [])},
        }
        try:
            hub.patch(MEMBER_CLUSTERS, cluster, "", patch)
            return
        except Conflict:
            continue
    raise click.ClickException(f"member cluster {cluster} keeps changing; try again")


@fleet.command()
@click.argument("name")
@cluster_options
def approve(name: str, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Approve a stage of an update run: NAME is the (Cluster)ApprovalRequest."""
    hub = client_of(kubeconfig_path, context)
    resource = APPROVAL_REQUESTS if namespace else CLUSTER_APPROVAL_REQUESTS
    request = get_named(hub, resource, name, namespace)
    entry = {
        "type": "Approved",
        "status": "True",
        "reason": "ApprovedByUser",
        "message": "approved with corral fleet approve",
        "lastTransitionTime": format_time(_now()),
        "observedGeneration": request["metadata"].get("generation", 1),
    }
    kept = [one for one in conditions_of(request) if one["type"] != "Approved"]
    body = {**request, "status": {**status_of(request), "conditions": [*kept, entry]}}
    hub.call("PUT", resource.path(namespace, name, "status"), body=body)
    click.echo(f"{resource.kind} {name} approved")
