"""Replays recordings of a real KubeFleet hub and three members on Corral's, on virtual time, and compares what objects went through.

    python tests/conformance/replay_kubefleet.py FILE...

prints one line per scenario, with the first difference where there is one, and ends with `N passed, M failed`. What is
different on purpose is listed in `DELIBERATE`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from fleet_replay.actions import actions, apply, perform
from fleet_replay.facts import Aspect, Histories, History, State, histories, recorded
from fleet_replay.world import HUB_KINDS, MEMBER_KINDS, Seen, World

from corral.runtime.virtual import run_virtual

AFTER_S = 3.0
FOREVER_S = 1e8
RUN_S = {"02-guide": 30.0, "23-job-ttl": 3.0}
"""How long pods ran in a recording, where it says so."""

DELIBERATE: list[tuple[str, str]] = [
    (
        r".*: (Cluster)?(Resource|SchedulingPolicy)Snapshot \S+ .*",
        "the oldest snapshots go, never one in use; upstream's choice is arbitrary",
    ),
    (
        r".*: Event \S+ event (ReplicaSetCreateError|FailedCreate|ScalingReplicaSet|Suspended|Resumed)",
        "events of other controllers",
    ),
    (r".*: AppliedWork .*", "an AppliedWork's life is the member's bookkeeping"),
    (r".*: Work \S+-envelope-<id> .*", "Works of envelopes have names that say nothing about which is which"),
    (
        r"17-staged-run: (?!ClusterStagedUpdateRun s15-run1).*s15-(a|run2).*",
        "a run rolls out what is selected when it is made, not what was selected before the last edit",
    ),
    (
        r"18-leave-rejoin: .*WorkSynchronized.*",
        "a leaving member's namespace goes at once, so no Work is written into it while it does",
    ),
]
"""Aspects that differ on purpose, and why."""


OTHER_WORLD = {
    "03-guide-two-version-crds": "any served version of a kind can be selected, so nothing is refused",
    "25-azure-provider": "the Azure property provider is not part of Corral",
    "27-performance": "times, not behaviour",
}
"""Recordings that show what Corral does otherwise from their first step on; they are neither passed nor failed."""


def replay(recording: dict[str, Any]) -> list[str]:
    """The differences between a recording and a run of it."""
    seen, problems = run_virtual(lambda: _run(recording))
    end = clean_up_time(recording)
    expected = histories([one for one in _of_interest(recorded(recording["log"])) if one.t < end], end)
    actual = histories([one for one in _of_interest(_states(seen)) if one.t < end], end)
    found = problems + differences(expected, actual, str(recording["name"]))
    wanted = event_order([one for one in recorded(recording["log"]) if one.t < end])
    happened = event_order([one for one in _states(seen) if one.t < end])
    for subject, reasons in wanted.items():
        got = [reason for reason in happened.get(subject, []) if reason in reasons]
        if got != reasons[: len(got)]:
            found.append(f"events of {subject}: {', '.join(got)}; recorded {', '.join(reasons)}")
    return found


def event_order(states: list[State]) -> dict[str, list[str]]:
    """The reasons of the hub's own events about each object, in the order they were first given."""
    found: dict[str, list[str]] = {}
    for state in states:
        if state.kind != "Event" or state.obj is None:
            continue
        component = (state.obj.get("source") or {}).get("component")
        reasons = found.setdefault(f"{state.namespace}/{state.name}", [])
        if component in ("placement-controller", "mcv1beta1") and state.obj["reason"] not in reasons:
            reasons.append(state.obj["reason"])
    return found


def clean_up_time(recording: dict[str, Any]) -> float:
    """When the scenario was over and its placements were deleted, without a step that says so."""
    asked = " ".join(step["do"] for step in recording["steps"] if "DELETE" in step["do"])
    for state in recorded(recording["log"]):
        if state.obj is None or not state.kind.endswith("ResourcePlacement") or f"placements/{state.name} " in asked:
            continue
        if state.obj["metadata"].get("deletionTimestamp"):
            return state.t
    return max([entry["t"] for entry in recording["log"]], default=0.0) + 0.001


