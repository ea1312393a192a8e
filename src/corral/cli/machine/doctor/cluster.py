"""The cluster a kubeconfig leads to: does it answer, does it queue, and can its queues, checks, workers and nodes work?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.cli.machine.doctor.findings import Finding, note, ok, wrong
from corral.client.kubeconfig import Access, KubeconfigError
from corral.client.limits import ANSWER_S
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import ApiError, ConnectionFailed, Forbidden, NotFound, Unauthorized
from corral.core.meta import Obj, name_of, spec_of
from corral.core.resource import Resource
from corral.core.timestamps import parse_time
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kubernetes.core.kinds import NODES
from corral.kinds.kueue import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, MULTI_KUEUE_CLUSTERS
from corral.runtime.clock import WallClock
from corral.submit.request import is_embedded

PART: Final = "cluster"
CONTROLLERS: Final = ("kueue-system", "corral-controllers")
"""The Lease that controllers over a real cluster hold while they work."""


def look_at_cluster(access: Access, namespace: str) -> Iterator[Finding]:
    """Ask, as the user of the kubeconfig."""
    client = SyncClient(access, timeout=ANSWER_S)
    try:
        version = client.call("GET", "/version").get("gitVersion")
        yield ok(PART, f"{access.server} answers: {version}")
        yield from _queueing(client, namespace or access.namespace)
        yield from _nodes(client)
    except Unauthorized:
        yield wrong(
            PART,
            f"{access.server} does not accept the kubeconfig's credentials",
            "renew the token or certificate, or choose another with --context; `corral kubectl-config` names the file of this machine's fleet",
        )
    except ConnectionFailed as error:
        here = "//127." in access.server or "//localhost" in access.server
        yield wrong(
            PART,
            str(error),
            "`corral up` starts the fleet of this machine" if here else "is the network up, and the address right?",
        )
    except (ApiError, KubeconfigError) as error:
        yield wrong(PART, str(error), "ask whoever runs the cluster")


def _queueing(client: SyncClient, namespace: str) -> Iterator[Finding]:
    try:
        queues = client.list(CLUSTER_QUEUES)["items"]
    except NotFound:
        yield wrong(
            PART,
            "the cluster does not know queues",
            "`corral controllers install` brings their definitions, `corral controllers run` makes them work",
        )
        return
    except Forbidden:
        yield note(PART, "the queues of the cluster are not yours to see, so they were not looked at")
        queues = None
    if not is_embedded(client):
        yield from _controllers(client)
    if queues is not None:
        yield from _queues(queues)
        yield from _checks(client)
        yield from _workers(client)
    yield from _local_queues(client, namespace)


def _controllers(client: SyncClient) -> Iterator[Finding]:
    """On a cluster of somebody else's making: whether anybody works on its queues."""
    start = "`corral controllers run` does the work; deploy/ has it as a Deployment"
    try:
        lease = spec_of(client.get(LEASES, CONTROLLERS[1], CONTROLLERS[0]))
    except NotFound:
        yield wrong(PART, "Corral's controllers do not run here: jobs wait for ever", start)
        return
    except Forbidden:
        return
    renewed = lease.get("renewTime")
    age = WallClock().now() - parse_time(str(renewed)) if renewed else float("inf")
    if not lease.get("holderIdentity") or age > 2 * float(lease.get("leaseDurationSeconds") or 15):
        yield wrong(PART, "Corral's controllers have stopped: jobs wait for ever", start)
    else:
        yield ok(PART, f"Corral's controllers run: {lease['holderIdentity']}")


def _queues(queues: list[Obj]) -> Iterator[Finding]:
    for queue in queues:
        name = name_of(queue)
        if (spec_of(queue).get("stopPolicy") or "None") != "None":
            yield note(PART, f"ClusterQueue {name} is stopped", f"`corral queue resume cq/{name}`")
        elif inactive := _inactive(queue):
            yield wrong(PART, f"ClusterQueue {name} is not active: {inactive}", f"`corral explain clusterqueue/{name}`")
        else:
            yield ok(PART, f"ClusterQueue {name} is active")


def _checks(client: SyncClient) -> Iterator[Finding]:
    for check in _listed(client, ADMISSION_CHECKS):
        if inactive := _inactive(check):
            name = name_of(check)
            yield wrong(
                PART, f"AdmissionCheck {name} is not active: {inactive}", f"`corral explain admissioncheck/{name}`"
            )


def _workers(client: SyncClient) -> Iterator[Finding]:
    for worker in _listed(client, MULTI_KUEUE_CLUSTERS):
        name = name_of(worker)
        if inactive := _inactive(worker):
            yield wrong(
                PART,
                f"worker {name} is not connected: {inactive}",
                f"`corral clusters describe {name}`; `corral clusters rotate {name}` gives it new credentials",
            )
        else:
            yield ok(PART, f"worker {name} is connected")


def _local_queues(client: SyncClient, namespace: str) -> Iterator[Finding]:
    try:
        queues = [name_of(queue) for queue in client.list(LOCAL_QUEUES, namespace)["items"]]
    except Forbidden:
        yield wrong(
            PART,
            f"you may not see the queues of namespace {namespace}",
            "whoever runs the cluster can grant it: the ClusterRole kueue-batch-user-role in your namespace",
        )
        return
    if queues:
        yield ok(PART, f"jobs of namespace {namespace} can be submitted to {', '.join(sorted(queues))}")
    else:
        yield note(
            PART,
            f"namespace {namespace} has no queue to submit to",
            f"`corral queue create lq NAME -c CLUSTERQUEUE -n {namespace}`",
        )


def _nodes(client: SyncClient) -> Iterator[Finding]:
    for node in _listed(client, NODES):
        ready = conditions.find(node, "Ready") or {}
        if ready and ready.get("status") != "True":
            yield wrong(
                PART, f"node {name_of(node)} is not ready: {ready.get('message')}", f"`corral describe node/{name_of(node)}`"
            )  # fmt: skip


def _listed(client: SyncClient, resource: Resource) -> list[Obj]:
    try:
        items: list[Obj] = client.list(resource)["items"]
    except (NotFound, Forbidden):
        return []
    return items


def _inactive(obj: Obj) -> str:
    """Why something is not active; nothing when it is, or when nobody has said yet."""
    active = conditions.find(obj, "Active") or {}
    return str(active.get("message") or active.get("reason") or "") if active.get("status") == "False" else ""
