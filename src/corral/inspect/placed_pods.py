"""The pods of a job, wherever they run: on this cluster, or on the worker the manager sent it to."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence

from corral.client import kubeconfig
from corral.client.kubeconfig import KubeconfigError
from corral.client.limits import ANSWER_S
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import ApiError, ConnectionFailed, Forbidden, NotFound
from corral.core.meta import Obj, spec_of, status_of
from corral.core.resource import Resource
from corral.inspect.lookup import pods_of, workload_of
from corral.kinds.kubernetes.core.kinds import PODS, SECRETS
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS

KUEUE = "kueue-system"


class WorkerSilent(ConnectionFailed):
    """A worker does not answer: neither the job nor the manager can help it."""

    def __init__(self, cluster: str) -> None:
        super().__init__(
            f"cluster {cluster} does not answer: what runs there goes on, and cannot be shown until it does; "
            f"`corral clusters describe {cluster}` says what its manager knows"
        )


class Workers:
    """The workers of a manager during one look: each is reached once, and one that is silent is not waited for again."""

    def __init__(self, manager: SyncClient, namespace: str = KUEUE) -> None:
        self._manager = manager
        self._namespace = namespace
        self._known: dict[str, SyncClient | WorkerSilent] = {}

    def client(self, cluster: str) -> SyncClient:
        """A client of a worker that answers, with the credentials the manager has for it."""
        if cluster not in self._known:
            try:
                self._known[cluster] = worker_client(self._manager, cluster, self._namespace)
            except WorkerSilent as error:
                self._known[cluster] = error
        known = self._known[cluster]
        if isinstance(known, WorkerSilent):
            raise known
        return known


def cluster_of(workload: Obj | None) -> str:
    """The worker a Workload was sent to; nothing where it was not."""
    return str(status_of(workload).get("clusterName") or "") if workload else ""


def where_pods_run(
    client: SyncClient,
    resource: Resource,
    obj: Obj,
    workload: Obj | None,
    namespace: str,
    workers: Workers | None = None,
    tell: Callable[[str], None] = lambda cluster: None,
) -> list[tuple[SyncClient, Obj]]:
    """The pods of an object, each with the cluster it runs on. Pods that are queued one by one may be on several."""
    looked = workers or Workers(client)

    def on_or_here(cluster: str) -> SyncClient:
        """Credentials of workers are not everybody's to read; Corral's own manager shows the pods of workers itself."""
        if not cluster:
            return client
        tell(cluster)
        try:
            return looked.client(cluster)
        except Forbidden:
            return client

    if workload is not None:
        try:
            there = on_or_here(cluster_of(workload))
        except WorkerSilent:
            if not conditions.is_true(workload, "Finished"):
                raise
            there = client  # what has ended is kept by the manager
        found: list[tuple[SyncClient, Obj]] = []
        try:
            found = [(there, pod) for pod in pods_of(there, resource, obj, namespace)]
        except NotFound:
            pass
        finally:
            if not found and there is not client:
                there.close()  # nobody else knows of it
        if found:
            return found
        # The manager may still show what its worker has removed.
        return [(client, pod) for pod in pods_of(client, resource, obj, namespace)]
    pods = pods_of(client, resource, obj, namespace)
    return [(on_or_here(cluster_of(workload_of(client, PODS, pod, namespace))), pod) for pod in pods]


def let_go(client: SyncClient, places: Sequence[tuple[SyncClient, Obj]]) -> None:
    """Close the connections to workers that were made for a look; the clients can still be used."""
    for where, _ in places:
        if where is not client:
            where.close()


def worker_client(manager: SyncClient, cluster: str, namespace: str) -> SyncClient:
    """A client of a worker with the credentials the manager has for it, if it answers at all."""
    return answering(SyncClient(worker_access(manager, cluster, namespace)), cluster)


def worker_access(manager: SyncClient, cluster: str, namespace: str) -> kubeconfig.Access:
    """How the manager reaches a worker."""
    found = manager.get(MULTI_KUEUE_CLUSTERS, cluster)
    source = (spec_of(found).get("clusterSource") or {}).get("kubeConfig") or {}
    if source.get("locationType", "Secret") != "Secret":
        raise KubeconfigError(f"the kubeconfig of cluster {cluster} is a file of the manager; use its own context")
    try:
        secret = manager.get(SECRETS, str(source["location"]), namespace)
    except NotFound as error:
        raise KubeconfigError(f"the kubeconfig of cluster {cluster} cannot be read: {error}") from error
    text = base64.b64decode(secret["data"]["kubeconfig"])
    origin = f"kubeconfig of cluster {cluster}"
    return kubeconfig.access(kubeconfig.parse(text, origin), origin=origin)


def answering(client: SyncClient, cluster: str) -> SyncClient:
    """The client, if its cluster answers at all: one that hangs is noticed at once, and not with the first long call."""
    patience, client.timeout = client.timeout, ANSWER_S
    try:
        client.call("GET", "/version")
    except ConnectionFailed as error:
        raise WorkerSilent(cluster) from error
    except ApiError:
        pass  # it may refuse to say, and is there
    finally:
        client.timeout = patience
    return client


def no_pods(job: str, workload: Obj | None, members: Sequence[str] = ()) -> str:
    """Why there is nothing to read of a job."""
    if workload is not None and conditions.is_true(workload, "Finished"):
        gone = f"{job} is finished, and its pods were removed"
        gone += f" from cluster {cluster} with it" if (cluster := cluster_of(workload)) else ""
        return f"{gone}; `corral logs -f` shows what a job writes while it runs, and `corral: {{keepFinished: 10m}}` in the manager's configuration keeps its pods for a while"
    if members:
        return f"{job} is placed on {', '.join(members)}; no pods of it were found there"
    return f"{job} has no pods yet; `corral explain` says why"
