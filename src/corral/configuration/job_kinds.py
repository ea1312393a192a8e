"""Kinds of jobs that only a configuration knows, checked before anything relies on them.

`corral.jobKinds` describes kinds that are queued and dispatched; `multiKueue.externalFrameworks` names kinds that somebody
else queues, and that are only dispatched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from corral.configuration.part import ConfigurationError, Part
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.jobs.framework.adapter import JobAdapter
from corral.jobs.framework.described import DescribedState, JobDescription, described_job, external_job
from corral.jobs.framework.registry import adapter_for, dispatched_adapters
from corral.kinds.kueue.gates import FeatureGates

FIELD = "corral.jobKinds"
_PATH = re.compile(r"(spec|status)(\.[A-Za-z0-9_-]+)+")
_API_VERSION = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/v[a-z0-9]+")


class JobKindError(ConfigurationError):
    """A description that cannot be used; the text says which and why."""


def described_kinds(document: Obj | Part) -> tuple[JobDescription, ...]:
    """The kinds that a configuration describes. Raises JobKindError."""
    entries: Any = Part.of(document).part("corral").get("jobKinds")
    if not entries:
        return ()
    if not isinstance(entries, list):
        raise JobKindError(f"{FIELD}: expected a list of kinds, got {entries!r}")
    found = tuple(_decoded(position, entry) for position, entry in enumerate(entries))
    seen: set[tuple[str, str]] = set()
    for position, kind in enumerate(found):
        for fault in _faults(kind, seen):
            raise JobKindError(f"{FIELD}[{position}] ({kind.kind}): {fault}")
        seen.add((kind.resource.group, kind.kind))
    return found


def _decoded(position: int, entry: Any) -> JobDescription:
    try:
        return msgspec.convert(entry, JobDescription)
    except msgspec.ValidationError as error:
        raise JobKindError(f"{FIELD}[{position}]: {error}") from error


def _faults(kind: JobDescription, seen: set[tuple[str, str]]) -> Iterator[str]:
    if not _API_VERSION.fullmatch(kind.api_version):
        yield f"apiVersion {kind.api_version!r} is not a group and a version, such as example.com/v1"
        return
    if (kind.resource.group, kind.kind) in seen:
        yield "it is described twice"
    if adapter_for(kind.resource) is not None:
        yield "Corral queues this kind already; leave the description out"
    yield from _path_faults("suspend", kind.suspend, within="spec")
    if kind.managed_by:
        yield from _path_faults("managedBy", kind.managed_by, within="spec")
    if not kind.pod_sets:
        yield "podSets is empty; say where the pod templates are"
    names = [pods.name for pods in kind.pod_sets]
    if len(set(names)) < len(names):
        yield "podSets: two have the same name"
    for pods in kind.pod_sets:
        yield from _path_faults(f"podSets {pods.name}: template", pods.template, within="spec")
        if isinstance(pods.count, str):
            yield from _path_faults(f"podSets {pods.name}: count", pods.count)
    for name, state in (("succeeded", kind.succeeded), ("failed", kind.failed), ("running", kind.running)):
        yield from _state_faults(name, state) if state is not None else ()


def _state_faults(name: str, state: DescribedState) -> Iterator[str]:
    if bool(state.condition) == bool(state.path):
        yield f"{name}: name either a condition, or a path and the values it has then"
        return
    if state.path:
        yield from _path_faults(f"{name}.path", state.path, within="status")
        if not state.values:
            yield f"{name}.values is empty; list the values of {state.path} that mean it"
    if state.message:
        yield from _path_faults(f"{name}.message", state.message, within="status")


def _path_faults(field: str, path: str, within: str = "") -> Iterator[str]:
    if not _PATH.fullmatch(path) or not path.startswith(within):
        yield f"{field}: {path!r} is not a path of fields such as {within or 'spec'}.worker.replicas"


def external_kinds(document: Obj | Part) -> list[Resource]:
    """The kinds that a configuration names as Kind.version.group, to be dispatched only. Raises JobKindError."""
    whole = Part.of(document)
    entries: Any = whole.part("multiKueue").get("externalFrameworks") or ()
    if not FeatureGates(whole.get("featureGates"))["MultiKueueAdaptersForCustomJobs"]:
        return []
    described = {(kind.resource.group, kind.kind) for kind in described_kinds(document)}
    found: list[Resource] = []
    for position, entry in enumerate(entries):
        name = str(entry.get("name") if isinstance(entry, dict) else entry)
        kind, version, group = (*name.split(".", 2), "", "")[:3]
        resource = Resource(group, version, f"{kind.lower()}s", kind)
        where = f"multiKueue.externalFrameworks[{position}].name: {name!r}"
        if not _API_VERSION.fullmatch(f"{group}/{version}") or not kind:
            raise JobKindError(f"{where} is not Kind.version.group, such as Render.v1.studio.example.com")
        if adapter_for(resource) is not None or (group, kind) in described:
            raise JobKindError(f"{where} is a kind that Corral dispatches already; leave it out")
        if resource in found:
            raise JobKindError(f"{where} is there twice")
        found.append(resource)
    return found


def configured_adapters(document: Obj) -> list[JobAdapter]:
    """The adapters of kinds that only this configuration knows."""
    described = [described_job(kind) for kind in described_kinds(document)]
    return [*described, *(external_job(kind) for kind in external_kinds(document))]


def jobs_to_dispatch(document: Obj, frameworks: Iterable[str] | None = None) -> list[JobAdapter]:
    """The adapters a manager dispatches with: of some frameworks, or all, and of what its configuration adds."""
    return [*dispatched_adapters(frameworks), *configured_adapters(document)]
