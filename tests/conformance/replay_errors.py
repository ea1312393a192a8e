"""Replay recorded requests against a fresh server and compare the answers: code, reason, causes, message, headers.

    python tests/conformance/replay_errors.py tests/data/kube-errors.json [more files] [--verbose] [--only ID]

A file holds the cases in the order they were recorded on a real kube-apiserver. What the recording took for granted (its
namespace, users, a custom kind, an object here and there) is set up by `world.py`; what no two runs share (uids, times,
revisions, generated names) is masked on both sides. DELIBERATE names the few differences we want.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from yarl import URL

sys.path.insert(0, str(Path(__file__).parent))

from world import World

Case = dict[str, Any]

DELIBERATE: dict[str, str] = {
    "wl-v1beta1-read-of-v1beta2": "recorded without Kueue's conversion webhook; Corral converts between its versions",
}
"""Case id -> why Corral answers differently on purpose."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_VOLATILE = {
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "selfLink",
    "continue",
}
_PATTERNS = (
    (_UUID, "<uid>"),
    (_TIME, "<time>"),
    (re.compile(r'(resourceVersion\\*": ?\\*")\d+'), r"\1<rv>"),
    (re.compile(r"current: \d+"), "current: <rv>"),
    (re.compile(r"too old resource version: \d+ \(\d+\)"), "too old resource version: <rv>"),
    (re.compile(r"in record \(\d+\)"), "in record (<rv>)"),
    (re.compile(r"kube-api-access-[a-z0-9]{5}"), "kube-api-access-<suffix>"),
    (re.compile(r"scheme \\?\"[^\"]*scheme.go:\d+\\?\""), "scheme <file>"),
    (re.compile(r'"managedFields\\*":\[.*?\]\}'), "<managedFields>"),
    (re.compile(r'managedFields\\+":\[.*?\}\]'), "<managedFields>"),
)


class Answer(NamedTuple):
    status: int
    headers: dict[str, list[str]]
    body: Any


def mask(value: Any, generated: str = "") -> Any:
    """`value` without what differs between any two runs."""
    if isinstance(value, dict):
        return {
            key: "<volatile>" if key in _VOLATILE else mask(item, generated)
            for key, item in value.items()
            if key != "managedFields"
        }
    if isinstance(value, list):
        return [mask(item, generated) for item in value]
    if isinstance(value, str):
        for pattern, instead in _PATTERNS:
            value = pattern.sub(instead, value)
        if generated:
            value = re.sub(re.escape(generated) + r"[a-z0-9]{5}", generated + "<suffix>", value)
    return value


def body_of(request: dict[str, Any]) -> bytes | None:
    """The bytes to send; bodies too large to record are described by their size."""
    body = request.get("body")
    if body is None:
        return None
    if isinstance(body, str):
        described = re.fullmatch(r"<(\d+) bytes of JSON>", body)
        return _large_body(request, int(described[1])) if described else body.encode()
    return json.dumps(body).encode()


def _large_body(request: dict[str, Any], size: int) -> bytes:
    if "podtemplates" in request["path"]:
        obj: Any = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "huge"},
            "template": {
                "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": ""}]}]},
            },
        }
        fill = size - len(json.dumps(obj))
        obj["template"]["spec"]["containers"][0]["env"][0]["value"] = "x" * fill
    else:
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "huge"}, "data": {"k": ""}}
        obj["data"]["k"] = "x" * (size - len(json.dumps(obj)))
    return json.dumps(obj).encode()


async def send(session: aiohttp.ClientSession, world: World, case: Case) -> Answer:
    request = case["request"]
    headers = {"User-Agent": world.agent, **world.headers(request.get("user") or "admin", case)}
    headers.update(request.get("headers") or {})
    if request.get("accept"):
        headers["Accept"] = request["accept"]
    elif "accept" not in request:
        headers["Accept"] = "application/json"
    if request.get("contentType"):
        headers["Content-Type"] = request["contentType"]
    url = URL(world.url + world.path(case), encoded=True)
    skip = [] if request.get("contentType") else ["Content-Type"]
    async with session.request(
        request["method"], url, data=body_of(request), headers=headers, skip_auto_headers=skip
    ) as answer:
        raw = await answer.read()
        named: dict[str, list[str]] = {}
        for key, value in answer.headers.items():
            named.setdefault(key, []).append(value)
        return Answer(answer.status, named, _parse(raw, answer.headers.get("Content-Type", "")))


def _parse(raw: bytes, content_type: str) -> Any:
    if content_type.startswith("application/json"):
        try:
            return json.loads(raw)
        except ValueError:
            return raw.decode("latin-1")
    return raw.decode("latin-1")


