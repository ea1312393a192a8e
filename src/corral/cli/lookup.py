"""Finding what a user means, `job/x` or `pytorchjob x`, and saying what there is when it is not there."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import click

from corral.client.sync import SyncClient
from corral.core.errors import NotFound
from corral.core.meta import Obj, name_of, namespace_of
from corral.core.resource import Resource
from corral.inspect.lookup import discover, find_resource, visible

HOW_TO_NAME = "write KIND/NAME, for example job/train or pytorchjob/mnist"
MAX_NAMES = 8


def resource_named(client: SyncClient, word: str) -> Resource:
    """The kind a user wrote, by plural, singular, short name or kind, as the server's discovery knows it."""
    if (found := find_resource(client, word)) is not None:
        return found
    known = {name for _, names in discover(client) for name in names if name}
    close = _or(get_close_matches(word.lower().partition(".")[0], sorted(known), n=2))
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
