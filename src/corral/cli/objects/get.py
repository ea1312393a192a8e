"""`corral get`: objects of any kind, in the columns their server has for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from corral.cli.completion import complete_resource
from corral.cli.lookup import instead_of
from corral.cli.objects.targets import (
    Wanted,
    nothing_found,
    place_of,
    refuse_selection_of_names,
    selection_options,
    typed,
    wanted_of,
)
from corral.cli.options import client_of, cluster_options
from corral.cli.output.listing import Listing, Output, Shower, output_options, until_interrupted
from corral.client.sync import SyncClient
from corral.core.errors import Expired, NotFound
from corral.core.meta import Obj, labels_of, name_of
from corral.core.meta import namespace_of as namespace_of_object
from corral.core.resource import Resource
from corral.core.timestamps import parse_time
from corral.kinds.machinery.tables import format_labels, human_duration
from corral.runtime.clock import WallClock


@click.command()
@click.argument(
    "words", nargs=-1, required=True, metavar="KIND [NAME...] | KIND/NAME...", shell_complete=complete_resource
)
@selection_options
@click.option("--show-labels", is_flag=True, help="A column with all labels.")
@click.option("-L", "--label-columns", multiple=True, metavar="LABEL", help="A column with this label; repeatable.")
@output_options
@cluster_options
def get(
    words: tuple[str, ...],
    selector: str,
    field_selector: str,
    all_namespaces: bool,
    show_labels: bool,
    label_columns: tuple[str, ...],
    output: Output,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Show objects of any kind the cluster has, by its plural, singular or short name.

    \b
    corral get jobs
    corral get pods -A -l app=train --watch
    corral get job/train -o yaml
    corral get jobs,workloads --sort-by age
    corral get pods -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName
    """
    client = client_of(kubeconfig_path, context)
    wanted = wanted_of(client, words)
    refuse_selection_of_names(wanted, selector, field_selector, all_namespaces)
    if output.watch and len({one.resource for one in wanted}) > 1:
        raise click.UsageError("--watch follows one kind at a time")
    labels = tuple(part for entry in label_columns for part in entry.split(","))
    reader = Reader(client, output, namespace, selector, field_selector, all_namespaces, show_labels, labels)
    sys.exit(_show(reader, wanted, output))


