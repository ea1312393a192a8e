"""`corral queue`: create, list, stop, resume and describe queues and flavors, as `kubectl kueue` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml

from corral.cli.lookup import events_of
from corral.cli.options import client_of, cluster_options, namespace_of
from corral.cli.printing import age, print_table
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import NotFound
from corral.core.meta import Obj, name_of, spec_of, status_of
from corral.core.resource import Resource
from corral.runtime.clock import WallClock

GROUP = "kueue.x-k8s.io"
CLUSTER_QUEUES = Resource(GROUP, "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False)
LOCAL_QUEUES = Resource(GROUP, "v1beta2", "localqueues", "LocalQueue")
RESOURCE_FLAVORS = Resource(GROUP, "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False)

F = TypeVar("F", bound=Callable[..., Any])


class AliasGroup(click.Group):
    """A group whose commands have short names too."""

    aliases: Mapping[str, str] = {
        "cq": "clusterqueue",
        "clusterqueues": "clusterqueue",
        "lq": "localqueue",
        "localqueues": "localqueue",
        "rf": "resourceflavor",
        "resourceflavors": "resourceflavor",
        "flavor": "resourceflavor",
    }

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, self.aliases.get(cmd_name, cmd_name))


def now() -> float:
    return WallClock().now()


def dry_run_option(command: F) -> F:
    return click.option("--dry-run", is_flag=True, help="Ask the server without changing anything.")(command)


@click.group()
def queue() -> None:
    """Create, list, stop and resume queues and flavors."""


# create


@queue.group(cls=AliasGroup)
def create() -> None:
    """Create a queue or a flavor."""


@create.command("clusterqueue")
@click.argument("name")
@click.option("--cohort", default="", help="Cohort to share unused quota with.")
@click.option("--queuing-strategy", default="BestEffortFIFO", type=click.Choice(["BestEffortFIFO", "StrictFIFO"]))
@click.option("--namespace-selector", default="", help="Namespaces that may use it: key=value,... (default: all).")
@click.option("--reclaim-within-cohort", default="Never", type=click.Choice(["Never", "LowerPriority", "Any"]))
@click.option(
    "--preemption-within-cluster-queue",
    default="Never",
    type=click.Choice(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]),
)
@click.option("--nominal-quota", multiple=True, help="FLAVOR:RESOURCE=AMOUNT[;RESOURCE=AMOUNT…]")
@click.option("--borrowing-limit", multiple=True, help="As --nominal-quota.")
@click.option("--lending-limit", multiple=True, help="As --nominal-quota.")
@dry_run_option
@cluster_options
def create_cluster_queue(name: str, dry_run: bool, context: str, kubeconfig_path: Path | None, **options: Any) -> None:
    """Create a ClusterQueue."""
    spec: Obj = {
        "queueingStrategy": options["queuing_strategy"],
        "namespaceSelector": _selector(options["namespace_selector"]),
        "preemption": {
            "reclaimWithinCohort": options["reclaim_within_cohort"],
            "withinClusterQueue": options["preemption_within_cluster_queue"],
        },
    }
    if options["cohort"]:
        spec["cohortName"] = options["cohort"]
    groups = quota_groups(options["nominal_quota"], options["borrowing_limit"], options["lending_limit"])
    if groups:
        spec["resourceGroups"] = groups
    client = client_of(kubeconfig_path, context)
    client.create(CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": spec}, dry_run=dry_run)
    _say(CLUSTER_QUEUES, name, "created", dry_run)


@create.command("localqueue")
@click.argument("name")
@click.option("-c", "--clusterqueue", "cluster_queue", required=True, help="ClusterQueue it feeds.")
@click.option("-i", "--ignore-unknown-cq", is_flag=True, help="Do not check that the ClusterQueue exists.")
@dry_run_option
@cluster_options
def create_local_queue(
    name: str,
    cluster_queue: str,
    ignore_unknown_cq: bool,
    dry_run: bool,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Create a LocalQueue."""
    client = client_of(kubeconfig_path, context)
    if not ignore_unknown_cq:
        client.get(CLUSTER_QUEUES, cluster_queue)
    metadata = {"name": name, "namespace": namespace_of(client, namespace)}
    client.create(LOCAL_QUEUES, {"metadata": metadata, "spec": {"clusterQueue": cluster_queue}}, dry_run=dry_run)
    _say(LOCAL_QUEUES, name, "created", dry_run)


