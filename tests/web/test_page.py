"""What the page makes of the answers: its own functions, run by node, which know no browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.resources import files
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

PAGE = files("corral.dashboard").joinpath("page.mjs")
NOW = "Date.parse('2026-11-16T10:00:00Z')"
JOB = {
    "namespace": "default",
    "workload": "job-train-1",
    "kind": "Job",
    "name": "train",
    "queue": "lq",
    "clusterQueue": "team",
    "state": "pending",
    "failed": False,
    "cluster": "",
    "priority": 0,
    "ahead": 3,
    "created": "2026-11-16T09:57:00Z",
    "why": "Waiting in lq: <b>1</b> more needed",
    "advice": "",
}
QUOTA = {"flavor": "f", "resource": "cpu", "quota": "2", "used": "3", "borrowed": "1", "share": 1.5}
QUEUE = {
    "name": "team",
    "cohort": "all",
    "active": False,
    "message": "stopped",
    "pending": 1,
    "admitted": 2,
    "localQueues": [],
    "quotas": [QUOTA],
}
STATE: dict[str, Any] = {
    "server": "here", "queues": [QUEUE], "clusters": [], "members": [], "placements": [], "jobs": [JOB], "left_off": 0
}  # fmt: skip


def evaluate(expression: str, **values: Any) -> Any:
    """An expression in JavaScript with the page's functions and `values` at hand."""
    given = "".join(f"const {name} = {json.dumps(value)};" for name, value in values.items())
    script = f"import * as page from {json.dumps(str(PAGE))};{given}console.log(JSON.stringify({expression}))"
    command = ["node", "--input-type=module", "-e", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def text_of(node: Any) -> str:
    if isinstance(node, list):
        return " ".join(map(text_of, node))
    return text_of(node["children"]) if isinstance(node, dict) else str(node)


def test_a_job_shows_its_state_its_place_and_why_it_waits() -> None:
    shown = text_of(evaluate(f"page.jobsTable(state, {{}}, {NOW})", state=STATE))
    assert "Job train default lq waits 3" in shown
    assert "Waiting in lq: <b>1</b> more needed" in shown, "text stays text"
    assert "3m" in shown


def test_a_queue_shows_why_it_is_stopped_and_what_is_borrowed() -> None:
    shown = text_of(evaluate(f"page.page(state, {{}}, {NOW})", state=STATE))
    assert "not active: stopped" in shown
    assert "no LocalQueue feeds it" in shown
    assert "cpu (f)" in shown
    assert "3 of 2, 1 borrowed" in shown


def test_a_failed_job_is_not_shown_as_merely_finished() -> None:
    failed = {**STATE, "jobs": [{**JOB, "state": "finished", "failed": True}]}
    assert "failed" in text_of(evaluate(f"page.jobsTable(state, {{}}, {NOW})", state=failed))


@pytest.mark.parametrize(
    ("text", "state", "found"),
    [("", "", 1), ("TRAIN lq", "", 1), ("train other", "", 0), ("", "pending", 1), ("", "finished", 0)],
)
def test_jobs_are_filtered_by_words_and_state(text: str, state: str, found: int) -> None:
    assert len(evaluate("page.chosen(jobs, filter)", jobs=[JOB], filter={"text": text, "state": state})) == found


def test_an_empty_cluster_says_what_to_do() -> None:
    empty = {**STATE, "queues": [], "jobs": []}
    shown = text_of(evaluate(f"page.page(state, {{}}, {NOW})", state=empty))
    assert "There is no ClusterQueue that you may see; `corral queue create` makes one." in shown
    assert "Nothing was queued yet." in shown


def test_the_panel_has_the_advice_the_evidence_and_the_logs() -> None:
    pod = {"name": "train-x", "phase": "Running", "cluster": "worker1", "node": "", "containers": ["main"]}
    told = {"headline": "Waiting", "facts": ["one", "two"], "advice": "Do it", "pods": [pod]}
    shown = text_of(evaluate("page.jobPanel('Job train', told, {name: 'train-x/main', text: 'hello'})", told=told))
    for expected in (
        "Job train",
        "Waiting",
        "Do it",
        "one two",
        "train-x Running worker1",
        "Logs of train-x/main hello",
    ):
        assert expected in shown
