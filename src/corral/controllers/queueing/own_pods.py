"""The pod that stands for the queueing controllers.

They run in the process of the API server, so no node has the pod of their Deployment. It is theirs to keep: while they run it
is shown running, with one container for the controllers and one for the metrics they serve.
"""

from __future__ import annotations

from corral.controllers.queueing.installed import POD_LABELS, SCHEDULER_NAME
from corral.core.meta import Key, Obj, is_deleting, labels_of, spec_of, status_of
from corral.kinds.core import PODS
from corral.runtime.controller import Manager, Result, Watch

READY = ("Initialized", "Ready", "ContainersReady", "PodScheduled")


class OwnPods:
    """Shows the pods of the controllers' Deployment as running."""

    name = "kueue-installation-pods"

    def setup(self, manager: Manager) -> None:
        self._client, self._clock = manager.client, manager.clock
        self._pods = manager.informer(PODS)
        manager.add(
            self, watches=[Watch(PODS, when=lambda old, new: old is None and new is not None and _is_ours(new))]
        )

    async def reconcile(self, key: Key) -> Result | None:
        pod = self._pods.get(key)
        if pod is not None and not is_deleting(pod) and status_of(pod).get("phase") != "Running":
            status = {**status_of(pod), **_running(pod, self._clock.timestamp())}
            await self._client.update(PODS, {**pod, "status": status}, subresource="status", manager=self.name)
        return None


def _is_ours(pod: Obj) -> bool:
    return spec_of(pod).get("schedulerName") == SCHEDULER_NAME and POD_LABELS.items() <= labels_of(pod).items()


def _running(pod: Obj, now: str) -> Obj:
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for container in spec_of(pod)["containers"]
    ]
    conditions = [{"type": type_, "status": "True", "lastTransitionTime": now} for type_ in READY]
    return {"phase": "Running", "startTime": now, "conditions": conditions, "containerStatuses": containers}
