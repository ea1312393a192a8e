"""Resource snapshots: what a placement selects, frozen, with small changes gathered before the next one."""

from __future__ import annotations

from typing import NamedTuple

from corral.client.protocol import Client
from corral.configuration.placement import PlacementSettings
from corral.controllers.placement.placement_kinds import Records
from corral.controllers.placement.writes import create_or_read, remove
from corral.core.errors import AlreadyExists
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    with_annotations,
    with_labels,
)
from corral.core.timestamps import format_time
from corral.decide.placement.envelopes import is_envelope
from corral.decide.placement.snapshots import hold, index_of, is_whole, outdated, resource_hash, snapshot_name, split
from corral.kinds.fleet.names import (
    CANDIDATE_TIME,
    ENVELOPE_COUNT,
    IS_LATEST,
    PARENT_PLACEMENT,
    RESOURCE_HASH,
    RESOURCE_INDEX,
    SNAPSHOT_COUNT,
    SUB_INDEX,
)
from corral.runtime.clock import Clock


class Frozen(NamedTuple):
    """The latest snapshot, and the seconds until a change that was seen may make a new one."""

    master: Obj
    wait: float | None = None


class ResourceSnapshots:
    """Keeps the latest resource snapshot of each placement."""

    def __init__(self, client: Client, clock: Clock, records: Records, settings: PlacementSettings) -> None:
        self._client = client
        self._clock = clock
        self._records = records
        self._settings = settings
        self._resource = records.scope.snapshots
        self._hashes: dict[int, tuple[list[Obj], str]] = {}

    async def ensure(self, placement: Obj, selected: list[Obj], *, at_once: bool = False) -> Frozen:
        """The latest snapshot; a new one when the selection has changed and enough time has passed."""
        key = key_of(placement)
        latest = self._records.snapshot(key)
        digest = self._hash(selected)
        if latest is None:
            return Frozen(await self._create(placement, None, selected, digest))
        if annotations_of(latest).get(RESOURCE_HASH) == digest:
            return Frozen(await self._confirm(placement, latest, selected))
        held = hold(
            latest,
            annotations_of(latest).get(CANDIDATE_TIME),
            self._clock.now(),
            collection=self._settings.collection,
            interval=self._settings.interval,
        )
        if at_once or held.ready_at <= self._clock.now():
            return Frozen(await self._create(placement, latest, selected, digest))
        if CANDIDATE_TIME not in annotations_of(latest):
            marked = with_annotations(latest, {CANDIDATE_TIME: format_time(held.detected)})
            latest = await self._client.update(self._resource, marked)
        return Frozen(latest, held.ready_at - self._clock.now())

    def _hash(self, selected: list[Obj]) -> str:
        """The hash of a selection, computed once per list, which selections keep as long as nothing changes."""
        known = self._hashes.get(id(selected))
        if known is None or known[0] is not selected:
            if len(self._hashes) > 4096:
                self._hashes.clear()
            known = self._hashes[id(selected)] = (selected, resource_hash(selected))
        return known[1]

    async def _confirm(self, placement: Obj, latest: Obj, selected: list[Obj]) -> Obj:
        """The latest snapshot as it should be: marked latest, no change pending, its group complete."""
        wanted = with_annotations(with_labels(latest, {IS_LATEST: "true"}), {CANDIDATE_TIME: None})
        if wanted["metadata"] != latest["metadata"]:
            latest = await self._client.update(self._resource, wanted)
        if not is_whole(self._records.group(key_of(placement), latest) or [latest]):
            await self._create_rest(placement, index_of(latest, RESOURCE_INDEX), split(selected))
        return latest

    async def _create(self, placement: Obj, latest: Obj | None, selected: list[Obj], digest: str) -> Obj:
        key = key_of(placement)
        existing = self._records.snapshots(key)
        index = max((index_of(one, RESOURCE_INDEX) for one in existing), default=-1) + 1
        if latest is not None:
            await self._client.update(self._resource, with_labels(latest, {IS_LATEST: "false"}))
        limit = int(spec_of(placement).get("revisionHistoryLimit") or 10)
        for old in outdated(existing, RESOURCE_INDEX, limit, in_use=self._in_use(key)):
            await remove(self._client, self._resource, old)
        groups = split(selected)
        master = self._body(placement, index, groups[0])
        master["metadata"]["annotations"] = {
            RESOURCE_HASH: digest,
            SNAPSHOT_COUNT: str(len(groups)),
            ENVELOPE_COUNT: str(sum(map(is_envelope, selected))),
        }
        created = await create_or_read(self._client, self._resource, master)
        await self._create_rest(placement, index, groups)
        return created

    def _in_use(self, key: Key) -> frozenset[str]:
        """Snapshots that a binding still rolls out."""
        return frozenset(binding.snapshot for binding in self._records.bindings(key) if binding.snapshot)

    async def _create_rest(self, placement: Obj, index: int, groups: list[list[Obj]]) -> None:
        for sub, resources in enumerate(groups[1:]):
            body = self._body(placement, index, resources, sub)
            body["metadata"]["annotations"] = {SUB_INDEX: str(sub)}
            try:
                await self._client.create(self._resource, body)
            except AlreadyExists:
                pass  # made before a restart

    def _body(self, placement: Obj, index: int, resources: list[Obj], sub: int | None = None) -> Obj:
        metadata: Obj = {
            "name": snapshot_name(name_of(placement), index, sub),
            "labels": {PARENT_PLACEMENT: name_of(placement), IS_LATEST: "true", RESOURCE_INDEX: str(index)},
            "ownerReferences": [owner_ref(placement)],
        }
        if namespace_of(placement):
            metadata["namespace"] = namespace_of(placement)
        if sub is not None:
            del metadata["labels"][IS_LATEST]
        return {"metadata": metadata, "spec": {"selectedResources": resources}}


def index_text(snapshot: Obj | None) -> str:
    return "" if snapshot is None else labels_of(snapshot).get(RESOURCE_INDEX, "")
