"""Who owned what in the end: field managers in the recordings' form, and where two such lists differ.

A recording shows each object's last field managers as manager, operation, subresource and paths, with pod templates and
the insides of conditions cut off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from multikueue.corrected import MANAGER, Expectation
from multikueue.facts import Obj, masked
from multikueue.run import Run

_UID = re.compile(r'\[\{"uid":"[^"]*"\}\]')
_NOT_COMPARED = re.compile(
    r"lastTransitionTime$|corral\.dev/|\.serviceAccount(Name)?$|\.terminatingReplicas$|deployment\.kubernetes\.io/revision$"
    r"|^spec\.(network|startupPolicy|successPolicy)\.|^status\.restarts$|replicaStatuses\.\w+\.selector$|^metadata.generateName$"
)
"""Whether a time changed within a second is chance; service accounts were switched off where the recordings were made;
defaults of JobSets come with their schema here; the others are Corral's own or differ by version of Kubernetes."""
_CHECKS = re.compile(r'^status\.admissionChecks\[\{"name":"[^"]*"\}\]')
_FINALIZERS = re.compile(r"^metadata\.finalizers\[")
_LAST_BREATH = re.compile(r'^status\.conditions\[\{"type":"(Finished|PodsReady)"\}\]')
_RECLAIMABLE = "kueue-reclaimable-pods"


class Ownership(NamedTuple):
    """One entry of managedFields."""

    manager: str
    operation: str
    subresource: str

    def __str__(self) -> str:
        return f"{self.manager} {self.operation}{' of ' + self.subresource if self.subresource else ''}"


Owners = dict[Ownership, frozenset[str]]


def recorded_owners(entry: Obj) -> Owners:
    """The field managers of one object as a recording lists them."""
    return _compared(
        {
            Ownership(one["manager"], one["operation"], one.get("subresource") or ""): frozenset(
                map(_plain, one["fields"])
            )
            for one in entry.get("managers") or []
        }
    )


def owners_of(obj: Obj, recorded: Owners) -> Owners:
    """The field managers of an object here, its paths cut where the recorded ones are."""
    cuts = {path for paths in recorded.values() for path in paths}
    found: Owners = {}
    for entry in (obj.get("metadata") or {}).get("managedFields") or []:
        owner = Ownership(entry["manager"], entry["operation"], entry.get("subresource") or "")
        paths = {_cut(_plain(path), cuts) for path in _paths(entry.get("fieldsV1") or {})}
        found[owner] = found.get(owner, frozenset()) | paths
    return _compared(found)


def _compared(owners: Owners) -> Owners:
    kept = {
        owner: frozenset(path for path in paths if not _NOT_COMPARED.search(path)) for owner, paths in owners.items()
    }
    return {owner: paths for owner, paths in kept.items() if paths}


def _plain(path: str) -> str:
    return _UID.sub("[uid]", masked(path)).replace("pod-template-hash", "pod-template")


def _cut(path: str, cuts: set[str]) -> str:
    """`path`, or what of it a recording shows."""
    for end in range(len(path), 0, -1):
        if (end == len(path) or path[end] in ".[") and path[:end] in cuts:
            return path[:end]
    return re.sub(r"(conditions\[[^\]]*\]).*", r"\1", path)


def _paths(fields: Obj, prefix: str = "") -> Iterator[str]:
    for step, inner in fields.items():
        if step == ".":
            continue
        path = _step(prefix, step)
        rest = [name for name in inner if name != "."]
        if rest:
            yield from _paths(inner, path)
        else:
            yield path


def _step(prefix: str, step: str) -> str:
    kind, _, value = step.partition(":")
    if kind == "f":
        return f"{prefix}.{value}" if prefix else value
    return f"{prefix}[{value}]"


def other_owners(recording: Obj, wanted: Expectation, run: Run) -> list[str]:
    """Where the last field managers of an object are others than recorded."""
    told, gone, orphans = _check_tellers(run), _gone(recording), _orphans(recording, run)
    found = []
    for entry in recording.get("managedFields") or []:
        cluster, kind, name = entry["cluster"], entry["kind"], masked(entry["name"])
        recorded = recorded_owners(entry)
        if _is_unknown(wanted, cluster, kind, name, recorded):
            continue
        chance = {"told": name in told, "gone": name in gone, "orphan": name in orphans}
        alike = [
            list(_differences(*_comparable(recorded, owners_of(obj, recorded), **chance)))
            for (where, what, key), obj in run.ends.items()
            if what == kind and masked(key.name) == name and (where == MANAGER) == (cluster == MANAGER)
        ]
        nearest = min(alike, key=len, default=[])
        found += [f"{cluster} {kind} {name} field managers: {text}" for text in nearest]
    return found


