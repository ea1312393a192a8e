"""What the page makes of the answers: its own functions, run by node, which know no browser."""

from __future__ import annotations

import json
import re
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
    "stopped": False,
    "cluster": "",
    "priority": 0,
    "ahead": 3,
    "created": "2026-11-16T09:57:00Z",
    "started": "",
    "ended": "",
    "needs": {"cpu": "1500m", "memory": "2048Mi", "nvidia.com/gpu": "2"},
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
    "weightedShare": 0,
    "localQueues": [],
    "quotas": [QUOTA],
}
COHORTS = [
    {
        "name": "all",
        "parent": "",
        "depth": 0,
        "quotas": [{**QUOTA, "quota": "8", "used": "5", "borrowed": "0", "share": 0.625}],
    }
]
STATE: dict[str, Any] = {
    "server": "here", "queues": [QUEUE], "cohorts": COHORTS, "clusters": [], "members": [], "placements": [], "jobs": [JOB],
    "counts": {"pending": 1, "quotaReserved": 0, "admitted": 300, "finished": 0},
    "matching": 1, "first": 0, "page": 0, "pages": 1,
}  # fmt: skip


def evaluate(expression: str, before: str = "", **values: Any) -> Any:
    """An expression in JavaScript with the page's functions and `values` at hand."""
    given = "".join(f"const {name} = {json.dumps(value)};" for name, value in values.items())
    script = f"import * as page from {json.dumps(str(PAGE))};{before}{given}console.log(JSON.stringify({expression}))"
    command = ["node", "--input-type=module", "-e", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def text_of(node: Any) -> str:
    if isinstance(node, list):
        return " ".join(filter(None, map(text_of, node)))
    return text_of(node["children"]) if isinstance(node, dict) else str(node)


def test_a_job_shows_its_state_its_place_and_why_it_waits() -> None:
    shown = text_of(evaluate(f"page.jobsTable(state, {NOW})", state=STATE))
    assert "Job train lq waits 3 1.5 cpu, 2Gi, 2 gpu" in shown, (
        "where all are alike, nothing is said of namespace, cluster and priority"
    )
    assert "Waiting in lq: <b>1</b> more needed" in shown, "text stays text"
    assert "3m" in shown


def test_a_queue_shows_why_it_is_stopped_and_what_is_borrowed() -> None:
    shown = text_of(evaluate(f"page.page(state, {NOW})", state=STATE))
    assert "not active: stopped" in shown
    assert "no LocalQueue feeds it" in shown
    assert "cpu 3 of 2, 1 borrowed" in shown
    assert "cohort all  together cpu 5 of 8" in shown
    two = {**QUEUE, "cohort": "", "quotas": [QUOTA, {**QUOTA, "flavor": "spot"}]}
    shown = text_of(evaluate(f"page.page(state, {NOW})", state={**STATE, "queues": [two], "cohorts": []}))
    assert "cpu (f) 3 of 2" in shown, "a flavor is named where there are several"


def test_a_failed_job_is_not_shown_as_merely_finished() -> None:
    failed = {**STATE, "jobs": [{**JOB, "state": "finished", "failed": True}]}
    assert "failed" in text_of(evaluate(f"page.jobsTable(state, {NOW})", state=failed))


def test_pages_are_numbered_and_states_are_counted() -> None:
    second = {**STATE, "matching": 301, "first": 100, "page": 1, "pages": 4}
    shown = text_of(evaluate(f"page.page(state, {NOW})", state=second))
    assert "101 to 101 of 301 previous next" in shown
    assert "admitted (300)" in shown
    none = text_of(evaluate(f"page.page(state, {NOW})", state={**STATE, "jobs": [], "matching": 0}))
    assert "No job matches." in none


def test_a_cell_knows_its_column_for_narrow_screens() -> None:
    placed = {**STATE, "jobs": [{**JOB, "cluster": "w"}]}
    made = json.dumps(evaluate(f"page.jobsTable(state, {NOW})", state=placed))
    for column in ("Job", "State", "Cluster", "Why"):
        assert f'"data-label": "{column}"' in made


DOCUMENT = """
class Text { constructor(data) { this.nodeType = 3; this.data = data; this.written = 0; }
  appendData(more) { this.data += more; } }
class Element { constructor(tag) { this.nodeType = 1; this.localName = tag; this.a = {}; this.childNodes = []; this.moved = 0; }
  getAttribute(name) { return this.a[name] ?? null; } setAttribute(name, value) { this.a[name] = String(value); }
  removeAttribute(name) { delete this.a[name]; } getAttributeNames() { return Object.keys(this.a); }
  append(...nodes) { for (const node of nodes) this.insertBefore(node, null); }
  get firstChild() { return this.childNodes[0] ?? null; }
  insertBefore(node, at) { if (node.parent) { node.moved += 1; node.remove(); } node.parent = this;
    this.childNodes.splice(at ? this.childNodes.indexOf(at) : this.childNodes.length, 0, node); } }
for (const kind of [Text, Element]) {
  kind.prototype.remove = function () { this.parent.childNodes = this.parent.childNodes.filter((one) => one !== this); this.parent = null; };
  Object.defineProperty(kind.prototype, "nextSibling", { get() { const all = this.parent.childNodes; return all[all.indexOf(this) + 1] ?? null; } });
}
globalThis.document = { createElement: (tag) => new Element(tag), createTextNode: (data) => new Text(data) };
const shown = (node) => node.nodeType === 3 ? node.data : `<${node.localName}>${node.childNodes.map(shown).join("")}</${node.localName}>`;
"""


def test_what_has_not_changed_stays_the_same_element_where_it_is() -> None:
    script = """(() => {
        const { el, morph } = page, root = document.createElement("main");
        const row = (key, text) => el("tr", { "data-key": key }, el("td", {}, text));
        morph(root, [el("p", {}, "one"), row("a", "1"), row("b", "2"), row("c", "3")]);
        const [p, a, b, c] = root.childNodes, letters = b.childNodes[0].childNodes[0];
        morph(root, [el("p", {}, "two"), row("b", "2 and more"), row("c", "3"), row("d", "4")]);
        const [p2, b2, c2, d] = root.childNodes;
        return [shown(root), p === p2, b === b2, c === c2, b.moved + c.moved, letters === b2.childNodes[0].childNodes[0]];
    })()"""
    text = "<p>two</p><tr><td>2 and more</td></tr><tr><td>3</td></tr><tr><td>4</td></tr>"
    assert evaluate(script, before=DOCUMENT) == [f"<main>{text}</main>", True, True, True, 0, True]


def test_rows_that_change_places_are_moved_and_others_are_made() -> None:
    script = """(() => {
        const { el, morph } = page, root = document.createElement("main");
        const rows = (...keys) => keys.map((key) => el("tr", { "data-key": key, class: key }, key));
        for (const keys of [["a", "b", "c"], ["c", "a"], [], ["x", "c", "b", "a"]]) morph(root, rows(...keys));
        morph(root, [...rows("b", "a", "x"), el("p", {}, "end"), "text"]);
        return shown(root);
    })()"""
    assert evaluate(script, before=DOCUMENT) == "<main><tr>b</tr><tr>a</tr><tr>x</tr><p>end</p>text</main>"


def test_an_empty_cluster_says_what_to_do() -> None:
    counts = dict.fromkeys(STATE["counts"], 0)
    empty = {**STATE, "queues": [], "cohorts": [], "jobs": [], "counts": counts, "matching": 0}
    shown = text_of(evaluate(f"page.page(state, {NOW})", state=empty))
    assert "There is no ClusterQueue that you may see; `corral queue create` makes one." in shown
    assert "Nothing was queued yet. `corral run train.py` runs a script as a job." in shown


TOLD: dict[str, Any] = {
    "title": "Job default/train",
    "headline": "Waiting",
    "facts": ["one", "two"],
    "advice": "Do it",
    "state": "admitted",
    "stopped": False,
    "needs": {"cpu": "1"},
    "created": "2026-11-16T09:00:00Z",
    "started": "2026-11-16T09:10:00Z",
    "ended": "",
    "pods": [{"name": "train-x", "phase": "Running", "cluster": "worker1", "node": "", "containers": ["main", "side"]}],
}
ROUTE = {"namespace": "default", "workload": "job-train", "tab": ""}


def panel(tab: str, told: dict[str, Any] = TOLD, **more: Any) -> Any:
    route = {**ROUTE, "tab": tab}
    return evaluate(f"page.jobPanel(told, route, {NOW}, more)", told=told, route=route, more=more)


def test_the_panel_has_the_advice_the_evidence_and_the_pods() -> None:
    shown = text_of(panel(""))
    for expected in ("Job default/train", "Waiting", "Do it", "one two", "train-x Running worker1"):
        assert expected in shown
    assert "queued 60m ago · waited 10m · runs for 50m · needs 1 cpu" in shown
    assert "#default/job-train/logs/train-x/side" in json.dumps(panel(""))


def test_logs_can_be_chosen_searched_and_taken_along() -> None:
    log = {"name": "train-x/main", "text": "loss 1\nsaved\nLOSS 2\n", "grep": "", "address": "/api/logs?all="}
    assert "loss 1\nsaved" in text_of(panel("logs", log=log))
    found = panel("logs", log={**log, "grep": "loss"})
    assert "loss 1\nLOSS 2" in text_of(found)
    assert '"href": "/api/logs?all=", "download": "train-x-main.log"' in json.dumps(found)
    assert "It has no pods now, and so no logs." in text_of(panel("logs", {**TOLD, "pods": []}))


def test_events_and_yaml_have_tabs_of_their_own() -> None:
    event = {
        "when": "2026-11-16T09:58:00Z",
        "type": "Warning",
        "reason": "Failed",
        "object": "Pod x",
        "message": "no",
        "count": 3,
    }
    assert "2m ago (3×) Failed Pod x no" in text_of(panel("events", events=[event]))
    assert "kind: Job" in text_of(panel("yaml", yaml="kind: Job"))


@pytest.mark.parametrize(
    ("state", "stopped", "actions"),
    [
        ("pending", False, ["cancel", "delete"]),
        ("admitted", False, ["cancel", "delete"]),
        ("pending", True, ["resume", "retry", "delete"]),
        ("finished", False, ["retry", "delete"]),
    ],
)
def test_what_can_be_done_follows_from_how_far_a_job_is(state: str, stopped: bool, actions: list[str]) -> None:
    job = {**TOLD, "state": state, "stopped": stopped}
    shown = panel("", job)
    assert re.findall(r'"data-act": "(\w+)"', json.dumps(shown)) == actions
    assert "data-act" not in json.dumps(panel("", job, readOnly=True))


def test_time_is_drawn_from_the_queue_to_the_end() -> None:
    job = {**JOB, "created": "2026-11-16T09:00:00Z", "started": "2026-11-16T09:15:00Z", "ended": "2026-11-16T09:30:00Z"}
    drawn = evaluate(f"page.timeline(job, Date.parse(job.created), {NOW})", job=job)
    pieces = [
        (one["attributes"]["class"], one["attributes"]["x"], one["attributes"]["width"])
        for one in drawn["children"][1:]
    ]
    assert pieces == [("queued", 0, 250), ("ran", 250, 250)]
    assert text_of(drawn) == "waited 15m, ran 15m"
    shown = text_of(evaluate(f"page.jobsTable(state, {NOW}, {{view: 'timeline'}})", state={**STATE, "jobs": [job]}))
    assert "Time, from 60m ago until now" in shown


def test_columns_say_by_which_and_which_way_they_are_sorted() -> None:
    made = json.dumps(evaluate(f"page.jobsTable(state, {NOW}, {{sort: '-created'}})", state=STATE))
    assert '"aria-sort": "descending"' in made
    assert made.count("aria-sort") == 1


def test_when_a_job_starts_counts_down_from_when_it_was_foreseen() -> None:
    forecast = {
        "at": "2026-11-16T09:59:00Z",
        "starts": {"default/Job/train": 3660},
        "aheadSeconds": 86400,
        "assumed": 2,
        "assumedSeconds": 3600,
    }
    shown = text_of(evaluate(f"page.page(state, {NOW}, {{forecast}})", state=STATE, forecast=forecast))
    assert "Starts Waited" in shown
    assert "in 60m 3m" in shown
    assert "2 do not say how long they run, and are taken to run 60m" in shown
    told = f"[job, {{...job, name: 'other'}}, {{...job, state: 'admitted'}}].map((one) => page.starts(one, {NOW}, forecast))"
    assert evaluate(told, job=JOB, forecast=forecast) == ["in 60m", "not in 24h", ""]
    assert evaluate(f"page.starts(job, {NOW} + 4e6, forecast)", job=JOB, forecast=forecast) == "any moment"
    assert "Starts" not in text_of(evaluate(f"page.page(state, {NOW})", state=STATE))
    wrong = text_of(evaluate(f"page.page(state, {NOW}, {{noForecast: 'too many'}})", state=STATE))
    assert "too many" in wrong


def test_what_went_wrong_lately_can_be_opened_and_stays_open() -> None:
    warning = {
        "when": "2026-11-16T09:58:00Z",
        "type": "Warning",
        "reason": "NoSuchPriority",
        "namespace": "team",
        "object": "Job lost",
        "message": "no",
        "count": 1,
    }
    shown = text_of(evaluate(f"page.page(state, {NOW}, {{warnings: [warning]}})", state=STATE, warning=warning))
    assert "1 warning , the latest 2m ago" in shown
    assert "2m ago NoSuchPriority Job lost in team no" in shown
    script = """(() => {
        const { el, morph } = page, root = document.createElement("main");
        morph(root, [el("details", {}, "one")]);
        root.childNodes[0].setAttribute("open", "");
        morph(root, [el("details", {}, "two")]);
        return [shown(root), root.childNodes[0].getAttribute("open")];
    })()"""
    assert evaluate(script, before=DOCUMENT) == ["<main><details>two</details></main>", ""]


def test_a_worker_shows_what_of_it_is_in_use() -> None:
    one = {
        "name": "w",
        "active": True,
        "message": "",
        "running": 2,
        "asked": 0,
        "used": {"cpu": "3", "memory": "8Gi", "pods": "2"},
    }
    state = {**STATE, "clusters": [one]}
    told = "page.page(state, 0, {capacities})"
    known = text_of(
        evaluate(
            told, state=state, capacities={"w": {"has": {"cpu": "4", "memory": "16384Mi"}, "nodes": 1, "ready": 1}}
        )
    )
    assert "w connected 2 0 cpu 3 of 4 memory 8Gi of 16Gi" in known
    assert "not ready" not in known
    ill = text_of(evaluate(told, state=state, capacities={"w": {"has": {"cpu": "4"}, "nodes": 3, "ready": 1}}))
    assert "cpu 3 of 4 2 of 3 nodes not ready" in ill
    unknown = text_of(evaluate(told, state=state, capacities={"w": {"unknown": "what it holds is not yours to see"}}))
    assert "3 cpu, 8Gi memory what it holds is not yours to see" in unknown
    assert evaluate("[page.ratio('512Mi', '1Gi'), page.ratio('500m', '2'), page.ratio('1', '0')]") == [0.5, 0.25, 0]


def test_the_address_leads_to_a_job_its_tab_and_its_container_or_to_a_cluster() -> None:
    routes = evaluate("['#', '#ns%2Fjob', '#ns/job/logs/p/c', '#@w', '#@'].map(page.routeOf)")
    assert routes[0] == {}
    assert (routes[1]["namespace"], routes[1]["workload"], routes[1]["tab"]) == ("ns", "job", "")
    assert (routes[2]["tab"], routes[2]["pod"], routes[2]["container"]) == ("logs", "p", "c")
    assert routes[3:] == [{"cluster": "w"}, {"cluster": ""}]


def test_nodes_show_what_pods_ask_of_them() -> None:
    resources = [{"resource": "a/gpu", "has": "4", "used": "3", "share": 0.75}]
    node = {
        "name": "n1",
        "ready": True,
        "unschedulable": True,
        "taints": [],
        "labels": ["zone=a"],
        "resources": resources,
        "pods": ["d/p"],
    }
    assert "n1 cordoned gpu 3 of 4 1 zone=a" in text_of(
        evaluate("page.nodesPanel(told)", told={"title": "Cluster w", "nodes": [node]})
    )
