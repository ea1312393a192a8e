"""Watching: the events of a selection of objects, in the requested version, in batches, with bookmarks and an end.

Without a starting revision the current objects come first, as ADDED. An object that starts to match is ADDED, one that
stops is DELETED. Nothing is buffered here: a slow consumer falls behind in the store's history and, if it falls out of
it, is told to list again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from corral.core.meta import Obj
from corral.server.served_resources import Served
from corral.server.verbs import revisions
from corral.server.verbs.options import WatchOptions
from corral.server.verbs.selection import Selection
from corral.store import Compacted, Event, ObjectKey, Store, Stored, StoreWatch

BOOKMARK_SECONDS = 60.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_INITIAL_BATCH = 500


class Watch:
    """An asynchronous iterator of batches of events. Raises Expired when it cannot go on; `close` ends it."""

    def __init__(self, store: Store, served: Served, options: WatchOptions):
        revisions.check_match(
            options.resource_version, options.resource_version_match, watch=True, initial=options.send_initial_events
        )
        self._store = store
        self._served = served
        self._selection = Selection(served, options.namespace, options.labels, options.fields)
        self._bookmarks = options.bookmarks
        self._timers: list[asyncio.TimerHandle] = []
        self._ended = self._bookmark_due = False
        start = revisions.parse_watch(options.resource_version)
        # A list must not miss what the resource's other readers have seen, so it starts at what is visible now.
        self._after = start or store.revision
        self._initial = self._initial_events(options, start)
        self._source: StoreWatch | None = None
        if self._initial is None:
            self._source = self._follow(self._after)
        if options.bookmarks or options.timeout is not None:
            self._set_timers(options)

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> list[Event]:
        batch = await self.next()
        if not batch:
            raise StopAsyncIteration
        return batch

    async def next(self) -> list[Event]:
        """The next events, at least one; empty at the end."""
        while self._initial is not None and not self._ended:
            batch = next(self._initial, [])
            if not batch:
                self._initial = None
                self._source = self._follow(self._after)
            elif shown := await self._asked(batch) if self._served.needs_webhook else batch:
                return shown
        while not self._ended:
            assert self._source is not None
            try:
                found = await self._source.next()
            except Compacted as error:
                raise revisions.too_old_watch(self._after, error.oldest) from None
            if self._served.needs_webhook:
                await self._prepare(found)
            batch = self._translate(found)
            if batch:
                return batch
            if self._bookmark_due and not self._ended:
                self._bookmark_due = False
                return [self._bookmark(self._store.revision)]
        return await self._end()

    def poll(self) -> list[Event]:
        """Events that are there without waiting."""
        if self._initial is not None or self._ended or self._source is None or self._served.needs_webhook:
            return []
        try:
            return self._translate(self._source.poll())
        except Compacted as error:
            raise revisions.too_old_watch(self._after, error.oldest) from None

    def close(self) -> None:
        self._bookmarks = False
        self._finish()
        for timer in self._timers:
            timer.cancel()
        if self._source is not None:
            self._source.close()

    # -- inside -------------------------------------------------------------------------------------------------------

    async def _prepare(self, events: list[Event]) -> None:
        """Have the objects of these events converted."""
        await self._served.prepare(*[event.stored for event in events if event.type != "BOOKMARK"])
        if self._selection.match is not None:
            await self._served.prepare(*[event.previous for event in events])

    async def _asked(self, events: list[Event]) -> list[Event]:
        """Initial events of a kind that a webhook converts: what is wanted of them, converted."""
        await self._prepare(events)
        match, view = self._selection.match, self._served.event_view
        return [
            event if event.type == "BOOKMARK" else view(event)
            for event in events
            if event.type == "BOOKMARK" or match is None or match(event.stored)
        ]

    def _bookmark(self, revision: int, annotations: Obj | None = None) -> Event:
        """How far this watch has come, as an event."""
        reached = max(self._after, revision)
        metadata: Obj = {"resourceVersion": str(reached), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        obj = {"kind": self._served.kind.kind, "apiVersion": self._served.api_version, "metadata": metadata}
        return Event("BOOKMARK", Stored(ObjectKey(self._served.bucket, "", ""), reached, obj=obj))

    def _initial_events(self, options: WatchOptions, start: int) -> Iterator[list[Event]] | None:
        if options.send_initial_events is False or (start and not options.send_initial_events):
            return None
        self._after = max(self._store.revision, start)
        match = self._selection.match if not self._served.needs_webhook else None
        page = self._store.page(self._served.bucket, self._selection.namespace, match=match)
        return self._snapshot(page.items, closing=bool(options.send_initial_events) and options.bookmarks)

    def _snapshot(self, items: list[Stored], *, closing: bool) -> Iterator[list[Event]]:
        view = self._served.view if not self._served.needs_webhook else _as_it_is
        for index in range(0, len(items), _INITIAL_BATCH):
            yield [Event("ADDED", view(stored)) for stored in items[index : index + _INITIAL_BATCH]]
        if closing:
            yield [self._bookmark(self._after, {INITIAL_EVENTS_END: "true"})]

    def _follow(self, after: int) -> StoreWatch:
        try:
            source = self._store.watch(self._served.bucket, self._selection.namespace, after=after)
        except Compacted as error:
            raise revisions.too_old_watch(after, error.oldest) from None
        if self._ended:
            source.close()
        return source

    def _translate(self, found: list[Event]) -> list[Event]:
        if not found:
            return found
        if found[0].revision <= self._after:  # the start lay in the future
            found = [event for event in found if event.revision > self._after]
            if not found:
                return found
        self._after = found[-1].revision
        if self._selection.match is not None:
            found = [seen for event in found if (seen := self._seen(event)) is not None]
        if self._served.converts:
            return [self._served.event_view(event) for event in found]
        return found

    def _seen(self, event: Event) -> Event | None:
        """The event as this selection sees it."""
        match = self._selection.match
        assert match is not None
        previous = event.previous
        before = previous is not None and match(previous)
        if event.type == "DELETED":
            return event if before else None
        if match(event.stored):
            if before or event.type == "ADDED":
                return event
            return Event("ADDED", event.stored, previous)
        if not before or previous is None:
            return None
        before_obj = self._served.view(previous).obj
        metadata = {**before_obj["metadata"], "resourceVersion": str(event.revision)}
        last = Stored(previous.key, event.revision, obj={**before_obj, "metadata": metadata})
        return Event("DELETED", last, previous)

    def _set_timers(self, options: WatchOptions) -> None:
        loop = asyncio.get_running_loop()
        if options.bookmarks:
            self._timers.append(loop.call_later(BOOKMARK_SECONDS, self._tick, loop))
        if options.timeout is not None:
            self._timers.append(loop.call_later(options.timeout, self._finish))

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._bookmark_due = True
        if self._source is not None:
            self._source.interrupt()
        self._timers[0] = loop.call_later(BOOKMARK_SECONDS, self._tick, loop)

    def _finish(self) -> None:
        self._ended = True
        if self._source is not None:
            self._source.interrupt()

    async def _end(self) -> list[Event]:
        """Close; a watch that sends bookmarks says once more how far it came."""
        closing: list[Event] = []
        if self._bookmarks and self._source is not None:
            while found := self._source.poll():
                if self._served.needs_webhook:
                    await self._prepare(found)
                closing += self._translate(found)
            closing.append(self._bookmark(self._store.revision))
        self.close()
        return closing


def _as_it_is(stored: Stored) -> Stored:
    return stored
