"""Placement templates: one ResourcePlacement says where a stream of Jobs may run, and every Job gets one made from it.

A Job with label `corral.dev/placement-template` names a ResourcePlacement of its namespace that is annotated
`corral.dev/template: "true"`. The template itself places nothing. The placement made for a Job belongs to it and goes
with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from corral.client.protocol import Client
from corral.controllers.placement.writes import remove
from corral.core.errors import AlreadyExists
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
)
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.fleet import RESOURCE_PLACEMENTS
from corral.runtime.changes import changed
from corral.runtime.controller import Manager, Watch

TEMPLATE: Final = "corral.dev/template"
TEMPLATE_NAME: Final = "corral.dev/placement-template"
_MAX_NAME: Final = 63


def is_template(placement: Obj) -> bool:
    """Whether a placement only stands for those made from it."""
    return annotations_of(placement).get(TEMPLATE) == "true"


def placement_name(template: str, job: str) -> str:
    """The name of a Job's placement; one that would be too long is cut and told apart by a digest."""
    name = f"{template}-{job}"
    if len(name) <= _MAX_NAME:
        return name
    return f"{name[: _MAX_NAME - 9].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def placement_for(job: Obj, template: Obj) -> Obj:
    """The placement of one Job."""
    selector = {
        "group": JOBS.group,
        "version": JOBS.version,
        "kind": JOBS.kind,
        "name": name_of(job),
        "selectionScope": "NamespaceWithResources",  # the default, so that what is stored compares equal
    }
    notes = {
        name: value
        for name, value in annotations_of(template).items()
        if name.startswith("corral.dev/") and name != TEMPLATE
    }
    return {
        "metadata": {
            "name": placement_name(name_of(template), name_of(job)),
            "namespace": namespace_of(job),
            "labels": {TEMPLATE_NAME: name_of(template)},
            "annotations": notes,
            "ownerReferences": [owner_ref(job, block=False)],
        },
        "spec": {**spec_of(template), "resourceSelectors": [selector]},
    }


class TemplateController:
    """Makes, updates and removes the placements of Jobs; its keys are Jobs."""

    name = "placement-template"

    def __init__(self, manager: Manager) -> None:
        self._client: Client = manager.client
        self._jobs = manager.informer(JOBS)
        self._jobs.add_index("template", _template_of)
        self._placements = manager.informer(RESOURCE_PLACEMENTS)
        self._placements.add_index("job", lambda obj: map(str, _job_of(obj)))
        manager.add(
            self,
            watches=[
                Watch(JOBS, when=_is_streamed),
                Watch(RESOURCE_PLACEMENTS, map=self._jobs_of, when=changed(spec_of, annotations_of, is_deleting)),
            ],
            workers=4,
        )

    def _jobs_of(self, placement: Obj) -> Iterable[Key]:
        yield from _job_of(placement)
        if is_template(placement):
            for job in self._jobs.by_index("template", str(key_of(placement))):
                yield key_of(job)

    async def reconcile(self, key: Key) -> None:
        job = self._jobs.get(key)
        wanted = None if job is None or is_deleting(job) else self._wanted(job)
        for placement in self._placements.by_index("job", str(key)):
            if wanted is not None and name_of(placement) == name_of(wanted):
                await self._update(placement, wanted)
                wanted = None
            elif not is_deleting(placement):
                await remove(self._client, RESOURCE_PLACEMENTS, placement)
        if wanted is not None:
            try:
                await self._client.create(RESOURCE_PLACEMENTS, wanted)
            except AlreadyExists:
                return  # the cache is behind, or somebody took the name: theirs stays

    def _wanted(self, job: Obj) -> Obj | None:
        template = next((self._placements.get(Key(namespace_of(job), name)) for name in _names(job)), None)
        if template is None or is_deleting(template) or not is_template(template):
            return None
        return placement_for(job, template)

    async def _update(self, placement: Obj, wanted: Obj) -> None:
        notes = {**annotations_of(placement), **annotations_of(wanted)}
        same = _with_strategy(spec_of(placement)) == _with_strategy(spec_of(wanted))
        if is_deleting(placement) or (same and notes == annotations_of(placement)):
            return
        metadata = {**placement["metadata"], "annotations": notes}
        await self._client.update(RESOURCE_PLACEMENTS, {**placement, "metadata": metadata, "spec": wanted["spec"]})


def _with_strategy(spec: Obj) -> Obj:
    """The spec with the strategy that a missing one stands for: the placement controller writes it down."""
    return {**spec, "strategy": {"type": "RollingUpdate", **(spec.get("strategy") or {})}}


def _names(job: Obj) -> Iterable[str]:
    name = labels_of(job).get(TEMPLATE_NAME)
    return (name,) if name else ()


def _template_of(job: Obj) -> Iterable[str]:
    return (str(Key(namespace_of(job), name)) for name in _names(job))


def _job_of(placement: Obj) -> Iterable[Key]:
    owner = controller_of(placement)
    if TEMPLATE_NAME in labels_of(placement) and owner is not None and owner.get("kind") == JOBS.kind:
        yield Key(namespace_of(placement), str(owner["name"]))


def _is_streamed(old: Obj | None, new: Obj | None) -> bool:
    """A Job that came, went or changed its template; what happens to it meanwhile does not matter."""
    before = () if old is None else tuple(_names(old))
    after = () if new is None else tuple(_names(new))
    return before != after or (
        bool(after) and old is not None and new is not None and is_deleting(old) != is_deleting(new)
    )
