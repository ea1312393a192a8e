"""Policy snapshots: a placement's policy, frozen whenever it changes by more than its number of clusters."""

from __future__ import annotations

from corral.client.protocol import Client
from corral.controllers.placement.placement_kinds import Records
from corral.controllers.placement.writes import create_or_read, remove
from corral.core.meta import (
    Obj,
    annotations_of,
    generation_of,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    with_annotations,
    with_labels,
)
from corral.decide.placement.snapshots import index_of, outdated, policy_hash, policy_name
from corral.kinds.fleet.names import (
    IS_LATEST,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PLACEMENT_GENERATION,
    POLICY_INDEX,
)


class PolicySnapshots:
    """Keeps the latest policy snapshot of each placement."""

    def __init__(self, client: Client, records: Records) -> None:
        self._client = client
        self._records = records
        self._resource = records.scope.policies

    async def ensure(self, placement: Obj) -> Obj:
        """The latest snapshot, made or brought up to date."""
        key = key_of(placement)
        latest = self._records.policy(key)
        if latest is not None and _is_current(latest, placement):
            return latest
        wanted = policy_hash(spec_of(placement).get("policy"))
        if latest is None or spec_of(latest).get("policyHash") != wanted:
            return await self._create(placement, latest, wanted)
        return await self._refresh(placement, latest)

    async def _refresh(self, placement: Obj, latest: Obj) -> Obj:
        changes: dict[str, str | None] = {**_notes(placement)}
        updated = with_annotations(with_labels(latest, {IS_LATEST: "true"}), changes)
        if annotations_of(updated) == annotations_of(latest) and labels_of(updated) == labels_of(latest):
            return latest
        return await self._client.update(self._resource, updated)

    async def _create(self, placement: Obj, latest: Obj | None, digest: str) -> Obj:
        existing = self._records.policies(key_of(placement))
        index = max((index_of(one, POLICY_INDEX) for one in existing), default=-1) + 1
        if latest is not None and labels_of(latest).get(IS_LATEST) != "false":
            await self._client.update(self._resource, with_labels(latest, {IS_LATEST: "false"}))
        limit = int(spec_of(placement).get("revisionHistoryLimit") or 10)
        for old in outdated(existing, POLICY_INDEX, limit):
            await remove(self._client, self._resource, old)
        spec: Obj = {"policyHash": digest}
        if spec_of(placement).get("policy") is not None:
            spec["policy"] = spec_of(placement)["policy"]
        metadata: Obj = {
            "name": policy_name(name_of(placement), index),
            "labels": {PARENT_PLACEMENT: name_of(placement), IS_LATEST: "true", POLICY_INDEX: str(index)},
            "annotations": _notes(placement),
            "ownerReferences": [owner_ref(placement)],
        }
        if namespace_of(placement):
            metadata["namespace"] = namespace_of(placement)
        return await create_or_read(self._client, self._resource, {"metadata": metadata, "spec": spec})


def _is_current(latest: Obj, placement: Obj) -> bool:
    """Whether the snapshot was already compared with this generation of the placement."""
    return (
        annotations_of(latest).get(PLACEMENT_GENERATION) == str(generation_of(placement))
        and labels_of(latest).get(IS_LATEST) == "true"
    )


def _notes(placement: Obj) -> dict[str, str]:
    notes = {PLACEMENT_GENERATION: str(generation_of(placement))}
    policy = spec_of(placement).get("policy") or {}
    if policy.get("placementType") == "PickN" and policy.get("numberOfClusters") is not None:
        notes[NUMBER_OF_CLUSTERS] = str(policy["numberOfClusters"])
    return notes
