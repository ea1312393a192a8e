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
    "server": "here", "queues": [QUEUE], "clusters": [], "members": [], "placements": [], "jobs": [JOB],
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
        return " ".join(map(text_of, node))
    return text_of(node["children"]) if isinstance(node, dict) else str(node)


def test_a_job_shows_its_state_its_place_and_why_it_waits() -> None:
    shown = text_of(evaluate(f"page.jobsTable(state, {NOW})", state=STATE))
    assert "Job train default lq waits 3" in shown
    assert "Waiting in lq: <b>1</b> more needed" in shown, "text stays text"
    assert "3m" in shown


def test_a_queue_shows_why_it_is_stopped_and_what_is_borrowed() -> None:
    shown = text_of(evaluate(f"page.page(state, {NOW})", state=STATE))
    assert "not active: stopped" in shown
    assert "no LocalQueue feeds it" in shown
    assert "cpu (f)" in shown
    assert "3 of 2, 1 borrowed" in shown


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
    made = json.dumps(evaluate(f"page.jobsTable(state, {NOW})", state=STATE))
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
    empty = {**STATE, "queues": [], "jobs": [], "counts": counts, "matching": 0}
    shown = text_of(evaluate(f"page.page(state, {NOW})", state=empty))
    assert "There is no ClusterQueue that you may see; `corral queue create` makes one." in shown
    assert "Nothing was queued yet." in shown


def test_the_panel_has_the_advice_the_evidence_and_the_logs() -> None:
    pod = {"name": "train-x", "phase": "Running", "cluster": "worker1", "node": "", "containers": ["main"]}
    told = {"title": "Job train", "headline": "Waiting", "facts": ["one", "two"], "advice": "Do it", "pods": [pod]}
    shown = text_of(evaluate("page.jobPanel(told, {name: 'train-x/main', text: 'hello'})", told=told))
    for expected in (
        "Job train",
        "Waiting",
        "Do it",
        "one two",
        "train-x Running worker1",
        "Logs of train-x/main hello",
    ):
        assert expected in shown
