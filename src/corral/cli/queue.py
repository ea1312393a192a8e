"""`corral queue`: create, list, stop, resume and describe queues and flavors, as `kubectl kueue` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from corral.cli.groups import Commands
from corral.cli.lookup import get_named, instead_of, shortened
from corral.cli.objects.describe import print_description
from corral.cli.objects.targets import nothing_found
from corral.cli.options import client_of, cluster_options, namespace_of
from corral.cli.output.listing import Listing, Output, output_options, show
from corral.cli.output.tables import age
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import Forbidden, NotFound
from corral.core.meta import Obj, name_of, spec_of, status_of
from corral.core.resource import Resource
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS
from corral.runtime.clock import WallClock

GROUP = "kueue.x-k8s.io"

F = TypeVar("F", bound=Callable[..., Any])


class AliasGroup(Commands):
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


@click.group(cls=Commands)
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
@click.option("--admission-check", multiple=True, help="Check to wait for; that of MultiKueue dispatches.")
@click.option("--nominal-quota", multiple=True, help="FLAVOR:RESOURCE=AMOUNT[;RESOURCE=AMOUNT…]")
@click.option("--borrowing-limit", multiple=True, help="As --nominal-quota.")
@click.option("--lending-limit", multiple=True, help="As --nominal-quota.")
@dry_run_option
@cluster_options
def create_cluster_queue(name: str, dry_run: bool, context: str, kubeconfig_path: Path | None, **options: Any) -> None:
    """Create a ClusterQueue.

    \b
    corral queue create clusterqueue team-a --cohort research \\
        --nominal-quota "default-flavor:cpu=16;memory=64Gi" --admission-check multikueue
    """
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
    if options["admission_check"]:
        checks = [{"name": check} for check in options["admission_check"]]
        spec["admissionChecksStrategy"] = {"admissionChecks": checks}
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
    """Create a LocalQueue.

    \b
    corral queue create localqueue team-a -n research --clusterqueue team-a
    """
    client = client_of(kubeconfig_path, context)
    if not ignore_unknown_cq:
        get_named(client, CLUSTER_QUEUES, cluster_queue)
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
    """Create a ResourceFlavor.

    \b
    corral queue create resourceflavor h100 --node-labels gpu=h100 --node-taints gpu=h100:NoSchedule
    """
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
@click.option("-A", "--all-namespaces", is_flag=True, help="LocalQueues of all namespaces, as without -n.")
@click.option("-l", "--selector", default="", help="Label selector.")
@output_options
@cluster_options
@click.pass_context
def list_group(
    ctx: click.Context,
    all_namespaces: bool,
    selector: str,
    output: Output,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """List queues or flavors; without a kind, the queues of all namespaces, or of that of -n."""
    if all_namespaces and namespace:
        raise click.UsageError("-n and -A exclude each other")
    if ctx.invoked_subcommand is not None:
        ctx.default_map = {ctx.invoked_subcommand: _given(ctx)}
        return
    client = client_of(kubeconfig_path, context)

    def both() -> list[Listing]:
        try:
            cluster_queues = cluster_queue_listing(client, selector)
        except Forbidden as error:
            click.echo(f"# {error}", err=True)
            cluster_queues = Listing((), (), ())
        try:
            return [cluster_queues, local_queue_listing(client, namespace, selector)]
        except Forbidden:
            if all_namespaces:
                raise
            return [cluster_queues, local_queue_listing(client, namespace_of(client, namespace), selector)]

    show(output, both)


def _given(ctx: click.Context) -> dict[str, Any]:
    """Options before the kind, for the command of the kind."""
    return {name: value for name, value in ctx.params.items() if value not in (None, "", False)}


@list_group.command("clusterqueue")
@click.option("--active", type=bool, default=None, help="Only active (or only inactive) ones.")
@click.option("-l", "--selector", default="", help="Label selector.")
@output_options
@cluster_options
def list_cluster_queues(
    active: bool | None, selector: str, output: Output, namespace: str, context: str, kubeconfig_path: Path | None
) -> None:
    """NAME, COHORT, PENDING and ADMITTED WORKLOADS, ACTIVE, AGE."""
    client = client_of(kubeconfig_path, context)
    show(output, lambda: [cluster_queue_listing(client, selector, active)])


def cluster_queue_listing(client: SyncClient, selector: str = "", active: bool | None = None) -> Listing:
    found = client.list(CLUSTER_QUEUES, labels=selector)["items"]
    shown = [item for item in found if active is None or active == conditions.is_true(item, "Active")]
    rows = [(name_of(item), spec_of(item).get("cohortName"), *_counts(item)) for item in shown]
    empty = "No clusterqueues found; `corral queue create clusterqueue NAME --nominal-quota ...` makes one."
    return Listing(("NAME", "COHORT", *COUNTS), rows, shown, empty=empty)


COUNTS = ("PENDING WORKLOADS", "ADMITTED WORKLOADS", "ACTIVE", "AGE")


def _counts(item: Obj) -> tuple[object, ...]:
    status = status_of(item)
    return (
        status.get("pendingWorkloads", 0),
        status.get("admittedWorkloads", 0),
        conditions.is_true(item, "Active"),
        age(item, now()),
    )


@list_group.command("localqueue")
@click.option("-c", "--clusterqueue", "cluster_queue", default="", help="Only those of a ClusterQueue.")
@click.option("-A", "--all-namespaces", is_flag=True)
@click.option("-l", "--selector", default="", help="Label selector.")
@output_options
@cluster_options
def list_local_queues(
    cluster_queue: str,
    all_namespaces: bool,
    selector: str,
    output: Output,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """NAME, CLUSTERQUEUE, PENDING and ADMITTED WORKLOADS, ACTIVE, AGE."""
    client = client_of(kubeconfig_path, context)
    where = "" if all_namespaces else namespace_of(client, namespace)
    show(output, lambda: [local_queue_listing(client, where, selector, cluster_queue)])


def local_queue_listing(client: SyncClient, where: str, selector: str = "", cluster_queue: str = "") -> Listing:
    """The LocalQueues of a namespace, or of all."""
    found = client.list(LOCAL_QUEUES, where, labels=selector)["items"]
    shown = [item for item in found if not cluster_queue or spec_of(item).get("clusterQueue") == cluster_queue]
    rows = [
        (item["metadata"]["namespace"], name_of(item), spec_of(item).get("clusterQueue"), *_counts(item))
        for item in shown
    ]
    empty = "" if shown else nothing_found(client, LOCAL_QUEUES, where)
    listing = Listing(("NAMESPACE", "NAME", "CLUSTERQUEUE", *COUNTS), rows, shown, empty=empty)
    return listing.without(["NAMESPACE"]) if where else listing


@list_group.command("resourceflavor")
@click.option("-l", "--selector", default="", help="Label selector.")
@output_options
@cluster_options
def list_flavors(selector: str, output: Output, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """NAME, NODE LABELS, AGE."""
    client = client_of(kubeconfig_path, context)

    def flavors() -> list[Listing]:
        found = client.list(RESOURCE_FLAVORS, labels=selector)["items"]
        rows = [(name_of(item), _labels(spec_of(item).get("nodeLabels") or {}), age(item, now())) for item in found]
        return [Listing(("NAME", "NODE LABELS", "AGE"), rows, found, empty="No resourceflavors found.")]

    show(output, flavors)


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))


# stop, resume, describe, delete


KINDS = {"clusterqueue": CLUSTER_QUEUES, "localqueue": LOCAL_QUEUES, "resourceflavor": RESOURCE_FLAVORS}
QUEUES = (LOCAL_QUEUES, CLUSTER_QUEUES)
ALL = (*QUEUES, RESOURCE_FLAVORS)


def target_argument(command: F) -> F:
    return click.argument("target", nargs=-1, required=True, metavar="[KIND] NAME")(command)


def _target(
    client: SyncClient, words: tuple[str, ...], namespace: str, among: tuple[Resource, ...]
) -> tuple[Resource, str, str]:
    """What is meant by `cq NAME`, `cq/NAME` or `NAME`: the kind, the name and its namespace."""
    if len(words) == 1 and "/" in words[0]:
        words = tuple(words[0].split("/", 1))
    if len(words) > 2 or not all(words):
        raise click.UsageError("write KIND NAME, for example localqueue team-a")
    where = namespace_of(client, namespace)
    if len(words) == 2:
        resource = KINDS.get(AliasGroup.aliases.get(words[0].lower(), words[0].lower()))
        if resource not in among:
            kinds = ", ".join(one.kind.lower() for one in among)
            raise click.UsageError(
                f"{words[0]!r} is not one of {kinds}; write KIND NAME, for example localqueue team-a"
            )
        return resource, words[1], where if resource.namespaced else ""
    return _only_one(client, words[0], where, among)


def _only_one(client: SyncClient, name: str, namespace: str, among: tuple[Resource, ...]) -> tuple[Resource, str, str]:
    """The one thing of that name."""
    refused: list[Forbidden] = []
    known = {one: [name_of(item) for item in _seen(client, one, namespace, refused)] for one in among}
    found = [one for one, names in known.items() if name in names]
    if len(found) > 1:
        both = " and ".join(f"a {one.kind}" for one in found)
        raise click.UsageError(f"there is {both} called {name}; write for example {found[0].kind.lower()} {name}")
    if not found and refused:
        raise refused[0]
    if not found:
        there = [f"{one.kind}s {shortened(names)}" for one, names in known.items() if names]
        raise click.ClickException(
            f"nothing is called {name} in namespace {namespace}; there are {'; '.join(there) or 'no queues at all'}"
        )
    return found[0], name, namespace if found[0].namespaced else ""


def _seen(client: SyncClient, resource: Resource, namespace: str, refused: list[Forbidden]) -> list[Obj]:
    """Those of a namespace, or of the cluster; a user who may not see them means none of them, unless nothing else is found."""
    try:
        items: list[Obj] = client.list(resource, namespace if resource.namespaced else "")["items"]
    except Forbidden as error:
        refused.append(error)
        return []
    return items


@queue.command()
@target_argument
@click.option("--keep-already-running", is_flag=True, help="Admit nothing new, but let admitted workloads run on.")
@cluster_options
def stop(
    target: tuple[str, ...],
    keep_already_running: bool,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Stop a queue: drain it, or only hold it with --keep-already-running.

    \b
    corral queue stop user-queue
    corral queue stop clusterqueue cluster-queue --keep-already-running
    """
    client = client_of(kubeconfig_path, context)
    resource, name, where = _target(client, target, namespace, QUEUES)
    policy = "Hold" if keep_already_running else "HoldAndDrain"
    _patch(client, resource, name, where, {"spec": {"stopPolicy": policy}})
    _say(resource, name, "stopped")


