"""The actions of a recording, in order of time: manifests that were applied, requests, agents started and killed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

from corral.configuration.member import MemberSettings
from corral.core.admission import UserInfo
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.core.timestamps import format_time
from corral.server.verbs.options import DeleteOptions, WriteOptions
from fleet_replay.facts import recorded
from fleet_replay.situations import ACCEPTED
from fleet_replay.world import HUB, World

_REQUEST = re.compile(r"(GET|POST|PUT|PATCH|DELETE) (/\S+) on (\S+) -> (\d+)")
_AGENT = re.compile(r"(start|kill|stop|shut down) the (?:member )?agent of ([\w.-]+)")
_RESTART = re.compile(r"restart the (?:member )?agent of ([\w.-]+)(?: with (.*))?")
_TIME = re.compile(r"<t([+-]\d+)>")
_NO_ACTION = re.compile(r"\(|wait ")
"""Observations and pauses."""
_SAME_TIME_S = 0.01
_SET_UP = re.compile(r".*? on (\S+): [A-Z]")
"""What `setup` holds as well."""
_CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
ADMIN = UserInfo("admin", ("system:masters", "system:authenticated"))


class Action(NamedTuple):
    t: float
    kind: str  # apply, request, answer, start, kill, restart, queue, delete
    cluster: str
    data: Any


class Answer(NamedTuple):
    code: int
    message: str


def actions(recording: Obj) -> list[Action]:
    """What to do, ordered by time; observations and waits are nothing to do."""
    outputs = recording.get("outputs") or []
    entries = recording.get("setup") or []
    refused = [one for one in outputs if str(one.get("command", "")).startswith("kubectl apply")]
    found = [
        Action(entry["t"], "apply", entry["cluster"], (entry["manifests"], _refusal_of(entry, entries, refused)))
        for entry in entries
    ]
    for step in recording.get("steps") or []:
        found += _of_step(step)
    for output in outputs:
        if "request" in output and "status" in output and output["command"].split()[0] in ("POST", "PATCH", "PUT"):
            method, path = output["command"].split()[:2]
            if path.startswith("/"):
                cluster = output.get("cluster") or HUB
                found.append(Action(output["t"], "answer", cluster, (method, path, output["request"], output)))
    found += _clean_up(recording, found)
    return sorted(found, key=lambda action: action.t)


def not_understood(recording: Obj) -> list[str]:
    """Steps that say something happened which this player does not know how to do."""
    applied = [(float(entry["t"]), entry["cluster"]) for entry in recording.get("setup") or []]

    def is_known(step: Obj) -> bool:
        manifests = _SET_UP.match(step["do"])
        held = manifests is not None and any(
            abs(t - step["t"]) < _SAME_TIME_S and cluster == manifests[1] for t, cluster in applied
        )
        return held or bool(_NO_ACTION.match(step["do"]) or _of_step(step))

    return [step["do"] for step in recording.get("steps") or [] if not is_known(step)]


def _of_step(step: Obj) -> list[Action]:
    t, text = step["t"], step["do"]
    if request := _REQUEST.search(text):
        method, path, cluster, code = request.groups()
        return [Action(t, "request", cluster, (method, path, step.get("body"), int(code)))]
    if agent := _AGENT.match(text):
        return [Action(t, "start" if agent[1] == "start" else "kill", agent[2], None)]
    if agent := _RESTART.match(text):
        return [Action(t, "restart", agent[1], agent[2] or "")]
    if text.startswith("start the script that plays Kueue"):
        return [Action(t, "queue", "", None)]
    return []


def _refusal_of(entry: Obj, entries: list[Obj], outputs: list[Obj]) -> str:
    """What kubectl said when it was refused this entry: its output comes before the next thing is applied."""
    later = [one["t"] for one in entries if one["t"] > entry["t"]]
    until = min(later, default=entry["t"] + 3.0)
    for output in outputs:
        if entry["t"] <= output["t"] <= until and output.get("cluster", HUB) == entry["cluster"]:
            return str(output.get("text", "")).partition("Error from server")[2].partition(": ")[2].strip()
    return ""


def _clean_up(recording: Obj, done: list[Action]) -> list[Action]:
    """Objects of a scenario that were deleted when it was over, which no step says."""
    known = made(done)
    asked = {
        (one.cluster, one.data[1].rpartition("/")[2])
        for one in done
        if one.kind == "request" and one.data[0] == "DELETE"
    }
    found: dict[tuple[str, str, str, str], Action] = {}
    for state in recorded(recording.get("log") or []):
        if state.kind == "Event":
            continue
        identity = (state.cluster, state.kind, state.namespace, state.name)
        going = state.obj is None or bool(state.obj["metadata"].get("deletionTimestamp"))
        if going and identity in known and identity not in found and (state.cluster, state.name) not in asked:
            found[identity] = Action(state.t, "delete", state.cluster, identity[1:])
    return list(found.values())


def made(done: list[Action]) -> set[tuple[str, str, str, str]]:
    """Cluster, kind, namespace and name of every object that somebody made."""
    found: set[tuple[str, str, str, str]] = set()
    for action in done:
        if action.kind == "apply":
            found |= {_identity(action.cluster, manifest) for manifest in action.data[0]}
        elif action.kind in ("request", "answer") and isinstance(action.data[2], dict) and action.data[0] == "POST":
            found.add(_identity(action.cluster, action.data[2]))
    return found


def _identity(cluster: str, manifest: Obj) -> tuple[str, str, str, str]:
    metadata = manifest.get("metadata") or {}
    return cluster, str(manifest.get("kind")), str(metadata.get("namespace") or ""), str(metadata.get("name"))


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
        resource = _resource(world, cluster, reference)
        owner = await world.cluster(cluster).client.get(resource, reference["name"], namespace)
        found.append({**reference, "uid": owner["metadata"]["uid"]})
    return {**body, "metadata": {**body["metadata"], "ownerReferences": found}}


def _resource(world: World, cluster: str, obj: Obj) -> Resource:
    """How the cluster serves an object's kind."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    kind = world.cluster(cluster).api.registry.by_kind(group, str(obj.get("kind")))
    if kind is None:
        raise LookupError(f"{cluster} does not serve {obj.get('apiVersion')} {obj.get('kind')}")
    return Resource(group, version, kind.plural, kind.kind, kind.namespaced)


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
        raise LookupError(f"{cluster} does not serve {path}")
    resource = Resource(group, version, rest[0], kind.kind, kind.namespaced)
    return resource, namespace, rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else "", query


