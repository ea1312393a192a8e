"""Event recording: fire and forget, aggregated, never in a reconcile's way.

Repeats of the same event on the same object raise its count instead of making a new object, as client-go does. A bounded
buffer protects memory; when the API does not take events they are dropped, never the work.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from typing import NamedTuple

from corral.client.protocol import Client
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Obj, name_of, namespace_of, resource_version_of, uid_of
from corral.core.resource import Resource
from corral.runtime.clock import Clock
from corral.runtime.random import Random

log = logging.getLogger(__name__)

EVENTS = Resource("", "v1", "events", "Event")
MAX_PENDING = 10_000
BATCH = 32
WRITERS = 8
MAX_REMEMBERED = 4096
MAX_MESSAGE = 1024


class _Identity(NamedTuple):
    uid: str
    kind: str
    namespace: str
    name: str
    type: str
    reason: str
    message: str


class Recorder:
    """Writes Events for one component."""

    def __init__(self, client: Client, clock: Clock, random: Random, component: str, host: str = "") -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._component = component
        self._host = host
        self._pending: deque[tuple[_Identity, Obj, str]] = deque(maxlen=MAX_PENDING)
        self._wake = asyncio.Event()
        self._seen: OrderedDict[_Identity, tuple[str, int]] = OrderedDict()
        self._last_stamp = 0

    def named(self, component: str) -> Recorder:
        """A recorder of another component that shares this one's queue and client."""
        twin = Recorder(self._client, self._clock, self._random, component, self._host)
        twin._pending, twin._wake, twin._seen = self._pending, self._wake, self._seen
        return twin

    def event(self, obj: Obj, kind: str, reason: str, message: str) -> None:
        """Record a Normal or Warning event about `obj`, which must carry apiVersion and kind."""
        message = message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 3] + "..."
        identity = _Identity(
            uid_of(obj), str(obj.get("kind", "")), namespace_of(obj), name_of(obj), kind, reason, message
        )
        self._pending.append((identity, self._reference(obj), self._component))
        self._wake.set()

    @staticmethod
    def _reference(obj: Obj) -> Obj:
        reference = {
            "kind": obj.get("kind", ""),
            "namespace": namespace_of(obj),
            "name": name_of(obj),
            "uid": uid_of(obj),
            "apiVersion": obj.get("apiVersion", ""),
            "resourceVersion": resource_version_of(obj),
        }
        return {field: value for field, value in reference.items() if value}

    async def run(self) -> None:
        """Write pending events until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                await self._write_together(self._batch())

    async def _write_together(self, batch: list[tuple[_Identity, Obj, str]]) -> None:
        """Write several events, a few at a time, so that the API can commit them together."""
        todo = iter(batch)

        async def writer() -> None:
            for entry in todo:
                await self._try(*entry)

        if len(batch) == 1:
            await writer()
        else:
            await asyncio.gather(*(writer() for _ in range(min(WRITERS, len(batch)))))

    def _batch(self) -> list[tuple[_Identity, Obj, str]]:
        """The next events, to be written together; a repeat waits, because it counts up what the first one made."""
        batch: dict[_Identity, tuple[_Identity, Obj, str]] = {}
        while self._pending and len(batch) < BATCH and self._pending[0][0] not in batch:
            entry = self._pending.popleft()
            batch[entry[0]] = entry
        return list(batch.values())

    async def _try(self, identity: _Identity, reference: Obj, component: str) -> None:
        try:
            await self._write(identity, reference, component)
        except ApiError as error:
            log.debug("event not written", extra={"reason": identity.reason, "error": str(error)})

    async def _write(self, identity: _Identity, reference: Obj, component: str) -> None:
        namespace = identity.namespace or "default"
        seen = self._seen.get(identity)
        now = self._clock.timestamp()
        if seen is not None:
            name, count = seen
            try:
                patch = {"count": count + 1, "lastTimestamp": now}
                await self._client.patch(EVENTS, name, namespace, patch, manager=component)
                self._seen[identity] = (name, count + 1)
                self._seen.move_to_end(identity)
                return
            except NotFound:
                pass  # it expired; a new one is written below
        name = f"{identity.name}.{self._stamp():x}"
        await self._client.create(
            EVENTS, self._body(identity, reference, namespace, name, now, component), manager=component
        )
        self._seen[identity] = (name, 1)
        if len(self._seen) > MAX_REMEMBERED:
            self._seen.popitem(last=False)

    def _stamp(self) -> int:
        """A number that grows with time, so that events of one second are listed in the order they happened."""
        now = (int(self._clock.now() * 1e9) << 8) + self._random.integer(0, 255)
        self._last_stamp = max(now, self._last_stamp + 1)
        return self._last_stamp

    def _body(self, identity: _Identity, reference: Obj, namespace: str, name: str, now: str, component: str) -> Obj:
        source = {"component": component, "host": self._host} if self._host else {"component": component}
        body: Obj = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": reference,
            "reason": identity.reason,
            "message": identity.message,
            "source": source,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": identity.type,
            "eventTime": None,
            "reportingComponent": component,
            "reportingInstance": self._host,
        }
        return body