def _show(reader: Reader, wanted: list[Wanted], output: Output) -> int:
    """Print what there is, then what is missing, then what changes."""
    shower = Shower(output, is_single=len(wanted) == 1 and bool(wanted[0].name))
    found, missing = reader.read(wanted)
    if found or not missing:
        shower.show([listing for listing, _ in found])
    for sentence in missing:
        click.echo(f"Error: {sentence}", err=True)
    if output.watch and not missing:
        until_interrupted(shower, reader.changes(wanted, found[0][1]))
    return 1 if missing else 0


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads what is asked for in the shape the format needs: a Table of the server's making, or the objects."""

    client: SyncClient
    output: Output
    namespace: str
    selector: str
    field_selector: str
    everywhere: bool
    show_labels: bool = False
    label_columns: tuple[str, ...] = ()

    def read(self, wanted: list[Wanted]) -> tuple[list[tuple[Listing, str]], list[str]]:
        """Listings of each kind, each with the version to watch from; and a sentence for each object that is not there."""
        found: dict[Resource, list[tuple[Listing, str]]] = {}
        missing = []
        for one in wanted:
            where = place_of(self.client, one.resource, self.namespace, self.everywhere)
            try:
                found.setdefault(one.resource, []).append(self._listing(one, where, several=len(wanted) > 1))
            except NotFound as error:
                if not one.name:
                    raise
                missing.append(f"{error}{instead_of(self.client, one.resource, one.name, where)}")
        return [_joined(listings) for listings in found.values() if listings], missing

    def _listing(self, one: Wanted, where: str, *, several: bool) -> tuple[Listing, str]:
        if not self.output.format.is_table:
            objects, version = self._objects(one, where)
            return Listing((), (), objects, empty=self._empty(one, where, objects)), version
        table = self.client.table(
            one.resource,
            where,
            name=one.name or None,
            labels=self.selector,
            fields=self.field_selector,
            include=self._include,
        )
        listing = self._from_table(table, one.resource, prefixed=several and not one.name)
        empty = self._empty(one, where, listing.objects)
        version = str((table.get("metadata") or {}).get("resourceVersion") or "")
        return Listing(listing.headers, listing.rows, listing.objects, listing.wide, empty), version

    def _objects(self, one: Wanted, where: str) -> tuple[list[Obj], str]:
        if one.name:
            obj = typed(one.resource, self.client.get(one.resource, one.name, where))
            return [obj], str(obj["metadata"].get("resourceVersion", ""))
        answer = self.client.list(one.resource, where, labels=self.selector, fields=self.field_selector)
        return answer["items"], str((answer.get("metadata") or {}).get("resourceVersion", ""))

    @property
    def _include(self) -> str:
        """How much of each object a Table has to carry: all of it where it is sorted by a path."""
        return "Object" if self.output.sort_by.startswith((".", "{", "$")) else "Metadata"

    def _empty(self, one: Wanted, where: str, objects: Sequence[Obj]) -> str:
        return "" if objects else nothing_found(self.client, one.resource, where)

    def _from_table(self, table: Obj, resource: Resource, *, prefixed: bool = False) -> Listing:
        if table.get("kind") != "Table":
            return _plain(table, resource)  # a server that makes no Tables answers with the objects
        columns = table.get("columnDefinitions") or []
        headers = [str(column["name"]).upper() for column in columns]
        rows, objects = [], []
        for row in table.get("rows") or []:
            obj = typed(resource, row.get("object") or {"metadata": {}})
            cells = [_cell(column, value) for column, value in zip(columns, row["cells"], strict=False)]
            if prefixed and cells:
                cells[0] = f"{resource.kind.lower()}{'.' if resource.group else ''}{resource.group}/{cells[0]}"
            rows.append([*self._before(resource, obj), *cells, *self._behind(obj)])
            objects.append(obj)
        before = ["NAMESPACE"] if self.everywhere and resource.namespaced else []
        behind = [label.rpartition("/")[2].upper() for label in self.label_columns]
        behind += ["LABELS"] if self.show_labels else []
        wide = frozenset(index + len(before) for index, column in enumerate(columns) if column.get("priority"))
        return Listing([*before, *("AGE" if h == "CREATED AT" else h for h in headers), *behind], rows, objects, wide)

    def _before(self, resource: Resource, obj: Obj) -> list[str]:
        return [namespace_of_object(obj)] if self.everywhere and resource.namespaced else []

    def _behind(self, obj: Obj) -> list[str]:
        labels = labels_of(obj)
        shown = [labels.get(label, "") for label in self.label_columns]
        return [*shown, format_labels(labels)] if self.show_labels else shown

    def changes(self, wanted: list[Wanted], version: str) -> Iterator[list[Listing]]:
        """Every change of what is asked for, as the server tells it."""
        resource, names = wanted[0].resource, {one.name for one in wanted}
        where = place_of(self.client, resource, self.namespace, self.everywhere)
        fields = self.field_selector
        if len(wanted) == 1 and wanted[0].name:
            fields = f"metadata.name={wanted[0].name}"
        include = self._include if self.output.format.is_table else ""
        columns: Any = None
        while True:
            try:
                for _, event in self.client.watch(
                    resource, where, labels=self.selector, fields=fields, resource_version=version, include=include
                ):
                    columns = event.get("columnDefinitions") or columns
                    listing = self._event_listing(event, columns, resource)
                    version = str((listing.objects[0].get("metadata") or {}).get("resourceVersion") or version)
                    if names == {""} or name_of(listing.objects[0]) in names:
                        yield [listing]
            except Expired:
                version = ""  # what is there now is shown again

    def _event_listing(self, event: Obj, columns: Any, resource: Resource) -> Listing:
        if event.get("kind") == "Table":
            return self._from_table({**event, "columnDefinitions": columns}, resource)
        if self.output.format.is_table:
            return _plain({"items": [event]}, resource)
        return Listing((), (), [typed(resource, event)])


def _joined(listings: list[tuple[Listing, str]]) -> tuple[Listing, str]:
    """Objects of one kind in one listing: all of them, or those that were named one by one."""
    first, version = listings[0]
    rows = [row for listing, _ in listings for row in listing.rows]
    objects = [obj for listing, _ in listings for obj in listing.objects]
    return Listing(first.headers, rows, objects, first.wide, first.empty), version


def _plain(answer: Obj, resource: Resource) -> Listing:
    items = [typed(resource, item) for item in answer.get("items", [answer])]
    rows = [[name_of(item), _age(str(item["metadata"].get("creationTimestamp") or ""))] for item in items]
    return Listing(["NAME", "AGE"], rows, items)


def _cell(column: Obj, value: object) -> object:
    """A cell of a Table; times in it are shown as ages."""
    if column.get("type") == "date" and isinstance(value, str) and value.endswith("Z"):
        return _age(value)
    return "<none>" if value is None else value


def _age(timestamp: str) -> str:
    try:
        return human_duration(WallClock().now() - parse_time(timestamp))
    except ValueError:
        return timestamp or "<unknown>"
