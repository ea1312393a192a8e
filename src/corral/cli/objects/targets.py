"""What users name on the command line: `jobs`, `job a b`, `job/a pod/b`, `jobs,pods`, with a namespace and a selector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from corral.cli.lookup import as_click_errors, get_named, resource_named
from corral.cli.options import namespace_of
from corral.client.sync import SyncClient
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.inspect import naming
from corral.inspect.lookup import resources_of_category

HOW_TO_NAME = "write KIND NAME... or KIND/NAME..., for example job train or job/train pod/train-x2x7k"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Wanted:
    """All objects of a kind, or the one of a name."""

    resource: Resource
    name: str = ""


def selector_option(command: F) -> F:
    """-l for commands that act on jobs."""
    return click.option("-l", "--selector", default="", help="Jobs, or objects of the kind TARGET, with these labels.")(
        command
    )


def selection_options(command: F) -> F:
    """-l, --field-selector and -A."""
    for option in (
        click.option("--field-selector", default="", help="Field selector, such as status.phase=Running."),
        click.option("-l", "--selector", default="", help="Label selector."),
        click.option("-A", "--all-namespaces", is_flag=True, help="In all namespaces."),
    ):
        command = option(command)
    return command


def wanted_of(client: SyncClient, words: tuple[str, ...]) -> list[Wanted]:
    """What words stand for."""
    if any("/" in word for word in words):
        return [_by_slash(client, word) for word in words]
    kinds, names = words[0].split(","), words[1:]
    resources = [resource for kind in kinds for resource in _resources(client, kind)]
    if not names:
        return [Wanted(resource) for resource in resources]
    return [Wanted(resource, name) for resource in resources for name in names]


def _by_slash(client: SyncClient, word: str) -> Wanted:
    kind, _, name = word.partition("/")
    if not kind or not name or "/" in name:
        raise click.UsageError(f"{word!r}: {HOW_TO_NAME}")
    return Wanted(resource_named(client, kind), name)


def _resources(client: SyncClient, word: str) -> list[Resource]:
    """The kinds of a word: one, or those of a category such as `all`."""
    return resources_of_category(client, word.lower()) or [resource_named(client, word)]


def refuse_selection_of_names(wanted: list[Wanted], selector: str, field_selector: str, everywhere: bool) -> None:
    """What is named is not selected as well."""
    if not any(one.name for one in wanted):
        return
    for option, given in (("-l", selector), ("--field-selector", field_selector), ("-A", everywhere)):
        if given:
            raise click.UsageError(
                f"{option} selects among all objects of a kind; it has no effect on one that is named"
            )


def objects_of(
    client: SyncClient,
    wanted: list[Wanted],
    namespace: str,
    *,
    labels: str = "",
    fields: str = "",
    everywhere: bool = False,
) -> list[tuple[Resource, Obj]]:
    """The objects meant; one that is not there is an error that says what is."""
    found = []
    for one in wanted:
        where = place_of(client, one.resource, namespace, everywhere)
        if one.name:
            found.append((one.resource, typed(one.resource, get_named(client, one.resource, one.name, where))))
        else:
            items = client.list(one.resource, where, labels=labels, fields=fields)["items"]
            found += [(one.resource, item) for item in items]
    return found


def place_of(client: SyncClient, resource: Resource, namespace: str, everywhere: bool = False) -> str:
    """The namespace to look in: none for a cluster's own kinds and for all namespaces."""
    return "" if everywhere or not resource.namespaced else namespace_of(client, namespace)


def typed(resource: Resource, obj: Obj) -> Obj:
    """An object with its kind, which items of lists lack."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def nothing_found(client: SyncClient, resource: Resource, where: str) -> str:
    """What to say of an empty list; a namespace that is not there is an error, for it is more often misspelt than empty."""
    if not where:
        return f"No {resource.plural} found."
    check_namespace(client, where)
    return f"No {resource.plural} found in namespace {where}."


def check_namespace(client: SyncClient, name: str) -> None:
    """A namespace that is not there is named with those that are."""
    with as_click_errors():
        naming.check_namespace(client, name)
