"""The actions of a recording, in order of time: manifests that were applied, requests, agents started and killed."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from corral.core.admission import UserInfo
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.core.timestamps import format_time
from corral.server.options import DeleteOptions, WriteOptions
from fleet_replay.world import World

_REQUEST = re.compile(r"(GET|POST|PUT|PATCH|DELETE) (/\S+) on (\S+) -> (\d+)")
_AGENT = re.compile(r"(start|kill) the member agent of (\S+)")
_TIME = re.compile(r"<t\+(\d+)>")
ADMIN = UserInfo("admin", ("system:masters", "system:authenticated"))


class Action(NamedTuple):
    t: float
    kind: str  # apply, request, start, kill, queue
    cluster: str
    data: Any


class Answer(NamedTuple):
    code: int
    message: str


def actions(recording: Obj) -> list[Action]:
    """What to do, ordered by time; observations and waits are nothing to do."""
    found = [Action(entry["t"], "apply", entry["cluster"], entry["manifests"]) for entry in recording["setup"]]
    for step in recording["steps"]:
        text = step["do"]
        if request := _REQUEST.search(text):
            method, path, cluster, code = request.groups()
            found.append(Action(step["t"], "request", cluster, (method, path, step.get("body"), int(code))))
        elif agent := _AGENT.match(text):
            found.append(Action(step["t"], agent[1], agent[2], None))
        elif text.startswith("start the script that plays Kueue"):
            found.append(Action(step["t"], "queue", "", None))
    for output in recording["outputs"]:
        if "request" in output and "status" in output and output["command"].split()[0] in ("POST", "PATCH", "PUT"):
            method, path = output["command"].split()[:2]
            if path.startswith("/"):
                found.append(Action(output["t"], "refusal", "hub", (method, path, output["request"], output)))
    return sorted(found, key=lambda action: action.t)


def unmasked(value: Any, began: float) -> Any:
    """A request body with real times in place of masked ones."""
    if isinstance(value, dict):
        return {name: unmasked(item, began) for name, item in value.items()}
    if isinstance(value, list):
        return [unmasked(item, began) for item in value]
    if isinstance(value, str) and (mask := _TIME.fullmatch(value)):
        return format_time(began + int(mask[1]))
    return value


async def with_owners(world: World, cluster: str, path: str, body: Any) -> Any:
    """A body whose owner references name objects as they are in this run."""
    references = ((body or {}).get("metadata") or {}).get("ownerReferences") if isinstance(body, dict) else None
    if not references:
        return body
    namespace = locate(world, cluster, path)[1]
    found = []
    for reference in references:
        group, _, version = reference["apiVersion"].rpartition("/")
        kind = world.cluster(cluster).api.registry.by_kind(group, reference["kind"])
        assert kind is not None
        resource = Resource(group, version, kind.plural, kind.kind, kind.namespaced)
        owner = await world.cluster(cluster).client.get(resource, reference["name"], namespace)
        found.append({**reference, "uid": owner["metadata"]["uid"]})
    return {**body, "metadata": {**body["metadata"], "ownerReferences": found}}


def locate(world: World, cluster: str, path: str) -> tuple[Resource, str, str, str, str]:
    """Resource, namespace, name, subresource and query of an API path."""
    path, _, query = path.partition("?")
    parts = path.strip("/").split("/")
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    kind = world.cluster(cluster).api.registry.get(group, rest[0])
    if kind is None:
        raise LookupError(f"no such kind: {path}")
    resource = Resource(group, version, rest[0], kind.kind, kind.namespaced)
    return resource, namespace, rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else "", query


async def send(world: World, cluster: str, method: str, path: str, body: Any) -> Answer:
    """One request; what the API answered."""
    api = world.cluster(cluster).api
    resource, namespace, name, subresource, query = locate(world, cluster, path)
    options = WriteOptions(
        manager="someone" if "fieldManager=someone" in query else "kubectl",
        field_validation="Strict" if "fieldValidation=Strict" in query else "",
        dry_run="dryRun=All" in query,
    )
    try:
        match method:
            case "POST":
                await api.create(ADMIN, resource, namespace, body, options)
                return Answer(201, "")
            case "DELETE":
                await api.delete(ADMIN, resource, namespace, name, DeleteOptions())
            case "PATCH":
                kind = "apply" if "fieldManager=someone" in query else "merge"
                if kind == "apply":
                    options = WriteOptions(manager="someone", force=True)
                    body = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
                _, created = await api.patch(ADMIN, resource, namespace, name, kind, body, options, subresource)
                if created:
                    return Answer(201, "")
            case _:
                await api.update(ADMIN, resource, namespace, name, body, options, subresource)
    except ApiError as error:
        return Answer(error.code, error.message)
    return Answer(200, "")


async def apply(world: World, cluster: str, manifest: Obj) -> str:
    """Create or change an object as kubectl apply does; the reason if it is refused."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    kind = world.cluster(cluster).api.registry.by_kind(group, manifest["kind"])
    if kind is None:
        return f"kind {manifest['kind']} is not served"
    resource = Resource(group, version, kind.plural, kind.kind, kind.namespaced)
    client = world.cluster(cluster).client
    metadata = manifest["metadata"]
    try:
        try:
            live = await client.get(resource, metadata["name"], metadata.get("namespace", ""))
        except NotFound:
            await client.create(resource, manifest, manager="kubectl")
        else:
            # What the manifest no longer says goes away, as kubectl sees to it.
            body = {**live, **manifest, "metadata": {**live["metadata"], **metadata}}
            await client.update(resource, body, manager="kubectl")
    except ApiError as error:
        return error.message
    return ""


async def perform(world: World, action: Action) -> str:
    """Do it; the difference if the API answered otherwise than in the recording."""
    match action.kind:
        case "apply":
            for manifest in action.data:
                if manifest["kind"] != "CustomResourceDefinition":
                    await apply(world, action.cluster, manifest)
        case "request":
            method, path, body, code = action.data
            if "webhookconfigurations" in path:
                return ""
            body = await with_owners(world, action.cluster, path, unmasked(body, world.began))
            answer = await send(world, action.cluster, method, path, body)
            if method == "POST" and path.endswith("/nodes"):
                # The recorded member happened to report just then.
                await world.members[action.cluster].kill_agent()
                await world.members[action.cluster].start_agent()
            if answer.code != code:
                return f"{method} {path}: {answer.code} {answer.message}, recorded {code}"
        case "refusal":
            return await _refusal(world, action)
        case "start":
            await world.members[action.cluster].start_agent()
        case "kill":
            await world.members[action.cluster].kill_agent()
        case "queue":
            world.play_queue()
    return ""


_SHOWN = re.compile(r'Invalid value: (?:"[^"]*"|\d+|-\d+): (?=\S+ \S+ )')
"""Newer API servers leave out the value a CEL rule failed for; ours names its type."""


def _plain(message: str) -> str:
    message = re.sub(r"PropertySelector:(<ptr>|set)", "PropertySelector:<ptr>", message)
    return _SHOWN.sub("Invalid value: ", message)


async def _refusal(world: World, action: Action) -> str:
    method, path, body, output = action.data
    answer = await send(world, "hub", method, path, body)
    wanted = Answer(output["status"], output["response"].get("message", "") if output["status"] >= 300 else "")
    if answer.code != wanted.code or _plain(answer.message) != _plain(wanted.message):
        return f"{method} {path}: {answer.code} {answer.message}; recorded {wanted.code} {wanted.message}"
    return ""
