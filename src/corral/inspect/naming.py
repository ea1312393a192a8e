"""Finding what a user means, `job/x` or `pytorchjob x`, and saying what there is when it is not there."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from corral.client.sync import SyncClient
from corral.core.errors import Forbidden, NotFound
from corral.core.meta import Obj, name_of, namespace_of
from corral.core.resource import Resource
from corral.inspect.lookup import discover, find_resource, visible
from corral.kinds.kubernetes.core.kinds import NAMESPACES

HOW_TO_NAME = "write KIND/NAME, for example job/train or pytorchjob/mnist"
MAX_NAMES = 8


class UnknownName(Exception):
    """What was named is not there; the text says what is."""


class UnclearName(UnknownName):
    """What was written names nothing; the text says how to write it."""


def resource_named(client: SyncClient, word: str) -> Resource:
    """The kind a user wrote, by plural, singular, short name or kind, as the server's discovery knows it."""
    if (found := find_resource(client, word)) is not None:
        return found
    known = {name for _, names in discover(client) for name in names if name}
    close = _or(get_close_matches(word.lower().partition(".")[0], sorted(known), n=2))
    raise UnknownName(
        f"the server does not know a resource type {word!r}" + (f"; did you mean {close}?" if close else "")
    )


def get_named(client: SyncClient, resource: Resource, name: str, namespace: str = "") -> Obj:
    """An object by its name; the error of one that is not there says what is."""
    try:
        return client.get(resource, name, namespace)
    except NotFound as error:
        raise UnknownName(f"{error}{instead_of(client, resource, name, namespace)}") from error


def instead_of(client: SyncClient, resource: Resource, name: str, namespace: str = "") -> str:
    """What there is where an object of that name is not: the namespace that has it, similar names, or all names."""
    items = visible(client, resource, namespace)
    other_namespaces = sorted(namespace_of(item) for item in items if name_of(item) == name)
    if other_namespaces:
        return f"; there is one in namespace {_or(other_namespaces)}: add -n {other_namespaces[0]}"
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


def object_named(client: SyncClient, words: tuple[str, ...], namespace: str) -> tuple[Resource, Obj]:
    """The object of `kind/name` or `kind name`; a lone name is a Job."""
    if len(words) == 1 and "/" in words[0]:
        kind, _, name = words[0].partition("/")
    elif len(words) == 2:
        kind, name = words
    elif len(words) == 1:
        return _job_named(client, words[0], namespace)
    else:
        raise UnclearName(HOW_TO_NAME)
    if not kind or not name:
        raise UnclearName(HOW_TO_NAME)
    resource = resource_named(client, kind)
    return resource, get_named(client, resource, name, namespace if resource.namespaced else "")


def _job_named(client: SyncClient, name: str, namespace: str) -> tuple[Resource, Obj]:
    resource = resource_named(client, "jobs.batch")
    try:
        return resource, client.get(resource, name, namespace)
    except NotFound as error:
        hint = instead_of(client, resource, name, namespace)
        other = (
            "" if "?" in hint or "-n " in hint else "; write KIND/NAME for another kind, for example pytorchjob/mnist"
        )
        raise UnknownName(f"{error}{hint}{other}") from error


def _is_systems(namespace: str) -> bool:
    """Whether it is none that people submit jobs to."""
    return namespace.startswith("kube-") or namespace.endswith("-system")


def check_namespace(client: SyncClient, name: str) -> None:
    """A namespace that is not there is named with those that are."""
    try:
        client.get(NAMESPACES, name)
    except NotFound as error:
        known = sorted(map(name_of, visible(client, NAMESPACES)), key=lambda one: (_is_systems(one), one))
        there = f"; there are {', '.join(known[:12])}" if known else ""
        raise UnknownName(f"there is no namespace {name}{there}") from error
    except Forbidden:
        return  # it is not the user's to know
