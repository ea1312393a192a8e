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

from fleet_replay.actions import actions, perform
from fleet_replay.facts import Aspect, Histories, State, histories, recorded
from fleet_replay.world import HUB_KINDS, MEMBER_KINDS, Seen, World

from corral.runtime.virtual import run_virtual

AFTER_S = 3.0
RUN_S = {"02-guide": 30.0, "23-job-ttl": 3.0}
"""How long pods ran in a recording, where it says so."""

DELIBERATE: list[tuple[str, str]] = [
    (r"MemberCluster \S+ condition .*Provider.*", "members report more properties than upstream's without a provider"),
    (
        r"(Cluster)?ResourceSnapshot \S+ exists",
        "the oldest snapshots go, never one that is in use; upstream's choice is arbitrary",
    ),
    (r"(Cluster)?SchedulingPolicySnapshot \S+ exists", "the oldest snapshots go; upstream's choice is arbitrary"),
    (
        r"Event \S+ event (ReplicaSetCreateError|FailedCreate|ScalingReplicaSet|SuccessfulCreate|Suspended|Resumed)",
        "the Job and Deployment controllers' own events",
    ),
    (r"AppliedWork .*", "an AppliedWork's life is the member's bookkeeping"),
]
"""Aspects that differ on purpose, and why."""


def replay(recording: dict[str, Any]) -> list[str]:
    """The differences between a recording and a run of it."""
    seen, problems = run_virtual(lambda: _run(recording))
    end = clean_up_time(recording)
    expected = histories(one for one in _of_interest(recorded(recording["log"])) if one.t < end)
    actual = histories(one for one in _of_interest(_states(seen)) if one.t < end)
    return problems + differences(expected, actual)


def clean_up_time(recording: dict[str, Any]) -> float:
    """When the scenario was over and its placements were deleted, without a step that says so."""
    asked = " ".join(step["do"] for step in recording["steps"] if "DELETE" in step["do"])
    for state in recorded(recording["log"]):
        if state.obj is not None and state.kind.endswith("ResourcePlacement") and state.name not in asked:
            if state.obj["metadata"].get("deletionTimestamp"):
                return state.t
    return float("inf")


def _of_interest(states: Any) -> list[State]:
    hub = {resource.kind for resource in HUB_KINDS}
    member = {resource.kind for resource in MEMBER_KINDS}
    return [one for one in states if one.kind in (hub if one.cluster == "hub" else member)]


def _states(seen: list[Seen]) -> list[State]:
    found = []
    for one in seen:
        if one.kind == "Event":
            if one.obj is not None:
                subject = one.obj["involvedObject"]
                found.append(State(one.t, one.cluster, "Event", subject.get("namespace", ""), subject["name"], one.obj))
        else:
            found.append(State(one.t, one.cluster, one.kind, one.key.namespace, one.key.name, one.obj))
    return found


def differences(expected: Histories, actual: Histories) -> list[str]:
    """What every aspect of the recording went through, where the run went through something else."""
    found = []
    for aspect, values in expected.items():
        if is_deliberate(aspect):
            continue
        got = actual.get(aspect)
        if got == values:
            continue
        index = next((i for i, value in enumerate(values) if not got or i >= len(got) or got[i] != value), len(values))
        wanted = values[index] if index < len(values) else "nothing more"
        instead = got[index] if got and index < len(got) else "nothing"
        where = f"{aspect.cluster} {aspect.kind} {aspect.name} {aspect.what}"
        found.append(f"{where}: value {index + 1} is {instead[:300]}, recorded {wanted[:300]}")
    return found


def is_deliberate(aspect: Aspect) -> bool:
    text = f"{aspect.kind} {aspect.name} {aspect.what}"
    return any(re.fullmatch(pattern, text) for pattern, _ in DELIBERATE)


async def _run(recording: dict[str, Any]) -> tuple[list[Seen], list[str]]:
    name = str(recording["name"])
    world = World(run_s=RUN_S.get(name, 10.0), webhooks="crd-only" not in name)
    await world.start(joined="join" not in name or "rejoin" in name)
    problems = []
    try:
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
        found = replay(recording)
        passed, failed = (passed, failed + 1) if found else (passed + 1, failed)
        print(f"{'FAIL' if found else 'ok  '} {recording['name']}{': ' + found[0] if found else ''}", flush=True)
        for difference in found[1:] if arguments.verbose else ():
            print(f"       {difference}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
