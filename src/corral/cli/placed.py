"""Jobs of a hub: which placements took them, to which members, and how to reach those with the user's own kubeconfig."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corral.cli.options import kubeconfig_file
from corral.client import kubeconfig
from corral.client.sync import SyncClient
from corral.core.errors import Forbidden, NotFound
from corral.core.meta import Obj, name_of, status_of
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS, RESOURCE_PLACEMENTS


@dataclass(frozen=True, slots=True)
class Placed:
    """A placement that took an object, and the members it is on."""

    kind: str
    placement: Obj
    members: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} {name_of(self.placement)}: {', '.join(self.members) or 'no cluster yet'}"


def placements_of(client: SyncClient, kind: str, name: str, namespace: str) -> list[Placed]:
    """The placements that took an object; none where the cluster is not a hub."""
    found = []
    for resource in (CLUSTER_RESOURCE_PLACEMENTS, RESOURCE_PLACEMENTS):
        try:
            items = client.list(resource, namespace if resource.namespaced else "")["items"]
        except (NotFound, Forbidden):
            continue  # not a hub, or placements are not the user's to see
        for item in items:
            taken = status_of(item).get("selectedResources") or []
            if (kind, name, namespace) in [
                (one.get("kind"), one.get("name"), one.get("namespace") or "") for one in taken
            ]:
                entries = status_of(item).get("placementStatuses") or []
                members = tuple(str(one["clusterName"]) for one in entries if one.get("clusterName"))
                found.append(Placed(resource.kind, item, members))
    return found


def member_client(path: Path | None, member: str) -> SyncClient | None:
    """A client of a member by the context that is called after it, `corral-NAME` or `NAME`, if there is one."""
    file = kubeconfig_file(path)
    known = {str(entry.get("name")) for entry in kubeconfig.load(file).get("contexts") or []}
    for context in (f"corral-{member}", member):
        if context in known:
            return SyncClient.from_kubeconfig(file, context)
    return None
