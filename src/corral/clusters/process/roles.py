"""The roles a process of controllers can have in a cluster, and the Lease under which each is carried out by one process."""

from __future__ import annotations

from collections.abc import Sequence

from corral.clusters.member import LEASE as MEMBER_LEASE
from corral.core.meta import Key

QUEUEING, DISPATCH, HUB, MEMBER, WEBHOOKS = "queueing", "dispatch", "hub", "member", "webhooks"
ROLES = (QUEUEING, DISPATCH, HUB, MEMBER, WEBHOOKS)
_NAMES = {QUEUEING: "corral-controllers", DISPATCH: "corral-dispatch", HUB: "corral-hub", WEBHOOKS: "corral-webhooks"}


def read_roles(text: str) -> tuple[str, ...]:
    """Roles separated by commas, in our order. Raises ValueError with a sentence."""
    named = [name for part in text.split(",") if (name := part.strip())]
    unknown = [name for name in named if name not in ROLES]
    if unknown:
        raise ValueError(f"there is no role {unknown[0]!r}; there are {', '.join(ROLES)}")
    if not named:
        raise ValueError(f"name at least one role of {', '.join(ROLES)}")
    return tuple(role for role in ROLES if role in named)


def answers_about_queues(roles: Sequence[str]) -> bool:
    """Whether webhooks of a process with these roles answer about jobs and queues: those of a hub alone do not."""
    return HUB not in roles or QUEUEING in roles or DISPATCH in roles


def leases_of(roles: Sequence[str], namespace: str) -> list[Key]:
    """The Leases to hold for these roles, in the order to take them; `namespace` is that of the controllers."""
    return [MEMBER_LEASE if role == MEMBER else Key(namespace, _NAMES[role]) for role in roles]
