"""`corral logs`: the logs of a job, wherever it runs: on this cluster, or on the worker the manager sent it to."""

from __future__ import annotations

import base64
from pathlib import Path

import click
import yaml

from corral.cli.lookup import PODS, object_named, workload_of
from corral.cli.options import client_of, cluster_options, namespace_of
from corral.client import kubeconfig
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import ApiError
from corral.core.meta import Obj, name_of, spec_of, status_of
from corral.core.resource import Resource

MULTI_KUEUE_CLUSTERS = Resource(
    "kueue.x-k8s.io", "v1beta2", "multikueueclusters", "MultiKueueCluster", namespaced=False
)
SECRETS = Resource("", "v1", "secrets", "Secret")
JOB_LABELS = (
    "batch.kubernetes.io/job-name",
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "ray.io/cluster",
    "workload.codeflare.dev/appwrapper",
)


@click.command()
@click.argument("target", nargs=-1, required=True)
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
    """Print the logs of TARGET (job/NAME, pytorchjob/NAME, pod/NAME …), wherever its pods run."""
    client = client_of(kubeconfig_path, context)
    namespace = namespace_of(client, namespace)
    resource, obj = object_named(client, target, namespace)
    workload = workload_of(client, resource, obj, namespace)
    cluster = str(status_of(workload).get("clusterName") or "") if workload else ""
    if cluster:
        click.echo(f"# on cluster {cluster}", err=True)
        client = worker_client(client, cluster, kueue_namespace)
    pods = pods_of(client, resource, obj, namespace)
    if not pods:
        raise click.ClickException(_no_pods(f"{resource.kind} {name_of(obj)}", workload, cluster))
    query = {
        "follow": "true" if follow and len(pods) == 1 else "",
        "tailLines": "" if tail is None else str(tail),
        "container": container,
    }
    for pod in pods:
        prefix = f"{name_of(pod)} | " if len(pods) > 1 else ""
        path = PODS.path(namespace, name_of(pod), "log")
        for line in client.lines(path, query):
            click.echo(prefix + line.decode(errors="replace"), nl=not line.endswith(b"\n"))


def _no_pods(job: str, workload: Obj | None, cluster: str) -> str:
    if cluster and workload is not None and conditions.is_true(workload, "Finished"):
        return f"{job} is finished, and its pods were removed from cluster {cluster} with it"
    return f"{job} has no pods yet; `corral explain` says why"


def worker_client(manager: SyncClient, cluster: str, namespace: str) -> SyncClient:
    """A client of a worker with the credentials the manager has for it."""
    found = manager.get(MULTI_KUEUE_CLUSTERS, cluster)
    source = (spec_of(found).get("clusterSource") or {}).get("kubeConfig") or {}
    if source.get("locationType", "Secret") != "Secret":
        raise click.ClickException(f"the kubeconfig of cluster {cluster} is a file of the manager; use its own context")
    try:
        secret = manager.get(SECRETS, str(source["location"]), namespace)
    except ApiError as error:
        raise click.ClickException(f"the kubeconfig of cluster {cluster} cannot be read: {error}") from error
    document = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))
    return SyncClient(kubeconfig.access(document, origin=f"kubeconfig of cluster {cluster}"))


def pods_of(client: SyncClient, resource: Resource, obj: Obj, namespace: str) -> list[Obj]:
    """The pods of a job, found by the labels its operator gives them."""
    if resource.kind == "Pod":
        return [client.get(PODS, name_of(obj), namespace)]
    for label in JOB_LABELS:
        found: list[Obj] = client.list(PODS, namespace, labels=f"{label}={name_of(obj)}")["items"]
        if found:
            return sorted(found, key=name_of)
    return []
