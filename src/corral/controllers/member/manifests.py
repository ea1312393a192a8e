"""One manifest on the member: found, taken over if need be, compared, applied. Every way it can end is an `Outcome`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from corral.client.protocol import Client
from corral.configuration.member import MemberSettings
from corral.core.errors import ApiError, Invalid, NotFound
from corral.core.meta import Obj, annotations_of, metadata_of, owner_references_of, resource_version_of
from corral.core.resource import Resource
from corral.core.schema.structural import Schema, compile_schema
from corral.decide.member.availability import NOT_TRACKABLE, availability
from corral.decide.member.compare import WHOLE_OBJECT, compare
from corral.decide.member.manifests import Manifest, clean, hash_of, identity, last_applied, to_apply
from corral.decide.member.outcome import (
    APPLIED,
    DEGRADED,
    DIFF_FAILED,
    DRIFT_TOLERATED,
    FINISHED,
    FOUND_DIFF,
    FOUND_DIFF_DEGRADED,
    NO_DIFF,
    Outcome,
)
from corral.decide.member.ownership import (
    is_applied_work,
    is_owned,
    is_same,
    may_not_apply,
    may_not_take_over,
    with_owner,
)
from corral.decide.member.queue import bend, ignored_paths, is_queued, progress, yields_to_queue
from corral.decide.member.strategy import Strategy
from corral.decide.member.three_way import three_way
from corral.jobs.framework.served_kinds import builtin_registry
from corral.kinds.fleet import APPLIED_WORKS
from corral.kinds.fleet.names import LAST_APPLIED, SPEC_HASH

AGENT: Final = "work-api-agent"
_BEFORE: Final = "before-first-apply"

Differences = tuple[list[Obj], bool]
"""What differs, and whether only a full comparison could tell."""


@dataclass(frozen=True, slots=True)
class Task:
    """What all manifests of a Work share in one look."""

    work: Obj
    strategy: Strategy
    ours: Obj
    finished: Mapping[str, Obj]


@dataclass(frozen=True, slots=True)
class QueueTerms:
    """How much of a manifest is left to the queue and to users' exceptions."""

    tolerates_drift: bool
    wanted: Obj


