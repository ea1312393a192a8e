"""Manifests for a simulation: what is there from the start, and which jobs are submitted when."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import yaml

from corral.core.meta import Obj, annotations_of, metadata_of, name_of, namespace_of, spec_of
from corral.core.text_files import decode, read_text
from corral.core.timestamps import parse_duration
from corral.jobs.framework.registry import dispatched_adapters, known_frameworks, queued_sets

SUBMIT_AFTER, SUBMIT_COUNT, SUBMIT_EVERY = (f"corral.dev/submit-{word}" for word in ("after", "count", "every"))
MOST = 100_000


def lasting_kinds() -> set[tuple[str, str]]:
    """Kinds that are queued, or make what is queued, and never end by themselves."""
    sets = {(found.resource.group, found.resource.kind) for found in queued_sets(known_frameworks())}
    return sets | {("batch", "CronJob")}


@dataclass(frozen=True, slots=True)
class Submission:
    """A job, and the second it is submitted at."""

    obj: Obj
    at: float = 0.0
    source: str = ""

    @property
    def lasts(self) -> bool:
        return group_kind(self.obj) in lasting_kinds()


@dataclass(slots=True)
class Manifests:
    """Everything the files say."""

    nodes: list[Obj] = field(default_factory=list)
    standing: list[tuple[Obj, str]] = field(default_factory=list)
    """What is there from the start, with the file it is from."""
    jobs: list[Submission] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[Obj]:
        return [obj for obj, _ in self.standing if obj["kind"] == kind]

    @property
    def namespaces(self) -> list[str]:
        """Namespaces that something is in."""
        found = [*(obj for obj, _ in self.standing), *(job.obj for job in self.jobs)]
        return sorted({namespace_of(obj) for obj in found if namespace_of(obj)} | {"default"})


def group_kind(obj: Obj) -> tuple[str, str]:
    return str(obj["apiVersion"]).rpartition("/")[0], str(obj["kind"])


def read(files: Sequence[str]) -> Manifests:
    """All documents of the files; `-` is standard input."""
    kinds = {(found.resource.group, found.resource.kind) for found in dispatched_adapters()} | lasting_kinds()
    result = Manifests()
    for file in files:
        for obj in _documents(file):
            if group_kind(obj) in kinds:
                result.jobs += _submissions(obj, file)
            elif group_kind(obj) == ("", "Node"):
                result.nodes.append(obj)
            else:
                result.standing.append((obj, file))
    result.jobs.sort(key=lambda job: job.at)
    if len(result.jobs) > MOST:
        raise click.ClickException(f"{len(result.jobs)} jobs are more than can be simulated ({MOST})")
    return result


def _documents(file: str) -> Iterator[Obj]:
    text = decode(sys.stdin.buffer.read(), "standard input") if file == "-" else read_text(Path(file))
    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise click.ClickException(f"{file} is not YAML: {' '.join(str(error).split())}") from error
    for document in documents:
        if document is None:
            continue
        entries = document.get("items") or [] if _is_list(document) else [document]
        for obj in entries:
            if not isinstance(obj, dict) or not obj.get("apiVersion") or not obj.get("kind"):
                raise click.ClickException(f"{file}: every object needs apiVersion and kind")
            yield obj


def _is_list(document: object) -> bool:
    return isinstance(document, dict) and str(document.get("kind", "")).endswith("List") and "items" in document


def _submissions(obj: Obj, file: str) -> Iterator[Submission]:
    """The job as often as its annotations say; copies are numbered."""
    marks = annotations_of(obj)
    try:
        after, every = (parse_duration(marks.get(mark) or "0s") for mark in (SUBMIT_AFTER, SUBMIT_EVERY))
        count = int(marks.get(SUBMIT_COUNT) or 1)
    except ValueError as error:
        raise click.ClickException(f"{file}: {obj['kind']} {name_of(obj)}: {error}") from error
    if count > MOST:
        raise click.ClickException(f"{file}: {SUBMIT_COUNT} of {obj['kind']} {name_of(obj)} is more than {MOST}")
    width = len(str(count))
    for number in range(1, count + 1):
        body = copy.deepcopy(obj)
        body["metadata"] = {"namespace": "default", **metadata_of(body)}
        if count > 1 and metadata_of(body).get("name"):
            body["metadata"]["name"] = f"{name_of(obj)}-{number:0{width}}"
        yield Submission(body, after + (number - 1) * every, file)


def quota_of(queue: Obj) -> Iterator[tuple[str, str, str]]:
    """Flavor, resource and nominal quota of a ClusterQueue."""
    for group in spec_of(queue).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for resource in flavor.get("resources") or ():
                yield str(flavor["name"]), str(resource["name"]), str(resource.get("nominalQuota", "0"))
