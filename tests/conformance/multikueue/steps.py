"""What a recorded step did: found from its manifest, its patch, and the words that describe it."""

from __future__ import annotations

import re
from typing import Any

from corral.core.errors import ApiError
from corral.kinds.kueue.shapes import MAX_CLUSTERS
from multikueue.corrected import MANAGER
from multikueue.facts import Obj
from multikueue.faults import fault
from multikueue.secrets import tells_of_secret, with_kubeconfig, write_secret
from multikueue.targets import deleted, patched
from multikueue.world import World

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
    words, cluster = str(step["do"]), str(step.get("cluster") or MANAGER)
    if "manifest" in step:
        await _write(world, cluster, step)
    elif "patch" in step:
        await _patch(world, cluster, step, recording)
    elif step.get("cluster") and re.match(r"(delete|remove)\b", words):
        target = await deleted(world, cluster, step, recording)
        propagation = step.get("propagationPolicy") or "Background"
        await world.clusters[cluster].client.delete(*target, propagation=propagation)
    elif tells_of_secret(words):
        await write_secret(world, words, recording)
    else:
        await fault(world, words)


async def _write(world: World, cluster: str, step: Obj) -> None:
    """Create what a step shows, or put it in the place of what is there."""
    manifests = step["manifest"] if isinstance(step["manifest"], list) else [step["manifest"]]
    for manifest in manifests:
        if re.match(r"(update|replace|put)\b", str(step["do"])) or step.get("status") == 200:
            await world.replace(cluster, manifest)
        else:
            await world.create(cluster, manifest)


async def _patch(world: World, cluster: str, step: Obj, recording: Obj) -> None:
    resource, name, namespace = await patched(world, cluster, step, recording)
    client = world.clusters[cluster].client
    content = step.get("contentType", "")
    manager = step.get("fieldManager", "kubectl-patch")
    patch = _with_times(world, cluster, _as_told(step))
    if resource.kind == "Secret":
        patch = with_kubeconfig(world, patch, name, str(step["do"]))
    if "apply" in content:
        body = {**patch, "metadata": {**(patch.get("metadata") or {}), "name": name, "namespace": namespace}}
        force = bool(step.get("force")) or "force" in str(step["do"])
        await client.apply(resource, body, manager=manager, force=force, subresource=step.get("subresource") or "")
        return
    kind: Any = _PATCH_KINDS.get(content, "json" if isinstance(patch, list) else "merge")
    await client.patch(
        resource, name, namespace, patch, kind=kind, subresource=step.get("subresource") or "", manager=manager
    )


def _as_told(step: Obj) -> Any:
    """The patch of a step. Some recorded patches were changed after they were sent; what was read afterwards tells."""
    patch = step["patch"]
    after = step.get("after")
    if not isinstance(patch, dict) or not isinstance(after, list) or step.get("status") != 200:
        return patch
    if "nominatedClusterNames" in (patch.get("status") or {}):
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
