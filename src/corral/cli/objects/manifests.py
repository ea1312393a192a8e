"""Manifests on disk or on standard input, as objects with the place they were written at."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import yaml

from corral.client.kubeconfig import yaml_problem
from corral.core import yaml_documents
from corral.core.meta import Obj
from corral.core.text_files import decode, read_text

SUFFIXES: Final = (".yaml", ".yml", ".json")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object, and where it is written."""

    obj: Obj
    origin: str


def file_options(command: F) -> F:
    """-f and -R."""
    for option in (
        click.option("-R", "--recursive", is_flag=True, help="Also what is in folders of the folders given with -f."),
        click.option("-f", "--filename", "files", multiple=True, metavar="FILE", type=click.Path(allow_dash=True), help="Manifests: a file, a folder, or - for standard input; repeatable."),
    ):  # fmt: skip
        command = option(command)
    return command


def read_manifests(files: Iterable[str], *, recursive: bool = False) -> list[Manifest]:
    """All objects of all files, in the order they are written in."""
    return [
        manifest for file in files for origin, text in _texts(file, recursive) for manifest in _objects(text, origin)
    ]


def _texts(file: str, recursive: bool) -> Iterator[tuple[str, str]]:
    if file == "-":
        yield "standard input", decode(sys.stdin.buffer.read(), "standard input")
        return
    path = Path(file)
    if not path.is_dir():
        yield file, read_text(path)
        return
    found = sorted(one for one in path.glob("**/*" if recursive else "*") if one.suffix in SUFFIXES)
    if not found:
        raise click.ClickException(f"{file}: the folder has no manifests (*.yaml, *.yml, *.json)")
    for one in found:
        yield str(one), read_text(one)


def _objects(text: str, origin: str) -> Iterator[Manifest]:
    try:
        documents = list(yaml_documents.load_all(text, yaml_documents.MAX_FILE_NODES))
    except (yaml.YAMLError, ValueError) as error:
        raise click.ClickException(f"{origin} is not YAML: {yaml_problem(error)}") from error
    written = [(number, document) for number, document in enumerate(documents, 1) if document is not None]
    if not written:
        raise click.ClickException(f"{origin}: there is no object in it")
    for number, document in written:
        place = f"{origin}, document {number}" if len(written) > 1 else origin
        for item in _items(document):
            yield Manifest(_checked(item, place), place)


def _items(document: Any) -> list[Any]:
    """The objects of a List, or the one object."""
    if isinstance(document, dict) and str(document.get("kind", "")).endswith("List") and "items" in document:
        return list(document["items"] or [])
    return [document]


def _checked(document: Any, place: str) -> Obj:
    if not isinstance(document, dict):
        raise click.ClickException(f"{place}: it is not an object with apiVersion, kind and metadata")
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str):
            raise click.ClickException(f"{place}: {field} is missing")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise click.ClickException(f"{place}: {document['kind']} has no metadata.name")
    return document
