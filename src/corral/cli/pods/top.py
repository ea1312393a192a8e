"""`corral top`: what nodes and pods use now, on this cluster and on the workers of a manager."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from corral.cli.completion import complete_target
from corral.cli.lookup import targets_named
from corral.cli.machine.workers import ask_workers, worker_names
from corral.cli.objects.targets import nothing_found, typed
from corral.cli.options import cluster_options
from corral.cli.output.listing import Listing, Output, output_options, show
from corral.cli.pods.choosing import Chooser
from corral.client.sync import SyncClient
from corral.core.errors import ApiError, NotFound, ServiceUnavailable
from corral.core.meta import Obj, key_of, labels_of, name_of, namespace_of, status_of
from corral.core.quantity import Quantity
from corral.core.remote_pods import CLUSTER_LABEL
from corral.inspect.placed_pods import KUEUE, WorkerSilent
from corral.kinds.kubernetes.core.kinds import NODES, PODS
from corral.kinds.kubernetes.metrics import NODE_METRICS, POD_METRICS

NODE_USAGE: Final = NODE_METRICS.resource().at("v1beta1")
POD_USAGE: Final = POD_METRICS.resource().at("v1beta1")
MEBI: Final = 2**20
NO_METRICS: Final = (
    "it does not measure (metrics.k8s.io is not served); metrics-server does that on a Kubernetes cluster"
)


@click.command()
@click.argument("words", nargs=-1, metavar="nodes | pods | TARGET...", shell_complete=complete_target)
@click.option("-A", "--all-namespaces", is_flag=True, help="Pods of all namespaces.")
@click.option("-l", "--selector", default="", help="Nodes or pods with these labels.")
@click.option("--containers", is_flag=True, help="A row for each container.")
@click.option("--kueue-namespace", default=KUEUE, help="Where the manager keeps its workers' kubeconfigs.")
@output_options
@cluster_options
def top(
    words: tuple[str, ...],
    all_namespaces: bool,
    selector: str,
    containers: bool,
    kueue_namespace: str,
    output: Output,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Show the CPU and memory that nodes or pods use now. On a manager the nodes are those of its workers, and jobs are
    looked at where they run.

    \b
    corral top                     # nodes
    corral top pods -A --sort-by memory
    corral top job/train --watch
    """
    chooser = Chooser.of(kubeconfig_path, context, namespace, kueue_namespace)
    if words in ((), ("nodes",), ("node",)):
        if containers or all_namespaces:
            raise click.UsageError(
                f"{'--containers' if containers else '-A'} is about pods; `corral top pods` shows them"
            )
        show(output, lambda: [_nodes(chooser, selector)])
    elif words in (("pods",), ("pod",)):
        where = "" if all_namespaces else chooser.namespace
        show(output, lambda: [_pods(chooser.client, where, selector, containers=containers)])
    elif selector or all_namespaces:
        raise click.UsageError("-l and -A select among all pods; they have no effect on what is named")
    else:
        show(output, lambda: [_named(chooser.anew(), words, containers=containers)])


def _nodes(chooser: Chooser, selector: str) -> Listing:
    """The nodes of this cluster and of its workers; a worker that does not answer is said."""

    def measured(client: SyncClient) -> list[tuple[Obj, Obj]]:
        return _measured_nodes(client, selector)

    names = worker_names(chooser.client)
    try:
        found: list[tuple[str, Obj, Obj]] = [("", node, usage) for node, usage in measured(chooser.client)]
    except (ServiceUnavailable, NotFound):
        if not names:
            raise click.ClickException(NO_METRICS) from None
        found = []
    answers = ask_workers(chooser.client, names, chooser.kueue_namespace, chooser.kubeconfig_path, measured)
    for name, answer in answers.items():
        if isinstance(answer, Exception):
            click.echo(f"{name}: {NO_METRICS if isinstance(answer, NotFound) else answer}", err=True)
        else:
            found += [(name, node, usage) for node, usage in answer]
    rows = [(name_of(node), cluster or "-", *_parts(node, usage)) for cluster, node, usage in found]
    headers = ("NAME", "CLUSTER", "CPU", "CPU%", "MEMORY", "MEMORY%")
    listing = Listing(headers, rows, [usage for _, _, usage in found], empty="No nodes found.")
    return listing if any(cluster for cluster, _, _ in found) else listing.without(["CLUSTER"])


def _measured_nodes(client: SyncClient, selector: str) -> list[tuple[Obj, Obj]]:
    usages = {name_of(one): typed(NODE_USAGE, one) for one in client.list(NODE_USAGE, labels=selector)["items"]}
    nodes = client.list(NODES, labels=selector)["items"]
    return [(node, usages.get(name_of(node), {"metadata": {"name": name_of(node)}})) for node in nodes]


