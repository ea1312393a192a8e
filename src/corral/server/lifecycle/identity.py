"""Who the built-in controllers are, and how they name objects of any kind on a work queue."""

from __future__ import annotations

from corral.core.admission import UserInfo
from corral.core.meta import Key
from corral.store import ObjectKey

_GROUPS = ("system:masters", "system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")


def system_user(name: str) -> UserInfo:
    """The service account a built-in controller acts as."""
    return UserInfo(f"system:serviceaccount:kube-system:{name}", _GROUPS)


def queue_key(key: ObjectKey) -> Key:
    """An object of any kind as a key of a work queue."""
    return Key(f"{key.resource}/{key.namespace}", key.name)


def object_key(key: Key) -> ObjectKey:
    resource, _, namespace = key.namespace.partition("/")
    return ObjectKey(resource, namespace, key.name)
