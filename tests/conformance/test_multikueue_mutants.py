"""Recordings changed by a program: what means something is noticed, what is chance is not."""

from __future__ import annotations

import copy
import functools
import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.soaking import SOAKING, Tally

sys.path.insert(0, str(Path(__file__).parent))

from multikueue.run import Run, play
from replay_multikueue import compared

from corral.runtime.virtual import run_virtual

RECORDINGS = Path(__file__).parent.parent / "data" / "multikueue"
STARTS = ("01-", "04-", "13b", "19-")
SEEDS = range(20 if SOAKING else 1)
CONDITIONS = ("QuotaReserved", "Admitted", "Finished", "Evicted", "Requeued")
Obj = dict[str, Any]
Mutation = Callable[[Obj, random.Random], object]


def text_of(start: str) -> str:
    (path,) = RECORDINGS.glob(f"{start}*.json")
    return path.read_text()


@functools.cache
def run_of(start: str) -> Run:
    recording = json.loads(text_of(start))
    return run_virtual(lambda: play(recording))


def ours(recording: Obj) -> list[Obj]:
    """What was logged of the manager's Workloads."""
    return [
        entry
        for entry in recording["log"]
        if (entry["cluster"], entry["kind"]) == ("manager", "Workload") and entry["event"] != "DELETED"
    ]


def winner(recording: Obj) -> str:
    """The worker that ran the job in the end."""
    told = [(entry["object"].get("status") or {}).get("clusterName") for entry in ours(recording)]
    return str([name for name in told if name][-1])


def told(recording: Obj, rng: random.Random) -> list[Obj]:
    """Every state of one condition of the manager's Workload."""
    found = [
        entry
        for logged in ours(recording)
        for entry in (logged["object"].get("status") or {}).get("conditions") or []
        if entry["type"] in CONDITIONS
    ]
    kind = rng.choice(sorted({entry["type"] for entry in found}))
    return [entry for entry in found if entry["type"] == kind]


def another_reason(recording: Obj, rng: random.Random) -> None:
    for entry in told(recording, rng):
        entry["reason"] += "Otherwise"


def another_message(recording: Obj, rng: random.Random) -> None:
    for entry in told(recording, rng):
        entry["message"] += " or not"


def another_status(recording: Obj, rng: random.Random) -> None:
    for entry in told(recording, rng):
        entry["status"] = "Unknown"


def a_condition_too_early(recording: Obj, rng: random.Random) -> None:
    entry = {"type": "Finished", "status": "True", "reason": "Early", "message": "", "lastTransitionTime": "T+0s"}
    logged = rng.choice(ours(recording)[:-1])["object"].setdefault("status", {})
    logged["conditions"] = [*(logged.get("conditions") or []), entry]


def another_label(recording: Obj, rng: random.Random) -> None:
    logged = [one for one in made(recording) if one["object"]["metadata"].get("labels")]
    labels = rng.choice(logged)["object"]["metadata"]["labels"]
    labels[rng.choice(sorted(labels))] = "another"


def a_label_less(recording: Obj, rng: random.Random) -> None:
    logged = [one for one in made(recording) if one["object"]["metadata"].get("labels")]
    labels = rng.choice(logged)["object"]["metadata"]["labels"]
    del labels[rng.choice(sorted(labels))]


def made(recording: Obj) -> list[Obj]:
    """The first states of the job on the manager and, the last time, on the winner; labels of pods are not followed."""
    found = {
        one["cluster"]: one
        for one in recording["log"]
        if one["event"] == "ADDED" and one["kind"] in ("Job", "PyTorchJob", "JobSet") and "kueue" in str(one["object"])
    }
    return [found["manager"], found[winner(recording)]]


def a_finalizer_more(recording: Obj, rng: random.Random) -> None:
    rng.choice(made(recording))["object"]["metadata"].setdefault("finalizers", []).append("example.com/more")


def an_event_more(recording: Obj, rng: random.Random) -> None:
    event = copy.deepcopy(rng.choice(events(recording)))
    event["object"].update(reason="Surprise", message="nobody expected this")
    recording["log"].append(event)


def an_event_less(recording: Obj, rng: random.Random) -> None:
    chosen = rng.choice(events(recording))["object"]
    about = (chosen["reason"], chosen["object"])
    recording["log"] = [
        one
        for one in recording["log"]
        if one["event"] != "EVENT" or (one["object"].get("reason"), one["object"].get("object")) != about
    ]


def another_teller(recording: Obj, rng: random.Random) -> None:
    chosen = rng.choice(events(recording))["object"]
    for one in events(recording):
        if (one["object"]["reason"], one["object"]["object"]) == (chosen["reason"], chosen["object"]):
            one["object"]["reportingController"] = "somebody"


