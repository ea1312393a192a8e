"""What recorded requests took for granted, found from their answers: an object that was there has to be here as well."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

Obj = dict[str, Any]
Step = tuple[str, str, Any]
"""Method, path and body of a request that prepares a case."""

_SERVERS = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_SERVERS += ("managedFields", "generation", "selfLink", "namespace")
_UNKNOWN = {401, 404, 405, 406, 415}
"""Answers that say nothing about whether the object was there."""
_GOING = re.compile(r"in namespace (\S+) because it is being terminated")
_QUOTA = re.compile(r"exceeded quota: (\S+), requested: .*?, used: (\S+), limited: (\S+)$")
OLD_REVISION = 500
"""Revisions of a recording that are too old here as well then."""
_CONTAINER = {"name": "c", "image": "busybox"}
_TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"restartPolicy": "Never", "containers": [_CONTAINER]}}
_SERVING = {"selector": {"matchLabels": {"app": "a"}}, "template": {**_TEMPLATE, "spec": {"containers": [_CONTAINER]}}}
_SPECS: dict[str, Obj] = {
    "jobs": {"template": _TEMPLATE},
    "pods": {"containers": [_CONTAINER]},
    "deployments": _SERVING,
    "replicasets": _SERVING,
    "daemonsets": _SERVING,
    "statefulsets": {**_SERVING, "serviceName": "s"},
    "services": {"ports": [{"port": 80}]},
}
"""The least that kinds want in their spec."""


class Place(NamedTuple):
    """Where a request goes: the collection, and the object in it."""

    collection: str
    plural: str
    name: str
    subresource: str

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.name}"


def place(path: str) -> Place:
    parts = path.partition("?")[0].strip("/").split("/")
    head = 2 if parts[0] == "api" else 3
    if parts[head : head + 1] == ["namespaces"] and len(parts) > head + 2:
        head += 2
    plural, name, subresource = (*parts[head : head + 3], "", "", "")[:3]
    return Place("/" + "/".join(parts[: head + 1]), plural, name, subresource)


def namespaces(cases: Sequence[Obj]) -> set[str]:
    """Namespaces that were there: something was done in them, and no answer says that they are gone or going."""
    found = set()
    for case in cases:
        parts = case["request"]["path"].partition("?")[0].split("/")
        is_listed = case["request"]["method"] == "GET" and not place(case["request"]["path"]).name
        if "namespaces" in parts[:-1] and not is_listed:
            found.add(parts[parts.index("namespaces") + 1])
    messages = [_message(case) for case in cases]
    missing = {name for message in messages for name in re.findall(r'namespaces "([^"]+)" not found', message)}
    return (
        found
        - missing
        - {name for message in messages for name in _GOING.findall(message)}
        - {"default", "kube-system"}
    )


def impersonated(case: Obj) -> str:
    """Whom the sender wanted to be, where an answer says that he may not."""
    found = re.match(r'users "([^"]+)" is forbidden: User "[^"]+" cannot impersonate', _message(case))
    return found[1] if found else ""


def preparations(case: Obj, cases: Sequence[Obj]) -> Iterator[Step]:
    """What must have been done before a case; objects that are there already are left alone."""
    message, request = _message(case), case["request"]
    where = place(request["path"])
    if case["status"] == 410:
        yield "FILL", "", OLD_REVISION
        yield "COMPACT", "", None
    elif case["status"] == 409 and "already exists" in message and isinstance(request.get("body"), dict):
        yield "POST", where.collection, request["body"]
    elif going := _GOING.search(message):
        held = {"metadata": {"name": "held", "finalizers": ["example.com/held"]}}
        yield "POST", "/api/v1/namespaces", {"metadata": {"name": going[1]}}
        yield "POST", f"/api/v1/namespaces/{going[1]}/configmaps", held
        yield "DELETE", f"/api/v1/namespaces/{going[1]}", None
    elif (quota := _QUOTA.search(message)) and case["status"] == 403:
        yield from _quota(where, *quota.groups())
    elif where.name and _was_there(case):
        applied = list(_applied(where, case))
        yield from applied or [("POST", where.collection, _object(where, case, cases))]


def _was_there(case: Obj) -> bool:
    reason = str((case.get("body") or {}).get("reason")) if isinstance(case.get("body"), dict) else ""
    is_made = case["request"]["method"] in ("PUT", "PATCH") and case["status"] == 201
    return case["status"] not in _UNKNOWN and reason != "Forbidden" and not is_made


def _message(case: Obj) -> str:
    body = case.get("body")
    return str(body.get("message") or "") if isinstance(body, dict) else ""


def _object(where: Place, case: Obj, cases: Sequence[Obj]) -> Obj:
    """The object as it was: as some case shows it, else the least there can be of its kind."""
    for other in (case, *cases):
        for shown in (other.get("body"), other["request"].get("body")):
            if _is_of(shown, where, other):
                return _as_made(shown)
    spec = {"spec": _SPECS[where.plural]} if where.plural in _SPECS else {}
    return {"metadata": {"name": where.name}, **copy.deepcopy(spec)}


def _is_of(shown: Any, where: Place, case: Obj) -> bool:
    if not isinstance(shown, dict) or shown.get("kind") in (None, "Status") or case["status"] >= 300:
        return False
    there = place(case["request"]["path"])
    is_here = (there.collection, there.subresource) == (where.collection, "")
    return is_here and (shown.get("metadata") or {}).get("name") == where.name


def _as_made(shown: Obj) -> Obj:
    """An object as somebody would have made it: without what servers add."""
    metadata = {name: value for name, value in shown["metadata"].items() if name not in _SERVERS}
    made = {**{name: copy.deepcopy(value) for name, value in shown.items() if name != "status"}, "metadata": metadata}
    if made.get("kind") == "Job":
        made["spec"].pop("selector", None)
        template = made["spec"]["template"].setdefault("metadata", {})
        template["labels"] = {
            name: value for name, value in (template.get("labels") or {}).items() if "batch" not in name
        }
        for name in ("controller-uid", "job-name"):
            template["labels"].pop(name, None)
    if made.get("kind") == "Pod":
        containers = [
            {part: one[part] for part in ("name", "image") if part in one} for one in made["spec"]["containers"]
        ]
        made["spec"] = {"containers": containers}
    return made


def _applied(where: Place, case: Obj) -> Iterator[Step]:
    """What other managers had applied, where an answer says that they conflict."""
    causes = ((case.get("body") or {}).get("details") or {}).get("causes") or []
    body, objects = case["request"].get("body"), dict[str, Obj]()
    for cause in causes if isinstance(body, dict) else ():
        owner = re.match(r'conflict with "([^"]+)"', str(cause.get("message")))
        *parents, last = str(cause.get("field")).split(".")[1:] or [""]
        if owner and re.fullmatch(r"(\.\w+)+", str(cause.get("field"))):
            head = {name: body[name] for name in ("apiVersion", "kind") if name in body}
            part = objects.setdefault(owner[1], {**head, "metadata": {"name": where.name}})
            for name in parents:
                part = part.setdefault(name, {})
            part[last] = "other"
    for manager, applied in objects.items():
        yield "APPLY", f"{where.path}?fieldManager={manager}", applied


def _quota(where: Place, name: str, used: str, limited: str) -> Iterator[Step]:
    collection = re.sub(r"^/apis?/.*?(?=/namespaces/)", "/api/v1", where.collection).rpartition("/")[0]
    counts = {
        part: dict(item.split("=") for item in text.split(",")) for part, text in (("hard", limited), ("used", used))
    }
    yield "POST", f"{collection}/resourcequotas", {"metadata": {"name": name}, "spec": {"hard": counts["hard"]}}
    yield "STATUS", f"{collection}/resourcequotas/{name}/status", {"status": counts}
