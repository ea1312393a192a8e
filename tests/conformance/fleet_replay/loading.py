"""Reading a recording: a file that is none, or is broken, is told in a plain sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fleet_replay.facts import recorded


class BadRecording(ValueError):
    """A file that is not a recording, or not a whole one."""


def load(path: Path) -> dict[str, Any]:
    """A recording; BadRecording with a plain sentence when the file is none."""
    try:
        recording = json.loads(path.read_text())
    except OSError as error:
        raise BadRecording(f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadRecording(f"is not JSON: {error}") from error
    if not isinstance(recording, dict) or not isinstance(recording.get("name"), str):
        raise BadRecording("is not a recording: it has no name")
    for part, check in _CHECKS.items():
        entries = recording.setdefault(part, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise BadRecording(f"is not a recording: {part!r} is not a list of entries")
        for number, entry in enumerate(entries):
            fault = _time(entry) or check(entry)
            if fault:
                raise BadRecording(f"is not a recording: entry {number} of {part!r} {fault}")
    try:
        for _ in recorded(recording["log"]):
            pass
    except (KeyError, TypeError, AttributeError) as error:
        raise BadRecording(f"is broken: a difference in 'log' has nothing to differ from ({error})") from error
    return recording


def _time(entry: dict[str, Any]) -> str:
    t = entry.get("t")
    return "" if isinstance(t, int | float) and not isinstance(t, bool) else "has no time"


def _setup(entry: dict[str, Any]) -> str:
    manifests = entry.get("manifests")
    if not entry.get("cluster") or not isinstance(entry["cluster"], str) or not isinstance(manifests, list):
        return "has no cluster or no manifests"
    return next((fault for one in manifests if (fault := _object(one))), "")


def _object(obj: Any) -> str:
    if not isinstance(obj, dict) or not all(isinstance(obj.get(part), str) for part in ("apiVersion", "kind")):
        return "has an object without a kind"
    return _named(obj.get("metadata"))


def _named(metadata: Any) -> str:
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return "has an object without a name"
    return "" if isinstance(metadata.get("namespace", ""), str) else "has an object without a proper namespace"


def _step(entry: dict[str, Any]) -> str:
    return "" if isinstance(entry.get("do"), str) else "does not say what was done"


def _state(entry: dict[str, Any]) -> str:
    obj = entry.get("object")
    cluster = entry.get("cluster")
    if not isinstance(obj, dict) or not isinstance(obj.get("kind"), str) or not cluster or not isinstance(cluster, str):
        return "has no object or no cluster"
    if not isinstance(entry.get("event"), str):
        return "does not say what happened"
    if obj["kind"] == "Event":
        complete = all(isinstance(obj.get(part), str) for part in ("type", "reason"))
        return _named(obj.get("involvedObject")) if complete else "has an event without a type or a reason"
    return _named(obj.get("metadata"))


def _output(entry: dict[str, Any]) -> str:
    return "" if isinstance(entry.get("command"), str) else "has no command"


_CHECKS: dict[str, Callable[[dict[str, Any]], str]] = {
    "setup": _setup,
    "steps": _step,
    "log": _state,
    "outputs": _output,
}
