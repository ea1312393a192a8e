"""Compares what objects went through in a recording with what they went through in a run of it.

Every aspect must have had the same values in the same order. What may be otherwise is in `tolerance.py`, each rule with
its reason: values that come and go within `BRIEF_S`, and differences on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fleet_replay.facts import ABSENT, FLEET, Aspect, Histories, Obj, Value, facts
from fleet_replay.tolerance import BRIEF_S, Tolerance

LAG_S = 4.0
"""How far a busy machine was behind at the end: what a run does in these last seconds may not be recorded any more."""
_SHOWN = 300
_BEFORE = 60
_ASKED = re.compile(r"GET ([A-Z]\w+) (\S+)")


def differences(expected: Histories, actual: Histories, tolerance: Tolerance, end: float) -> list[str]:
    """All differences, in the order in which they arose in the recording."""
    found: list[tuple[float, str]] = []
    kinds = {(aspect.cluster, aspect.kind) for aspect in expected}
    for aspect in dict.fromkeys([*expected, *actual]):
        if (aspect.cluster, aspect.kind) not in kinds or tolerance.is_free(aspect):
            continue  # kinds of which a file has no object were not recorded
        recorded, run = expected.get(aspect, []), actual.get(aspect, [])
        for value, text in _compare(aspect, recorded, run, tolerance, end):
            where = f"{aspect.cluster} {aspect.kind} {aspect.name} {aspect.what}"
            found.append((value.t, f"t={value.t:.1f} {where}: {text}"))
            break
    return [text for _, text in sorted(found, key=lambda one: one[0])]


def compared(expected: Histories, tolerance: Tolerance, end: float) -> int:
    """How many recorded aspects have a value that a run must have as well."""
    held = (
        any(_costs(aspect, values, [], tolerance, end))
        for aspect, values in expected.items()
        if not tolerance.is_free(aspect)
    )
    return sum(held)


def unseen(output: Obj, actual: Histories, tolerance: Tolerance) -> str:
    """What somebody who asked was told in the recording and the run never said; "" when it did."""
    asked = _ASKED.match(str(output.get("command", "")))
    data = output.get("data")
    if asked is None or not isinstance(data, dict):
        return ""
    kind, name = asked.groups()
    parts = {part: data[part] for part in ("spec", "status") if part in data} or {"status": data}
    obj = {"apiVersion": f"{FLEET[0]}/v1beta1", "kind": kind, "metadata": {"name": name}, **parts}
    for what, text in facts(obj):
        found = [one for one in actual if one.kind == kind and one.name.rpartition("/")[2] == name and one.what == what]
        told = [value.text for one in found for value in actual[one]]
        if what == "deletion" or text in told or any(tolerance.is_deliberate(one, text, output["t"]) for one in found):
            continue
        if not any(tolerance.is_free(one) for one in found):
            return (
                f"t={output['t']:.1f} {output['command']}: {what} {text[:_SHOWN]}; had {'; '.join(told[-1:])[:_SHOWN]}"
            )
    return ""


def _compare(
    aspect: Aspect, recorded: list[Value], run: list[Value], tolerance: Tolerance, end: float
) -> Iterator[tuple[Value, str]]:
    """The values that one side has, the other has not, and no rule allows for."""
    if [one.text for one in recorded] == [one.text for one in run]:
        return
    missing_costs = _costs(aspect, recorded, run, tolerance, end)
    extra_costs = _costs(aspect, run, recorded, tolerance, end)
    for is_missing, i, j in _unmatched(recorded, run, missing_costs, extra_costs):
        if is_missing and missing_costs[i]:
            wanted, had = _shown(recorded[i].text, run[min(j, len(run) - 1)].text if run else "nothing")
            yield recorded[i], f"never {wanted}; had {had}"
        elif not is_missing and extra_costs[j]:
            had, said = _shown(run[j].text, recorded[min(i, len(recorded) - 1)].text if recorded else "nothing")
            yield run[j], f"{had}, which was not recorded; recorded {said}"


def _shown(one: str, other: str) -> tuple[str, str]:
    """Two texts cut to where they differ."""
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    start = max(0, same - _BEFORE)
    return tuple(("..." if start else "") + text[start : start + _SHOWN] for text in (one, other))  # type: ignore[return-value]


def _costs(aspect: Aspect, values: list[Value], others: list[Value], tolerance: Tolerance, end: float) -> list[int]:
    """For each value 1 when the other side must have it too, 0 when it may go without."""
    known = {one.text for one in others}
    costs = []
    for index, value in enumerate(values):
        until = values[index + 1].t if index + 1 < len(values) else end
        lasted = 0.0 if aspect.kind == "Event" or value.going else until - value.t
        tolerated = tolerance.is_deliberate(aspect, value.text, value.t) or (
            lasted < BRIEF_S and tolerance.may_pass(aspect, value.text, known, lasted)
        )
        free = tolerated or value.t >= end - LAG_S or _comes_back(values, index, costs)
        costs.append(0 if free else 1)
    return costs


def _comes_back(values: list[Value], index: int, costs: list[int]) -> bool:
    """Whether the value was there before, and all that came in between may go without saying; at first there is none."""
    for before in range(index - 1, -1, -1):
        if values[before].text == values[index].text:
            return True
        if costs[before]:
            return False
    return values[index].text == ABSENT


def _unmatched(
    recorded: list[Value], run: list[Value], missing: list[int], extra: list[int]
) -> list[tuple[bool, int, int]]:
    """What is left over when both sequences are matched in order at the least cost: (is it missing, i, j)."""
    rows, columns = len(recorded), len(run)
    # best[i][j]: least cost of the rest from i and j on, and with it the most matches.
    best = [[(0, 0)] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows, -1, -1):
        for j in range(columns, -1, -1):
            options = []
            if i < rows and j < columns and recorded[i].text == run[j].text:
                cost, matches = best[i + 1][j + 1]
                options.append((cost, matches - 1))
            if i < rows:
                options.append((best[i + 1][j][0] + missing[i], best[i + 1][j][1]))
            if j < columns:
                options.append((best[i][j + 1][0] + extra[j], best[i][j + 1][1]))
            best[i][j] = min(options, default=(0, 0))
    found = []
    i = j = 0
    while i < rows or j < columns:
        here = best[i][j]
        if i < rows and j < columns and recorded[i].text == run[j].text:
            cost, matches = best[i + 1][j + 1]
            if here == (cost, matches - 1):
                i, j = i + 1, j + 1
                continue
        if i < rows and here == (best[i + 1][j][0] + missing[i], best[i + 1][j][1]):
            found.append((True, i, j))
            i += 1
        else:
            found.append((False, i, j))
            j += 1
    return found
