"""Recorded requests that nobody has seen before: what they took for granted is found from their answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from implied import impersonated, namespaces, place, preparations
from replay_errors import Unusable, load, replay

HERE = Path(__file__).parent
DATA = HERE.parent / "data" / "kube-errors.json"
NOT_TOLD = {
    "x-admission-policy-denied": "what the policy says",
    "x-webhook-unreachable": "what the webhook is called for",
    "x-eviction-blocked": "the disruption budget",
    "x-ssa-force-ok": "what a manager had applied besides",
    "x-pod-delete-graceful": "that the pod ran",
    "x-compacted-but-cached-list-exact": "which revision is old, but not too old",
    "x-old-rv-get": "what was changed before",
}
"""What an answer does not tell about the time before it."""


async def test_cases_of_any_name_are_prepared_by_what_their_answers_show(tmp_path: Path) -> None:
    recording = json.loads(DATA.read_text())
    for case in recording["cases"]:
        case["id"] = f"x-{case['id']}"
    path = tmp_path / "renamed.json"
    path.write_text(json.dumps(recording))
    passed, failed = await replay(path)
    assert {name for name, _ in failed} <= NOT_TOLD.keys()
    assert passed > 160


def case(method: str, path: str, status: int, *, body: object = None, message: str = "") -> dict[str, object]:
    request = {"method": method, "path": path, "body": body}
    return {"id": "c", "request": request, "status": status, "body": {"kind": "Status", "message": message}}


def test_a_place_is_a_collection_and_an_object_in_it() -> None:
    assert place("/api/v1/namespaces/n/pods/p/log?x=1") == ("/api/v1/namespaces/n/pods", "pods", "p", "log")
    assert place("/apis/apps/v1/deployments") == ("/apis/apps/v1/deployments", "deployments", "", "")
    assert place("/api/v1/namespaces/n") == ("/api/v1/namespaces", "namespaces", "n", "")


def test_what_exists_already_was_made_before() -> None:
    made = {"metadata": {"name": "a"}}
    one = case("POST", "/api/v1/namespaces/n/configmaps", 409, body=made, message='configmaps "a" already exists')
    assert list(preparations(one, [one])) == [("POST", "/api/v1/namespaces/n/configmaps", made)]


def test_what_is_not_found_was_not_made() -> None:
    one = case("GET", "/api/v1/namespaces/n/configmaps/a", 404, message='configmaps "a" not found')
    assert list(preparations(one, [one])) == []


def test_a_namespace_that_is_not_there_is_not_made() -> None:
    gone = case("POST", "/api/v1/namespaces/no/pods", 404, message='namespaces "no" not found')
    here = case("POST", "/api/v1/namespaces/yes/pods", 201)
    listed = case("GET", "/api/v1/namespaces/maybe/pods", 200)
    assert namespaces([gone, here, listed]) == {"yes"}


def test_a_quota_is_read_from_its_refusal() -> None:
    text = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    one = case("POST", "/api/v1/namespaces/n/pods", 403, body={}, message=text)
    assert [step[1] for step in preparations(one, [one])] == [
        "/api/v1/namespaces/n/resourcequotas",
        "/api/v1/namespaces/n/resourcequotas/q/status",
    ]


def test_whom_somebody_wanted_to_be_is_read_from_the_refusal() -> None:
    text = 'users "bob" is forbidden: User "alice" cannot impersonate resource "users" in API group "" at the cluster scope'
    assert impersonated(case("GET", "/api/v1/namespaces/n/pods", 403, message=text)) == "bob"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "cannot be read"),
        ("{}", "holds no list of cases"),
        ('{"cases": [{"request": {"method": "GET"}}]}', "case 1 says no method, path or status"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_a_sentence(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(Unusable, match=said):
        load(path)


def test_bad_files_count_as_failed(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("[")
    done = subprocess.run([sys.executable, str(HERE / "replay_errors.py"), str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "0 passed, 1 failed")
    assert "Traceback" not in done.stderr