async def send(world: World, cluster: str, method: str, path: str, body: Any) -> Answer:
    """One request; what the API answered."""
    api = world.cluster(cluster).api
    resource, namespace, name, subresource, query = locate(world, cluster, path)
    manager = re.search(r"fieldManager=([^&]+)", query)
    options = WriteOptions(
        manager=manager[1] if manager else "kubectl",
        field_validation="Strict" if "fieldValidation=Strict" in query else "",
        dry_run="dryRun=All" in query,
        force=manager is not None,
    )
    try:
        match method:
            case "GET":
                await api.get(ADMIN, resource, namespace, name, subresource=subresource)
            case "POST":
                await api.create(ADMIN, resource, namespace, body, options)
                return Answer(201, "")
            case "DELETE":
                await api.delete(ADMIN, resource, namespace, name, DeleteOptions())
            case "PATCH":
                # Whoever names a field manager applies; other patches are merged, and lists are operations.
                kind = "json" if isinstance(body, list) else "apply" if manager else "merge"
                if kind == "apply":
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
    resource = _resource(world, cluster, manifest)
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
            return await _apply(world, action)
        case "request":
            return await _request(world, action)
        case "answer":
            return await _answer(world, action)
        case "start":
            await world.members[action.cluster].start_agent()
        case "kill":
            await world.members[action.cluster].kill_agent()
        case "restart":
            await world.members[action.cluster].kill_agent()
            await world.members[action.cluster].start_agent(agent_settings(action.data, world.mode.member))
        case "queue":
            world.play_queue()
        case "delete":
            await _delete(world, action)
    return ""


