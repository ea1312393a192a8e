"""Finding what a user means: `job/x`, `pytorchjob x`, `workload/x` — the object, and the Workload that stands for it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache

import click

from corral.client.sync import SyncClient
from corral.core.errors import ApiError, Forbidden, NotFound
from corral.core.meta import Obj, is_owned_by, name_of, namespace_of, owner_references_of, uid_of
from corral.core.resource import Resource

WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
PODS = Resource("", "v1", "pods", "Pod")
HOW_TO_NAME = "write KIND/NAME, for example job/train or pytorchjob/mnist"
MAX_NAMES = 8


def resource_named(client: SyncClient, word: str) -> Resource:
    """The kind a user wrote, by plural, singular, short name or kind, as the server's discovery knows it."""
    word = word.lower()
    wanted, _, group = word.partition(".")
    for found, names in _discover(client):
        if wanted in names and (not group or found.group.startswith(group)):
            return found
    known = {name for _, names in _discover(client) for name in names if name}
    close = _or(get_close_matches(wanted, sorted(known), n=2))
    raise click.ClickException(
        f"the server does not know a resource type {word!r}" + (f"; did you mean {close}?" if close else "")
    )


def get_named(client: SyncClient, resource: Resource, name: str, namespace: str = "") -> Obj:
    """An object by its name; the error of one that is not there says what is."""
    try:
        return client.get(resource, name, namespace)
    except NotFound as error:
        raise click.ClickException(f"{error}{instead_of(client, resource, name, namespace)}") from error


def instead_of(client: SyncClient, resource: Resource, name: str, namespace: str = "") -> str:
    """What there is where an object of that name is not: the namespace that has it, similar names, or all names."""
    try:
        items = client.list(resource)["items"]
    except ApiError:
        return ""  # of a kind that is not served, or not ours to list
    elsewhere = sorted(namespace_of(item) for item in items if name_of(item) == name)
    if elsewhere:
        return f"; there is one in namespace {_or(elsewhere)}: add -n {elsewhere[0]}"
    names = sorted(name_of(item) for item in items if namespace_of(item) == namespace)
    similar = [known for known in names if known.startswith(name)] or get_close_matches(name, names, n=3)
    if similar:
        return f"; did you mean {_or(similar[:3])}?"
    where = f" in namespace {namespace}" if namespace else ""
    if not names:
        return f"; there are no {resource.plural}{where}"
    return f"; there {'is' if len(names) == 1 else 'are'} {shortened(names)}{where}"


def shortened(names: Iterable[str]) -> str:
    """Names with commas, the first of many only."""
    listed = list(names)
    more = len(listed) - MAX_NAMES
    return ", ".join(listed[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _or(names: list[str]) -> str:
    return " or ".join(names)


@lru_cache(maxsize=8)
def _discover(client: SyncClient) -> list[tuple[Resource, set[str]]]:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    found: list[tuple[Resource, set[str]]] = []
    for path in ("/api", "/apis"):
        for entry in client.call("GET", path, accept=accept).get("items") or []:
            group = (entry.get("metadata") or {}).get("name") or ""
            for version in (entry.get("versions") or [])[:1]:
                for item in version.get("resources") or []:
                    kind = (item.get("responseKind") or {}).get("kind", "")
                    resource = Resource(
                        group, version["version"], item["resource"], kind, item.get("scope") == "Namespaced"
                    )
                    names = {
                        item["resource"],
                        item.get("singularResource", ""),
                        kind.lower(),
                        *(item.get("shortNames") or []),
                    }
                    found.append((resource, names))
    return found


def object_named(client: SyncClient, words: tuple[str, ...], namespace: str) -> tuple[Resource, Obj]:
    """The object of `kind/name` or `kind name`; a lone name is a Job."""
    if len(words) == 1 and "/" in words[0]:
        kind, _, name = words[0].partition("/")
    elif len(words) == 2:
        kind, name = words
    elif len(words) == 1:
        return _job_named(client, words[0], namespace)
    else:
        raise click.UsageError(HOW_TO_NAME)
    if not kind or not name:
        raise click.UsageError(HOW_TO_NAME)
    resource = resource_named(client, kind)
    return resource, get_named(client, resource, name, namespace if resource.namespaced else "")


def _job_named(client: SyncClient, name: str, namespace: str) -> tuple[Resource, Obj]:
    resource = resource_named(client, "jobs.batch")
    try:
        return resource, client.get(resource, name, namespace)
    except NotFound as error:
        hint = instead_of(client, resource, name, namespace)
        raise click.ClickException(f"{error}{hint if '?' in hint or '-n ' in hint else f'; {HOW_TO_NAME}'}") from error


def pods_of(client: SyncClient, resource: Resource, obj: Obj, namespace: str) -> list[Obj]:
    """The pods of an object: itself, or those it owns directly or through others.

    Owners are compared by kind and name: a job has another uid on the worker it was sent to.
    """
    if resource.kind == "Pod":
        return [client.get(PODS, name_of(obj), namespace)]
    wanted = (resource.kind, name_of(obj))
    known: dict[tuple[str, str], bool] = {wanted: True}

    def belongs(child: Obj) -> bool:
        for reference in owner_references_of(child):
            owner = (str(reference["kind"]), str(reference["name"]))
            if owner not in known:
                known[owner] = False
                parent = _owner(client, reference, namespace)
                known[owner] = parent is not None and belongs(parent)
            if known[owner]:
                return True
        return False

    return sorted(filter(belongs, client.list(PODS, namespace)["items"]), key=name_of)


def _owner(client: SyncClient, reference: Obj, namespace: str) -> Obj | None:
    group = str(reference.get("apiVersion") or "").rpartition("/")[0]
    try:
        resource = resource_named(client, f"{reference['kind']}.{group}" if group else str(reference["kind"]))
        return client.get(resource, str(reference["name"]), namespace if resource.namespaced else "")
    except (NotFound, Forbidden, click.ClickException):
        return None


def workload_of(client: SyncClient, resource: Resource, obj: Obj, namespace: str) -> Obj | None:
    """The Workload that stands for an object; itself when it is one."""
    if resource.kind == "Workload":
        return obj
    found = client.list(WORKLOADS, namespace)["items"]
    owned: list[Obj] = [workload for workload in found if is_owned_by(workload, uid_of(obj))]
    if owned:
        return max(owned, key=lambda workload: str(workload["metadata"].get("creationTimestamp")))
    for reference in owner_references_of(obj):
        parent = _owner(client, reference, namespace)
        if parent is None:
            continue
        parent_resource = resource_named(client, str(reference["kind"]))
        if (workload := workload_of(client, parent_resource, parent, namespace)) is not None:
            return workload
    return None


def events_of(client: SyncClient, obj: Obj, namespace: str) -> list[Obj]:
    events = Resource("", "v1", "events", "Event")
    selector = f"involvedObject.name={name_of(obj)},involvedObject.kind={obj['kind']}"
    items: list[Obj] = client.list(events, namespace, fields=selector)["items"]
    return items
