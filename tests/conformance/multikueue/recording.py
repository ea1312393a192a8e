"""Reading a recording from a file, and saying plainly what is wrong with one that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from multikueue.facts import Obj

_PARTS = {
    "setup": {"cluster": str, "object": dict},
    "steps": {"t": (int, float), "do": str},
    "log": {"t": (int, float), "cluster": str, "event": str, "kind": str, "object": dict},
}
"""The lists a recording has, and what each entry of them must say."""


class Unusable(Exception):
    """The file is not a recording that can be replayed."""


class Measurements(Exception):
    """The file holds measurements, not a scenario."""


def load(path: Path) -> Obj:
    """The recording in a file; raises Unusable with a plain sentence, and Measurements."""
    try:
        recording = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Unusable(f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise Unusable("is not a text file") from None
    except json.JSONDecodeError as error:
        raise Unusable(f"is not JSON, or cut off: {error.msg} in line {error.lineno}") from None
    if not isinstance(recording, dict):
        raise Unusable("is not a recording: it holds no JSON object")
    if not any(part in recording for part in _PARTS) and "versions" in recording:
        raise Measurements
    for part, entry in _PARTS.items():
        _check(recording.get(part), part, entry)
    _check_names(recording["log"])
    recording.setdefault("name", path.stem)
    return recording


def _check_names(log: list[Obj]) -> None:
    for position, entry in enumerate(log, start=1):
        metadata = entry["object"].get("metadata")
        is_named = isinstance(metadata, dict) and isinstance(metadata.get("name"), str)
        if entry["event"] != "EVENT" and not is_named:
            raise Unusable(f"is not a recording: entry {position} of 'log' names no object")


def _check(entries: object, part: str, wanted: dict[str, Any]) -> None:
    if not isinstance(entries, list):
        raise Unusable(f"is not a recording: it has no list {part!r}")
    for position, entry in enumerate(entries, start=1):
        for field, kind in wanted.items():
            if not isinstance(entry, dict) or not isinstance(entry.get(field), kind):
                raise Unusable(f"is not a recording: entry {position} of {part!r} says no {field!r}")
