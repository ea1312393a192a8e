"""Replays recordings of a real KubeFleet hub and three members on Corral's, on virtual time, and compares what objects went through.

    python tests/conformance/replay_kubefleet.py FILE...

prints one line per scenario, with the first difference where there is one, and ends with `N passed, M failed`. The settings
are those that ship; with `--settings upstream` everything is as upstream does it. What is different on purpose, and what depends on the speed of a machine, is listed in `fleet_replay/tolerance.py`; `--tolerated`
prints that list.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from fleet_replay.actions import actions, apply, made, not_understood, perform
from fleet_replay.compare import compared, differences, unseen
from fleet_replay.facts import FLEET, State, histories, recorded
from fleet_replay.loading import BadRecording, load
from fleet_replay.measurements import measure
from fleet_replay.mode import MODES, Mode
from fleet_replay.mode import SHIPPED as AS_SHIPPED
from fleet_replay.tolerance import DELIBERATE, PASSING, SHIPPED, SHIPPED_PASSING, tolerance_for
from fleet_replay.world import HUB, MEMBERS, Circumstances, Seen, World

from corral.core.errors import ApiError
from corral.runtime.virtual import run_virtual

AFTER_S = 3.0
OWN = "corral.dev/"
FOREVER_S = 1e8
LEAST_COMPARED = 10
"""Fewer aspects than a single placed object has."""
SPACE = "fleet-member-"
"""How the hub calls the namespace of a member."""
_RUNS = re.compile(r"(?:[Pp]ods run|runs) (\d+(?:\.\d+)?) s")


def circumstances(recording: dict[str, Any]) -> Circumstances:
    """The fleet that a recording was made on."""
    versions, text = recording.get("versions") or {}, str(recording.get("description", ""))
    queue = str(versions.get("kueueCRDs", ""))
    webhooks = str(versions.get("hubWebhooks", "on"))
    named = _members(recording)
    runs = _RUNS.search(text)
    return Circumstances(
        webhooks=webhooks.startswith("on"),
        joined=not _joins_all(recording),
        run_s=float(runs[1]) if runs else FOREVER_S,
        away=_silent(recording),
        collected=_collected(recording),
        queue_versions=("v1beta2", "v1beta1") if "v1beta1 and v1beta2" in queue else ("v1beta1",),
        members=tuple(sorted(named if named and not named & set(MEMBERS) else {*MEMBERS, *named})),
    )


def _members(recording: dict[str, Any]) -> set[str]:
    """The members a recording names: where something happens, and which the hub knows."""
    named = {entry["cluster"] for part in ("setup", "log") for entry in recording[part]} - {HUB}
    manifests = [manifest for entry in recording["setup"] for manifest in entry["manifests"]]
    manifests += [entry["object"] for entry in recording["log"]]
    known = {str(one["metadata"]["name"]) for one in manifests if one.get("kind") == "MemberCluster"}
    spaces = {str((one.get("metadata") or {}).get("namespace") or "") for one in manifests}
    return named | known | {space.removeprefix(SPACE) for space in spaces if space.startswith(SPACE)}


def _silent(recording: dict[str, Any]) -> tuple[str, ...]:
    """Members whose agent was away all the time, as another scenario had left it: nobody took up their Works."""
    steps = " ".join(str(step.get("do", "")) for step in recording["steps"])
    answered: dict[str, bool] = {}
    for state in recorded(recording["log"]):
        if state.kind == "Work" and state.obj is not None:
            member = state.namespace.removeprefix(SPACE)
            answered[member] = answered.get(member, False) or bool(state.obj["metadata"].get("finalizers"))
    return tuple(name for name, did in sorted(answered.items()) if not did and f"agent of {name}" not in steps)


def _collected(recording: dict[str, Any]) -> tuple[str, ...]:
    """Members that lack what they should report on namespaces, though nothing in the recording made them report any."""
    steps = " ".join(str(step.get("do", "")) for step in recording["steps"])
    found = set()
    for state in recorded(recording["log"]):
        status = (state.obj or {}).get("status") or {}
        for decision in status.get("targetClusters") or () if state.kind == "SchedulingPolicySnapshot" else ():
            if "no namespace information available" in decision.get("reason", ""):
                found.add(decision["clusterName"])
    return tuple(name for name in sorted(found) if f"agent of {name}" not in steps)


def _joins_all(recording: dict[str, Any]) -> bool:
    """Whether the members join in the course of the recording, before anything else."""
    first = next((entry for entry in recording["log"] if entry["object"].get("kind") == "MemberCluster"), None)
    starts = [step for step in recording["steps"] if str(step.get("do", "")).startswith("start the member agent")]
    return first is not None and first.get("event") == "ADDED" and len(starts) >= len(_members(recording))


def replay(recording: dict[str, Any], mode: Mode = AS_SHIPPED) -> list[str]:
    """The differences between a recording and a run of it, the earliest first."""
    if not recording["log"]:
        return measure(recording, mode)
    seen, problems = run_virtual(lambda: _run(recording, mode))
    tolerance = tolerance_for(recording, upstream=mode.is_upstream)
    end = max(entry["t"] for entry in recording["log"]) + 0.001
    expected = histories(recorded(recording["log"]))
    actual = histories(_of_scenario(recording, _states(seen), end))
    found = problems + differences(expected, actual, tolerance, end)
    everything = histories(_states(seen))
    found += [said for output in recording["outputs"] if (said := unseen(output, everything, tolerance))]
    held = compared(expected, tolerance, end)
    if held < LEAST_COMPARED:
        found.append(f"only {held} recorded aspects are held against the run, which shows nothing")
    return [*(f"step not understood: {step}" for step in not_understood(recording)), *found]


def _states(seen: list[Seen]) -> list[State]:
    found = []
    for one in seen:
        namespace, name = one.key
        if one.kind == "Event":
            if one.obj is None:
                continue
            namespace, name = one.obj["involvedObject"].get("namespace", ""), one.obj["involvedObject"]["name"]
        found.append(State(one.t, one.cluster, one.kind, namespace, name, without_own(one.obj)))
    return found


def without_own(value: Any) -> Any:
    """An object without what only Corral says, all of which is under a name of its own."""
    if isinstance(value, dict):
        return {name: without_own(item) for name, item in value.items() if OWN not in name}
    if isinstance(value, list):
        return [
            without_own(item) for item in value if not (isinstance(item, dict) and OWN in str(item.get("type", "")))
        ]
    return value


def _of_scenario(recording: dict[str, Any], states: list[State], end: float) -> list[State]:
    """What belongs to the scenario: objects that it made, and of those that were there before the recorded ones."""
    wanted = {one[1:5] for one in recorded(recording["log"])}
    before = {one[1:5] for one in states if one.t <= 0.0 and one.kind != "Event"} - wanted
    names = {name for _, _, _, name in wanted}
    left_out = {one[3] for one in made(actions(recording)) if one[1].endswith("ResourcePlacement")} - names

    def is_left_out(state: State) -> bool:
        """Whether a placement that the file leaves out made the object."""
        name = state.name.rpartition(".")[2]
        return any(name == one or name.startswith(f"{one}-") for one in left_out) and state[1:5] not in wanted

    return [one for one in states if 0.0 < one.t < end and one[1:5] not in before and not is_left_out(one)]


async def _run(recording: dict[str, Any], mode: Mode) -> tuple[list[Seen], list[str]]:
    world = World(circumstances(recording), mode)
    problems = []
    await world.start()
    try:
        await _prepare(world, recording)
        await _observe(world, recording)
        for action in actions(recording):
            await asyncio.sleep(max(0.0, world.began + action.t - world.hub.clock.now()))
            try:
                problem = await perform(world, action)
            except (LookupError, ApiError) as error:
                problem = f"t={action.t:.1f} {action.kind}: {error}"
            if problem:
                problems.append(problem)
        last = max(entry["t"] for entry in recording["log"])
        await asyncio.sleep(max(0.0, world.began + last + AFTER_S - world.hub.clock.now()))
        return list(world.seen), problems
    finally:
        await world.stop()


async def _observe(world: World, recording: dict[str, Any]) -> None:
    """Watch every kind that the recording has objects of."""
    kinds: dict[str, dict[tuple[str, str], None]] = {}
    for entry in recording["log"]:
        obj = entry["object"]
        version = "v1" if obj.get("kind") == "Event" else obj.get("apiVersion")
        if version:
            kinds.setdefault(entry["cluster"], {})[str(version), str(obj.get("kind"))] = None
    for output in recording["outputs"]:
        words = str(output.get("command", "")).split()
        if len(words) > 2 and words[0] == "GET" and words[1][:1].isupper():
            kinds.setdefault(HUB, {})[f"{FLEET[0]}/v1beta1", words[1]] = None
    for cluster, found in kinds.items():
        await world.observe(cluster, found)


async def _prepare(world: World, recording: dict[str, Any]) -> None:
    """Make what was there before the recording began, which shows in it and which no step makes."""
    known = {(kind, namespace, name) for cluster, kind, namespace, name in made(actions(recording)) if cluster == HUB}
    for name in _namespaces_named(recording):
        if ("Namespace", "", name) not in known:
            await apply(world, HUB, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for manifest in _selected(recording):
        metadata = manifest["metadata"]
        if (manifest["kind"], metadata.get("namespace", ""), metadata["name"]) not in known:
            await apply(world, HUB, manifest)
    for state in recorded(recording["log"]):
        if state.kind == "InternalMemberCluster" and state.obj is not None:
            for namespace, work in ((state.obj.get("status") or {}).get("namespaces") or {}).items():
                if work:
                    await world.leave_behind(state.name, namespace, work)


def _namespaces_named(recording: dict[str, Any]) -> list[str]:
    texts = [str(output.get("command", "")) for output in recording["outputs"] if "request" in output]
    texts += [step["do"] for step in recording["steps"] if f" on {HUB} -> " in step.get("do", "")]
    return [found for text in texts for found in re.findall(r"/namespaces/([-a-z0-9.]+)", text)]


def _selected(recording: dict[str, Any]) -> list[dict[str, Any]]:
    """Objects that placements select: as first snapshots have them, or bare where only a status names them."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for state in recorded(recording["log"]):
        if state.kind.endswith("ResourceSnapshot") and state.obj is not None:
            for manifest in (state.obj.get("spec") or {}).get("selectedResources") or ():
                metadata = manifest["metadata"]
                found.setdefault((manifest["kind"], metadata.get("namespace", ""), metadata["name"]), manifest)
    for output in recording["outputs"]:
        data = output.get("data") if isinstance(output.get("data"), dict) else {}
        for one in (data.get("status") or data).get("selectedResources") or ():
            api = f"{one['group']}/{one['version']}" if one.get("group") else one["version"]
            metadata = {part: one[part] for part in ("name", "namespace") if one.get(part)}
            bare = {"apiVersion": api, "kind": one["kind"], "metadata": metadata}
            if one["kind"] in ("ConfigMap", "Secret", "Namespace"):
                found.setdefault((one["kind"], one.get("namespace", ""), one["name"]), bare)
    return list(found.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every difference")
    parser.add_argument("--tolerated", action="store_true", help="print what may differ, and why")
    parser.add_argument(
        "--settings", choices=sorted(MODES), default="shipped", help="the settings that ship, or upstream's"
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    if arguments.tolerated:
        for rule in [*DELIBERATE, *PASSING, *SHIPPED, *SHIPPED_PASSING]:
            print(f"{rule.kind} {rule.what}: {rule.reason}{f' ({rule.row})' if rule.row else ''}")
        return 0
    passed = failed = 0
    for path in arguments.files:
        name, found = path.stem, list[str]()
        try:
            recording = load(path)
            name = str(recording["name"])
            found = replay(recording, MODES[arguments.settings])
        except BadRecording as error:
            found = [f"{path} {error}"]
        except Exception as error:  # whatever it is, the other files are still replayed
            found = [f"cannot be replayed: {type(error).__name__}: {error}"]
        passed, failed = (passed, failed + 1) if found else (passed + 1, failed)
        print(f"{'FAIL' if found else 'ok  '} {name}{': ' + found[0] if found else ''}", flush=True)
        for difference in found[1:] if arguments.verbose else ():
            print(f"       {difference}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
