"""The formats of `-o`, and objects printed in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml

from corral.cli.output import templates
from corral.core.meta import Obj, name_of
from corral.core.text_files import read_text

PLAIN = ("table", "wide", "json", "yaml", "name")
WITH_ARGUMENT = ("jsonpath", "custom-columns")
HOW_TO = "table, wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=HEADER:.path,..."

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Format:
    """What was asked for with -o."""

    name: str = "table"
    template: tuple[templates.Node, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether a table of the command's own columns is wanted."""
        return self.name in ("table", "wide")


def parse_format(text: str) -> Format:
    """The format a user wrote; `jsonpath-file=` and `custom-columns-file=` read theirs from a file."""
    name, equals, argument = text.partition("=")
    if name in PLAIN and not equals:
        return Format(name)
    if name.endswith("-file") and name.removesuffix("-file") in WITH_ARGUMENT and argument:
        name, argument = name.removesuffix("-file"), read_text(Path(argument)).strip()
    if name not in WITH_ARGUMENT:
        raise ValueError(f"{text!r} is not one of {HOW_TO}")
    if not argument:
        raise ValueError(f"{name} needs what to print: {HOW_TO}")
    if name == "jsonpath":
        return Format(name, template=tuple(templates.parse_template(argument)))
    return Format(name, columns=tuple(templates.parse_columns(argument)))


def format_option(help: str = f"{HOW_TO[0].upper()}{HOW_TO[1:]}.") -> Callable[[F], F]:
    """-o as an option."""
    return click.option(
        "-o",
        "--output",
        type=click.UNPROCESSED,
        default="table",
        metavar="FORMAT",
        help=help,
        callback=_given,
        shell_complete=_complete,
    )


def _given(ctx: click.Context, param: click.Parameter, value: str | Format) -> Format:
    if isinstance(value, Format):
        return value
    try:
        return parse_format(value)
    except (ValueError, OSError) as error:
        raise click.BadParameter(str(error), ctx, param) from error


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [word for word in (*PLAIN, *(f"{word}=" for word in WITH_ARGUMENT)) if word.startswith(incomplete)]


def print_objects(form: Format, objects: Sequence[Obj], *, is_single: bool) -> None:
    """Objects in a format that is no table: one asked for by its name by itself, others as a List."""
    cleaned = [without_bookkeeping(obj) for obj in objects]
    if form.name == "name":
        for obj in cleaned:
            click.echo(typed_name(obj))
        return
    listed: Obj = {"apiVersion": "v1", "kind": "List", "items": cleaned, "metadata": {"resourceVersion": ""}}
    document = cleaned[0] if is_single and len(cleaned) == 1 else listed
    if form.name == "json":
        click.echo(json.dumps(document, indent=4, ensure_ascii=False))
    elif form.name == "yaml":
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
    else:
        text = templates.render(list(form.template), document)
        click.echo(text, nl=bool(text) and not text.endswith("\n"))


def typed_name(obj: Obj) -> str:
    """`job.batch/train`, as kubectl's `-o name` prints it."""
    group, slash, _ = str(obj.get("apiVersion", "")).rpartition("/")
    kind = str(obj.get("kind", "")).lower()
    return f"{kind}.{group}/{name_of(obj)}" if slash else f"{kind}/{name_of(obj)}"


def without_bookkeeping(obj: Obj) -> Obj:
    """An object without managedFields, which nobody reads."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}
