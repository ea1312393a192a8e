"""Objects of kinds that need a controller no embedded cluster has: they are kept, and it is said that they change nothing.

Whoever brings such a controller along, as a pod or from outside, may put an object in its hands: one with a status is not spoken of.
"""

from __future__ import annotations

from collections.abc import Mapping

from corral.core.meta import Key, Obj, is_deleting, key_of, status_of, uid_of
from corral.core.resource import Resource
from corral.jobs.framework.served_kinds import builtin_kinds
from corral.runtime.controller import Manager, Result, Watch
from corral.server.lifecycle.notices import keep_notices

UNATTENDED: Mapping[tuple[str, str], str] = {
    ("", "replicationcontrollers"): "nothing makes their pods; a Deployment or ReplicaSet does",
    ("autoscaling", "horizontalpodautoscalers"): "nothing scales by metrics",
    ("networking.k8s.io", "ingresses"): "nothing listens for them; a Service does, inside the cluster",
    ("networking.k8s.io", "networkpolicies"): "pods that are processes share the machine's network",
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): "requests are limited for each user alike",
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): "requests are limited for each user alike",
    ("storage.k8s.io", "volumeattachments"): "nothing attaches volumes, which are folders here",
}
"""Kinds by group and plural, and why they change nothing."""
TOPIC = "unattended"
MOST_NAMED = 5
MANAGER = "corral"


class Unattended:
    """Tells of each object once, and keeps a line for each kind that there are objects of."""

    name = "unattended"

    def __init__(self, manager: Manager) -> None:
        self._client, self._recorder = manager.client, manager.recorder.named(MANAGER)
        kinds = {(kind.group, kind.plural): kind.resource() for kind in builtin_kinds()}
        self._resources = {resource: why for name, why in UNATTENDED.items() if (resource := kinds[name])}
        self._informers = {resource: manager.informer(resource) for resource in self._resources}
        self._reported: set[str] = set()
        watches = [Watch(resource, map=lambda obj: (Key("", self.name),)) for resource in self._resources]
        manager.add(self, watches=watches)

    async def reconcile(self, key: Key) -> Result | None:
        lines = []
        for resource, why in self._resources.items():
            found = (obj for obj in self._informers[resource].list() if _is_untouched(obj) and not is_deleting(obj))
            waiting = sorted(found, key=key_of)
            for obj in waiting:
                self._tell(obj, resource, why)
            if waiting:
                lines.append(f"no controller here acts on {resource.kind} {_named(waiting)}: {why}")
        await keep_notices(self._client, TOPIC, lines)
        return None

    def _tell(self, obj: Obj, resource: Resource, why: str) -> None:
        if uid_of(obj) not in self._reported:
            self._reported.add(uid_of(obj))
            self._recorder.event(obj, "Warning", "NoController", f"No controller here acts on a {resource.kind}: {why}")


def _is_untouched(obj: Obj) -> bool:
    """Whether nobody has written a status: there is none, or what every such object is born with."""
    return not any(value for value in status_of(obj).values())


def _named(objects: list[Obj]) -> str:
    names = [str(key_of(obj)) for obj in objects[:MOST_NAMED]]
    more = len(objects) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
