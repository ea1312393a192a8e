"""`corral logs`: the logs of a job, wherever it runs: on this cluster, or on the worker the manager sent it to."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click
import yaml

from corral.cli.completion import complete_target
from corral.cli.lookup import object_named
from corral.cli.options import client_of, cluster_options, namespace_of
from corral.cli.placed import member_client, placements_of
from corral.client import kubeconfig
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import ApiError, Forbidden, NotFound
from corral.core.meta import Obj, name_of, spec_of, status_of
from corral.core.resource import Resource
from corral.inspect.lookup import pods_of, workload_of
from corral.kinds.kubernetes.core.kinds import PODS, SECRETS
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS


@click.command()
@click.argument("target", nargs=-1, required=True, shell_complete=complete_target)
@click.option("-f", "--follow", is_flag=True, help="Keep printing as the job writes.")
@click.option("--tail", type=int, default=None, help="Only the last lines of each pod.")
@click.option("-c", "--container", default="", help="Container, if pods have several.")
@click.option("--kueue-namespace", default="kueue-system", help="Where the manager keeps its workers' kubeconfigs.")
@cluster_options
def logs(
    target: tuple[str, ...],
    follow: bool,
    tail: int | None,
    container: str,
    kueue_namespace: str,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Print the logs of TARGET (job/NAME, pytorchjob/NAME, pod/NAME …), wherever its pods run.

    \b
    corral logs job/train
    corral logs pytorchjob/mnist --follow --tail 20
    """
    client = client_of(kubeconfig_path, context)
    namespace = namespace_of(client, namespace)
    resource, obj = object_named(client, target, namespace)
    workload = workload_of(client, resource, obj, namespace)
    found = _where(client, resource, obj, workload, namespace, kueue_namespace)
    members = [] if found or workload else _members(client, resource, obj, namespace)
    found += [pair for member in members for pair in _on_member(kubeconfig_path, member, resource, obj, namespace)]
    if not found:
        raise click.ClickException(_no_pods(f"{resource.kind} {name_of(obj)}", workload, members))
    query = {
        "follow": "true" if follow else "",
        "tailLines": "" if tail is None else str(tail),
        "container": container,
    }

    def show(where: SyncClient, pod: Obj) -> None:
        prefix = f"{name_of(pod)} | " if len(found) > 1 else ""
        for line in where.lines(PODS.path(namespace, name_of(pod), "log"), query):
            click.echo(prefix + line.decode(errors="replace"), nl=not line.endswith(b"\n"))

    def follow_one(where: SyncClient, pod: Obj) -> None:
        try:
            show(where, pod)
        except ApiError as error:
            click.echo(f"# {name_of(pod)}: {error}", err=True)

    if follow and len(found) > 1:
        _all_at_once([partial(follow_one, SyncClient(where.access), pod) for where, pod in found])
    else:
        for where, pod in found:
            show(where, pod)


def _all_at_once(readers: Sequence[Callable[[], None]]) -> None:
    """Follow several pods; Ctrl-C ends all of them, and the end of the last one ends the command."""
    threads = [threading.Thread(target=reader, daemon=True) for reader in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _where(
    client: SyncClient, resource: Resource, obj: Obj, workload: Obj | None, namespace: str, kueue_namespace: str
) -> list[tuple[SyncClient, Obj]]:
    """The pods of an object, each with the cluster it runs on. Pods that are queued one by one may be on several."""
    clients: dict[str, SyncClient] = {"": client}

    def on(cluster: str) -> SyncClient:
        if cluster not in clients:
            click.echo(f"# on cluster {cluster}", err=True)
            clients[cluster] = worker_client(client, cluster, kueue_namespace)
        return clients[cluster]

    def on_or_here(cluster: str) -> SyncClient:
        """Credentials of workers are not everybody's to read; Corral's own manager shows the pods of workers itself."""
        try:
            return on(cluster)
        except Forbidden:
            return client

    if workload is not None:
        there = on_or_here(_cluster_of(workload))
        try:
            found = [(there, pod) for pod in pods_of(there, resource, obj, namespace)]
        except NotFound:
            found = []
        # The manager may still show what its worker has removed.
        return found or [(client, pod) for pod in pods_of(client, resource, obj, namespace)]
    pods = pods_of(client, resource, obj, namespace)
    return [(on_or_here(_cluster_of(workload_of(client, PODS, pod, namespace))), pod) for pod in pods]


def _members(hub: SyncClient, resource: Resource, obj: Obj, namespace: str) -> list[str]:
    """Where a hub placed an object."""
    placements = placements_of(hub, resource.kind, name_of(obj), namespace)
    return sorted({member for placed in placements for member in placed.members})


def _on_member(
    kubeconfig_path: Path | None, member: str, resource: Resource, obj: Obj, namespace: str
) -> list[tuple[SyncClient, Obj]]:
    """The pods of an object on a member, if the kubeconfig has a context of it."""
    there = member_client(kubeconfig_path, member)
    if there is None:
        click.echo(
            f"# on cluster {member}, for which the kubeconfig has no context; name its own with --context", err=True
        )
        return []
    click.echo(f"# on cluster {member}", err=True)
    return [(there, pod) for pod in pods_of(there, resource, obj, namespace)]


def _cluster_of(workload: Obj | None) -> str:
    return str(status_of(workload).get("clusterName") or "") if workload else ""


def _no_pods(job: str, workload: Obj | None, members: list[str]) -> str:
    if workload is not None and conditions.is_true(workload, "Finished"):
        gone = f"{job} is finished, and its pods were removed"
        gone += f" from cluster {cluster} with it" if (cluster := _cluster_of(workload)) else ""
        return f"{gone}; `corral logs -f` shows what a job writes while it runs, and `corral: {{keepFinished: 10m}}` in the manager's configuration keeps its pods for a while"
    if members:
        return f"{job} is placed on {', '.join(members)}; no pods of it were found there"
    return f"{job} has no pods yet; `corral explain` says why"


def worker_client(manager: SyncClient, cluster: str, namespace: str) -> SyncClient:
    """A client of a worker with the credentials the manager has for it."""
    found = manager.get(MULTI_KUEUE_CLUSTERS, cluster)
    source = (spec_of(found).get("clusterSource") or {}).get("kubeConfig") or {}
    if source.get("locationType", "Secret") != "Secret":
        raise click.ClickException(f"the kubeconfig of cluster {cluster} is a file of the manager; use its own context")
    try:
        secret = manager.get(SECRETS, str(source["location"]), namespace)
    except NotFound as error:
        raise click.ClickException(f"the kubeconfig of cluster {cluster} cannot be read: {error}") from error
    document = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))
    return SyncClient(kubeconfig.access(document, origin=f"kubeconfig of cluster {cluster}"))
