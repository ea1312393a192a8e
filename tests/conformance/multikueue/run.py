"""Playing a recording on a Corral fleet: its set-up, then its steps at their times, then a while more."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field

from corral.core.errors import ApiError
from corral.core.meta import Key
from corral.jobs.framework.registry import dispatched_adapters, known_frameworks
from multikueue.answers import AT_ONCE, LATER, Answer, other_answers
from multikueue.corrected import Expectation, expectation
from multikueue.facts import Obj, State
from multikueue.mode import UPSTREAM, Mode
from multikueue.objects import whole
from multikueue.pace import LIMIT_S, Pace
from multikueue.steps import perform
from multikueue.world import World

SETTLE_S = 3.0
AFTER_S = 4.0
"""How long after the last recorded state the run is watched: nothing else may happen that early."""
READ_S = 0.5
FRAMEWORKS = [
    "batch/job", "jobset.x-k8s.io/jobset", "kubeflow.org/pytorchjob", "kubeflow.org/tfjob",
    "trainer.kubeflow.org/trainjob", "pod", "deployment", "statefulset",
]  # fmt: skip
"""What Kueue was told to queue when the recordings were made."""


@dataclass
class Run:
    """What happened here."""

    clusters: list[str] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    set_up: list[State] = field(default_factory=list)
    ends: dict[tuple[str, str, Key], Obj] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    """Where a step was answered otherwise than recorded."""


def cluster_names(recording: Obj) -> list[str]:
    """The clusters a recording is about: the manager first, two workers at least."""
    told = [entry.get("cluster") for part in ("setup", "steps", "log") for entry in recording.get(part) or []]
    words = re.findall(r"\bworker\d+\b", " ".join(str(step.get("do")) for step in recording.get("steps") or []))
    workers = {str(name) for name in (*told, *words) if name and name != "manager"}
    return ["manager", *sorted({"worker1", "worker2", *workers})]


def kubeconfigs(recording: Obj, names: list[str]) -> dict[str, str]:
    """The Secrets that MultiKueueClusters name, and the cluster behind each: its namesake, or the one its name contains."""
    manifests = [entry.get("object") or {} for entry in recording["setup"]]
    manifests += [step["manifest"] for step in recording["steps"] if isinstance(step.get("manifest"), dict)]
    found = {}
    for manifest in manifests:
        if manifest.get("kind") == "MultiKueueCluster":
            source = ((manifest.get("spec") or {}).get("clusterSource") or {}).get("kubeConfig") or {}
            name = str((manifest.get("metadata") or {}).get("name"))
            secret = str(source.get("location"))
            within = next((other for other in names if other in name or other in secret), name)
            found[secret] = name if name in names else within
    return found


def frameworks(recording: Obj) -> list[str]:
    """What Kueue was told to queue: what it was usually told, and what the recording has besides."""
    made = [step["manifest"] for step in recording["steps"] if isinstance(step.get("manifest"), dict)]
    kinds = {str(manifest.get("kind")) for manifest in made if str(manifest.get("metadata")).find("queue-name") > 0}
    more = [one.framework for one in dispatched_adapters() if one.resource.kind in kinds]
    more += [name for name in known_frameworks() if name.rpartition("/")[2] in {kind.lower() for kind in kinds}]
    return list(dict.fromkeys([*FRAMEWORKS, *more]))


async def play(recording: Obj, mode: Mode = UPSTREAM) -> Run:
    """One run of a recording."""
    kinds = {entry["kind"] for entry in recording["log"]}
    configuration = {
        "integrations": {"frameworks": frameworks(recording)},
        **(recording.get("managerConfiguration") or {}),
        **mode.configuration,
    }
    names = cluster_names(recording)
    world = World(names, configuration, kubeconfigs(recording, names), sorted(kinds))
    run = Run(names, states=world.log, ends=world.ends)
    await world.start()
    try:
        if not await _set_up(world, recording, run):
            return run
        world.begin()
        run.set_up = world.set_up
        await _steps(world, recording, run)
        return run
    finally:
        await world.stop()


async def _set_up(world: World, recording: Obj, run: Run) -> bool:
    for entry in recording["setup"]:
        try:
            await world.create(entry["cluster"], entry["object"])
        except ApiError as error:
            made = entry["object"]
            name = (made.get("metadata") or {}).get("name")
            text = f"{made.get('kind')} {name} could not be set up on {entry['cluster']}: {error}"
            run.answers.append(Answer("setup", text))
            return False
    await asyncio.sleep(SETTLE_S)
    return True


async def _steps(world: World, recording: Obj, run: Run) -> None:
    wanted, before = wanted_of(recording, run.set_up)
    pace = world.pace = Pace(wanted.states, before, asyncio.get_running_loop().time())
    steps = recording["steps"]
    last = max([entry["t"] for entry in (*recording["log"], *steps)] or [0])
    for position, step in enumerate(steps):
        await pace.until(step["t"])
        await pace.catch_up(step["t"], run.states)
        problem = await perform(world, step, recording)
        if problem is not None:
            run.answers.append(Answer("response", problem))
            continue
        run.answers += await other_answers(world, step, AT_ONCE)
        following = steps[position + 1]["t"] if position + 1 < len(steps) else last
        run.answers += await _read(world, step, max(pace.at(following), pace.at(step["t"]) + LIMIT_S))
    await pace.until(last)
    await pace.catch_up(last, run.states)
    await asyncio.sleep(AFTER_S)


def wanted_of(recording: Obj, set_up: list[State]) -> tuple[Expectation, list[State]]:
    """What a recording says should have happened, and the state of things before."""
    recorded = [
        State(entry["cluster"], entry["event"], entry["kind"], entry["object"], entry["t"])
        for entry in recording["log"]
    ]
    recorded = list(whole(recorded, set_up))
    wanted = expectation([state for state in recorded if state.t >= 0], recording["steps"])
    return wanted, [*set_up, *(state for state in recorded if state.t < 0)]


async def _read(world: World, step: Obj, end: float) -> list[Answer]:
    """What a step reads otherwise, looked at again until `end`: when exactly the recorder looked is not known."""
    if not any(part in step for part in LATER):
        return []
    while True:
        left = end - asyncio.get_running_loop().time()
        found = await other_answers(world, step, LATER)
        if not found or left <= 0:
            return found
        await asyncio.sleep(min(READ_S, max(left, 0.001)))
