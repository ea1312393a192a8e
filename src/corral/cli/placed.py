"""Jobs of a hub: which placements took them, to which members, and how to reach those with the user's own kubeconfig."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from corral.cli.options import kubeconfig_file
from corral.client import kubeconfig
from corral.client.sync import SyncClient
from corral.core.errors import Forbidden, NotFound
from corral.core.meta import Obj, name_of, status_of
from corral.inspect.asking import asked_at_once
from corral.inspect.placed_pods import WorkerSilent, answering
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


def answering_members(path: Path | None, members: Iterable[str]) -> dict[str, SyncClient | WorkerSilent | None]:
    """A client of each member, or that it is silent; None without a context that is called after it, `corral-NAME` or `NAME`.
    All are asked at once."""
    file = kubeconfig_file(path)
    known = {str(entry.get("name")) for entry in kubeconfig.load(file).get("contexts") or []}
    contexts = {
        member: next((one for one in (f"corral-{member}", member) if one in known), "") for member in sorted(members)
    }

    def reach(member: str) -> SyncClient:
        return answering(SyncClient.from_kubeconfig(file, contexts[member]), member)

    answers = asked_at_once({member: partial(reach, member) for member, context in contexts.items() if context})
    found: dict[str, SyncClient | WorkerSilent | None] = {}
    for member in contexts:
        answer = answers.get(member)
        if isinstance(answer, TimeoutError):
            answer = WorkerSilent(member)
        if isinstance(answer, Exception) and not isinstance(answer, WorkerSilent):
            raise answer
        found[member] = answer
    return found