def _is_unknown(wanted: Expectation, cluster: str, kind: str, name: str, recorded: Owners) -> bool:
    """Whether the recorded end is one of upstream's defects, or chance."""
    if cluster in wanted.goes_on or name in wanted.run_twice:
        return True
    if name in wanted.stateful and (cluster == MANAGER and kind == "StatefulSet"):
        return True  # its status comes back here
    if kind == "Pod" and name.rpartition("-")[0] in wanted.stateful:
        return True  # upstream writes once more what its webhook has put there
    if kind == "Workload" and cluster != MANAGER and not _is_adopted(recorded):
        return True  # a copy that lost: what its worker made of it in that time is chance
    # Upstream leaves the nomination to a foreign dispatcher for ever; here the manager takes it over.
    return any(
        "status.nominatedClusterNames" in paths and not owner.manager.startswith("kueue")
        for owner, paths in recorded.items()
    )


def _check_tellers(run: Run) -> frozenset[str]:
    """Workloads on the manager whose check says here why they wait, or was rejected, which races with the eviction."""
    found = set()
    for state in run.states:
        if state.cluster == MANAGER and state.kind == "Workload" and state.event != "DELETED":
            for check in (state.object.get("status") or {}).get("admissionChecks") or []:
                message = str(check.get("message") or "")
                if check.get("state") == "Rejected" or (
                    check.get("state") == "Pending" and message and not message.startswith("Reset to Pending")
                ):
                    found.add(masked(str(state.object["metadata"]["name"])))
    return frozenset(found)


def _comparable(recorded: Owners, here: Owners, *, told: bool, gone: bool, orphan: bool) -> tuple[Owners, Owners]:
    """Both without what cannot be compared: check states Corral tells more in, and the last breath of what is gone."""
    dropped = [_CHECKS] * told + [_FINALIZERS] * gone + [_LAST_BREATH] * orphan
    return _without(recorded, dropped), _without(here, dropped)


def _gone(recording: Obj) -> frozenset[str]:
    """Names of recorded objects that were deleted: whether their finalizers go first is chance."""
    return frozenset(
        masked(str(entry["object"]["metadata"]["name"])) for entry in recording["log"] if entry["event"] == "DELETED"
    )


def _orphans(recording: Obj, run: Run) -> frozenset[str]:
    """Names of Workloads that go with their owner: whether they are marked as finished first is chance."""
    logged = [(entry["kind"], entry["object"]) for entry in recording["log"]]
    logged += [(state.kind, state.object) for state in run.states]
    return frozenset(
        masked(str(obj["metadata"]["name"]))
        for kind, obj in logged
        if kind == "Workload" and "OwnerNotFound" in str((obj.get("status") or {}).get("conditions"))
    )


def _is_adopted(owners: Owners) -> bool:
    return any("ownerReferences[uid]" in path for paths in owners.values() for path in paths)


def _differences(recorded: Owners, here: Owners) -> Iterator[str]:
    """How the field managers of one object differ, in words."""
    for owner in sorted({*recorded, *here}):
        if owner not in here:
            yield f"{owner} is missing; it should own {_listed(recorded[owner])}"
        elif owner not in recorded:
            yield f"{owner} is not recorded; it owns {_listed(here[owner])}"
        elif recorded[owner] != here[owner]:
            yield f"{owner} {' and '.join(_more_and_less(recorded[owner], here[owner]))}"


def _more_and_less(recorded: frozenset[str], here: frozenset[str]) -> Iterator[str]:
    if recorded - here:
        yield f"lacks {_listed(recorded - here)}"
    if here - recorded:
        yield f"owns {_listed(here - recorded)} beyond the recording"


def _without(owners: Owners, dropped: list[re.Pattern[str]]) -> Owners:
    """The owners without some paths; which of the passing counts of reclaimable pods somebody caught is chance."""
    kept = {
        owner: frozenset(path for path in paths if not any(pattern.search(path) for pattern in dropped))
        for owner, paths in owners.items()
        if owner.manager != _RECLAIMABLE
    }
    return {owner: paths for owner, paths in kept.items() if paths}


def _listed(paths: Iterable[str]) -> str:
    return ", ".join(sorted(paths)) or "nothing"
