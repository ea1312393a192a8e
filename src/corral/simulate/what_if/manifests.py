"""Manifests for a simulation: what is there from the start, and which jobs are submitted when."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import click

from corral.core.meta import Obj, annotations_of, metadata_of, name_of, namespace_of, spec_of
from corral.core.timestamps import parse_duration
from corral.jobs.framework.registry import dispatched_adapters, known_frameworks, queued_sets

SUBMIT_AFTER, SUBMIT_COUNT, SUBMIT_EVERY = (f"corral.dev/submit-{word}" for word in ("after", "count", "every"))
MOST = 100_000


def lasting_kinds() -> set[tuple[str, str]]:
    """Kinds that are queued, or make what is queued, and never end by themselves."""
    sets = {(found.resource.group, found.resource.kind) for found in queued_sets(known_frameworks())}
    return sets | {("batch", "CronJob")}


def submitted_kinds() -> set[tuple[str, str]]:
    """Kinds that are submitted, not there from the start."""
    return {(found.resource.group, found.resource.kind) for found in dispatched_adapters()} | lasting_kinds()


@dataclass(frozen=True, slots=True)
class Submission:
    """A job, and the second it is submitted at. `source` is where it is written; what a cluster has is written nowhere."""

    obj: Obj
    at: float = 0.0
    source: str = ""

    @property
    def lasts(self) -> bool:
        return group_kind(self.obj) in lasting_kinds()


@dataclass(slots=True)
class Manifests:
    """Everything a simulation is given."""

    nodes: list[Obj] = field(default_factory=list)
    standing: list[tuple[Obj, str]] = field(default_factory=list)
    """What is there from the start, with where it is written."""
    jobs: list[Submission] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[Obj]:
        return [obj for obj, _ in self.standing if obj["kind"] == kind]

    @property
    def namespaces(self) -> list[str]:
        """Namespaces that something is in."""
        found = [*(obj for obj, _ in self.standing), *(job.obj for job in self.jobs)]
        return sorted({namespace_of(obj) for obj in found if namespace_of(obj)} | {"default"})

    def with_more(self, others: Manifests) -> Manifests:
        """These and others; an object of both is as the others have it, and all of their jobs are submitted besides."""
        theirs = {_identity(obj) for obj, _ in others.standing}
        names = {name_of(node) for node in others.nodes}
        return Manifests(
            [*(node for node in self.nodes if name_of(node) not in names), *others.nodes],
            [*(one for one in self.standing if _identity(one[0]) not in theirs), *others.standing],
            sorted([*self.jobs, *others.jobs], key=lambda job: job.at),
        )


def _identity(obj: Obj) -> tuple[tuple[str, str], str, str]:
    return group_kind(obj), namespace_of(obj) or "default", name_of(obj)


def group_kind(obj: Obj) -> tuple[str, str]:
    return str(obj["apiVersion"]).rpartition("/")[0], str(obj["kind"])


def sorted_out(written: Iterable[tuple[Obj, str]]) -> Manifests:
    """Objects and where each is written, as what is there and what is submitted."""
    kinds = submitted_kinds()
    result = Manifests()
    for obj, place in written:
        if group_kind(obj) in kinds:
            result.jobs += _submissions(obj, f"{place}: {obj['kind']} {name_of(obj)}")
        elif group_kind(obj) == ("", "Node"):
            result.nodes.append(obj)
        else:
            result.standing.append((obj, f"{place}: {obj['kind']} {name_of(obj)}"))
    result.jobs.sort(key=lambda job: job.at)
    if len(result.jobs) > MOST:
        raise click.ClickException(f"{len(result.jobs)} jobs are more than can be simulated ({MOST})")
    return result


def _submissions(obj: Obj, source: str) -> Iterator[Submission]:
    """The job as often as its annotations say; copies are numbered."""
    marks = annotations_of(obj)
    try:
        after, every = (parse_duration(marks.get(mark) or "0s") for mark in (SUBMIT_AFTER, SUBMIT_EVERY))
        count = int(marks.get(SUBMIT_COUNT) or 1)
    except ValueError as error:
        raise click.ClickException(f"{source}: {error}") from error
    if count > MOST:
        raise click.ClickException(f"{source}: {SUBMIT_COUNT} is more than {MOST}")
    width = len(str(count))
    for number in range(1, count + 1):
        body = copy.deepcopy(obj)
        body["metadata"] = {"namespace": "default", **metadata_of(body)}
        if count > 1 and metadata_of(body).get("name"):
            body["metadata"]["name"] = f"{name_of(obj)}-{number:0{width}}"
        yield Submission(body, after + (number - 1) * every, source)


def quota_of(queue: Obj) -> Iterator[tuple[str, str, str]]:
    """Flavor, resource and nominal quota of a ClusterQueue."""
    for group in spec_of(queue).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for resource in flavor.get("resources") or ():
                yield str(flavor["name"]), str(resource["name"]), str(resource.get("nominalQuota", "0"))