@queue.command()
@target_argument
@cluster_options
def resume(target: tuple[str, ...], namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Let a stopped queue admit again.

    \b
    corral queue resume user-queue
    """
    client = client_of(kubeconfig_path, context)
    resource, name, where = _target(client, target, namespace, QUEUES)
    _patch(client, resource, name, where, {"spec": {"stopPolicy": "None"}})
    _say(resource, name, "resumed")


def _patch(client: SyncClient, resource: Resource, name: str, namespace: str, patch: Obj) -> None:
    try:
        client.patch(resource, name, namespace, patch)
    except NotFound as error:
        raise click.ClickException(f"{error}{instead_of(client, resource, name, namespace)}") from error


@queue.command()
@target_argument
@cluster_options
def describe(target: tuple[str, ...], namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Show all there is of a queue or flavor, and its events; `corral explain clusterqueue/NAME` is the short answer."""
    client = client_of(kubeconfig_path, context)
    resource, name, where = _target(client, target, namespace, ALL)
    print_description(client, get_named(client, resource, name, where), where)


@queue.command()
@target_argument
@cluster_options
def delete(target: tuple[str, ...], namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Delete a queue or flavor. One that is in use goes when nothing uses it any more."""
    client = client_of(kubeconfig_path, context)
    resource, name, where = _target(client, target, namespace, ALL)
    get_named(client, resource, name, where)
    answer = client.delete(resource, name, where)
    is_held = bool((answer.get("metadata") or {}).get("deletionTimestamp"))
    _say(resource, name, "is in use and will be deleted when it is not" if is_held else "deleted")