def _parts(node: Obj, usage: Obj) -> tuple[object, ...]:
    """What of a node is used, in amounts and of a hundred; nothing is known of one that was not measured yet."""
    used = usage.get("usage")
    if used is None:
        return ("<unknown>",) * 4
    holds = status_of(node).get("allocatable") or {}
    cpu, memory = _cpu(used), _memory(used)
    return (
        f"{cpu}m", _percent(cpu, Quantity.parse(holds.get("cpu", "0")).milli),
        f"{memory}Mi", _percent(memory, Quantity.parse(holds.get("memory", "0")).value // MEBI),
    )  # fmt: skip


def _pods(client: SyncClient, namespace: str, selector: str, *, containers: bool) -> Listing:
    try:
        usages = client.list(POD_USAGE, namespace, labels=selector)["items"]
    except NotFound:
        raise click.ClickException(NO_METRICS) from None
    for cluster, count in _unmeasured(client, namespace, selector, usages).items():
        what = "1 running pod is" if count == 1 else f"{count} running pods are"
        click.echo(
            f"{cluster}: {what} not measured; `corral clusters describe {cluster}` says whether it answers", err=True
        )
    empty = "" if usages else nothing_found(client, PODS, namespace).replace("No pods found", "No running pods found")
    listing = _usage_listing([(labels_of(one).get(CLUSTER_LABEL, ""), one) for one in usages], containers=containers)
    kept = listing if not namespace else listing.without(["NAMESPACE"])
    return Listing(kept.headers, kept.rows, kept.objects, empty=empty)


def _unmeasured(client: SyncClient, namespace: str, selector: str, usages: Sequence[Obj]) -> dict[str, int]:
    """How many pods of each worker run without anybody saying what they use."""
    known = {key_of(usage) for usage in usages}
    counts: dict[str, int] = {}
    for pod in client.list(PODS, namespace, labels=selector)["items"]:
        cluster = labels_of(pod).get(CLUSTER_LABEL, "")
        if cluster and status_of(pod).get("phase") == "Running" and key_of(pod) not in known:
            counts[cluster] = counts.get(cluster, 0) + 1
    return dict(sorted(counts.items()))


def _named(chooser: Chooser, words: tuple[str, ...], *, containers: bool) -> Listing:
    """The pods of jobs, each measured where it runs."""
    found, silent = [], []
    lost: WorkerSilent | None = None
    for resource, obj in targets_named(chooser.client, words, chooser.namespace):
        try:
            places = chooser.places(resource, obj)
        except WorkerSilent as error:
            if len(words) > 1:
                click.echo(f"# {resource.kind.lower()}/{name_of(obj)}: {error}", err=True)
            lost = error
            continue
        for client, pod in places:
            try:
                usage = client.get(POD_USAGE, name_of(pod), namespace_of(pod))
            except NotFound:
                silent.append(f"pod {name_of(pod)} is not measured: it has just begun, or does not run any more")
            except ApiError as error:
                silent.append(f"pod {name_of(pod)}: {error}")
            else:
                found.append((labels_of(pod).get(CLUSTER_LABEL, ""), usage))
        if not places:
            target = f"{resource.kind.lower()}/{name_of(obj)}"
            silent.append(f"{target} has no pods; `corral explain {target}` says why")
    if lost is not None and not found and not silent:
        raise lost
    listing = _usage_listing(found, containers=containers).without(["NAMESPACE"])
    return Listing(listing.headers, listing.rows, listing.objects, empty="\n".join(silent))


def _usage_listing(found: Sequence[tuple[str, Obj]], *, containers: bool) -> Listing:
    rows, objects = [], []
    for cluster, usage in found:
        parts = usage.get("containers") or []
        groups = [(str(one["name"]), [one]) for one in parts] if containers else [("", parts)]
        for container, group in groups:
            cpu, memory = (sum(measure(one.get("usage") or {}) for one in group) for measure in (_cpu, _memory))
            rows.append((namespace_of(usage), name_of(usage), container, cluster or "-", f"{cpu}m", f"{memory}Mi"))
            objects.append(typed(POD_USAGE, usage))
    listing = Listing(("NAMESPACE", "NAME", "CONTAINER", "CLUSTER", "CPU", "MEMORY"), rows, objects)
    unused = [] if containers else ["CONTAINER"]
    return listing.without(unused if any(cluster for cluster, _ in found) else [*unused, "CLUSTER"])


def _cpu(usage: Obj) -> int:
    return Quantity.parse(usage.get("cpu", "0")).milli


def _memory(usage: Obj) -> int:
    return Quantity.parse(usage.get("memory", "0")).value // MEBI


def _percent(part: int, whole: int) -> str:
    return f"{100 * part // whole}%" if whole else "<unknown>"
