"""What a recorded step read afterwards, read again here: stored fields, statuses, conditions, and where copies are."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from corral.core.errors import ApiError
from corral.core.meta import labels_of, name_of, spec_of, status_of
from corral.kinds.kueue import names
from multikueue.facts import Obj, masked
from multikueue.world import BY_KIND, World


class Answer(NamedTuple):
    """A part of a step that reads otherwise here."""

    part: str
    text: str


AT_ONCE = ("stored",)
LATER = ("after", "activeAfter", "remoteCopies", "workload")
"""The parts of a step that were read, not done: right away, and once it had taken effect."""


async def other_answers(world: World, step: Obj, parts: tuple[str, ...]) -> list[Answer]:
    """How what can be read now differs from what the step read, in words."""
    found = []
    for part in parts:
        if part in step:
            recorded, here = step[part], await _answer(world, step, part)
            if not _same(recorded, here):
                text = f"step {step['do']!r} read {part} {_brief(recorded)}, here it is {_brief(here)}"
                found.append(Answer(part, text))
    return found


async def _answer(world: World, step: Obj, part: str) -> Any:
    if part == "stored":
        return _stored(await _named(world, step), step[part])
    if part == "remoteCopies":
        return [name for name in world.clusters if name != "manager" and await _has_copy(world, name)]
    if part == "activeAfter":
        cluster = await _cluster(world, step)
        return {"conditions": _conditions(cluster)} if isinstance(step[part], dict) else _conditions(cluster)
    recorded = step[part]
    if isinstance(recorded, dict) and any(kind in BY_KIND for kind in recorded):
        return {kind: await _of_kind(world, kind, value) for kind, value in recorded.items()}
    status = status_of(await _workload(world, step))
    if isinstance(recorded, dict):
        return {field: _listed(status.get(field), recorded[field]) for field in recorded}
    return status.get("nominatedClusterNames")


def _stored(obj: Obj, recorded: Obj) -> Obj:
    spec = spec_of(obj)
    return {field: spec.get(field, (spec.get("runPolicy") or {}).get(field)) for field in recorded}


async def _named(world: World, step: Obj) -> Obj:
    """The object a step made, or names."""
    manifest = step.get("manifest") or {}
    for kind, resource in BY_KIND.items():
        if manifest and kind != manifest.get("kind"):
            continue
        for obj in await _listing(world, str(step.get("cluster") or "manager"), kind):
            wanted = (manifest.get("metadata") or {}).get("name")
            if name_of(obj) == wanted or (not manifest and resource.namespaced and _mentions(step, name_of(obj))):
                return obj
    return {}


async def _listing(world: World, cluster: str, kind: str) -> list[Obj]:
    try:
        return (await world.clusters[cluster].client.list(BY_KIND[kind])).items
    except ApiError:
        return []  # the kind is not served here


def _mentions(step: Obj, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", str(step["do"])) is not None


async def _cluster(world: World, step: Obj) -> Obj:
    name = ((step.get("manifest") or {}).get("metadata") or {}).get("name")
    listed = await _listing(world, "manager", "MultiKueueCluster")
    return next((obj for obj in listed if name in (None, name_of(obj))), {})


async def _workload(world: World, step: Obj) -> Obj:
    listed = await _listing(world, "manager", "Workload")
    named = ((step.get("patch") or {}).get("metadata") or {}).get("name", "")
    return next((obj for obj in listed if masked(name_of(obj)) == masked(named)), listed[0] if listed else {})


async def _has_copy(world: World, cluster: str) -> bool:
    return any(names.MULTIKUEUE_ORIGIN in labels_of(obj) for obj in await _listing(world, cluster, "Workload"))


async def _of_kind(world: World, kind: str, recorded: Any) -> Any:
    listed = await _listing(world, "manager", kind)
    if isinstance(recorded, dict):
        return {name_of(obj): _conditions(obj) for obj in listed}
    return _conditions(listed[0]) if listed else []


def _conditions(obj: Obj) -> list[Obj]:
    return [dict(entry) for entry in status_of(obj).get("conditions") or []]


def _listed(value: Any, recorded: Any) -> Any:
    """Conditions as lists where they were read so."""
    if isinstance(recorded, list) and recorded and isinstance(recorded[0], list) and isinstance(value, list):
        return [[entry.get(field) for field in ("type", "status", "reason")] for entry in value]
    return value


def _same(recorded: Any, here: Any) -> bool:
    """Whether all that was recorded is so here too; times and such are masked, lists of conditions may be in any order."""
    if isinstance(recorded, dict):
        if not isinstance(here, dict):
            return False
        return all(_same(value, here.get(name)) for name, value in recorded.items())
    if isinstance(recorded, list):
        if recorded and all(isinstance(item, str) for item in (*recorded, *(here or ()))):
            recorded, here = sorted(recorded), sorted(here or ())
        if not isinstance(here, list) or len(recorded) != len(here):
            return False
        if recorded and isinstance(recorded[0], dict):
            return all(any(_same(item, other) for other in here) for item in recorded)
        return all(map(_same, recorded, here))
    if isinstance(recorded, str) and isinstance(here, str):
        return _plain(recorded) == _plain(here)
    return bool(recorded == here)


def _plain(text: str) -> str:
    return re.sub(
        r"^failed to get server groups: (?!the server has asked).*", "failed to get server groups", masked(text)
    )


def _brief(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 400 else f"{text[:400]}…"