def agent_settings(flags: str, settings: MemberSettings) -> MemberSettings:
    """The settings that a member agent's flags stand for, on top of those it has anyway."""
    given = dict(re.findall(r"--([a-z-]+)=(\S+)", flags))
    azure = given.get("property-provider") == "azure"
    return replace(
        settings,
        azure=azure,
        azure_costs=azure and given.get("use-cost-properties-in-azure-provider") != "false",
        collect_namespaces=given.get("enable-namespace-collection-in-property-provider") == "true",
        authority=_CERTIFICATE,
    )


async def _apply(world: World, action: Action) -> str:
    manifests, refusal = action.data
    if not world.mode.is_upstream and any(words in refusal for words in ACCEPTED.values()):
        others = [one for one in manifests if not _is_placement(one)]
        tried = [await _try_out(world, action.cluster, one) for one in manifests if _is_placement(one)]
        if others != manifests and not any(tried):
            # Accepted here on purpose. The rest of the recording is about a hub without it, so it is left out.
            manifests, refusal = others, ""
    told = [said for manifest in manifests if (said := await apply(world, action.cluster, manifest))]
    first = _comparable(told[0]) if told else ""
    wanted = _comparable(refusal)
    if wanted and wanted not in first and first not in wanted:
        return f"apply on {action.cluster}: {first or 'accepted'}; recorded {wanted}"
    if bool(first) != bool(wanted):
        names = ", ".join(f"{one['kind']} {one['metadata']['name']}" for one in manifests)
        return f"apply of {names} on {action.cluster}: {first or 'accepted'}; recorded {wanted or 'accepted'}"
    return ""


def _is_placement(manifest: Obj) -> bool:
    return str(manifest["kind"]).endswith("ResourcePlacement")


async def _try_out(world: World, cluster: str, manifest: Obj) -> str:
    """Why the API refuses an object, which is not made in either case; "" when it is accepted."""
    resource = _resource(world, cluster, manifest)
    namespace = manifest["metadata"].get("namespace", "")
    try:
        await world.cluster(cluster).api.create(ADMIN, resource, namespace, manifest, WriteOptions(dry_run=True))
    except ApiError as error:
        return error.message
    return ""


def _comparable(message: str) -> str:
    return _plain(re.sub(r'^error when (creating|applying)[^:]*"STDIN": ', "", message))


async def _request(world: World, action: Action) -> str:
    method, path, body, code = action.data
    if "webhookconfigurations" in path:
        return ""  # whether the hub has webhooks is in the head of the recording
    body = await with_owners(world, action.cluster, path, unmasked(body, world.began))
    answer = await send(world, action.cluster, method, path, body)
    if method in ("POST", "DELETE") and "/nodes" in path and action.cluster != HUB:
        # The recorded members happened to report soon after; what they report is compared, not when.
        await world.members[action.cluster].kill_agent()
        await world.members[action.cluster].start_agent()
    if answer.code != code:
        return f"{method} {path} on {action.cluster}: {answer.code} {answer.message}; recorded {code}"
    return ""


async def _delete(world: World, action: Action) -> None:
    kind, namespace, name = action.data
    for found in world.cluster(action.cluster).api.registry:
        if found.kind == kind:
            served = next(one.name for one in found.versions if one.served)
            try:
                await world.cluster(action.cluster).client.delete(found.resource(served), name, namespace)
            except NotFound:
                continue
            return


_SHOWN = re.compile(r'Invalid value: (?:"[^"]*"|\d+|-\d+): (?=\S+ \S+ )')
"""Newer API servers leave out the value a CEL rule failed for; ours names its type."""


def _plain(message: str) -> str:
    message = re.sub(r"PropertySelector:(<ptr>|set)", "PropertySelector:<ptr>", message)
    return _SHOWN.sub("Invalid value: ", message)


async def _answer(world: World, action: Action) -> str:
    method, path, body, output = action.data
    answer = await send(world, action.cluster, method, path, body)
    response = output.get("response") or {}
    wanted = Answer(output["status"], response.get("message", "") if output["status"] >= 300 else "")
    if answer.code != wanted.code or _plain(answer.message) != _plain(wanted.message):
        return f"{method} {path}: {answer.code} {answer.message}; recorded {wanted.code} {wanted.message}"
    return ""