class Failed(Exception):
    """The manifest cannot be applied; `reason` and the text are for its Applied condition."""

    def __init__(self, reason: str, text: str, diffs: list[Obj] | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.diffs = diffs or []


class Manifests:
    """Applies manifests to the member."""

    def __init__(self, client: Client, settings: MemberSettings, workload_of: Callable[[Obj], Obj | None]) -> None:
        self._client = client
        self._settings = settings
        self._workload_of = workload_of

    async def process(self, manifest: Manifest, task: Task) -> Outcome:
        """Bring one manifest about, or say why not."""
        if manifest.problem is not None or manifest.resource is None:
            problem = manifest.problem
            return Outcome(manifest, problem.reason, problem.error) if problem else Outcome(manifest, "DecodingErred")
        try:
            live = await self._find(manifest, manifest.resource)
        except Failed as failure:
            return Outcome(manifest, failure.reason, str(failure))
        if live is None and (before := self._finished(manifest, task)) is not None:
            return Outcome(manifest, FINISHED, availability=NOT_TRACKABLE, reported=before.get("report"))
        try:
            return await self._converge(manifest, manifest.resource, live, task)
        except Failed as failure:
            return Outcome(manifest, failure.reason, str(failure), live=live, diffs=failure.diffs)

    def _finished(self, manifest: Manifest, task: Task) -> Obj | None:
        """The memory of a job that ran to its end for this very manifest."""
        if not self._settings.remember_finished:
            return None
        entry = task.finished.get("/".join(identity(manifest.identifier)))
        return entry if entry is not None and entry.get("hash") == hash_of(manifest.obj) else None

    async def _find(self, manifest: Manifest, resource: Resource) -> Obj | None:
        try:
            return await self._client.get(resource, manifest.key.name, manifest.key.namespace)
        except NotFound:
            return None
        except ApiError as error:
            text = "failed to find the corresponding object for the manifest object in the member cluster"
            raise Failed("FailedToFindObjInMemberCluster", f"{text}: {error}") from error

    async def _converge(self, manifest: Manifest, resource: Resource, live: Obj | None, task: Task) -> Outcome:
        strategy, ours = task.strategy, task.ours
        terms = self._queue_terms(manifest.obj, live, task)
        if live is not None and not is_owned(live, ours) and strategy.take_over != "Never":
            live = await self._take_over(resource, terms.wanted, live, task)
        if strategy.reports_diff:
            return await self._report_diff(manifest, resource, terms.wanted, live, task)
        if live is not None and not is_owned(live, ours):
            raise Failed("NotTakenOver", "no ownership of the object in the member cluster; takeover is needed")
        if live is not None and strategy.only_undrifted and _is_last_applied(manifest.obj, live):
            drifts, degraded = await self._drifts(resource, terms.wanted, live, strategy)
            if drifts and terms.tolerates_drift:
                return self._done(manifest, Outcome(manifest, DRIFT_TOLERATED, live=live, drifts=drifts), task)
            if drifts:
                reason = "FoundDriftsInDegradedMode" if degraded else "FoundDrifts"
                text = "cannot apply manifest: drifts are found between the manifest and the object from the member cluster"
                return Outcome(manifest, reason, text + (DEGRADED if degraded else ""), live=live, drifts=drifts)
        live = await self._apply(manifest.obj, resource, terms.wanted, live, task)
        drifts = compare(clean(terms.wanted), live) if strategy.full_comparison else []
        return self._done(manifest, Outcome(manifest, APPLIED, live=live, drifts=drifts), task)

    def _queue_terms(self, manifest: Obj, live: Obj | None, task: Task) -> QueueTerms:
        queued = is_queued(manifest)
        friendly = yields_to_queue(manifest) or yields_to_queue(task.work) or (self._settings.queue_friendly and queued)
        if live is None:
            return QueueTerms(friendly, manifest)
        marks = friendly or (self._settings.yield_to_queue and queued)
        yields = friendly or (marks and not task.strategy.only_undrifted)
        ignored = ignored_paths(manifest, task.work)
        if not marks and not ignored:
            return QueueTerms(friendly, manifest)
        bent = bend(manifest, live, marks=marks, queue=yields, generated=friendly, ignored=ignored)
        return QueueTerms(friendly, bent)

    def _done(self, manifest: Manifest, outcome: Outcome, task: Task) -> Outcome:
        """The outcome of an applied manifest, with its availability and what is reported back."""
        assert outcome.live is not None
        live = outcome.live
        reports = task.strategy.report_back or (
            is_queued(manifest.obj)
            and (yields_to_queue(manifest.obj) or yields_to_queue(task.work) or self._settings.queue_friendly)
        )
        reported = progress(live, self._workload_of(live)) if reports else None
        return replace(outcome, availability=availability(live), reported=reported)

    # Taking over

    async def _take_over(self, resource: Resource, wanted: Obj, live: Obj, task: Task) -> Obj:
        """The object with our owner reference added; owners that no longer exist are dropped on the way."""
        strategy = task.strategy
        references = [one for one in owner_references_of(live) if not await self._is_left_behind(one, task.ours)]
        why_not = may_not_take_over(references, strategy.allow_co_ownership)
        if why_not:
            raise Failed("FailedToTakeOver", f"failed to take over a pre-existing object: {why_not}")
        if strategy.take_over == "IfNoDiff":
            try:
                diffs, degraded = await self._differences(resource, wanted, live, strategy)
            except ApiError as error:
                what = "failed to calculate configuration diffs between the manifest object and the object from the member cluster"
                raise Failed(
                    "FailedToTakeOver", f"failed to take over a pre-existing object: {what}: {error}"
                ) from error
            if diffs:
                text = (
                    "cannot take over object: configuration differences are found between the manifest object and the"
                    " corresponding object in the member cluster"
                )
                raise Failed("FailedToTakeOver", text + (DEGRADED if degraded else ""), diffs)
        taken = {**live, "metadata": {**metadata_of(live), "ownerReferences": with_owner(references, task.ours)}}
        try:
            return await self._client.update(resource, taken, manager=AGENT)
        except ApiError as error:
            text = f"failed to take over a pre-existing object: failed to take over the object: {error}"
            raise Failed("FailedToTakeOver", text) from error

    async def _is_left_behind(self, reference: Obj, ours: Obj) -> bool:
        """Whether a reference names an AppliedWork that is gone, as after leaving a fleet."""
        if not is_applied_work(reference) or is_same(reference, ours):
            return False
        try:
            found = await self._client.get(APPLIED_WORKS, str(reference.get("name")))
        except NotFound:
            return True
        except ApiError:
            return False
        return bool(metadata_of(found).get("uid") != reference.get("uid"))

    # Comparing

    async def _differences(self, resource: Resource, wanted: Obj, live: Obj, strategy: Strategy) -> Differences:
        body = clean(wanted)
        if strategy.full_comparison:
            return compare(body, live), False
        try:
            rehearsed = await self._client.apply(resource, body, manager=AGENT, force=True, dry_run=True)
        except Invalid:
            # Fields that must not change stand in the way of a dry run: all that is left is to compare everything.
            return compare(body, live, null_timestamps=self._settings.null_timestamps), True
        return compare(rehearsed, live), False

    async def _drifts(self, resource: Resource, wanted: Obj, live: Obj, strategy: Strategy) -> Differences:
        try:
            return await self._differences(resource, wanted, live, strategy)
        except ApiError as error:
            text = "failed to calculate pre-apply drifts between the manifest and the object from the member cluster"
            raise Failed("FailedToRunDriftDetection", f"{text}: {error}") from error

    async def _report_diff(
        self, manifest: Manifest, resource: Resource, wanted: Obj, live: Obj | None, task: Task
    ) -> Outcome:
        if live is None:
            return Outcome(manifest, FOUND_DIFF, diffs=[WHOLE_OBJECT])
        try:
            diffs, degraded = await self._differences(resource, wanted, live, task.strategy)
        except ApiError as error:
            return Outcome(manifest, DIFF_FAILED, str(error), live=live)
        reason = NO_DIFF if not diffs else FOUND_DIFF_DEGRADED if degraded else FOUND_DIFF
        return Outcome(manifest, reason, live=live, diffs=diffs)

    # Applying

    async def _apply(self, manifest: Obj, resource: Resource, wanted: Obj, live: Obj | None, task: Task) -> Obj:
        """The object after the manifest was applied to it."""
        strategy, ours = task.strategy, task.ours
        why_not = may_not_apply(manifest, live, ours, strategy.allow_co_ownership)
        if why_not:
            raise Failed("ManifestApplyFailed", f"failed to apply the manifest: {why_not}")
        client_side = strategy.type == "ClientSideApply"
        owners = with_owner(owner_references_of(live or manifest), ours)
        body = to_apply(wanted, owners, remember=client_side, remembered=manifest if wanted is not manifest else None)
        if live is None:
            return await _sent("create manifest object: error", self._client.create(resource, body, manager=AGENT))
        if client_side and annotations_of(body).get(LAST_APPLIED):
            return await self._merge(resource, body, live, strategy)
        # Too large to remember what was applied, or server-side apply from the start.
        force = (strategy.force and not client_side) or _is_only_ours(live)
        if strategy.only_undrifted:
            body = {**body, "metadata": {**body["metadata"], "resourceVersion": resource_version_of(live)}}
        call = self._client.apply(resource, body, manager=AGENT, force=force)
        return await _sent("apply the manifest object: an error is", call)

    async def _merge(self, resource: Resource, body: Obj, live: Obj, strategy: Strategy) -> Obj:
        patch = three_way(
            last_applied(live), body, live, _schema_of(str(body.get("apiVersion")), str(body.get("kind")))
        )
        if not patch.body:
            return live
        change = patch.body
        if strategy.only_undrifted:
            version = {"resourceVersion": resource_version_of(live)}
            change = {**change, "metadata": {**(change.get("metadata") or {}), **version}}
        name, namespace = metadata_of(live)["name"], str(metadata_of(live).get("namespace") or "")
        call = self._client.patch(resource, name, namespace, change, kind=patch.kind, manager=AGENT)
        return await _sent("patch the manifest object: error", call)


def _is_last_applied(manifest: Obj, live: Obj) -> bool:
    return annotations_of(live).get(SPEC_HASH) == hash_of(manifest)


def _is_only_ours(live: Obj) -> bool:
    """Whether nobody else has set a field of the object; status has other managers by nature."""
    entries = metadata_of(live).get("managedFields") or []
    return all(entry.get("manager") in (AGENT, _BEFORE) for entry in entries if not entry.get("subresource"))


async def _sent(what: str, call: Awaitable[Obj]) -> Obj:
    """The answer to a write; an error is told as upstream tells it."""
    try:
        return await call
    except ApiError as error:
        text = f"failed to apply the manifest: failed to {what} returned by the API server: {error}"
        raise Failed("ManifestApplyFailed", text) from error


@lru_cache(maxsize=256)
def _schema_of(api_version: str, kind: str) -> Schema | None:
    """The schema of one of Kubernetes' own kinds."""
    found = builtin_registry().find(api_version, kind)
    return compile_schema(found[1].schema) if found is not None else None
