"""Objects whose story is told otherwise here but has to end as it was recorded."""

from __future__ import annotations

from collections.abc import Iterator

from corral.core.meta import name_of
from multikueue.corrected import Expectation
from multikueue.facts import Obj, masked
from multikueue.run import Run


def other_ends(wanted: Expectation, run: Run) -> Iterator[str]:
    """Where an object does not end as recorded, in words."""
    for state in wanted.ends:
        name = str(state.object["metadata"]["name"])
        here = [obj for (cluster, kind, _), obj in run.ends.items() if (cluster, kind) == (state.cluster, state.kind)]
        found = [_said(obj) for obj in here if name_of(obj) == name]
        if found != [_said(state.object)]:
            yield f"{state.cluster} {state.kind} {name} ends with {found}, recorded {_said(state.object)}"


def _said(obj: Obj) -> list[str]:
    entries = (obj.get("status") or {}).get("conditions") or []
    return [masked(f"{one['type']}={one['status']}/{one['reason']}: {one['message']}") for one in entries]
