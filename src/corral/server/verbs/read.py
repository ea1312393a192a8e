"""Reading: get and list, with what a resourceVersion asks for and pages that are consistent with each other."""

from __future__ import annotations

from dataclasses import replace

from corral.core import errors
from corral.core.errors import BadRequest
from corral.server.served_resources import Served
from corral.server.verbs import revisions
from corral.server.verbs.options import Clock, Listing, ListOptions
from corral.server.verbs.selection import Selection
from corral.store import Compacted, Page, Store, Stored

PATIENCE = 3.0  # seconds a read waits for a revision that is not there yet
_STEP = 0.05


class Reader:
    """Get and list over one store."""

    def __init__(self, store: Store, clock: Clock):
        self._store = store
        self._clock = clock

    async def get(self, served: Served, namespace: str, name: str, resource_version: str = "") -> Stored:
        if resource_version:
            await self.reach(revisions.parse_list(resource_version))
        stored = self._store.get(served.key(namespace, name))
        if stored is None:
            raise errors.not_found(served.resource, name)
        if served.needs_webhook:
            await served.prepare(stored)
        return served.view(stored)

    async def list(self, served: Served, options: ListOptions) -> Listing:
        revisions.check_match(
            options.resource_version,
            options.resource_version_match,
            watch=False,
            initial=None,
            continued=bool(options.continue_token),
        )
        selection = Selection(served, options.namespace, options.labels, options.fields)
        if served.needs_webhook and selection.reads:
            # Which objects are wanted shows only after their conversion.
            every = Selection(served, options.namespace, None, None)
            await served.prepare(*(await self._find(served, every, replace(options, limit=0))).items)
        page = await self._find(served, selection, options)
        items = page.items
        if served.needs_webhook:
            await served.prepare(*items)
        if served.converts:
            items = [served.view(stored) for stored in items]
        if page.last is None:
            return Listing(items, str(page.revision))
        token = revisions.encode_continue(page.revision, page.last, selection.namespace)
        return Listing(items, str(page.revision), token, page.remaining if selection.match is None else None)

    async def _find(self, served: Served, selection: Selection, options: ListOptions) -> Page:
        if options.continue_token:
            return self._continued(served, selection, options)
        return await self._first(served, selection, options)

    async def _first(self, served: Served, selection: Selection, options: ListOptions) -> Page:
        wanted = revisions.parse_list(options.resource_version)
        if wanted:
            await self.reach(wanted)
        exact = options.resource_version_match == "Exact" or bool(
            options.limit > 0 and wanted and not options.resource_version_match
        )
        if selection.name and selection.namespace and not exact:
            return self._single(served, selection)
        try:
            return self._page(served, selection, options.limit, revision=wanted if exact else None)
        except Compacted:
            raise revisions.too_old_list() from None

    def _continued(self, served: Served, selection: Selection, options: ListOptions) -> Page:
        if options.resource_version and options.resource_version != "0":
            raise BadRequest("specifying resource version is not allowed when using continue")
        start = revisions.decode_continue(options.continue_token, selection.namespace)
        revision = start.revision if start.revision > 0 else None
        try:
            return self._page(served, selection, options.limit, after=start.after, revision=revision)
        except Compacted:
            raise revisions.ContinueExpired(start.after, selection.namespace) from None

    def _page(
        self,
        served: Served,
        selection: Selection,
        limit: int,
        *,
        after: tuple[str, str] | None = None,
        revision: int | None = None,
    ) -> Page:
        return self._store.page(
            served.bucket,
            selection.namespace,
            match=selection.match,
            limit=max(limit, 0),
            after=after,
            revision=revision,
        )

    def _single(self, served: Served, selection: Selection) -> Page:
        stored = self._store.get(served.key(selection.namespace, selection.name))
        found = stored is not None and (selection.match is None or selection.match(stored))
        return Page([stored] if stored is not None and found else [], self._store.revision, None, 0)

    async def reach(self, revision: int) -> None:
        """Wait a moment for a revision that other readers may already know of; Timeout when it does not come."""
        waited = 0.0
        while self._store.revision < revision:
            if waited >= PATIENCE:
                raise revisions.too_large(revision, self._store.revision)
            await self._clock.sleep(_STEP)
            waited += _STEP
