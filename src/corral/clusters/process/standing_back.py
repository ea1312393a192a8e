"""Living beside the controllers Corral can replace: Kueue, and the agents of KubeFleet.

Each of them leads under a Lease of its own. Corral holds that Lease too while it carries out the same role, so that never both
work: while the other leads, or is deployed, Corral stands back; while Corral leads, the other waits as one of its own replicas
would. Operators of jobs are never replaced in a real cluster, so nothing has to be settled with them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from corral.client.protocol import Client
from corral.clusters.process.roles import DISPATCH, HUB, MEMBER, QUEUEING, leases_of
from corral.controllers.member.connection import NAMESPACE as FLEET_NAMESPACE
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Key, spec_of
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.runtime.clock import Clock
from corral.runtime.leader import Claim

log = logging.getLogger(__name__)

OURS = "corral:"
"""How our names begin in a Lease of somebody else."""
UNREGISTERED = "corral-unregister"
"""Who holds the Lease of webhooks after `corral controllers unregister`."""
LOOK_AGAIN_S = 2.0


class Other(NamedTuple):
    """Somebody else's controllers for one of our roles."""

    name: str
    lease: str
    deployment: str
    namespace: str = ""
    """Where it is installed; the namespace of our own controllers when that is empty."""


KUEUE = Other("Kueue", "c1f6bfd2.kueue.x-k8s.io", "kueue-controller-manager")
OTHERS = {
    QUEUEING: KUEUE,
    DISPATCH: KUEUE,
    HUB: Other("KubeFleet's hub agent", "136224848560.hub.fleet.azure.com", "hub-agent", FLEET_NAMESPACE),
    MEMBER: Other("KubeFleet's member agent", "136224848560.member.fleet.azure.com", "member-agent", FLEET_NAMESPACE),
}


def claims_of(roles: Sequence[str], namespace: str, identity: str, *, takes_over: bool) -> list[Claim]:
    """The Leases to hold for roles: those of the others first, then ours. Dispatch by itself leaves Kueue's to whoever queues."""
    others = [
        Claim(Key(other.namespace or namespace, other.lease), OURS + identity, takes_over, OURS)
        for role in roles
        if role != DISPATCH and (other := OTHERS.get(role)) is not None
    ]
    return [*others, *(Claim(key, identity) for key in leases_of(roles, namespace))]


def sentence_of(claim: Claim, holder: str) -> str:
    """What to say about somebody who holds a Lease that is waited for; nothing when that is another replica of ours."""
    if holder == UNREGISTERED:
        return "webhooks were unregistered a moment ago, so they are not registered again before that Lease ends; uninstall this, too"
    other = next((one for one in OTHERS.values() if one.lease == claim.key.name), None)
    if other is None or holder.startswith(OURS):
        return ""
    return (
        f"{other.name} leads in this cluster ({holder} holds the Lease {claim.key}): Corral stands back until it is gone; "
        "--take-over takes the Lease from it"
    )


class StandingBack:
    """Tells of the others, each once."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._said: set[str] = set()

    def waits_for(self, claim: Claim, holder: str) -> None:
        self._say(sentence_of(claim, holder))

    async def while_deployed(self, roles: Sequence[str], namespace: str) -> None:
        """Return once none of the others is deployed: one that is between two pods would lead again."""
        for other in dict.fromkeys(OTHERS[role] for role in roles if role in OTHERS):
            where = other.namespace or namespace
            while await self._is_deployed(other.deployment, where):
                self._say(
                    f"{other.name} is installed in this cluster (Deployment {where}/{other.deployment}): Corral stands back until "
                    "it has no replicas; --take-over does not wait for that"
                )
                await self._clock.sleep(LOOK_AGAIN_S)

    async def _is_deployed(self, name: str, namespace: str) -> bool:
        try:
            deployment = await self._client.get(DEPLOYMENTS, name, namespace)
        except NotFound:
            return False
        except ApiError as error:
            self._say(f"whether {namespace}/{name} is deployed cannot be seen: {error.message}")
            return True
        return bool(spec_of(deployment).get("replicas", 1))

    def _say(self, sentence: str) -> None:
        if sentence and sentence not in self._said:
            self._said.add(sentence)
            log.warning(sentence)
