"""What `kubectl get` printed on a recorded fleet is what our columns make of the recorded objects at that moment.

A row counts as right when it is that of a state the object had within a second and a half of the command: ages and
durations are printed in whole seconds, and the recorded times are when a watch told of a state.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fleet_replay.facts import recorded

from corral.core.meta import Obj
from corral.core.timestamps import format_time
from corral.jobs.framework.served_kinds import builtin_kinds, native_kinds
from corral.kinds.machinery.definition import KindDef, VersionDef
from corral.kinds.machinery.tables import cells, columns_of

RECORDINGS = sorted((Path(__file__).parents[1] / "data" / "kubefleet").glob("*.json"))
EPOCH = 1_800_000_000.0
SLACK_S = 1.5
KINDS = (*builtin_kinds(), *native_kinds())
NAMES = {name: kind for kind in KINDS for name in (kind.plural, kind.singular, *kind.short_names)}
MASK = re.compile(r"<(?:uid|rand|rv)\b")
"""What the recording hides is of another length, so that the cells of such a line stand elsewhere than their headers."""
OTHER_COLUMNS = "kueue.x-k8s.io"
"""The recorded members had Kueue v0.9, whose CRDs print other columns than ours; `queueing_crd` compares those."""


class Printed(NamedTuple):
    """One row of a printed table."""

    kind: KindDef
    version: VersionDef
    wide: bool
    namespace: str
    name: str
    cells: dict[str, str]


def tables(text: str) -> Iterator[list[dict[str, str]]]:
    """Tables of kubectl as rows by column: each begins with a header, whose words stand above their cells."""
    for block in re.split(r"\n\n+", text.strip("\n")):
        header, *lines = block.split("\n")
        starts = [match.start() for match in re.finditer(r"\S+(?: \S+)*", header)]
        ends = [*starts[1:], None]
        names = [header[start:end].strip() for start, end in zip(starts, ends, strict=True)]
        yield [
            {name: line[start:end].strip() for name, start, end in zip(names, starts, ends, strict=True)}
            for line in lines
            if not MASK.search(line)
        ]


def printed(command: str, text: str) -> Iterator[Printed]:
    """The rows of a command that printed tables; none if it printed something else, or nothing."""
    words = command.split()
    if words[:2] != ["kubectl", "get"] or re.search(r"(-o|=)\s*(yaml|json|custom)", command) or "NAME" not in text:
        return
    asked = [NAMES[name] for name in words[2].split(",") if name in NAMES]
    for rows in tables(text):
        for row in rows:
            resource, _, name = row["NAME"].rpartition("/")
            kind = NAMES[resource.partition(".")[0]] if resource else asked[0]
            namespace = row.pop("NAMESPACE", words[words.index("-n") + 1] if "-n" in words and kind.namespaced else "")
            row.pop("LABELS", None)
            yield Printed(kind, kind.versions[0], "wide" in words, namespace, name, {**row, "NAME": name})


def stamped(value: Any) -> Any:
    """The recorded object with times, and other masks as plain words."""
    if isinstance(value, dict):
        return {key: stamped(one) for key, one in value.items()}
    if isinstance(value, list):
        return [stamped(one) for one in value]
    if not isinstance(value, str):
        return value
    return with_times(value).replace("<", "").replace(">", "")


def with_times(text: str) -> str:
    """Points in time in place of `<t+N>`."""
    return re.sub(r"<t([+-]\d+)>", lambda match: format_time(EPOCH + int(match[1])), text)


def row_of(row: Printed, obj: Obj, now: float) -> dict[str, str]:
    """What we print of an object."""
    shown = zip(columns_of(row.kind, row.version), cells(row.kind, row.version, obj, now), strict=True)
    return {
        column.name.upper(): "" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell)
        for column, cell in shown
        if row.wide or not column.priority
    }


Told = dict[tuple[str, str, str, str], list[tuple[float, Obj | None]]]
"""By cluster, kind, namespace and name: when an object came into which state, None for its end."""


def told(recording: Obj) -> Told:
    found: Told = {}
    for state in recorded(recording["log"]):
        key = (state.cluster, state.kind, state.namespace, state.name)
        found.setdefault(key, []).append((state.t, state.obj))
    return found


def around(states: list[tuple[float, Obj | None]], t: float) -> Iterator[Obj]:
    """The states an object was in around a moment."""
    for number, (since, obj) in enumerate(states):
        until = states[number + 1][0] if number + 1 < len(states) else float("inf")
        if obj is not None and since <= t + SLACK_S and until >= t - SLACK_S:
            yield obj


class Comparison(NamedTuple):
    kind: str
    command: str
    theirs: dict[str, str]
    ours: list[dict[str, str]]
    """What we would have printed around that moment."""


def comparisons(path: Path) -> Iterator[Comparison]:
    """Each printed row whose object is in the recording."""
    recording = json.loads(path.read_text())
    history = told(recording)
    for output in recording["outputs"]:
        t = output["t"]
        for row in printed(output["command"], with_times(output.get("text") or "")):
            states = history.get((output["cluster"], row.kind.kind, row.namespace, row.name), [])
            shifts = (EPOCH + t + shift for shift in (0.0, -1.0, 1.0))
            moments = [(stamped(obj), now) for now in shifts for obj in around(states, t)]
            if moments and row.kind.group != OTHER_COLUMNS:
                ours = [row_of(row, obj, now) for obj, now in moments]
                yield Comparison(row.kind.kind, f"{t} {output['command']}", row.cells, ours)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_rows_are_as_recorded(path: Path) -> None:
    assert [row for row in comparisons(path) if row.theirs not in row.ours] == []


def test_many_rows_of_many_kinds_are_compared() -> None:
    rows = [row for path in RECORDINGS for row in comparisons(path)]
    assert len(rows) > 150
    assert len({row.kind for row in rows}) > 10