def differences(case: Case, answer: Answer) -> list[str]:
    """What is not as recorded, in words."""
    found = []
    if case["status"] != answer.status:
        found.append(f"status {answer.status}, not {case['status']}")
    wanted = case["body"] if "body" in case else case.get("bodyText", "")
    body = case["request"].get("body")
    generated = ((body.get("metadata") or {}).get("generateName") or "") if isinstance(body, dict) else ""
    compare(in_order(mask(wanted, generated)), in_order(mask(answer.body, generated)), "", found)
    recorded = case.get("headers") or {}
    for name in ("Content-Type", "Retry-After", "Allow", "X-Content-Type-Options"):
        if name in recorded and [recorded[name]] != answer.headers.get(name):
            found.append(f"header {name}: {answer.headers.get(name)}, not {recorded[name]}")
    warnings = case.get("warnings", recorded.get("Warning", []))
    if list(warnings) != answer.headers.get("Warning", []):
        found.append(f"warnings {answer.headers.get('Warning', [])}, not {warnings}")
    return found


def in_order(body: Any) -> Any:
    """An error with its causes sorted, in the message too: a real server reports them in the order of a Go map."""
    causes = (body.get("details") or {}).get("causes") if isinstance(body, dict) else None
    if not causes or len(causes) < 2:
        return body
    ordered = sorted(causes, key=lambda cause: (str(cause.get("field")), str(cause.get("message"))))
    head, bracket, _ = str(body.get("message")).partition(" is invalid: [")
    message = head + bracket + ", ".join(f"{c.get('field')}: {c.get('message')}" for c in ordered) if bracket else head
    return {**body, "message": message, "details": {**body["details"], "causes": ordered}}


def compare(wanted: Any, got: Any, path: str, found: list[str]) -> None:
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key in sorted({*wanted, *got}):
            here = f"{path}.{key}"
            if key not in got:
                found.append(f"{here} is missing, wanted {wanted[key]!r}")
            elif key not in wanted:
                found.append(f"{here} is too much: {got[key]!r}")
            else:
                compare(wanted[key], got[key], here, found)
    elif isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        for index, (one, other) in enumerate(zip(wanted, got, strict=True)):
            compare(one, other, f"{path}[{index}]", found)
    elif wanted != got:
        found.append(f"{path or 'body'} is {got!r}, wanted {wanted!r}")


class Unusable(Exception):
    """The file holds no recorded requests."""


def load(path: Path) -> list[Case]:
    """The recorded requests in a file; raises Unusable with a plain sentence."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Unusable(f"cannot be read: {error}") from None
    cases = document.get("cases") if isinstance(document, dict) else document
    if not isinstance(cases, list):
        raise Unusable("holds no list of cases")
    found = [case for case in cases if isinstance(case, dict) and isinstance(case.get("request"), dict)]
    for number, case in enumerate(found, start=1):
        case.setdefault("id", f"case {number}")
        if not {"method", "path"} <= case["request"].keys() or not isinstance(case.get("status"), int):
            raise Unusable(f"{case['id']} says no method, path or status")
    return found


async def replay(
    path: Path, only: str = "", verbose: bool = False, state: Path | None = None, fronts: int = 0
) -> tuple[int, list[tuple[str, list[str]]]]:
    """Replay one file; returns how many cases passed, and the failures with their differences."""
    cases = load(path)
    passed, failed = 0, []
    async with (
        World(cases, state, fronts) as world,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
    ):
        for case in cases:
            await world.before(case)
            try:
                answer = await send(session, world, case)
            except aiohttp.ClientError as error:  # the others are still replayed
                failed.append((case["id"], [f"was not answered: {error}"]))
                continue
            problems = differences(case, answer)
            if only and case["id"] != only:
                continue
            if not problems or case["id"] in DELIBERATE:
                passed += 1
            else:
                failed.append((case["id"], problems))
            if verbose and only:
                print(json.dumps(answer.body, indent=1) if not isinstance(answer.body, str) else answer.body)
    return passed, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--only", default="", help="report one case only")
    parser.add_argument("--verbose", action="store_true", help="print every difference in full")
    arguments = parser.parse_args()
    passed, failed = 0, 0
    for path in arguments.files:
        try:
            good, bad = asyncio.run(replay(path, arguments.only, arguments.verbose))
        except Unusable as problem:
            good, bad = 0, [(str(path), [str(problem)])]
        passed, failed = passed + good, failed + len(bad)
        for name, problems in bad:
            print(f"FAIL {name}")
            for problem in problems:
                print(f"     {problem if arguments.verbose else problem[:300]}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
