"""The player of MultiKueue recordings: it plays what it has not seen, notices what differs, and says plainly what it cannot use."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from multikueue.recording import Measurements, Unusable, load
from replay_multikueue import replay

HERE = Path(__file__).parent
RECORDINGS = HERE.parent / "data" / "multikueue"
Obj = dict[str, Any]


def text_of(start: str) -> str:
    (path,) = RECORDINGS.glob(f"{start}*.json")
    return path.read_text()


FIRST: Obj = json.loads(text_of("01-"))


def changed(change: Callable[[Obj], object]) -> Obj:
    recording = copy.deepcopy(FIRST)
    change(recording)
    return recording


@pytest.mark.parametrize("start", ["01-", "06-", "12d", "17c"])
def test_workers_may_have_any_name(start: str) -> None:
    assert replay(json.loads(text_of(start).replace("worker1", "east").replace("worker2", "west-2"))) == ""


@pytest.mark.parametrize("start", ["08d", "11-"])
def test_namespaces_queues_and_jobs_may_have_any_name(start: str) -> None:
    names = {"team-a": "research", "sample-job": "train-it", "user-queue": "q1"}
    text = text_of(start)
    for old, new in names.items():
        text = text.replace(old, new)
    assert replay(json.loads(text)) == ""


@pytest.mark.parametrize(
    ("start", "speed"), [("08c", 0.5), ("12d", 0.6), ("13b", 0.6), ("13b", 1.5), ("14-", 0.6), ("16b", 1.8)]
)
def test_the_machine_may_have_been_faster_or_slower(start: str, speed: float) -> None:
    recording = json.loads(text_of(start))
    for entry in (*recording["steps"], *recording["log"]):
        entry["t"] *= speed if entry["t"] > 0 else 1
    assert replay(recording) == ""


def test_a_cluster_that_is_not_configured_stays_out_of_it() -> None:
    def add_worker(recording: Obj) -> None:
        recording["setup"] += [
            {**entry, "cluster": "worker3"} for entry in recording["setup"] if entry["cluster"] == "worker1"
        ]

    assert replay(changed(add_worker)) == ""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'multikueue-origin": "multikueue"',
            'multikueue-origin": "elsewhere"',
            "label kueue.x-k8s.io/multikueue-origin",
        ),
        ("kueue.x-k8s.io/resource-in-use", "kueue.x-k8s.io/in-use", "finalizer kueue.x-k8s.io/in-use"),
        ("kueue-job-controller-PodsReady", "somebody", "field managers: kueue-job-controller-PodsReady Apply"),
        ('"operation": "Apply"', '"operation": "Update"', "field managers: kueue-admission Apply"),
        ("Reached expected number of succeeded pods", "Done", "condition SuccessCriteriaMet"),
        ("prebuilt-workload-name", "prebuilt", "annotation kueue.x-k8s.io/prebuilt"),
        ('"reason": "FinishedWorkload"', '"reason": "Over"', "Event Job/team-a/sample-job Over"),
        ("batch/job-kueue-controller", "somebody", "by somebody"),
    ],
)
def test_what_differs_is_said(old: str, new: str, said: str) -> None:
    text = json.dumps(FIRST)
    assert old in text
    assert said in replay(json.loads(text.replace(old, new)))


def test_the_last_status_of_a_queue_counts() -> None:
    def change(recording: Obj) -> None:
        last = [entry for entry in recording["log"] if entry["kind"] == "LocalQueue" and entry["cluster"] == "manager"][
            -1
        ]
        last["object"]["status"]["admittedWorkloads"] = 3

    assert "status.admittedWorkloads: recorded ['1', '3']" in replay(changed(change))


def test_the_order_of_conditions_counts() -> None:
    def change(recording: Obj) -> None:
        admitted = next(entry for entry in recording["log"] if _shows(entry, "Admitted"))
        extra = {"type": "Evicted", "status": "True", "reason": "Why", "message": "", "lastTransitionTime": "T+1s"}
        admitted["object"]["status"]["conditions"].append(extra)

    assert "order of conditions" in replay(changed(change))


def _shows(entry: Obj, kind: str) -> bool:
    conditions = (entry["object"].get("status") or {}).get("conditions") or []
    return entry["kind"] == "Workload" and entry["cluster"] == "manager" and any(c["type"] == kind for c in conditions)


def test_what_a_step_read_counts() -> None:
    said = replay(changed(lambda recording: recording["steps"][0].update(stored={"managedBy": "somebody"})))
    assert said.startswith("step 'create Job sample-job' read stored {'managedBy': 'somebody'}, here it is")


def test_a_step_nobody_knows_is_said() -> None:
    said = replay(changed(lambda recording: recording["steps"].append({"t": 500, "do": "dance"})))
    assert said == "step 'dance': recorded None , here 400 the player of recordings does not know this step"


@pytest.mark.parametrize(
    "words", ["wait for nothing in particular", "verify that it runs", "10 s later", "sleep 2s", "check the state"]
)
def test_what_the_recorder_did_for_itself_is_no_step(words: str) -> None:
    assert replay(changed(lambda recording: recording["steps"].append({"t": 500, "do": words}))) == ""


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("Secret of worker2: deleted", "BadKubeConfig"),
        ("Secret worker1-secret: kubeconfig is garbage", "InsecureKubeConfig"),
        ("break the kubeconfig of worker2: wrong bearer token", "ClientConnectionFailed"),
        ("kill the API server of worker2", "ClientConnectionFailed"),
    ],
)
def test_clusters_are_lost_in_the_words_of_a_step(words: str, reason: str) -> None:
    said = replay(changed(lambda recording: recording["steps"].append({"t": 9000, "do": words})))
    assert "condition Active: recorded None" in said
    assert f"False/{reason}" in said


def test_credentials_may_be_rotated() -> None:
    step = {"t": 1500, "do": "rotate the credentials of worker1"}
    assert replay(changed(lambda recording: recording["steps"].append(step))) == ""


@pytest.mark.parametrize("word", ["restart Kueue on the manager", "restart the controllers of the manager"])
def test_controllers_may_be_restarted(word: str) -> None:
    assert replay(changed(lambda recording: recording["steps"].append({"t": 20000, "do": word}))) == ""


def test_a_worker_may_lack_the_namespace() -> None:
    def lack(recording: Obj) -> None:
        for part in ("setup", "log", "managedFields"):
            recording[part] = [entry for entry in recording[part] if entry["cluster"] != "worker2"]

    assert replay(changed(lack)) == ""


def test_a_kind_nobody_knows_is_said() -> None:
    said = replay(changed(lambda recording: recording["setup"][0]["object"].update(kind="Nonsense")))
    assert "there is no kind 'Nonsense' here" in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not JSON, or cut off: Expecting value in line 1"),
        (json.dumps(FIRST).encode()[:3000], "is not JSON, or cut off"),
        (b"\x80\xff", "is not a text file"),
        (b"[]", "is not a recording: it holds no JSON object"),
        (json.dumps({**FIRST, "steps": None}).encode(), "is not a recording: it has no list 'steps'"),
        (json.dumps({**FIRST, "log": [{"t": 1}]}).encode(), "is not a recording: entry 1 of 'log' says no 'cluster'"),
        (
            json.dumps({**FIRST, "log": [{**FIRST["log"][0], "object": {}}]}).encode(),
            "is not a recording: entry 1 of 'log' names no object",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_a_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(Unusable, match="^" + said.replace("[", r"\[")):
        load(path)


def test_measurements_are_no_scenario(tmp_path: Path) -> None:
    path = tmp_path / "throughput.json"
    path.write_text(json.dumps({"name": "throughput", "versions": {}, "runs": []}))
    with pytest.raises(Measurements):
        load(path)


def test_bad_files_count_as_failed(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    script = HERE / "replay_multikueue.py"
    (good,) = RECORDINGS.glob("17c*.json")
    done = subprocess.run(
        [sys.executable, str(script), str(bad), str(tmp_path / "none.json"), str(good)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "FAIL bad: is not JSON, or cut off: Expecting property name enclosed in double quotes in line 1",
        "FAIL none: cannot be read: No such file or directory",
        "ok   17c-worker-loses-crd",
        "1 passed, 2 failed",
    ]
