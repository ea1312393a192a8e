"""Deleting: at once, gracefully, or marked and held by finalizers until somebody lets go.

Dependents are not touched here. Foreground and orphan deletion leave a finalizer on the owner, which the garbage
collector removes when it has dealt with the dependents.
"""

from __future__ import annotations

from corral.core import errors
from corral.core.conditions import is_true
from corral.core.errors import Conflict
from corral.core.meta import Obj
from corral.core.timestamps import format_time, parse_time
from corral.server.admission.chain import Chain
from corral.server.verbs import intake
from corral.server.verbs.intake import Writing
from corral.server.verbs.options import Clock, DeleteOptions
from corral.store import Stale, Store, Stored, StoreError

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
SHOWN_WHEN_GONE = frozenset(
    {
        "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas", "serviceaccounts", "services",
        "csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "storageclasses.storage.k8s.io", "volumeattachments.storage.k8s.io",
    }
)  # fmt: skip
"""Kinds of which a real server answers the object that was deleted, in place of a Status."""
_PROPAGATION = {"Orphan": ORPHAN, "Foreground": FOREGROUND, "Background": ""}
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"  # holds a definition until its objects are gone
_ATTEMPTS = 20
_JOBS_ORPHAN = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


class Deleter:
    """Delete over one store."""

    def __init__(self, store: Store, chain: Chain, clock: Clock):
        self._store = store
        self._chain = chain
        self._clock = clock

    async def delete(self, writing: Writing, options: DeleteOptions) -> tuple[Stored, bool]:
        """The object as it is now, or as it last was, and whether it is gone."""
        for _ in range(_ATTEMPTS):
            current = self._store.head(writing.key)
            if current is None:
                await self._store.settled()
                raise errors.not_found(writing.served.resource, writing.name)
            try:
                return await self._delete(writing, current, options)
            except Stale:
                continue
            except StoreError as error:
                raise errors.InternalError(f"Internal error occurred: {error}") from error
        raise errors.conflict(writing.served.resource, writing.name)

    async def _delete(self, writing: Writing, current: Stored, options: DeleteOptions) -> tuple[Stored, bool]:
        served = writing.served
        await self._check_preconditions(writing, current, options)
        if served.needs_webhook:
            await served.prepare(current)
        request = writing.admission("DELETE", None, served.view(current).obj)
        await self._chain.mutate(request)
        await self._chain.validate(request)
        changed = self._marked(writing, current.obj, options)
        if options.propagation is None and served.kind.default_propagation == "Orphan":
            options.warn(_JOBS_ORPHAN)
        if intake.may_go(served, changed):
            if options.dry_run:
                return served.view(current), True
            return await self._shown(writing, await self._store.delete(current.key, current.revision)), True
        if options.dry_run:
            return await self._shown(writing, Stored(current.key, current.revision, obj=changed)), False
        if changed == current.obj:
            await self._store.settled()
            return served.view(current), False
        kept = await self._store.put(current.key, intake.in_order(changed), expected=current.revision)
        return await self._shown(writing, kept), False

    async def _shown(self, writing: Writing, stored: Stored) -> Stored:
        if writing.served.needs_webhook:
            await writing.served.prepare(stored)
        return writing.served.view(stored)

    async def _check_preconditions(self, writing: Writing, current: Stored, options: DeleteOptions) -> None:
        uid = current.obj["metadata"].get("uid") or ""
        why = ""
        if options.uid is not None and options.uid != uid:
            why = (
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid}). "
                "The object might have been deleted and then recreated"
            )
        elif options.resource_version is not None and options.resource_version != str(current.revision):
            why = (
                f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
                f"ResourceVersion in record ({current.revision}). The object might have been modified"
            )
        if not why:
            return
        await self._store.settled()
        kind = writing.served.kind
        if writing.served.bucket == _DEFINITIONS:
            raise errors.conflict(writing.served.resource, writing.name, _of_definition(options, uid, current.revision))
        subject = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
        details: Obj = {"name": writing.name, "kind": kind.kind}
        if kind.group:
            details["group"] = kind.group
        raise Conflict(f'Operation cannot be fulfilled on {subject} "{writing.name}": {why}', details=details)

    def _marked(self, writing: Writing, obj: Obj, options: DeleteOptions) -> Obj:
        """The object with deletion under way: its time, its grace and the finalizers that keep it."""
        metadata = dict(obj["metadata"])
        finalizers = _finalizers(metadata, options, writing.served.kind.default_propagation)
        is_new = not metadata.get("deletionTimestamp")
        if is_new and writing.served.bucket == _DEFINITIONS and is_true(obj, "Established"):
            finalizers = [*finalizers, CRD_CLEANUP] if CRD_CLEANUP not in finalizers else finalizers
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        grace = _grace(writing, obj, options)
        if metadata.get("deletionTimestamp"):
            _shorten(metadata, grace, asked=options.grace is not None)
        else:
            metadata["deletionTimestamp"] = format_time(self._clock.now() + grace)
            metadata["deletionGracePeriodSeconds"] = grace
            if metadata.get("generation"):
                metadata["generation"] += 1
        changed = {**obj, "metadata": metadata}
        if writing.served.bucket == "namespaces":
            changed["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        return changed


def _of_definition(options: DeleteOptions, uid: str, revision: int) -> str:
    """A real server looks at the preconditions of a definition elsewhere, and says so in other words."""
    if options.uid is not None and options.uid != uid:
        return f"Precondition failed: UID in precondition: {options.uid}, UID in object meta: {uid}"
    wanted = options.resource_version
    return f"Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {revision}"


def _finalizers(metadata: Obj, options: DeleteOptions, default: str) -> list[str]:
    found: list[str] = metadata.get("finalizers") or []
    if options.propagation is not None:
        wanted = _PROPAGATION[options.propagation]
    elif ORPHAN in found or FOREGROUND in found:
        return found
    else:
        wanted = _PROPAGATION[default]
    kept = [name for name in found if name not in (ORPHAN, FOREGROUND)]
    return [*kept, wanted] if wanted else kept


def _grace(writing: Writing, obj: Obj, options: DeleteOptions) -> int:
    """Seconds the object is given to end; only pods that run somewhere need any."""
    if writing.served.bucket != "pods":
        return 0
    spec = obj.get("spec") or {}
    grace = options.grace if options.grace is not None else spec.get("terminationGracePeriodSeconds", 30)
    if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return 0
    return 1 if grace < 0 else int(grace)


def _shorten(metadata: Obj, grace: int, *, asked: bool) -> None:
    """A second delete may only bring the end nearer."""
    before = metadata.get("deletionGracePeriodSeconds") or 0
    if not asked or grace >= before:
        return
    ends = parse_time(metadata["deletionTimestamp"]) - before + grace
    metadata["deletionTimestamp"] = format_time(ends)
    metadata["deletionGracePeriodSeconds"] = grace


def success(writing: Writing, stored: Stored) -> Obj:
    """The Status that says an object is gone."""
    resource = writing.served.resource
    details: Obj = {"name": writing.name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    details["uid"] = stored.obj["metadata"].get("uid") or ""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
