"""The Lease of the queueing controllers: held in the name of the pod that stands for them, renewed for as long as they run.

Nobody else competes for it, as there is one API server to work in. Whoever waits for a restart to be over looks here for a
new holder and for renewals.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from corral.clusters.kueue_installation.controller_pod import own_pods
from corral.clusters.kueue_installation.objects import DEPLOYMENT_NAME, LABELS, LEASE_NAME, restart_of
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Obj, name_of, spec_of, uid_of
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kubernetes.core.kinds import PODS
from corral.runtime.controller import Manager
from corral.runtime.leader import DURATION_S, RETRY_S, held_spec

log = logging.getLogger(__name__)


class OwnLease:
    """Renews the Lease as one of the controllers it is about, and stops with them."""

    name = "kueue-installation-lease"

    def __init__(self, manager: Manager, namespace: str, restart: str) -> None:
        """`restart` is the one that started these controllers: the pods it made stand for them."""
        self._namespace, self._restart = namespace, restart
        self._client, self._clock = manager.client, manager.clock
        self._pods = manager.informer(PODS, namespace=namespace)
        manager.run_task(self._keep, "queueing lease")

    async def _keep(self) -> None:
        while True:
            try:
                await self._renew()
            except ApiError as error:
                log.info("lease not renewed", extra={"lease": LEASE_NAME, "error": str(error)})
            await self._clock.sleep(RETRY_S)

    async def _renew(self) -> None:
        try:
            lease = await self._client.get(LEASES, LEASE_NAME, self._namespace)
        except NotFound:
            metadata = {"name": LEASE_NAME, "namespace": self._namespace, "labels": LABELS}
            await self._client.create(LEASES, {"metadata": metadata, "spec": self._spec({})}, manager=self.name)
            return
        await self._client.update(LEASES, {**lease, "spec": self._spec(spec_of(lease))}, manager=self.name)

    def _spec(self, old: Obj) -> Obj:
        pods = [pod for pod in own_pods(self._pods, self._namespace) if restart_of(pod) == self._restart]
        holder = holder_of(pods, str(old.get("holderIdentity") or ""))
        return held_spec(old, holder, DURATION_S, self._clock.micro_timestamp())


def holder_of(pods: Sequence[Obj], present: str) -> str:
    """Who holds the Lease: the present holder while its pod is there, else the oldest pod.

    While no pod stands for the controllers they run all the same, and keep the name they had.
    """
    names = [f"{name_of(pod)}_{uid_of(pod)}" for pod in pods]
    if present in names or not names:
        return present or DEPLOYMENT_NAME
    return names[0]