def events(recording: Obj) -> list[Obj]:
    about = ("QuotaReserved", "Admitted", "MultiKueue", "CreatedWorkload")
    found = [one for one in recording["log"] if one["event"] == "EVENT" and one["cluster"] == "manager"]
    return [one for one in found if one["object"].get("reason") in about]


def something_that_stays(recording: Obj, rng: random.Random) -> None:
    gone = [
        position
        for position, one in enumerate(recording["log"])
        if one["event"] == "DELETED" and one["cluster"] == winner(recording) and one["kind"] != "Pod"
    ]
    del recording["log"][gone[-1 - rng.randrange(min(2, len(gone)))]]


def something_that_never_comes(recording: Obj, rng: random.Random) -> None:
    chosen = rng.choice(made(recording))
    about = (chosen["cluster"], chosen["kind"])
    recording["log"] = [one for one in recording["log"] if (one["cluster"], one["kind"]) != about]


def another_cluster(recording: Obj, rng: random.Random) -> None:
    for entry in ours(recording):
        if (entry["object"].get("status") or {}).get("clusterName"):
            entry["object"]["status"]["clusterName"] = "worker9"


def another_check_message(recording: Obj, rng: random.Random) -> None:
    for entry in ours(recording):
        for check in (entry["object"].get("status") or {}).get("admissionChecks") or []:
            if check["state"] == "Ready":
                check["message"] = "somewhere"


def another_owner_of_fields(recording: Obj, rng: random.Random) -> None:
    found = [one for one in recording["managedFields"] if one["cluster"] == "manager" and one["kind"] == "Workload"]
    told_by = [one for one in rng.choice(found)["managers"] if "admissionChecks" not in one["fields"][0]]
    rng.choice(told_by)["manager"] = "somebody"


NOTICED = (
    another_reason, another_message, another_status, a_condition_too_early, another_label, a_label_less, a_finalizer_more,
    an_event_more, an_event_less, another_teller, something_that_stays, something_that_never_comes, another_cluster,
    another_check_message, another_owner_of_fields,
)  # fmt: skip


def other_times(recording: Obj, rng: random.Random) -> None:
    late = 0.0
    for entry in recording["log"]:
        late += rng.random() * 20
        entry["t"] += late if entry["t"] > 0 else 0


def other_interleaving(recording: Obj, rng: random.Random) -> None:
    """Entries of different clusters some milliseconds apart in another order."""
    late = {cluster: rng.random() * 30 for cluster in ("manager", "worker1", "worker2")}
    for entry in recording["log"]:
        entry["t"] += late[entry["cluster"]] if entry["t"] > 0 else 0
    recording["log"].sort(key=lambda entry: entry["t"])


def other_numbers(recording: Obj, rng: random.Random) -> None:
    more = rng.randrange(10, 99)
    text = re.sub(r"<(h|uid-)(\d+)>", lambda match: f"<{match[1]}{int(match[2]) + more}>", json.dumps(recording))
    recording.update(json.loads(text))


def other_seconds(recording: Obj, rng: random.Random) -> None:
    more = rng.randrange(1, 9)
    text = re.sub(r'"T\+(\d+)s"', lambda match: f'"T+{int(match[1]) + more}s"', json.dumps(recording["log"]))
    recording["log"] = json.loads(re.sub(r"was \d+s", f"was {more}s", text))


def an_event_again(recording: Obj, rng: random.Random) -> None:
    position = rng.choice([at for at, one in enumerate(recording["log"]) if one["event"] == "EVENT"])
    recording["log"].insert(position, copy.deepcopy(recording["log"][position]))


def other_workers(recording: Obj, rng: random.Random) -> None:
    if recording["name"].startswith("13b"):
        return  # they are not alike there
    text = json.dumps([recording["log"], recording["managedFields"]])
    text = text.replace("worker1", "<>").replace("worker2", "worker1").replace("<>", "worker2")
    recording["log"], recording["managedFields"] = json.loads(text)


CHANCE = (other_times, other_interleaving, other_numbers, other_seconds, an_event_again, other_workers)


def differences(start: str, mutation: Mutation, seed: int) -> list[str]:
    recording = json.loads(text_of(start))
    mutation(recording, random.Random(f"{start}{mutation.__name__}{seed}"))
    return compared(recording, run_of(start))


@pytest.mark.soak
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("mutation", NOTICED, ids=lambda mutation: mutation.__name__)
def test_what_means_something_is_noticed(start: str, mutation: Mutation, tally: Tally) -> None:
    for seed in SEEDS:
        assert differences(start, mutation, seed) != []
    tally("mutants of recordings that are noticed", len(SEEDS))


@pytest.mark.soak
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("mutation", CHANCE, ids=lambda mutation: mutation.__name__)
def test_what_is_chance_is_not(start: str, mutation: Mutation, tally: Tally) -> None:
    for seed in SEEDS:
        assert differences(start, mutation, seed) == []
    tally("mutants of recordings that mean nothing", len(SEEDS))
