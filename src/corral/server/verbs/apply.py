"""Server-side apply: a manager declares the fields it cares about, and the server merges them into the object."""

from __future__ import annotations

from corral.core import errors, validation
from corral.core.errors import ApiError, BadRequest
from corral.core.meta import Obj
from corral.core.patch import apply as ssa
from corral.server.verbs import intake
from corral.server.verbs.create_update import Writer
from corral.server.verbs.intake import Writing
from corral.server.verbs.managed_fields import Settled
from corral.server.verbs.options import Clock
from corral.server.verbs.patch import ATTEMPTS
from corral.server.verbs.scale import scaled
from corral.store import Stale, Store, Stored


class Applier:
    """Apply over one store."""

    def __init__(self, store: Store, writer: Writer, clock: Clock):
        self._store = store
        self._writer = writer
        self._clock = clock

    async def apply(self, writing: Writing, config: Obj) -> tuple[Stored, bool]:
        """The object after the configuration was applied, and whether that created it."""
        self._check(writing, config)
        writing = writing.repeatable()._replace(patched=True)
        for _ in range(ATTEMPTS):
            current = self._store.head(writing.key)
            if writing.served.needs_webhook:
                await writing.served.prepare(current)
            try:
                if current is None:
                    return await self._create(writing, config), True
                return await self._change(writing, current, config), False
            except (Stale, _Lost):
                continue
        await self._store.settled()
        raise errors.conflict(writing.served.resource, writing.name)

    async def _create(self, writing: Writing, config: Obj) -> Stored:
        served = writing.served
        metadata = config.get("metadata") or {}
        if writing.subresource:
            raise errors.not_found(served.resource, writing.name)
        if metadata.get("uid"):
            raise errors.conflict(
                served.resource,
                writing.name,
                f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found",
            )
        writing = self._writer.steps.weighed(writing)
        obj, entries = await self._writer.steps.do(writing, self._merged, writing, None, config)
        try:
            return await self._writer.create(writing, obj, Settled(entries))
        except errors.AlreadyExists:
            raise _Lost from None

    async def _change(self, writing: Writing, current: Stored, config: Obj) -> Stored:
        seen = writing.served.view(current).obj
        if writing.subresource == "scale":
            return await self._scale(writing, current, config)
        writing, do = self._writer.steps.weighed(writing, current), self._writer.steps.do
        merged, entries = await do(writing, self._merged, writing, seen, config)
        unchanged = merged is seen and entries == ssa.managed_fields_of(seen)
        if unchanged and current is self._store.head(writing.key):
            await self._check_lock(writing, current, config)
            await self._store.settled()
            return writing.served.view(current)
        obj = None
        if writing.subresource == "status":
            obj = await do(writing, intake.read_status, writing, merged, seen)
        if obj is None:
            obj = await do(writing, intake.read, writing, merged)
        intake.check_name(writing, obj["metadata"])
        return await self._writer.replace(writing, current, obj, Settled(entries))

    async def _scale(self, writing: Writing, current: Stored, config: Obj) -> Stored:
        paths = writing.served.version.scale
        assert paths is not None
        obj = intake.read(writing, scaled(writing, writing.served.view(current).obj, paths, config))
        return await self._writer.replace(writing, current, obj)

    async def _check_lock(self, writing: Writing, current: Stored, config: Obj) -> None:
        wanted = (config.get("metadata") or {}).get("resourceVersion")
        if wanted and wanted != str(current.revision):
            raise errors.conflict(writing.served.resource, writing.name)

    def _merged(self, writing: Writing, live: Obj | None, config: Obj) -> tuple[Obj, list[Obj]]:
        version = writing.served.version
        reset = ("status",) if version.status and writing.subresource != "status" else ()
        if writing.subresource == "status":
            reset = ("spec",)
        try:
            return ssa.merge(
                live,
                config,
                writing.shape.schema.root,
                manager=writing.options.manager,
                now=self._clock.timestamp(),
                force=writing.options.force,
                subresource=writing.subresource,
                reset=reset,
            )
        except ssa.TypedObjectError as error:
            raise ApiError(str(error), code=500, reason="") from None

    def _check(self, writing: Writing, config: object) -> None:
        if not writing.options.manager:
            cause = validation.required("fieldManager", "is required for apply patch")
            raise errors.invalid("PatchOptions", "", [cause], group="meta.k8s.io")
        if not isinstance(config, dict):
            raise BadRequest("error decoding YAML: the configuration must be an object")
        version, kind = config.get("apiVersion") or "", config.get("kind") or ""
        scale = writing.subresource == "scale"
        wanted = (writing.served.api_version, writing.served.kind.kind)
        if not version or not kind or (not scale and (version, kind) != wanted):
            group, _, name = str(version).rpartition("/")
            raise BadRequest(f"invalid object type: {group}/{name}, Kind={kind}")
        metadata = config.get("metadata")
        if not isinstance(metadata, dict | None):
            raise writing.shape.unreadable("metadata must be an object")
        if (metadata or {}).get("managedFields"):
            raise BadRequest("metadata.managedFields must be nil")
        name = (metadata or {}).get("name") or ""
        if name and name != writing.name:
            raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({writing.name})")
        if not name and not scale:
            intake.check_name(writing, {})


class _Lost(Exception):
    """Somebody created the object first."""
