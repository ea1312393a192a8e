"""Keeping step with a recording. Machines differ in speed, and whoever recorded waited for things to happen.

So a step waits here, too, until the manager shows what it had been recorded to show by then, and everything after it comes
that much later. And a pod does not end before its counterpart did.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from multikueue.corrected import MANAGER
from multikueue.facts import ABSENT, Obj, State, histories, masked

LIMIT_S = 3.0
"""How long to wait for what was recorded; what is told otherwise on purpose never comes."""
LOOK_S = 0.25
LATE_S = 2.0
"""How much later than recorded a running pod may be removed here."""
FOREVER_S = 3600.0
_SHOWN = ("phase", "exists", "spec.suspend", "spec.runPolicy.suspend", "status.ready", "status.active")


@dataclass
class _Run:
    """How long a recorded pod ran: until it ended, or was taken away."""

    cluster: str
    name: str
    end: float = float("inf")
    is_over: bool = False


class Pace:
    """The time of a recording, counted from `begin` on the running loop."""

    def __init__(self, recorded: list[State], before: list[State], begin: float) -> None:
        self._recorded, self._before, self._begin = recorded, before, begin
        self._runs = list(_runs(recorded))
        self._played: dict[str, _Run | None] = {}

    def at(self, t: float) -> float:
        """When on the loop's clock the recording is `t` ms old."""
        return self._begin + t / 1000

    async def until(self, t: float) -> None:
        await asyncio.sleep(max(0.0, self.at(t) - _now()))

    async def catch_up(self, t: float, states: list[State]) -> None:
        """Wait until `states` show what was recorded before `t`; what comes later is put off by as much."""
        wanted = _last(_milestones([state for state in self._recorded if state.t < t], self._before))
        for _ in range(int(LIMIT_S / LOOK_S)):
            if _has_come(wanted, _milestones(states, self._before)):
                break
            await asyncio.sleep(LOOK_S)
        self._begin = max(self._begin, _now() - t / 1000)

    def left(self, cluster: str, pod: Obj) -> float:
        """For how many seconds a pod goes on running because its counterpart did."""
        uid = str(pod["metadata"]["uid"])
        if uid not in self._played:
            self._played[uid] = self._counterpart(cluster, masked(str(pod["metadata"]["name"])))
        run = self._played[uid]
        if run is None:
            return 0.0
        if run.end == float("inf"):
            return FOREVER_S
        return self.at(run.end) + (0.0 if run.is_over else LATE_S) - _now()

    def _counterpart(self, cluster: str, name: str) -> _Run | None:
        """The first recorded pod of that name nobody played yet; which of equal workers has it is chance."""
        played = [id(run) for run in self._played.values()]
        alike = [run for run in self._runs if run.name == name and id(run) not in played]
        return next((run for run in alike if run.cluster == cluster), alike[0] if alike else None)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _runs(states: Iterable[State]) -> Iterator[_Run]:
    running: dict[tuple[str, str], _Run] = {}
    for state in states:
        if state.kind != "Pod" or state.cluster == MANAGER:
            continue
        name = str(state.object["metadata"]["name"])
        run = running.get((state.cluster, name))
        if run is None:
            if state.event == "DELETED":
                continue
            run = running[state.cluster, name] = _Run(state.cluster, masked(name))
            yield run
        if state.event == "DELETED":
            run.end = min(run.end, state.t)
            del running[state.cluster, name]
        elif not run.is_over and state.object.get("phase") in ("Succeeded", "Failed"):
            run.end, run.is_over = state.t, True


_Milestones = dict[tuple[str, str, str], list[str]]


def _milestones(states: list[State], before: list[State]) -> _Milestones:
    """What the manager's objects went through, in brief: without messages, and without saying which worker it is."""
    local = [state for state in states if state.cluster == MANAGER and state.event != "EVENT"]
    told = histories(local, [state for state in before if state.cluster == MANAGER])
    return {
        (aspect.kind, aspect.name, aspect.what): [_brief(aspect.what, value) for value in values]
        for aspect, values in told.items()
        if aspect.what.startswith(("condition ", "check ")) or aspect.what in ("clusterName", *_SHOWN)
    }


def _brief(what: str, value: str) -> str:
    if what == "clusterName":
        return value if value == ABSENT else "set"
    return value.partition(":")[0]


def _last(milestones: _Milestones) -> dict[tuple[str, str, str], tuple[str, int]]:
    """The last value of each aspect, and how often it was seen."""
    return {key: (values[-1], values.count(values[-1])) for key, values in milestones.items() if values}


def _has_come(wanted: dict[tuple[str, str, str], tuple[str, int]], here: _Milestones) -> bool:
    for key, (value, count) in wanted.items():
        values = here.get(key, [])
        if values[-1:] != [value] and values.count(value) < count:
            return False
    return True
