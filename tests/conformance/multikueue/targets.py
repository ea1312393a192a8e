"""Which object a recorded step was about: told by its patch, its refusal, its words, or by what changed right after it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from corral.core.errors import ApiError, NotFound
from corral.core.meta import name_of, namespace_of
from corral.core.resource import Resource
from multikueue.facts import Obj, masked
from multikueue.world import BY_KIND, World

SOON_MS = 1500
_ABBREVIATED = {"CRD": "CustomResourceDefinition"}
_BY_PLURAL = {resource.plural: kind for kind, resource in BY_KIND.items()}
_WORD = re.compile(r"[\w.<>-]*[\w>]")


class Target(NamedTuple):
    """An object of this run."""

    resource: Resource
    name: str
    namespace: str


async def patched(world: World, cluster: str, step: Obj, recording: Obj) -> Target:
    """The object a patch is for."""
    patch = step["patch"] if isinstance(step["patch"], dict) else {}
    hints = [_told(patch), _refused(step), *_named(step), *_changed(recording, cluster, step, patch)]
    hints += [(kind, "") for kind in (*_shaped(patch), *_kinds(step))]
    return await _first(world, cluster, step, recording, [*hints, *_made(recording, cluster, step)])


async def deleted(world: World, cluster: str, step: Obj, recording: Obj) -> Target:
    """The object a deletion is for."""
    gone, kinds = list(_removed(recording, cluster, step)), list(_kinds(step))
    hints = [*_named(step), _refused(step), *((kind, name) for kind, name in gone if kind in kinds)]
    hints += [(kind, "") for kind in kinds]
    return await _first(world, cluster, step, recording, [*hints, *gone, *_made(recording, cluster, step)])


_Hint = tuple[str, str]
"""A kind and a name, as far as they are known."""


def _told(patch: Obj) -> _Hint:
    return str(patch.get("kind") or ""), str((patch.get("metadata") or {}).get("name") or "")


def _refused(step: Obj) -> _Hint:
    details = (step.get("response") or {}).get("details") or {}
    kind = str(details.get("kind") or "")
    return _BY_PLURAL.get(kind, kind), str(details.get("name") or "")


def _named(step: Obj) -> Iterator[_Hint]:
    """Kinds the words of a step name, each with the word behind it."""
    words = _WORD.findall(str(step["do"]))
    return ((_ABBREVIATED.get(word, word), behind) for word, behind in itertools.pairwise(words))


def _kinds(step: Obj) -> Iterator[str]:
    return (kind for word in _WORD.findall(str(step["do"])) if (kind := _ABBREVIATED.get(word, word)) in BY_KIND)


def _changed(recording: Obj, cluster: str, step: Obj, patch: Obj) -> Iterator[_Hint]:
    """Objects that show the patched values in the recording right after the step."""
    for entry in _soon(recording, cluster, step):
        if entry["event"] == "MODIFIED" and _says_something(patch) and _shows(entry["object"], patch):
            yield entry["kind"], str(entry["object"]["metadata"]["name"])


def _removed(recording: Obj, cluster: str, step: Obj) -> Iterator[_Hint]:
    """Objects that go in the recording right after the step."""
    for entry in _soon(recording, cluster, step):
        if entry["event"] == "DELETED" or entry["object"]["metadata"].get("deletionTimestamp"):
            yield entry["kind"], str(entry["object"]["metadata"]["name"])


def _soon(recording: Obj, cluster: str, step: Obj) -> Iterator[Obj]:
    """What was logged of a cluster right after a step; whoever recorded waited before the next one."""
    following = [other["t"] for other in recording["steps"] if other["t"] > step["t"]]
    end = max(step["t"] + SOON_MS, min(following, default=0))
    for entry in recording["log"]:
        is_here = entry["cluster"] == cluster and entry["event"] != "EVENT"
        if is_here and step["t"] <= entry["t"] <= end:
            yield entry


def _says_something(patch: Any) -> bool:
    """Whether a patch sets anything; what it removes shows nowhere."""
    if isinstance(patch, dict):
        return any(map(_says_something, patch.values()))
    return patch is not None


def _shows(value: Any, patch: Any) -> bool:
    if isinstance(patch, dict):
        return isinstance(value, dict) and all(_shows(value.get(name), part) for name, part in patch.items())
    if isinstance(patch, list):
        return isinstance(value, list) and len(value) == len(patch) and all(map(_shows, value, patch))
    return value == patch or (isinstance(patch, str) and re.fullmatch(r"T[+-]\d+s", patch) is not None)


def _shaped(patch: Obj) -> Iterator[str]:
    """Kinds whose fields a patch has."""
    spec, status = patch.get("spec") or {}, patch.get("status") or {}
    shapes = (
        ("ClusterQueue", {"resourceGroups", "admissionChecksStrategy", "cohortName", "preemption"} & spec.keys()),
        ("LocalQueue", {"clusterQueue"} & spec.keys()),
        ("ClusterQueue", {"stopPolicy"} & spec.keys()),
        ("MultiKueueConfig", {"clusters"} & spec.keys()),
        ("MultiKueueCluster", {"clusterSource", "kubeConfig"} & spec.keys()),
        ("AdmissionCheck", {"parameters", "controllerName"} & spec.keys()),
        ("Workload", {"active", "priority", "priorityClassRef", "podSets"} & spec.keys()),
        ("Workload", {"nominatedClusterNames", "clusterName", "admissionChecks", "admission"} & status.keys()),
        ("AdmissionCheck", {"conditions"} & status.keys()),
        ("Workload", "status" in patch),
        ("Secret", "data" in patch or "stringData" in patch),
    )
    yield from (kind for kind, matches in shapes if matches)


def _made(recording: Obj, cluster: str, step: Obj) -> Iterator[_Hint]:
    """What the steps before made there: what the words name, else the last job."""
    before = recording["steps"][: recording["steps"].index(step)]
    manifests = [
        one["manifest"] for one in before if (one.get("cluster") or "manager") == cluster and "manifest" in one
    ]
    for is_wanted in (_is_mentioned(step), _is_job):
        for manifest in reversed(manifests):
            if isinstance(manifest, dict) and is_wanted(manifest):
                yield str(manifest.get("kind")), name_of(manifest)
    yield "Job", ""


def _is_mentioned(step: Obj) -> Callable[[Obj], bool]:
    return lambda obj: re.search(rf"(?<![\w-]){re.escape(name_of(obj))}(?![\w-])", str(step["do"])) is not None


def _is_job(obj: Obj) -> bool:
    return "kueue.x-k8s.io" not in str(obj.get("apiVersion")) and obj.get("kind") not in ("Namespace", "Secret")


async def _first(world: World, cluster: str, step: Obj, recording: Obj, hints: list[_Hint]) -> Target:
    """The object the first hint leads to: by its name, by the words, or because it is the only one."""
    if cluster not in world.clusters:
        raise NotFound(f"there is no cluster {cluster!r}")
    known = [(kind, name) for kind, name in hints if kind in BY_KIND]
    for kind, name in known:
        items = await _items(world, cluster, kind)
        if name:
            chosen = _alike(items, name, _place(recording, cluster, kind, name))
        else:
            chosen = _mentioned(items, step) or (items[0] if items else None)
        if chosen is not None:
            return Target(BY_KIND[kind], name_of(chosen), namespace_of(chosen))
    raise NotFound(f"there is no {known[0][0] if known else 'object'} on {cluster} that this could be about")


async def _items(world: World, cluster: str, kind: str) -> list[Obj]:
    try:
        return (await world.clusters[cluster].client.list(BY_KIND[kind])).items
    except ApiError:
        return []  # the kind is not served here


def _alike(items: list[Obj], name: str, place: int) -> Obj | None:
    """The object of a recorded name: masked hashes are told apart by the order of creation."""
    alike = [item for item in items if masked(name_of(item)) == masked(name)]
    alike.sort(key=lambda item: (str(item["metadata"].get("creationTimestamp")), name_of(item)))
    return alike[min(place, len(alike) - 1)] if alike else None


def _place(recording: Obj, cluster: str, kind: str, name: str) -> int:
    """How many objects of that kind whose names look the same were recorded before this one."""
    found = [
        str(entry["object"]["metadata"]["name"])
        for entry in recording["log"]
        if entry["cluster"] == cluster and entry["kind"] == kind and entry["event"] == "ADDED"
    ]
    alike = [other for other in dict.fromkeys(found) if masked(other) == masked(name)]
    return alike.index(name) if name in alike else 0


def _mentioned(items: list[Obj], step: Obj) -> Obj | None:
    """The object the words name, or whose owner they name."""
    is_mentioned = _is_mentioned(step)
    owned = (item for item in items if any(is_mentioned({"metadata": owner}) for owner in _owners(item)))
    return next((item for item in items if is_mentioned(item)), next(owned, None))


def _owners(item: Obj) -> list[Obj]:
    return list(item["metadata"].get("ownerReferences") or [])