@create.command("resourceflavor")
@click.argument("name")
@click.option("--node-labels", default="", help="key=value,...")
@click.option("--node-taints", default="", help="key=value:Effect,...")
@click.option("--tolerations", default="", help="key=value:Effect, key:Effect, key or :Effect, separated by commas.")
@dry_run_option
@cluster_options
def create_flavor(
    name: str,
    node_labels: str,
    node_taints: str,
    tolerations: str,
    dry_run: bool,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Create a ResourceFlavor."""
    spec: Obj = {}
    if node_labels:
        spec["nodeLabels"] = _pairs(node_labels)
    if node_taints:
        spec["nodeTaints"] = [_taint(text) for text in node_taints.split(",")]
    if tolerations:
        spec["tolerations"] = [_toleration(text) for text in tolerations.split(",")]
    client = client_of(kubeconfig_path, context)
    client.create(RESOURCE_FLAVORS, {"metadata": {"name": name}, "spec": spec}, dry_run=dry_run)
    _say(RESOURCE_FLAVORS, name, "created", dry_run)


def quota_groups(nominal: tuple[str, ...], borrowing: tuple[str, ...], lending: tuple[str, ...]) -> list[Obj]:
    """Resource groups from options; flavors with the same resources form one group."""
    limits = {"borrowingLimit": _quotas(borrowing), "lendingLimit": _quotas(lending)}
    groups: dict[tuple[str, ...], list[Obj]] = {}
    quotas = _quotas(nominal)
    for field, values in limits.items():
        unknown = [flavor for flavor in values if flavor not in quotas]
        if unknown:
            raise click.UsageError(f"{field} names flavor {unknown[0]!r}, which has no nominal quota")
    for flavor, resources in quotas.items():
        entries = []
        for resource, amount in resources.items():
            entry: Obj = {"name": resource, "nominalQuota": amount}
            entry.update(
                {
                    field: values[flavor][resource]
                    for field, values in limits.items()
                    if resource in values.get(flavor, {})
                }
            )
            entries.append(entry)
        groups.setdefault(tuple(resources), []).append({"name": flavor, "resources": entries})
    return [{"coveredResources": list(covered), "flavors": flavors} for covered, flavors in groups.items()]


def _quotas(texts: tuple[str, ...]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        flavor, colon, rest = text.partition(":")
        if not colon or not rest:
            raise click.UsageError(f"{text!r} is not of the form FLAVOR:RESOURCE=AMOUNT[;RESOURCE=AMOUNT…]")
        for part in rest.split(";"):
            resource, equals, amount = part.partition("=")
            if not equals or not amount:
                raise click.UsageError(f"{part!r} in {text!r} is not of the form RESOURCE=AMOUNT")
            found.setdefault(flavor, {})[resource] = amount
    return found


def _pairs(text: str) -> dict[str, str]:
    pairs = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals:
            raise click.UsageError(f"{part!r} is not of the form key=value")
        pairs[key] = value
    return pairs


def _selector(text: str) -> Obj:
    return {"matchLabels": _pairs(text)} if text else {}


def _taint(text: str) -> Obj:
    pair, colon, effect = text.rpartition(":")
    if not colon:
        raise click.UsageError(f"{text!r} is not of the form key=value:Effect")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect}


def _toleration(text: str) -> Obj:
    pair, _, effect = text.partition(":")
    key, equals, value = pair.partition("=")
    toleration: Obj = {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
    if key:
        toleration["key"] = key
    if effect:
        toleration["effect"] = effect
    return toleration


def _say(resource: Resource, name: str, what: str, dry_run: bool = False) -> None:
    suffix = " (server dry run)" if dry_run else ""
    click.echo(f"{resource.kind.lower()}.{resource.group}/{name} {what}{suffix}")


# list


@queue.group("list", cls=AliasGroup, invoke_without_command=True)
@click.pass_context
def list_group(context: click.Context) -> None:
    """List queues or flavors; without a kind, the queues of all namespaces."""
    if context.invoked_subcommand is None:
        context.invoke(list_cluster_queues)
        click.echo()
        context.invoke(list_local_queues, all_namespaces=True)


@list_group.command("clusterqueue")
@click.option("--active", type=bool, default=None, help="Only active (or only inactive) ones.")
@click.option("-l", "--selector", default="", help="Label selector.")
@cluster_options
def list_cluster_queues(
    active: bool | None, selector: str, namespace: str, context: str, kubeconfig_path: Path | None
) -> None:
    """NAME, COHORT, PENDING and ADMITTED WORKLOADS, ACTIVE, AGE."""
    client = client_of(kubeconfig_path, context)
    rows = []
    for found in client.list(CLUSTER_QUEUES, labels=selector)["items"]:
        is_active = conditions.is_true(found, "Active")
        if active is not None and active != is_active:
            continue
        status = status_of(found)
        rows.append(
            (
                name_of(found),
                spec_of(found).get("cohortName"),
                status.get("pendingWorkloads", 0),
                status.get("admittedWorkloads", 0),
                str(is_active).lower(),
                age(found, now()),
            )
        )
    print_table(("NAME", "COHORT", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "ACTIVE", "AGE"), rows)


@list_group.command("localqueue")
@click.option("-c", "--clusterqueue", "cluster_queue", default="", help="Only those of a ClusterQueue.")
@click.option("-A", "--all-namespaces", is_flag=True)
@click.option("-l", "--selector", default="", help="Label selector.")
@cluster_options
def list_local_queues(
    cluster_queue: str,
    all_namespaces: bool,
    selector: str,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """NAME, CLUSTERQUEUE, PENDING and ADMITTED WORKLOADS, AGE."""
    client = client_of(kubeconfig_path, context)
    where = "" if all_namespaces else namespace_of(client, namespace)
    rows = []
    for found in client.list(LOCAL_QUEUES, where, labels=selector)["items"]:
        if cluster_queue and spec_of(found).get("clusterQueue") != cluster_queue:
            continue
        status = status_of(found)
        row = [
            name_of(found),
            spec_of(found).get("clusterQueue"),
            status.get("pendingWorkloads", 0),
            status.get("admittedWorkloads", 0),
            age(found, now()),
        ]
        rows.append([found["metadata"]["namespace"], *row] if all_namespaces else row)
    headers = ["NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "AGE"]
    print_table(["NAMESPACE", *headers] if all_namespaces else headers, rows)


@list_group.command("resourceflavor")
@click.option("-l", "--selector", default="", help="Label selector.")
@cluster_options
def list_flavors(selector: str, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """NAME, NODE LABELS, AGE."""
    client = client_of(kubeconfig_path, context)
    rows = []
    for found in client.list(RESOURCE_FLAVORS, labels=selector)["items"]:
        labels = spec_of(found).get("nodeLabels") or {}
        shown = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
        rows.append((name_of(found), shown, age(found, now())))
    print_table(("NAME", "NODE LABELS", "AGE"), rows)


# stop, resume, describe, delete


KINDS = {"clusterqueue": CLUSTER_QUEUES, "localqueue": LOCAL_QUEUES, "resourceflavor": RESOURCE_FLAVORS}
STOPPABLE = click.Choice(["clusterqueue", "cq", "localqueue", "lq"])
ANY = click.Choice(["clusterqueue", "cq", "localqueue", "lq", "resourceflavor", "rf"])


def _target(kind: str, client: SyncClient, namespace: str) -> tuple[Resource, str]:
    resource = KINDS[AliasGroup.aliases.get(kind, kind)]
    return resource, namespace_of(client, namespace) if resource.namespaced else ""


@queue.command()
@click.argument("kind", type=STOPPABLE)
@click.argument("name")
@click.option("--keep-already-running", is_flag=True, help="Admit nothing new, but let admitted workloads run on.")
@cluster_options
def stop(
    kind: str, name: str, keep_already_running: bool, namespace: str, context: str, kubeconfig_path: Path | None
) -> None:
    """Stop a queue: drain it, or only hold it with --keep-already-running."""
    client = client_of(kubeconfig_path, context)
    resource, where = _target(kind, client, namespace)
    policy = "Hold" if keep_already_running else "HoldAndDrain"
    client.patch(resource, name, where, {"spec": {"stopPolicy": policy}})
    _say(resource, name, "stopped")


@queue.command()
@click.argument("kind", type=STOPPABLE)
@click.argument("name")
@cluster_options
def resume(kind: str, name: str, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Let a stopped queue admit again."""
    client = client_of(kubeconfig_path, context)
    resource, where = _target(kind, client, namespace)
    client.patch(resource, name, where, {"spec": {"stopPolicy": "None"}})
    _say(resource, name, "resumed")


@queue.command()
@click.argument("kind", type=ANY)
@click.argument("name")
@cluster_options
def describe(kind: str, name: str, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Show a queue or flavor with its status and events."""
    client = client_of(kubeconfig_path, context)
    resource, where = _target(kind, client, namespace)
    print_description(client, client.get(resource, name, where), where)


@queue.command()
@click.argument("kind", type=ANY)
@click.argument("name")
@cluster_options
def delete(kind: str, name: str, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Delete a queue or flavor."""
    client = client_of(kubeconfig_path, context)
    resource, where = _target(kind, client, namespace)
    client.delete(resource, name, where)
    _say(resource, name, "deleted")


def print_description(client: SyncClient, obj: Obj, namespace: str) -> None:
    """An object as YAML without bookkeeping, then its events."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    click.echo(yaml.safe_dump({**obj, "metadata": metadata}, sort_keys=False).rstrip())
    try:
        found = events_of(client, obj, namespace or "default")
    except NotFound:
        found = []
    if found:
        click.echo("Events:")
        rows = [
            (event.get("type"), event.get("reason"), event.get("count", 1), event.get("message")) for event in found
        ]
        print_table(("  TYPE", "REASON", "COUNT", "MESSAGE"), [(f"  {row[0]}", *row[1:]) for row in rows])
