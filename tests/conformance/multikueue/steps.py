"""What a recorded step did: found from its manifest, its patch, and the words that describe it."""

from __future__ import annotations

import re
from typing import Any

from corral.core.errors import ApiError, BadRequest, NotFound
from corral.core.meta import name_of
from corral.core.resource import Resource
from corral.kinds.kueue.shapes import MAX_CLUSTERS
from corral.kinds.registry import native_kinds
from corral.simulate.link import LinkState
from multikueue.facts import Obj
from multikueue.secrets import write_secret
from multikueue.world import BY_KIND, World

_CLUSTER_LISTS = {"spec.clusters", "status.nominatedClusterNames"}
_PATCH_KINDS = {"application/json-patch+json": "json", "application/strategic-merge-patch+json": "strategic"}


async def perform(world: World, step: Obj, recording: Obj) -> str | None:
    """Do what the step says; in words how the answer differs from the recorded one."""
    if _asks_for_a_larger_fleet(step):
        return None
    expected = step.get("status")
    try:
        await _act(world, step, recording)
    except ApiError as error:
        if expected == error.code and _same_refusal(step.get("response"), error):
            return None
        return f"step {step['do']!r}: recorded {expected} {_message(step)}, here {error.code} {error.message}"
    if expected is not None and expected >= 400:
        return f"step {step['do']!r}: recorded {expected} {_message(step)}, here it was accepted"
    return None


def _asks_for_a_larger_fleet(step: Obj) -> bool:
    """Whether the step was refused only for upstream's cap of 20 clusters, which Corral has not; so it is not taken here."""
    causes = ((step.get("response") or {}).get("details") or {}).get("causes") or []
    beyond = [cause for cause in causes if cause.get("reason") == "FieldValueTooMany"]
    # With one field too long the other rules are not looked at, and a cause without a field says so.
    others = [cause for cause in causes if cause not in beyond and cause.get("field") != "<nil>"]
    counts = [int(found[1]) for cause in beyond if (found := re.match(r"Too many: (\d+):", str(cause.get("message"))))]
    fields = {cause.get("field") for cause in beyond}
    return bool(counts) and not others and fields <= _CLUSTER_LISTS and max(counts) <= MAX_CLUSTERS


def _message(step: Obj) -> str:
    return str((step.get("response") or {}).get("message", ""))


def _same_refusal(response: Obj | None, error: ApiError) -> bool:
    if response is None:
        return True
    return _plain(str(response.get("message"))) == _plain(error.message)


def _plain(text: str) -> str:
    """A message without name hashes, without the type of a bad value, which newer servers leave out, and lists sorted."""
    text = re.sub(r"(?<=supported values: )[^\]]+", lambda match: ", ".join(sorted(match[0].split(", "))), text)
    text = re.sub(r'Invalid value: "[^"]*": ', "Invalid value: ", text)
    return re.sub(r"<h\d+>|-[0-9a-f]{5}\b", "-<h>", text).replace("--<h>", "-<h>")


async def _act(world: World, step: Obj, recording: Obj) -> None:
    words, cluster = str(step["do"]), step.get("cluster")
    if cluster and "manifest" in step:
        await world.create(cluster, step["manifest"])
    elif cluster and "patch" in step:
        await _patch(world, cluster, step, recording)
    elif cluster and re.match(r"delete\b", words):
        await _delete(world, cluster, words, recording)
    elif words.startswith("Secret: "):
        await write_secret(world, words.removeprefix("Secret: "), recording)
    else:
        await _fault(world, words)


async def _fault(world: World, words: str) -> None:
    """What was done to a cluster from outside. Words that only tell what the recorder did itself are fine."""
    worker = next((name for name in world.links if re.search(rf"\b{re.escape(name)}\b", words)), "")
    definition = re.match(r"(remove|install) CRD (\S+)", words)
    if worker and "API server" in words and re.search(r"kill|start|stop|goes on", words):
        _break(world.links[worker], words)
    elif worker and definition:
        await _definition(world, definition[1], definition[2], worker)
    elif not re.match(r"(wait|state|read|look|note|observe|nothing)", words):
        raise BadRequest("the player of recordings does not know this step")


def _break(link: LinkState, words: str) -> None:
    if words.startswith("kill"):
        link.set(cut=True)
    elif words.startswith("stop"):
        link.set(hung=True)
    else:
        link.set()


async def _definition(world: World, action: str, name: str, worker: str) -> None:
    registry = world.clusters[worker].api.registry
    kind = next((kind for kind in native_kinds() if f"{kind.plural}.{kind.group}" == name), None)
    if kind is None:
        raise NotFound(f"there is no CustomResourceDefinition {name!r} here")
    if action == "remove":
        registry.remove(kind.group, kind.plural)
        world.links[worker].break_streams()
    else:
        registry.add(kind)


