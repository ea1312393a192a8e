"""Roles and bindings that a cluster has from its start on, written past the API: nobody could be allowed to before they exist."""

from __future__ import annotations

from corral.core.meta import Obj, annotations_of
from corral.server.access import rbac, rbac_defaults
from corral.server.api import Api
from corral.store import ObjectKey


async def ensure_role(api: Api, obj: Obj, *, completed: bool = False) -> None:
    """Store a role or binding that is missing. One that is there stays as somebody changed it; `completed` adds the rules it lacks,
    unless its annotation forbids that."""
    store, metadata = api.store, obj["metadata"]
    key = ObjectKey(f"{obj['kind'].lower()}s.{rbac.GROUP}", metadata.get("namespace", ""), metadata["name"])
    held = store.head(key)
    if held is None:
        created = {"uid": api.random.uid(), "creationTimestamp": api.clock.timestamp()}
        await store.put(key, {**obj, "metadata": {**metadata, **created}}, expected=0)
    elif completed and annotations_of(held.obj).get(rbac_defaults.AUTOUPDATE) == "true":
        missing = rbac.uncovered(held.obj.get("rules") or [], obj.get("rules") or [])
        if missing:
            await store.put(key, {**held.obj, "rules": [*(held.obj.get("rules") or ()), *missing]}, held.revision)
