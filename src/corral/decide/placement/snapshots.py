"""Snapshots: how a selection or a policy is frozen, named, hashed, split by size, and when old ones go."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from corral.core.meta import Obj, annotations_of, labels_of, metadata_of, name_of, spec_of
from corral.core.timestamps import parse_time
from corral.core.whole_numbers import whole_number
from corral.kinds.fleet.names import IS_LATEST, SNAPSHOT_COUNT, SUB_INDEX

SIZE_LIMIT: Final = 800 * 1024

_POLICY_FIELDS: Final = (
    "placementType clusterNames numberOfClusters affinity topologySpreadConstraints tolerations clusterAffinity"
    " requiredDuringSchedulingIgnoredDuringExecution preferredDuringSchedulingIgnoredDuringExecution weight preference"
    " clusterSelectorTerms labelSelector propertySelector propertySorter matchLabels matchExpressions name key operator"
    " value values sortOrder maxSkew topologyKey whenUnsatisfiable effect"
)
_POLICY_ORDER: Final = {name: rank for rank, name in enumerate(_POLICY_FIELDS.split())}


def compact_json(value: Any, *, sort: bool = True) -> str:
    """JSON as Go writes it: no spaces, HTML characters escaped."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=sort, ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        if char in text:
            text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def sha256_of(value: Any, *, sort: bool = True) -> str:
    return hashlib.sha256(compact_json(value, sort=sort).encode()).hexdigest()


def resource_hash(resources: Sequence[Obj]) -> str:
    """The hash that says whether a selection has changed."""
    return sha256_of({"selectedResources": list(resources)})


def policy_hash(policy: Obj | None) -> str:
    """The hash of a policy without its number of clusters, as stored in a snapshot."""
    kept = None if policy is None else {name: value for name, value in policy.items() if name != "numberOfClusters"}
    digest = sha256_of(_in_field_order(kept), sort=False)
    return base64.b64encode(digest.encode()).decode()


def _in_field_order(value: Any, name: str = "") -> Any:
    if isinstance(value, list):
        return [_in_field_order(item) for item in value]
    if not isinstance(value, dict):
        return value
    if name == "matchLabels":
        return dict(sorted(value.items()))
    known = sorted(value.items(), key=lambda pair: (_POLICY_ORDER.get(pair[0], len(_POLICY_ORDER)), pair[0]))
    return {key: _in_field_order(item, key) for key, item in known}


def split(resources: Sequence[Obj], limit: int = SIZE_LIMIT) -> list[list[Obj]]:
    """Resources packed in order into groups below the size limit; there is always at least one group."""
    groups: list[list[Obj]] = [[]]
    size = 0
    for resource in resources:
        length = len(compact_json(resource).encode())
        if groups[-1] and size + length > limit:
            groups.append([])
            size = 0
        groups[-1].append(resource)
        size += length
    return groups


def policy_name(placement: str, index: int) -> str:
    return f"{placement}-{index}"


def snapshot_name(placement: str, index: int, sub: int | None = None) -> str:
    return f"{placement}-{index}-snapshot" if sub is None else f"{placement}-{index}-{sub}"


def index_of(snapshot: Obj, label: str) -> int:
    """A snapshot's index; -1 when its label is broken."""
    index = whole_number(labels_of(snapshot).get(label, ""))
    return -1 if index is None else index


def is_master(snapshot: Obj) -> bool:
    """Whether this snapshot leads its group (the others carry a sub-index)."""
    return SUB_INDEX not in annotations_of(snapshot)


def is_whole(group: Sequence[Obj]) -> bool:
    """Whether a group of resource snapshots, master first, has as many as its master counts."""
    return bool(group) and len(group) >= (whole_number(annotations_of(group[0]).get(SNAPSHOT_COUNT, "")) or 1)


def contents(group: Sequence[Obj]) -> list[Obj]:
    """The resources frozen in a group of snapshots, in order."""
    return [obj for snapshot in group for obj in spec_of(snapshot).get("selectedResources") or ()]


def latest(snapshots: Iterable[Obj], label: str) -> Obj | None:
    """The latest master snapshot: the one marked so, else the highest index."""
    masters = sorted((one for one in snapshots if is_master(one)), key=lambda one: index_of(one, label))
    marked = [one for one in masters if labels_of(one).get(IS_LATEST) == "true"]
    candidates = marked or masters
    return candidates[-1] if candidates else None


def outdated(snapshots: Iterable[Obj], label: str, limit: int, *, in_use: frozenset[str] = frozenset()) -> list[Obj]:
    """Snapshots to delete before a new one is made: the oldest groups beyond the limit, none that is still in use."""
    groups: dict[int, list[Obj]] = {}
    for snapshot in snapshots:
        groups.setdefault(index_of(snapshot, label), []).append(snapshot)
    excess = len(groups) - (limit - 1)
    gone: list[Obj] = []
    for index in sorted(groups):
        if excess <= 0:
            break
        if any(name_of(member) in in_use for member in groups[index]):
            continue
        gone += sorted(groups[index], key=name_of)
        excess -= 1
    return gone


class Hold(NamedTuple):
    """A changed selection that may not become a snapshot yet."""

    detected: float
    ready_at: float


def hold(latest_snapshot: Obj, detected: str | None, now: float, *, collection: float, interval: float) -> Hold:
    """When a change seen since `detected` (or now) may become a snapshot."""
    since = now if detected is None else parse_time(detected)
    created = parse_time(str(metadata_of(latest_snapshot)["creationTimestamp"]))
    return Hold(since, max(since + collection, created + interval))
