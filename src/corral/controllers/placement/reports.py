"""Statuses that come home: what a member reports on an object is written onto the object on the hub it was placed from.

Only placements on a single cluster can ask for it (`reportBackStrategy` with destination `OriginalResource`): with several,
nobody could say whose status it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from corral.client.protocol import Client
from corral.controllers.placement.catalog import Catalog
from corral.controllers.placement.placement_kinds import CLUSTER, NAMESPACED, Records
from corral.core.errors import BadRequest, MethodNotAllowed, NotFound
from corral.core.meta import Key, Obj, is_deleting, labels_of, spec_of, status_of
from corral.decide.placement.scheduling import PICK_FIXED, PICK_N
from corral.kinds.fleet import WORKS
from corral.kinds.fleet.names import ENVELOPE_NAME, PARENT_NAMESPACE, PARENT_PLACEMENT
from corral.runtime.controller import Manager, Watch


def wants_reports(work: Obj) -> bool:
    """Whether what a Work reports belongs on the original objects; what is wrapped in an envelope has none."""
    strategy = spec_of(work).get("reportBackStrategy") or {}
    return (
        strategy.get("type") == "Mirror"
        and strategy.get("destination") == "OriginalResource"
        and ENVELOPE_NAME not in labels_of(work)
    )


def is_single(placement: Obj) -> bool:
    """Whether a placement can be on one cluster at most."""
    policy = spec_of(placement).get("policy") or {}
    match policy.get("placementType"):
        case kind if kind == PICK_FIXED:
            return len(policy.get("clusterNames") or ()) == 1
        case kind if kind == PICK_N:
            return bool(policy.get("numberOfClusters") == 1)
    return False


def reports(work: Obj) -> Iterator[tuple[Obj, Obj]]:
    """Identifiers of a Work's manifests with the status that the member saw."""
    for entry in status_of(work).get("manifestConditions") or ():
        observed = (entry.get("backReportedStatus") or {}).get("observedStatus") or {}
        if observed.get("status"):
            yield entry.get("identifier") or {}, observed["status"]


def _report_changed(old: Obj | None, new: Obj | None) -> bool:
    return new is not None and wants_reports(new) and (old is None or list(reports(old)) != list(reports(new)))


class ReportController:
    """Its keys are Works."""

    name = "placement-reports"

    def __init__(self, manager: Manager, catalog: Catalog) -> None:
        self._catalog = catalog
        self._client: Client = manager.client
        self._recorder = manager.recorder.named("placement-controller")
        self._works = manager.informer(WORKS)
        self._records = {scope.namespaced: Records(manager, scope) for scope in (CLUSTER, NAMESPACED)}
        manager.add(self, watches=[Watch(WORKS, when=_report_changed)], workers=4)

    async def reconcile(self, key: Key) -> None:
        work = self._works.get(key)
        if work is None or is_deleting(work) or not wants_reports(work):
            return
        labels = labels_of(work)
        namespace = labels.get(PARENT_NAMESPACE, "")
        placement = self._records[bool(namespace)].placements.get(Key(namespace, labels.get(PARENT_PLACEMENT, "")))
        if placement is None or is_deleting(placement):
            return
        if not is_single(placement):
            text = "Statuses are reported back to the original objects only by placements on a single cluster"
            self._recorder.event(placement, "Warning", "StatusNotReportedBack", text)
            return
        for identifier, status in reports(work):
            await self._write(identifier, status)

    async def _write(self, identifier: Obj, status: Obj) -> None:
        group, version, kind = (str(identifier.get(part) or "") for part in ("group", "version", "kind"))
        resource = await self._catalog.find(group, version, kind)
        if resource is None:
            return
        try:
            live = await self._client.get(resource, str(identifier["name"]), str(identifier.get("namespace") or ""))
            if status_of(live) != status:
                await self._client.update(resource, {**live, "status": status}, subresource="status")
        except (NotFound, MethodNotAllowed, BadRequest):
            return  # gone from the hub, or a kind without a status of its own