def _of_interest(states: Any) -> list[State]:
    hub = {resource.kind for resource in HUB_KINDS}
    member = {resource.kind for resource in MEMBER_KINDS}
    return [one for one in states if one.kind in (hub if one.cluster == "hub" else member)]


def _states(seen: list[Seen]) -> list[State]:
    found = []
    for one in seen:
        if one.t <= 0.0:
            continue  # there before the scenario began
        if one.kind == "Event":
            if one.obj is not None:
                subject = one.obj["involvedObject"]
                found.append(State(one.t, one.cluster, "Event", subject.get("namespace", ""), subject["name"], one.obj))
        else:
            found.append(State(one.t, one.cluster, one.kind, one.key.namespace, one.key.name, one.obj))
    return found


def differences(expected: Histories, actual: Histories, scenario: str) -> list[str]:
    """Lasting values of the recording that the run did not go through in that order, and the other way round."""
    found = []
    for aspect, history in expected.items():
        if is_deliberate(aspect, scenario):
            continue
        where = f"{aspect.cluster} {aspect.kind} {aspect.name} {aspect.what}"
        got = actual.get(aspect, History([], []))
        missing = first_missing(history.lasting, got.all)
        extra = first_missing(got.lasting, history.all)
        if missing:
            found.append(f"{where}: never {missing[:300]}; had {got.all[-1][:300] if got.all else 'nothing'}")
        elif extra:
            found.append(f"{where}: {extra[:300]}, which was not recorded; recorded {history.all[-1][:300]}")
    return found


def first_missing(wanted: list[str], values: list[str]) -> str:
    """The first of `wanted` that does not come in order among `values`."""
    position = 0
    for value in wanted:
        while position < len(values) and values[position] != value:
            position += 1
        if position == len(values):
            return value
    return ""


def is_deliberate(aspect: Aspect, scenario: str) -> bool:
    text = f"{scenario}: {aspect.kind} {aspect.name} {aspect.what}"
    return any(re.fullmatch(pattern, text) for pattern, _ in DELIBERATE)


async def _run(recording: dict[str, Any]) -> tuple[list[Seen], list[str]]:
    name = str(recording["name"])
    world = World(run_s=RUN_S.get(name, FOREVER_S), webhooks="crd-only" not in name)
    await world.start(joined="join" not in name or "rejoin" in name)
    problems = []
    try:
        await _prepare(world, recording)
        for action in actions(recording):
            await asyncio.sleep(max(0.0, world.began + action.t - world.hub.clock.now()))
            problem = await perform(world, action)
            if problem:
                problems.append(problem)
        last = max([entry["t"] for entry in recording["log"]] or [0])
        await asyncio.sleep(max(0.0, world.began + last + AFTER_S - world.hub.clock.now()))
        return list(world.seen), problems
    finally:
        await world.stop()


async def _prepare(world: World, recording: dict[str, Any]) -> None:
    """Namespaces that requests name and no step makes: they were left by an earlier scenario."""
    texts = [output["command"] for output in recording["outputs"] if "request" in output]
    texts += [step["do"] for step in recording["steps"] if " on hub -> " in step["do"]]
    for text in texts:
        if "/namespaces/" in text:
            name = text.split("/namespaces/")[1].split("/")[0]
            made = any(m["metadata"]["name"] == name for entry in recording["setup"] for m in entry["manifests"])
            if not made:
                await apply(world, "hub", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("-v", "--verbose", action="store_true", help="show every difference")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    passed = failed = 0
    for path in arguments.files:
        recording = json.loads(path.read_text())
        if "log" not in recording:
            continue
        if recording["name"] in OTHER_WORLD:
            print(f"skip {recording['name']}: {OTHER_WORLD[recording['name']]}")
            continue
        found = replay(recording)
        passed, failed = (passed, failed + 1) if found else (passed + 1, failed)
        print(f"{'FAIL' if found else 'ok  '} {recording['name']}{': ' + found[0] if found else ''}", flush=True)
        for difference in found[1:] if arguments.verbose else ():
            print(f"       {difference}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
