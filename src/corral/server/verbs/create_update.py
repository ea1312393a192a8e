"""Creating and replacing objects: from what a caller sent to what the store keeps.

The order is upstream's: read and default, system metadata, mutating admission, names, last preparations, validation,
validating admission, store. A write that changes nothing makes no revision. A write on its way to disk counts as
present, so an error or a no-op that was decided by one waits until that one is visible.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NoReturn

from corral.core import errors, names, validation
from corral.core.errors import ApiError, Cause
from corral.core.meta import Obj
from corral.server.admission.chain import Chain
from corral.server.served_resources import Served
from corral.server.verbs import intake, revisions
from corral.server.verbs.intake import Writing
from corral.server.verbs.managed_fields import TRACKED, Management
from corral.server.verbs.options import Clock, Random
from corral.server.verbs.scale import scaled
from corral.server.verbs.steps import Steps
from corral.store import Homeless, Stale, Store, Stored, StoreError, TooLarge

log = logging.getLogger(__name__)

NAME_ATTEMPTS = 8
UPDATE_ATTEMPTS = 20
STUMBLES = (AttributeError, KeyError, TypeError, ValueError)


class Writer:
    """Create and update over one store."""

    def __init__(
        self,
        store: Store,
        chain: Chain,
        clock: Clock,
        random: Random,
        management: Management = TRACKED,
        steps: Steps = Steps(),  # noqa: B008  # without a thread it has no state
    ):
        self._management = management
        self.steps = steps
        self._store = store
        self._chain = chain
        self._clock = clock
        self._random = random

    # -- create -------------------------------------------------------------------------------------------------------

    async def create(self, writing: Writing, sent: Obj, management: Management | None = None) -> Stored:
        """Store a new object, read from what was `sent`."""
        writing, do = self.steps.weighed(writing), self.steps.do
        obj = await do(writing, intake.read, writing, sent)
        metadata = obj["metadata"]
        writing = writing._replace(
            namespace=intake.namespace_of_new(writing, metadata), name=metadata.get("name") or ""
        )
        ground = self._chain.ground(writing.admission("CREATE", obj, None))
        versioned = bool(metadata.pop("resourceVersion", ""))
        now = self._clock.timestamp()
        intake.begin_life(writing, metadata, self._random.uid_at(self._clock.now()), now)
        obj = await do(writing, (management or self._management).create, writing, obj, now)
        obj = await self._mutate(writing, "CREATE", obj, None)
        metadata = obj["metadata"]
        base = "" if metadata.get("name") else metadata.get("generateName") or ""
        if base:
            metadata["name"] = names.generate_name(base, self._random.suffix())
        await do(writing, intake.prepare_new, writing, obj)
        if not base or versioned:
            return await self._insert(writing, obj, ground, versioned=versioned)
        return await self._insert_generated(writing, obj, base, ground)

    async def _insert_generated(self, writing: Writing, obj: Obj, base: str, ground: Sequence[str]) -> Stored:
        for _ in range(NAME_ATTEMPTS - 1):
            try:
                return await self._insert(writing, obj, ground)
            except errors.AlreadyExists:
                name = names.generate_name(base, self._random.suffix())
                obj = {**obj, "metadata": {**obj["metadata"], "name": name}}
        try:
            return await self._insert(writing, obj, ground)
        except errors.AlreadyExists as error:
            why = "the server was not able to generate a unique name for the object"
            raise errors.AlreadyExists(f"{error.message}, {why}", details=error.details) from None

    async def _insert(self, writing: Writing, obj: Obj, ground: Sequence[str], *, versioned: bool = False) -> Stored:
        """`ground` is what the write stood on as it began. `versioned` is an object that was sent with a version, as if it were
        there already; other faults are told first."""
        served, options = writing.served, writing.options
        name = obj["metadata"].get("name") or ""
        await self.steps.do(writing, _check_new, writing, obj)
        await self._validate(writing, "CREATE", obj, None)
        if versioned:
            raise ApiError("resourceVersion should not be set on objects to be created", code=500, reason="")
        key = served.key(writing.namespace, name)
        current = self._store.head(key)
        if current is not None:
            await self._exists(served, name, current)
        if options.dry_run:
            return await self._as_if_kept(writing, Stored(key, 0, obj=obj))
        stored = intake.in_order(await served.to_storage(obj))
        self._chain.hold(writing.admission("CREATE", obj, None), ground)
        try:
            kept = await self._store.put(key, stored, expected=0)
        except Stale as stale:
            await self._exists(served, name, stale.current)
        except Homeless:
            raise
        except StoreError as error:
            raise refused(error) from error
        if served.needs_webhook:
            await served.prepare(kept)
        return served.view(kept)

    async def _exists(self, served: Served, name: str, current: Stored | None) -> NoReturn:
        await self._store.settled()
        error = errors.already_exists(served.resource, name)
        if current is not None and current.obj["metadata"].get("deletionTimestamp"):
            error = errors.AlreadyExists(f"object is being deleted: {error.message}", details=error.details)
        raise error

    # -- update -------------------------------------------------------------------------------------------------------

    async def update(self, writing: Writing, sent: Obj) -> tuple[Stored, bool]:
        """Replace an object by what was `sent`; create it where the kind allows that."""
        conditional = _names_version(sent)
        if not conditional:
            writing = writing.repeatable()
        for _ in range(UPDATE_ATTEMPTS):
            current = self._store.head(writing.key)
            if writing.served.needs_webhook:
                await writing.served.prepare(current)
            writing = self.steps.weighed(writing, current)
            old = writing.served.view(current).obj if current is not None else None
            obj = await self.steps.do(writing, self._read_update, writing, sent, old)
            if current is None:
                return await self._create_by_update(writing, obj), True
            try:
                return await self.replace(writing, current, obj), False
            except Stale:
                if conditional:
                    break  # who names a version does not want another one overwritten
        await self._store.settled()
        raise errors.conflict(writing.served.resource, writing.name)

    def _read_update(self, writing: Writing, sent: Obj, old: Obj | None) -> Obj:
        if writing.subresource == "scale":
            sent = self._scaled(writing, old, sent)
        obj: Obj | None = None
        if writing.subresource == "status" and old is not None:
            obj = intake.read_status(writing, sent, old)
        if obj is None:
            obj = intake.read(writing, sent)
        intake.check_name(writing, obj["metadata"])
        intake.namespace_of_new(writing, obj["metadata"])
        return obj

    async def _create_by_update(self, writing: Writing, obj: Obj) -> Stored:
        if not writing.served.kind.allow_create_on_update or writing.subresource:
            raise errors.not_found(writing.served.resource, writing.name)
        self._check_may_appear(writing, obj["metadata"])
        return await self.create(writing, obj)

    def _scaled(self, writing: Writing, old: Obj | None, scale: Obj) -> Obj:
        paths = writing.served.version.scale
        if old is None or paths is None:
            raise errors.not_found(writing.served.resource, writing.name)
        return scaled(writing, old, paths, scale)

    def _check_may_appear(self, writing: Writing, metadata: Obj) -> None:
        served = writing.served
        if metadata.get("uid"):
            raise intake.uid_conflict(writing, metadata["uid"], "")
        if metadata.get("resourceVersion"):
            raise errors.conflict(served.resource, writing.name)

    async def replace(
        self, writing: Writing, current: Stored, obj: Obj, management: Management | None = None
    ) -> Stored:
        """Replace `current` by `obj`, a private object in the requested version. Raises Stale when `current` no longer is."""
        served, do = writing.served, self.steps.do
        old = served.view(current).obj
        await self._check_preconditions(writing, current, obj["metadata"])
        intake.carry_over(writing, obj, old)
        update = (management or self._management).update
        obj = await do(writing, update, writing, obj, old, self._clock.timestamp())
        obj = await self._mutate(writing, "UPDATE", obj, old)
        await do(writing, intake.prepare_changed, writing, obj, old)
        if intake.same(obj, old):
            await self._store.settled()
            return served.view(current)
        intake.raise_generation(writing, obj, old)
        await do(writing, _check_changed, writing, obj, old)
        await self._validate(writing, "UPDATE", obj, old)
        if writing.options.dry_run:
            return await self._as_if_kept(writing, Stored(current.key, current.revision, obj=obj))
        kept = await self._keep(writing, current, obj)
        if served.needs_webhook:
            await served.prepare(kept)
        return served.view(kept)

    async def _keep(self, writing: Writing, current: Stored, obj: Obj) -> Stored:
        """Store the change, or remove the object when nothing holds it back any more."""
        stored = intake.in_order(await writing.served.to_storage(obj))
        try:
            if obj["metadata"].get("deletionTimestamp") and intake.may_go(writing.served, obj):
                return await self._store.delete(current.key, current.revision, stored)
            return await self._store.put(current.key, stored, expected=current.revision)
        except Stale:
            raise
        except StoreError as error:
            raise refused(error) from error

    async def _as_if_kept(self, writing: Writing, stored: Stored) -> Stored:
        """What a dry run shows: conversion to the storage version and back may change an object."""
        served = writing.served
        if served.conversion is None or served.api_version == served.stored_as:
            return stored
        kept = Stored(stored.key, stored.revision, obj=await served.to_storage(stored.obj))
        await served.prepare(kept)
        return served.view(kept)

    async def _check_preconditions(self, writing: Writing, current: Stored, metadata: Obj) -> None:
        served, version = writing.served, metadata.get("resourceVersion") or ""
        uid = current.obj["metadata"].get("uid") or ""
        if metadata.get("uid") and metadata["uid"] != uid:
            await self._store.settled()
            if writing.patched:
                raise invalid(served, writing.name, validation.immutable("metadata.uid", metadata["uid"], uid) * 2)
            raise intake.uid_conflict(writing, metadata["uid"], uid)
        try:
            wanted = revisions.parse(version)
        except ValueError as error:
            raise ApiError(str(error), code=500, reason="") from None
        if not wanted:
            if not served.kind.allow_unconditional_update:
                raise intake.unconditional(writing)
        elif wanted != current.revision:
            await self._store.settled()
            raise errors.conflict(served.resource, writing.name)

    # -- both ---------------------------------------------------------------------------------------------------------

    async def _validate(self, writing: Writing, operation: str, obj: Obj, old: Obj | None) -> None:
        try:
            await self._chain.validate(writing.admission(operation, obj, old))
        except STUMBLES as error:
            said = _stumbled(writing, obj, old)
            if said is None:
                raise
            raise said from error

    async def _mutate(self, writing: Writing, operation: str, obj: Obj, old: Obj | None) -> Obj:
        try:
            changed, foreign = await self._chain.mutate(writing.admission(operation, obj, old))
        except STUMBLES as error:
            said = _stumbled(writing, obj, old)
            if said is None:
                raise
            raise said from error
        assert changed is not None
        # A foreign plug-in may leave out what has a default, or share parts that must not be worked on in place.
        return await self.steps.do(writing, intake.reread, writing, changed) if foreign else changed


def _check_new(writing: Writing, obj: Obj) -> None:
    """Refuse a new object with everything that is wrong with it, or pass on what is allowed but unwise."""
    causes = intake.check_new(writing, obj)
    if causes:
        raise invalid(writing.served, obj["metadata"].get("name") or "", causes)
    intake.pass_on_warnings(writing, obj, None)


def _check_changed(writing: Writing, obj: Obj, old: Obj) -> None:
    """The same for a changed object."""
    causes = intake.check_changed(writing, obj, old)
    if causes:
        raise invalid(writing.served, writing.name, causes)
    intake.pass_on_warnings(writing, obj, old)


def _stumbled(writing: Writing, obj: Obj, old: Obj | None) -> ApiError | None:
    """What to say when a plug-in could not cope with an object. Plug-ins take for granted what is checked only after them, so
    what is wrong with the object is the better answer; a custom object may be odd where its schema leaves everything open.
    None when the fault is not the object's."""
    causes = intake.check_new(writing, obj) if old is None else intake.check_changed(writing, obj, old)
    if causes:
        return invalid(writing.served, obj["metadata"].get("name") or "", causes)
    if writing.served.kind.builtin:
        return None
    log.exception("an object that no rule forbids could not be handled key=%s", writing.key)
    return writing.shape.unreadable("admission could not make sense of it")


def _names_version(sent: Obj) -> bool:
    metadata = sent.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("resourceVersion"))


def refused(error: StoreError) -> ApiError:
    """What a caller is told when the store could not keep a write."""
    if isinstance(error, TooLarge):
        return ApiError("etcdserver: request is too large", code=500, reason="")
    return errors.InternalError(f"Internal error occurred: {error}")


def invalid(served: Served, name: str, causes: list[Cause]) -> errors.Invalid:
    return errors.invalid(served.kind.kind, name, causes, group=served.kind.group)
