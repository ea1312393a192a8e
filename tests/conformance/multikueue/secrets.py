"""The kubeconfig Secrets that recorded steps describe in words: good ones, broken ones and dangerous ones."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

import yaml

from corral.client import kubeconfig
from corral.core.errors import AlreadyExists, NotFound
from corral.core.meta import Key, name_of, spec_of
from corral.kinds.kubernetes.core.kinds import SECRETS
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS
from multikueue.facts import Obj
from multikueue.world import WRONG_TOKEN, World

NAMESPACE = "kueue-system"


def tells_of_secret(words: str) -> bool:
    return re.match(r"(the )?(Secret|kubeconfig)\b|.*\b(kubeconfig|credentials)\b", words) is not None


async def write_secret(world: World, words: str, recording: Obj) -> None:
    """Bring the kubeconfig Secret the words name, else that of the first MultiKueueCluster, into the state they describe."""
    client = world.clusters["manager"].client
    clusters = (await client.list(MULTI_KUEUE_CLUSTERS)).items
    named = [cluster for cluster in clusters if re.search(rf"\b{re.escape(name_of(cluster))}\b", words)]
    source = spec_of((named or clusters)[0])["clusterSource"]["kubeConfig"]
    key = Key(NAMESPACE, str(source["location"]))
    if re.search(r"does not exist$|deleted|removed", words) and "context" not in words:
        try:
            await client.delete(SECRETS, key.name, key.namespace)
        except NotFound:
            pass
        return
    worker = world.behind(key.name) if named else _worker(recording)
    data = {} if "without the key" in words else {"kubeconfig": _encoded(_text(words, worker))}
    secret: Obj = {"metadata": {"name": key.name, "namespace": key.namespace}, "data": data or {"other": ""}}
    try:
        await client.create(SECRETS, secret)
    except AlreadyExists:
        held = await client.get(SECRETS, key.name, key.namespace)
        await client.update(SECRETS, {**held, "data": secret["data"]})


def with_kubeconfig(world: World, patch: Any, secret: str, words: str) -> Any:
    """A patch of a Secret with the kubeconfig that was blanked in it: a good one, unless the words tell otherwise."""
    if not isinstance(patch, dict) or not str((patch.get("data") or {}).get("kubeconfig", "")).startswith("<"):
        return patch
    return {**patch, "data": {**patch["data"], "kubeconfig": _encoded(_text(words, world.behind(secret)))}}


def _worker(recording: Obj) -> str:
    """The worker a recording's messages call by name."""
    found = re.search(r"for cluster ([\w-]+)", str(recording["steps"]))
    return found[1] if found else "worker1"


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _text(words: str, worker: str) -> str:
    if "garbage" in words:
        return "{{{ [this is not: yaml"
    if "is empty" in words:
        return ""
    token = "rotated" if re.search(r"\b(rotated?|renewed?|another|new)\b", words) else "token"
    document = kubeconfig.document_for(worker, f"https://{worker}", b"", token=token)
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    cluster.pop("certificate-authority-data", None)
    for phrase, change in _CHANGES.items():
        if phrase in words:
            change(document, cluster, user)
    return yaml.safe_dump(document)


_Change = Callable[[Obj, Obj, Obj], object]
_CHANGES: dict[str, _Change] = {
    "insecure-skip-tls-verify": lambda _, cluster, __: cluster.update({"insecure-skip-tls-verify": True}),
    "certificate-authority is a path": lambda _, cluster, __: cluster.update({"certificate-authority": "/etc/ca"}),
    "tokenFile": lambda _, __, user: user.update({"tokenFile": "/etc/token"}),
    "exec plugin": lambda _, __, user: user.update({"exec": {"command": "x", "apiVersion": "v1"}}),
    "username and password": lambda _, __, user: user.update({"username": "u", "password": "p"}),
    "auth-provider": lambda _, __, user: user.update({"auth-provider": {"name": "x"}}),
    "no server": lambda _, cluster, __: cluster.pop("server"),
    "current-context does not exist": lambda document, _, __: document.update({"current-context": "nope"}),
    "bad host name": lambda _, cluster, __: cluster.update({"server": "https://bad_host!"}),
    "wrong bearer token": lambda _, __, user: user.update({"token": WRONG_TOKEN}),
    "CA of another cluster": lambda _, cluster, __: cluster.update({"server": "https://other-ca"}),
    "nothing listens": lambda _, cluster, __: cluster.update({"server": "https://closed-port"}),
}
"""Words of a step to what they change in a good kubeconfig."""
