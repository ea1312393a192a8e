"""What one can POST to a pod: its binding to a node and its eviction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.core import errors, validation
from corral.core.admission import UserInfo
from corral.core.errors import BadRequest, TooManyRequests
from corral.core.meta import Obj, labels_of, spec_of, status_of
from corral.core.selectors import from_label_selector
from corral.kinds.kubernetes.core.kinds import PODS
from corral.server.verbs.options import DeleteOptions, WriteOptions
from corral.store import Stale

if TYPE_CHECKING:
    from corral.server.api import Api

_BINDINGS = PODS._replace(plural="pods/binding")
BUDGETS = "poddisruptionbudgets.policy"


class PodPosts:
    """Bind and evict, over one API."""

    def __init__(self, api: Api):
        self._api = api

    async def bind(self, user: UserInfo, namespace: str, name: str, body: Obj, options: WriteOptions) -> Obj:
        """Assign a pod to a node, once."""
        target = body.get("target") or {}
        node, faults = target.get("name") or "", []
        if target.get("kind") not in (None, "", "Node"):
            faults.append(validation.not_supported("target.kind", target["kind"], ["Node", "<empty>"]))
        if not node:
            faults.append(validation.required("target.name"))
        if faults:
            text = str(faults[0]) if len(faults) == 1 else f"[{', '.join(str(fault) for fault in faults)}]"
            raise errors.ApiError(text, code=500, reason="")  # a real server does not make it a 422
        while True:
            current = self._api.store.head(self._api.serving.find(PODS).key(namespace, name))
            if current is None:
                raise errors.not_found(PODS, name)
            bound = _bound(current.obj, node, name, self._api.clock.timestamp())
            if options.dry_run:
                break
            try:
                await self._api.store.put(current.key, bound, expected=current.revision)
                break
            except Stale:
                continue
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    async def evict(self, user: UserInfo, namespace: str, name: str, body: Obj, options: WriteOptions) -> Obj:
        """Delete a pod unless a disruption budget forbids it."""
        if ((body.get("metadata") or {}).get("name") or name) != name:
            raise BadRequest("name in URL does not match name in Eviction object")
        pod = (await self._api.get(user, PODS, namespace, name)).obj
        if status_of(pod).get("phase") not in ("Succeeded", "Failed", "Pending"):
            self._check_budgets(namespace, pod)
        asked = body.get("deleteOptions") or {}
        preconditions = asked.get("preconditions") or {}
        delete = DeleteOptions(
            grace=asked.get("gracePeriodSeconds"),
            propagation=asked.get("propagationPolicy"),
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            dry_run=options.dry_run or bool(asked.get("dryRun")),
            warn=options.warn,
        )
        await self._api.delete(user, PODS, namespace, name, delete)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    def _check_budgets(self, namespace: str, pod: Obj) -> None:
        for stored in self._api.store.scan(BUDGETS, namespace):
            budget = stored.obj
            if not from_label_selector(spec_of(budget).get("selector") or {}).matches(labels_of(pod)):
                continue
            status, title = status_of(budget), stored.key.name
            if (status.get("observedGeneration") or 0) < (budget["metadata"].get("generation") or 0):
                raise _blocked(f"The disruption budget {title} is still being processed by the server.", 10)
            if (status.get("disruptionsAllowed") or 0) <= 0:
                healthy, wanted = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
                raise _blocked(f"The disruption budget {title} needs {wanted} healthy pods and has {healthy} currently")


def _bound(pod: Obj, node: str, name: str, now: str) -> Obj:
    """The pod on its node, with the condition that says so."""
    if pod["metadata"].get("deletionTimestamp"):
        raise errors.conflict(PODS, name, f"pod {name} is being deleted, cannot be assigned to a host")
    taken = spec_of(pod).get("nodeName")
    if taken:
        raise errors.conflict(_BINDINGS, name, f'pod {name} is already assigned to node "{taken}"')
    if spec_of(pod).get("schedulingGates"):
        raise errors.conflict(PODS, name, f"pod {name} has non-empty .spec.schedulingGates")
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    others = [entry for entry in status_of(pod).get("conditions") or () if entry.get("type") != "PodScheduled"]
    status = {**status_of(pod), "conditions": [*others, scheduled]}
    return {**pod, "spec": {**spec_of(pod), "nodeName": node}, "status": status}


def _blocked(why: str, retry: int | None = None) -> TooManyRequests:
    details: Obj = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if retry:
        details["retryAfterSeconds"] = retry
    return TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", details=details)
