"""Finding what a user named on the command line; what is not there is an error of the command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from corral.client.sync import SyncClient
from corral.core.errors import NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.inspect import naming
from corral.inspect.lookup import find_resource
from corral.inspect.naming import HOW_TO_NAME, instead_of, shortened
from corral.submit.errors import SubmitError

__all__ = [
    "HOW_TO_NAME",
    "as_click_errors",
    "get_named",
    "instead_of",
    "is_missing",
    "object_named",
    "resource_named",
    "shortened",
    "targets_meant",
    "targets_named",
]


@contextmanager
def as_click_errors() -> Iterator[None]:
    """Names that lead nowhere, and jobs that cannot be what was asked for, end the command with a sentence."""
    try:
        yield
    except naming.UnclearName as error:
        raise click.UsageError(str(error)) from error
    except (naming.UnknownName, SubmitError) as error:
        raise click.ClickException(str(error)) from error


def resource_named(client: SyncClient, word: str) -> Resource:
    """The kind a user wrote."""
    with as_click_errors():
        return naming.resource_named(client, word)


def get_named(client: SyncClient, resource: Resource, name: str, namespace: str = "") -> Obj:
    """An object by its name."""
    with as_click_errors():
        return naming.get_named(client, resource, name, namespace)


def object_named(client: SyncClient, words: tuple[str, ...], namespace: str) -> tuple[Resource, Obj]:
    """The object of `kind/name` or `kind name`; a lone name is a Job."""
    with as_click_errors():
        return naming.object_named(client, words, namespace)


def targets_named(client: SyncClient, words: tuple[str, ...], namespace: str) -> list[tuple[Resource, Obj]]:
    """The objects of `kind/name...` or `kind name...`; names by themselves are Jobs."""
    if any("/" in word for word in words):
        return [object_named(client, (word,), namespace) for word in words]
    if len(words) == 1:
        return [object_named(client, words, namespace)]
    if find_resource(client, words[0]) is None and _is_job(client, words[0], namespace):
        return [object_named(client, (word,), namespace) for word in words]
    if len(words) > 2 and find_resource(client, words[0]) is None:
        raise click.UsageError(HOW_TO_NAME)
    return [object_named(client, (words[0], name), namespace) for name in words[1:]]


def targets_meant(
    client: SyncClient, words: tuple[str, ...], selector: str, namespace: str, kind: str = "jobs"
) -> list[tuple[Resource, Obj]]:
    """The objects that are named, or with a selector those of a kind that have its labels."""
    if not selector:
        if not words:
            raise click.UsageError(f"name a TARGET, for example job/train, or select {kind} with -l")
        return targets_named(client, words, namespace)
    if len(words) > 1 or any("/" in word for word in words):
        raise click.UsageError("-l selects among all objects of a kind: name the kind alone")
    resource = resource_named(client, words[0] if words else kind)
    found = client.list(resource, namespace, labels=selector)["items"]
    if not found:
        raise click.ClickException(f"no {resource.plural} in namespace {namespace} have the labels {selector}")
    return [(resource, item) for item in found]


def _is_job(client: SyncClient, name: str, namespace: str) -> bool:
    """Whether a word that is no kind is the name of a Job, which several can be written by."""
    try:
        naming.object_named(client, (name,), namespace)
    except naming.UnknownName:
        return False
    return True


def is_missing(error: BaseException | None) -> bool:
    """Whether an error comes of an object that is not there."""
    return isinstance(error, NotFound) or (error is not None and is_missing(error.__cause__))
