"""`corral clusters`: the worker clusters of a manager — add, rotate, list, describe, drain, remove."""

from __future__ import annotations

from pathlib import Path

import click

from corral.cli.groups import Commands
from corral.cli.lookup import get_named
from corral.cli.machine.workers import ask_workers
from corral.cli.options import client_of, cluster_options
from corral.cli.output.listing import Listing, Output, output_options, show
from corral.cli.output.tables import print_table
from corral.client.limits import ANSWER_S
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import NotFound
from corral.core.meta import Obj, name_of, spec_of, status_of
from corral.fleet import join
from corral.inspect.placed_pods import WorkerSilent
from corral.kinds.kubernetes.core.kinds import SECRETS
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS, WORKLOADS


@click.group(cls=Commands)
def clusters() -> None:
    """Worker clusters of a manager."""


@clusters.command()
@click.argument("name")
@click.option("--worker-context", default="", help="Context of the worker in the kubeconfig.")
@click.option("--worker-kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig of the worker, if another file.")
@click.option("--server", default="", help="Address the manager reaches the worker at, if not the kubeconfig's.")
@click.option("--config", "config_name", default="multikueue", help="MultiKueueConfig to add it to.")
@click.option("--with-dependencies", is_flag=True, help="Also allow copying ConfigMaps, Secrets and runtimes.")
@click.option("--itself", is_flag=True, help="It is the manager: what it sends to itself gets -NAME to its name.")
@cluster_options
def add(
    name: str,
    worker_context: str,
    worker_kubeconfig: Path | None,
    server: str,
    config_name: str,
    with_dependencies: bool,
    itself: bool,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Make the cluster of a kubeconfig context a worker called NAME. Doing it again renews its credentials.

    \b
    corral clusters add west --worker-context west-admin
    """
    manager = client_of(kubeconfig_path, context)
    worker = manager
    if not itself:
        worker = client_of(worker_kubeconfig or kubeconfig_path, worker_context or f"corral-{name}")
    token = join.prepare_worker(worker, dependencies=with_dependencies)
    reached_at, suffix = server or worker.access.server, f"-{name}" if itself else ""
    join.register_worker(manager, name, reached_at, worker.access.ca, token, namespace or join.NAMESPACE, suffix)
    listed = join.add_to_config(manager, config_name, [name])
    click.echo(f"cluster {name} added; MultiKueueConfig {config_name} now has {', '.join(listed)}")


@clusters.command()
@click.argument("name")
@click.option("--worker-context", default="", help="Context of the worker in the kubeconfig.")
@click.option("--worker-kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig of the worker, if another file.")
@click.option("--revoke", is_flag=True, help="Make the tokens it had worthless at once, not when they end.")
@cluster_options
def rotate(
    name: str,
    worker_context: str,
    worker_kubeconfig: Path | None,
    revoke: bool,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Give the manager another token for the worker NAME. Its roles, its address and its jobs stay.

    \b
    corral clusters rotate west --worker-context west-admin
    """
    manager = client_of(kubeconfig_path, context)
    get_named(manager, MULTI_KUEUE_CLUSTERS, name)
    worker = client_of(worker_kubeconfig or kubeconfig_path, worker_context or f"corral-{name}")
    if revoke:
        join.revoke_tokens(worker)
    try:
        join.replace_token(manager, name, join.new_token(worker), namespace or join.NAMESPACE)
    except NotFound as error:
        raise click.ClickException(
            f"{error}: `corral clusters add {name}` makes the account of a worker and its Secret"
        ) from error
    ended = "; the tokens it had are worthless now" if revoke else ""
    click.echo(f"cluster {name} has another token{ended}")


@clusters.command("list")
@click.option("-l", "--selector", default="", help="Label selector.")
@output_options
@cluster_options
def list_(selector: str, output: Output, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """List workers with their state and how many workloads they run."""
    manager = client_of(kubeconfig_path, context)
    show(output, lambda: [_workers(manager, selector)])


def _workers(manager: SyncClient, selector: str) -> Listing:
    running = _running(manager)
    rows = []
    configs = manager.list(MULTI_KUEUE_CONFIGS)["items"]
    found = manager.list(MULTI_KUEUE_CLUSTERS, labels=selector)["items"]
    for cluster in found:
        name = name_of(cluster)
        active = conditions.find(cluster, "Active") or {}
        named = [name_of(config) for config in configs if name in (spec_of(config).get("clusters") or [])]
        rows.append(
            (
                name,
                str(active.get("status", "Unknown")),
                ",".join(named) or "-",
                str(running.get(name, 0)),
                str(active.get("message", "")),
            )
        )
    empty = "This cluster has no workers; `corral clusters add NAME --worker-context CONTEXT` adds one."
    empty = f"No workers have the labels {selector}." if selector else empty
    return Listing(("NAME", "ACTIVE", "CONFIGS", "RUNNING", "MESSAGE"), rows, found, empty=empty)


@clusters.command()
@click.argument("name")
@cluster_options
def describe(name: str, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Show one worker: its connection, whether it answers now, and the workloads it runs or is asked for."""
    manager = client_of(kubeconfig_path, context)
    cluster = get_named(manager, MULTI_KUEUE_CLUSTERS, name)
    for entry in conditions.conditions_of(cluster):
        click.echo(
            f"{entry['type']}: {entry['status']} ({entry.get('reason')}) {entry.get('message')} since {entry.get('lastTransitionTime')}"
        )
    answer = ask_workers(
        manager, [name], join.NAMESPACE, kubeconfig_path, lambda worker: worker.call("GET", "/version")
    )
    if isinstance(answer[name], WorkerSilent):
        click.echo(f"Now: it does not answer within {ANSWER_S:g} s; the manager notices by itself when that lasts")
    rows = []
    for workload in manager.list(WORKLOADS)["items"]:
        state = _state_on(workload, name)
        if state:
            rows.append((workload["metadata"]["namespace"], name_of(workload), state))
    print_table(("NAMESPACE", "WORKLOAD", "STATE"), rows)


@clusters.command()
@click.argument("name")
@click.option("--config", "config_name", default="multikueue", help="MultiKueueConfig to take it out of.")
@cluster_options
def drain(name: str, config_name: str, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Give NAME no more work: take it out of the config. What runs there is moved to other workers."""
    manager = client_of(kubeconfig_path, context)
    get_named(manager, MULTI_KUEUE_CLUSTERS, name)
    left = join.remove_from_config(manager, config_name, name)
    click.echo(f"cluster {name} taken out of MultiKueueConfig {config_name}; `corral clusters add {name}` puts it back")
    _say_if_none(config_name, left)


@clusters.command()
@click.argument("name")
@click.option("--config", "config_name", default="multikueue", help="MultiKueueConfig to take it out of.")
@click.option("--force", is_flag=True, help="Remove it even while it runs workloads.")
@cluster_options
def remove(
    name: str, config_name: str, force: bool, namespace: str, context: str, kubeconfig_path: Path | None
) -> None:
    """Remove a worker: take it out of the config, delete its MultiKueueCluster and Secret."""
    manager = client_of(kubeconfig_path, context)
    get_named(manager, MULTI_KUEUE_CLUSTERS, name)
    busy = _running(manager).get(name, 0)
    if busy and not force:
        raise click.ClickException(
            f"cluster {name} runs {busy} workloads; `corral clusters drain {name}` first, or --force"
        )
    left = join.remove_from_config(manager, config_name, name)
    for resource, target, space in (
        (MULTI_KUEUE_CLUSTERS, name, ""),
        (SECRETS, f"{name}-kubeconfig", namespace or join.NAMESPACE),
    ):
        try:
            manager.delete(resource, target, space)
        except NotFound:
            continue
    click.echo(f"cluster {name} removed")
    _say_if_none(config_name, left)


def _say_if_none(config: str, left: list[str]) -> None:
    if not left:
        click.echo(
            f"MultiKueueConfig {config} has no cluster left and is not there any more: what uses it waits until"
            f" `corral clusters add NAME --config {config}` makes it again.",
            err=True,
        )


def _running(manager: SyncClient) -> dict[str, int]:
    counts: dict[str, int] = {}
    for workload in manager.list(WORKLOADS)["items"]:
        cluster = status_of(workload).get("clusterName")
        if cluster and not conditions.is_true(workload, "Finished"):
            counts[cluster] = counts.get(cluster, 0) + 1
    return counts


def _state_on(workload: Obj, cluster: str) -> str:
    status = status_of(workload)
    if conditions.is_true(workload, "Finished"):
        return ""
    if status.get("clusterName") == cluster:
        return "running here"
    return "asked" if cluster in (status.get("nominatedClusterNames") or []) else ""
