"""Informers: a local, indexed, always-current copy of one kind, kept by list and watch.

What is there comes first: at the beginning of the watch where the API offers that, otherwise as one list, with a watch from the
list's own resourceVersion. On 410 or any doubt it comes afresh, compared with what is held, so that handlers see exactly the
differences. Held objects are shared and never mutated. An object that is too much for a handler or an index costs that one
its news of this object, never the others theirs: who may write one object must not decide about all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from corral.client import limits
from corral.client.protocol import Client, ObjectList, WatchEvent, ends_initial
from corral.core.errors import (
    ApiError,
    BadRequest,
    ConnectionFailed,
    Expired,
    Invalid,
    LimitExceeded,
    NotFound,
    TooManyRequests,
)
from corral.core.meta import Key, Obj, controller_of, key_of, resource_version_of, uid_of
from corral.core.resource import Resource
from corral.core.whole_numbers import whole_number
from corral.runtime.clock import Clock
from corral.runtime.random import Random

log = logging.getLogger(__name__)

Objects = list[Obj]
ChangeHandler = Callable[[Obj | None, Obj | None], None]
IndexFunction = Callable[[Obj], Iterable[str]]

FIRST_RETRY_S = 0.2
MAX_RETRY_S = 30.0


class Reader(Protocol):
    """The reading half of an informer: what reconcilers use."""

    def get(self, key: Key) -> Obj | None: ...

    def list(self, namespace: str = "") -> Objects: ...

    def by_index(self, name: str, value: str) -> Objects: ...


class Informer:
    """A cache of one kind. Handlers get (old, new): old is None for an addition, new is None for a deletion."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        clock: Clock,
        random: Random,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
    ) -> None:
        self.resource = resource
        self._client = client
        self._clock = clock
        self._random = random
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._objects: dict[Key, Obj] = {}
        self._indexes: dict[str, _Index] = {}
        self._handlers: list[ChangeHandler] = []
        self._owner_handlers: dict[str, list[ChangeHandler]] = {}
        self._version = 0
        self._synced = asyncio.Event()
        self._expected: dict[Key, Obj] = {}
        self._may_stream = True
        self._lists_next = False
        self.optional = False
        """Whether the API may do without this kind; while it is not served there are simply none."""
        self._error_handlers: list[Callable[[ApiError], None]] = []
        self.last_error: ApiError | None = None

    # Reading

    def get(self, key: Key) -> Obj | None:
        return self._objects.get(key)

    def list(self, namespace: str = "") -> Objects:
        """All objects, or those of one namespace, ordered by key."""
        keys = sorted(key for key in self._objects if not namespace or key.namespace == namespace)
        return [self._objects[key] for key in keys]

    def __len__(self) -> int:
        return len(self._objects)

    def keys_by_index(self, name: str) -> Mapping[str, Collection[Key]]:
        """The keys of objects by what index `name` yields, now and later: to look many things up that are rarely there."""
        return self._indexes[name].keys

    def by_index(self, name: str, value: str) -> Objects:
        """Objects whose index `name` yields `value`, ordered by key."""
        keys = self._indexes[name].keys.get(value)
        if not keys:
            return []
        return [self._objects[key] for key in (sorted(keys) if len(keys) > 1 else keys)]

    def index_values(self, name: str) -> Sequence[str]:
        return sorted(self._indexes[name].keys)

    # Set-up

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Index objects by the strings `function` yields; the same name twice keeps the first."""
        if name in self._indexes:
            return
        index = self._indexes[name] = _Index(function)
        index.fill(self._objects)

    def on_change(self, handler: ChangeHandler, *, owner: str = "") -> None:
        """Call `handler` for every change; objects held already are replayed as additions.

        With `owner` it hears, apart from the replay, only of objects that are or were controlled by one of that kind.
        """
        handlers = self._owner_handlers.setdefault(owner, []) if owner else self._handlers
        handlers.append(handler)
        for obj in tuple(self._objects.values()):
            try:
                handler(None, obj)
            except Exception:
                self._leave_out(None, obj)

    def on_error(self, handler: Callable[[ApiError], None]) -> None:
        """Call `handler` whenever the list or the watch fails, other than for an expired version."""
        self._error_handlers.append(handler)

    @property
    def has_synced(self) -> bool:
        return self._synced.is_set()

    async def synced(self) -> None:
        """Return once the first list has been taken in."""
        await self._synced.wait()

    # Keeping up

    def learn(self, obj: Obj) -> None:
        """Take in the answer to a write of our own before the watch brings it, so that nobody acts on what was before.

        What the watch has passed already is not taken: the object may have been deleted since.
        """
        version = _number(obj)
        held = self._objects.get(key_of(obj))
        if self._synced.is_set() and version > self._version and (held is None or version > _number(held)):
            self._store(key_of(obj), obj)

    def shows(self, written: Obj) -> bool:
        """Whether what is held is no older than a write of our own: it shows here, or what became of it since."""
        version, held = _number(written), self._objects.get(key_of(written))
        return version <= self._version or (held is not None and version <= _number(held))

    def expect(self, written: Obj) -> None:
        """Note a write of our own whose answer is not taken in: the watch brings it, and wakes whoever follows the object."""
        self._expected = {key: obj for key, obj in self._expected.items() if not self.shows(obj)}
        self._expected[key_of(written)] = written

    def awaits(self, key: Key) -> bool:
        """Whether what is held is older than an expected write: who changes that is refused, and tries in vain."""
        written = self._expected.get(key)
        return written is not None and not self.shows(written)

    async def run(self) -> None:
        """List and watch until cancelled. Failures are retried with jittered back-off, without end."""
        delay = FIRST_RETRY_S
        while True:
            try:
                version, stream = await self._take_all()
                delay = FIRST_RETRY_S
                self.last_error = None
                await self._follow(version, stream)
            except Expired:
                continue
            except ApiError as error:
                self.last_error = error
                if self.optional and isinstance(error, NotFound):
                    self._synced.set()
                for handler in self._error_handlers:
                    handler(error)
                log.debug("watch failed, listing again", extra={"resource": self.resource.plural, "error": str(error)})
                delay = await self._pause(delay, _asked_wait(error))
            except Exception:  # whatever it was, without this cache nobody would see anything new any more
                log.exception("an informer failed, listing again", extra={"resource": self.resource.plural})
                delay = await self._pause(delay)

    async def _pause(self, delay: float, at_least: float = 0.0) -> float:
        """Wait before the next try; how long to wait before the one after that."""
        await self._clock.sleep(max(delay, at_least) * self._random.uniform(0.8, 1.2))
        return min(delay * 2, MAX_RETRY_S)

    async def _take_all(self) -> tuple[str, AsyncIterator[WatchEvent] | None]:
        """Take in what is there; the version reached, and the watch it came with."""
        if self._may_stream and not self._lists_next and self._client.streams_lists:
            stream = self._watch(initial=True)
            try:
                if version := await self._streamed(stream):
                    return version, stream
            except (BadRequest, Invalid) as error:
                log.debug("lists are not streamed", extra={"resource": self.resource.plural, "error": str(error)})
            except ConnectionFailed:
                self._lists_next = True  # in case it was the question that was not understood
                raise
        version = await self._relist()
        self._lists_next = False
        return version, None

    async def _streamed(self, stream: AsyncIterator[WatchEvent]) -> str:
        """The version up to which a watch began with what is there; empty when it never said that this was all."""
        found: dict[Key, Obj] = {}
        time = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(limits.STREAM_PAUSE_S) as pause:
                async for event in stream:
                    pause.reschedule(time() + limits.STREAM_PAUSE_S)
                    if ends_initial(event):
                        self._replace(found, version := resource_version_of(event.obj))
                        return version
                    if event.type == "DELETED":
                        found.pop(key_of(event.obj), None)
                    elif event.type != "BOOKMARK":
                        found[key_of(event.obj)] = event.obj
        except TimeoutError:
            self._may_stream = False
        return ""

    async def _relist(self) -> str:
        found: dict[Key, Obj] = {}
        version = ""
        async for page in self._pages():
            found.update((key_of(obj), obj) for obj in page.items)
            version = page.resource_version
        self._replace(found, version)
        return version

    def _replace(self, found: dict[Key, Obj], version: str) -> None:
        """Hold what was found at a version, and nothing else."""
        if self._objects:
            self._compare(found)
        else:
            self._fill(found)
        self._version = whole_number(version) or 0
        self._synced.set()

    def _fill(self, found: dict[Key, Obj]) -> None:
        """Hold what was found where nothing was held; each index goes through it once."""
        self._objects.update(found)
        for index in self._indexes.values():
            index.fill(found)
        handlers = tuple(self._handlers)
        for obj in found.values():
            for handler in handlers:
                try:
                    handler(None, obj)
                except Exception:
                    self._leave_out(None, obj)
            if self._owner_handlers:
                self._tell_owners(None, obj)

    def _compare(self, found: dict[Key, Obj]) -> None:
        for key in [key for key in self._objects if key not in found]:
            self._store(key, None)
        for key, obj in found.items():
            held = self._objects.get(key)
            if held is None or resource_version_of(held) != resource_version_of(obj):
                self._store(key, obj)

    async def _pages(self) -> AsyncIterator[ObjectList]:
        """The pages of one list, as far as one list may go: a server could otherwise go on for ever."""
        token, size, seen = "", 0, set[str]()
        while True:
            page = await self._client.list(
                self.resource,
                self._namespace,
                labels=self._labels,
                fields=self._fields,
                limit=limits.LIST_PAGE,
                continue_token=token,
            )
            token, size = page.continue_token, size + page.size
            yield page
            if not token:
                return
            if not page.items or token in seen:
                raise LimitExceeded(f"the list of {self.resource.plural} does not come to an end")
            seen.add(token)
            if len(seen) >= limits.LIST_PAGES:
                raise LimitExceeded(f"the list of {self.resource.plural} has more than {limits.LIST_PAGES} pages")
            if size > limits.LIST_BYTES:
                raise LimitExceeded(f"the list of {self.resource.plural} is larger than {limits.LIST_BYTES} bytes")

    def _watch(self, version: str = "", *, initial: bool = False) -> AsyncIterator[WatchEvent]:
        options = {"initial": True} if initial else {"resource_version": version}
        return self._client.watch(self.resource, self._namespace, labels=self._labels, fields=self._fields, **options)

    async def _follow(self, version: str, stream: AsyncIterator[WatchEvent] | None) -> None:
        """Watch from `version`; a stream that ends by itself is taken up again where it stopped."""
        while True:
            seen = version
            async for event in stream or self._watch(version):
                version = self._take(event) or version
            stream = None
            if version == seen:
                # An empty stream that closes at once must not become a busy loop.
                await self._clock.sleep(FIRST_RETRY_S * self._random.uniform(0.8, 1.2))

    def _take(self, event: WatchEvent) -> str:
        version, key = _number(event.obj), key_of(event.obj)
        self._version = max(version, self._version)
        if event.type in ("ADDED", "MODIFIED"):
            held = self._objects.get(key)
            if held is None or version == 0 or version > _number(held):
                self._store(key, event.obj)
        elif event.type == "DELETED":
            self._store(key, None)
        return resource_version_of(event.obj)

    def _store(self, key: Key, new: Obj | None) -> None:
        old = self._objects.get(key)
        if old is None and new is None:
            return
        if old is not None and new is not None and uid_of(old) != uid_of(new):
            self._store(key, None)  # deleted and made again while nobody watched: not a change of one object
            old = None
        if new is None:
            del self._objects[key]
            for index in self._indexes.values():
                index.drop(key)
        else:
            self._objects[key] = new
            for index in self._indexes.values():
                index.put(key, new)
        for handler in self._handlers:
            try:  # here and not in a function of its own: all changes come by, and a call costs more than this
                handler(old, new)
            except Exception:
                self._leave_out(old, new)
        if self._owner_handlers:
            self._tell_owners(old, new)

    def _tell_owners(self, old: Obj | None, new: Obj | None) -> None:
        for kind in _owner_kinds(old, new):
            for handler in self._owner_handlers.get(kind, ()):
                try:
                    handler(old, new)
                except Exception:
                    self._leave_out(old, new)

    def _leave_out(self, old: Obj | None, new: Obj | None) -> None:
        """A handler failed over a change: it goes on without, and the log says which."""
        which = {"resource": self.resource.plural, "object": str(key_of(new or old or {}))}
        log.exception("a handler failed over an object, and goes on without it", extra=which)


def _asked_wait(error: ApiError) -> float:
    """How long a busy server asks to be left alone, within reason."""
    asked = error.retry_after_s if isinstance(error, TooManyRequests) else None
    return min(asked or 0.0, MAX_RETRY_S)


def _owner_kinds(old: Obj | None, new: Obj | None) -> Iterable[str]:
    """The kinds that control, or controlled, an object: mostly the same one before and after."""
    after = controller_of(new) if new is not None else None
    before = controller_of(old) if old is not None else None
    if before is not None and (after is None or after.get("kind") != before.get("kind")):
        yield str(before.get("kind"))
    if after is not None:
        yield str(after.get("kind"))


class _Index:
    """Keys by the values a function finds in their objects. What it found last is kept: most changes change none of it."""

    __slots__ = ("_function", "_values", "keys")

    def __init__(self, function: IndexFunction) -> None:
        self._function = function
        self._values: dict[Key, tuple[str, ...]] = {}
        self.keys: dict[str, dict[Key, None]] = {}

    def fill(self, objects: Mapping[Key, Obj]) -> None:
        """Take in objects of which it knows none."""
        function, found, keys = self._function, self._values, self.keys
        for key, obj in objects.items():
            try:
                values = tuple(function(obj))
            except Exception:
                values = _unreadable(obj)
            if values:
                found[key] = values
                for value in values:
                    held = keys.get(value)
                    if held is None:
                        keys[value] = {key: None}
                    else:
                        held[key] = None

    def put(self, key: Key, obj: Obj) -> None:
        try:
            after = tuple(self._function(obj))
        except Exception:
            after = _unreadable(obj)
        before = self._values.get(key, ())
        if after == before:
            return
        self._remove(key, before)
        for value in after:
            self.keys.setdefault(value, {})[key] = None
        if after:
            self._values[key] = after
        else:
            del self._values[key]

    def drop(self, key: Key) -> None:
        self._remove(key, self._values.pop(key, ()))

    def _remove(self, key: Key, values: Iterable[str]) -> None:
        for value in values:
            keys = self.keys.get(value, {})
            keys.pop(key, None)
            if not keys:
                self.keys.pop(value, None)


def _unreadable(obj: Obj) -> tuple[str, ...]:
    """What an index finds in an object that it fails over: nothing, and the log says so."""
    log.exception("an index failed over an object, and goes on without it", extra={"object": str(key_of(obj))})
    return ()


def _number(obj: Obj) -> int:
    """The revision of an object, 0 when its version is not a number: then nothing is known of what came first."""
    version = resource_version_of(obj)
    return int(version) if len(version) < 20 and version.isdecimal() else 0