async def _patch(world: World, cluster: str, step: Obj, recording: Obj) -> None:
    resource, name, namespace = await _target(world, cluster, step, recording)
    client = world.clusters[cluster].client
    content = step.get("contentType", "")
    manager = step.get("fieldManager", "kubectl-patch")
    patch = _with_times(world, cluster, _as_told(step))
    if "apply" in content:
        body = {**patch, "metadata": {"name": name, "namespace": namespace}}
        await client.apply(resource, body, manager=manager, force=False, subresource=step.get("subresource") or "")
        return
    kind: Any = _PATCH_KINDS.get(content, "merge")
    await client.patch(
        resource, name, namespace, patch, kind=kind, subresource=step.get("subresource") or "", manager=manager
    )


def _as_told(step: Obj) -> Obj:
    """The patch of a step. Some recorded patches were changed after they were sent; what was read afterwards tells."""
    patch: Obj = step["patch"]
    after = step.get("after")
    if isinstance(after, list) and step.get("status") == 200 and "nominatedClusterNames" in (patch.get("status") or {}):
        return {**patch, "status": {"nominatedClusterNames": after}}
    return patch


def _with_times(world: World, cluster: str, value: Any) -> Any:
    """A patch with the masked times replaced by now."""
    if isinstance(value, dict):
        return {name: _with_times(world, cluster, item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_times(world, cluster, item) for item in value]
    if isinstance(value, str) and re.fullmatch(r"T[+-]\d+s", value):
        return world.clusters[cluster].clock.timestamp()
    return value


async def _target(world: World, cluster: str, step: Obj, recording: Obj) -> tuple[Resource, str, str]:
    """The object a patch is for: named in the words, else the only one of the kind whose shape the patch has."""
    patch, words = step["patch"], str(step["do"])
    kind = str(patch.get("kind") or _kind_of(patch, words))
    resource = BY_KIND.get(kind)
    if resource is None or cluster not in world.clusters:
        raise NotFound(f"there is no kind {kind!r} on {cluster!r}")
    items = (await world.clusters[cluster].client.list(resource)).items
    refused = ((step.get("response") or {}).get("details") or {}).get("name")
    changed = _changed_in(recording, cluster, kind, step)
    mentioned = [item for item in items if name_of(item) in (refused, changed)]
    mentioned += [item for item in items if re.search(rf"(?<![\w-]){re.escape(name_of(item))}(?![\w-])", words)]
    if not items:
        raise NotFound(f"there is no {kind} to patch on {cluster}")
    chosen = (mentioned or items)[0]
    return resource, name_of(chosen), str(chosen["metadata"].get("namespace") or "")


def _changed_in(recording: Obj, cluster: str, kind: str, step: Obj) -> str:
    """The object that shows the patched values in the recording right after the step."""
    patch = step["patch"]
    for entry in recording["log"]:
        if not step["t"] <= entry["t"] <= step["t"] + 1000 or (entry["cluster"], entry["kind"]) != (cluster, kind):
            continue
        if entry["event"] == "MODIFIED" and _shows(entry["object"], patch):
            return str(entry["object"]["metadata"]["name"])
    return ""


def _shows(value: Any, patch: Any) -> bool:
    if isinstance(patch, dict):
        return isinstance(value, dict) and all(_shows(value.get(name), part) for name, part in patch.items())
    if isinstance(patch, list):
        return isinstance(value, list) and len(value) == len(patch) and all(map(_shows, value, patch))
    return value == patch or (isinstance(patch, str) and re.fullmatch(r"T[+-]\d+s", patch) is not None)


def _kind_of(patch: Obj, words: str) -> str:
    named = re.search(r"\bpatch (\w+) ", words)
    if named and named[1] in BY_KIND:
        return named[1]
    spec, status = patch.get("spec") or {}, patch.get("status") or {}
    shapes = (
        ("ClusterQueue", {"resourceGroups", "admissionChecksStrategy", "stopPolicy"} & spec.keys()),
        ("MultiKueueConfig", {"clusters"} & spec.keys()),
        ("MultiKueueCluster", {"clusterSource", "kubeConfig"} & spec.keys()),
        ("AdmissionCheck", {"parameters", "controllerName"} & spec.keys()),
        ("PyTorchJob", {"runPolicy"} & spec.keys()),
        ("Workload", {"active", "priority"} & spec.keys()),
        ("Workload", {"nominatedClusterNames", "clusterName", "admissionChecks"} & status.keys()),
        ("AdmissionCheck", {"conditions"} & status.keys()),
        ("Workload", "status" in patch),
        ("Secret", "data" in patch),
    )
    return next((kind for kind, matches in shapes if matches), "Job")


async def _delete(world: World, cluster: str, words: str, recording: Obj) -> None:
    kind = next((word for word in re.findall(r"[A-Z]\w+", words) if word in BY_KIND), "Job")
    resource = BY_KIND[kind]
    client = world.clusters[cluster].client
    items = (await client.list(resource)).items
    mentioned = [item for item in items if name_of(item) in words]
    if not items:
        raise NotFound(f"there is no {kind} to delete on {cluster}")
    chosen = (mentioned or items)[0]
    namespace = str(chosen["metadata"].get("namespace") or "")
    await client.delete(resource, name_of(chosen), namespace, propagation="Background")
