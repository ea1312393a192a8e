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
from corral.kinds.kubernetes.core.kinds import EVENTS
from corral.runtime.clock import Clock
from corral.runtime.queue import WorkQueue
from corral.runtime.random import Random

log = logging.getLogger(__name__)

MAX_PENDING = 10_000
MAX_REPEATS = 100
WRITERS = 8
"""Events on their way at once; the API commits them together."""
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


class _Occurrence(NamedTuple):
    reference: Obj
    component: str


class Recorder:
    """Writes Events for one component."""

    def __init__(self, client: Client, clock: Clock, random: Random, component: str, host: str = "") -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._component = component
        self._host = host
        self._queue: WorkQueue[_Identity] = WorkQueue()
        self._pending: dict[_Identity, deque[_Occurrence]] = {}
        self._seen: OrderedDict[_Identity, tuple[str, int]] = OrderedDict()
        self._last_stamp = 0

    def named(self, component: str) -> Recorder:
        """A recorder of another component that shares this one's queue and client."""
        twin = Recorder(self._client, self._clock, self._random, component, self._host)
        twin._queue, twin._pending, twin._seen = self._queue, self._pending, self._seen
        return twin

    def event(self, obj: Obj, kind: str, reason: str, message: str) -> None:
        """Record a Normal or Warning event about `obj`, which must carry apiVersion and kind."""
        message = message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 3] + "..."
        identity = _Identity(
            uid_of(obj), str(obj.get("kind", "")), namespace_of(obj), name_of(obj), kind, reason, message
        )
        if len(self._pending) < MAX_PENDING:
            repeats = self._pending.setdefault(identity, deque(maxlen=MAX_REPEATS))
            repeats.append(_Occurrence(self._reference(obj), self._component))
            self._queue.add(identity)

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
        """Write pending events until cancelled, different ones side by side, repeats of one after the other."""
        await asyncio.gather(*(self._write_pending() for _ in range(WRITERS)))

    async def _write_pending(self) -> None:
        while (identity := await self._queue.get()) is not None:
            try:
                for occurrence in self._pending.pop(identity, ()):
                    await self._try(identity, *occurrence)
            finally:
                self._queue.done(identity)

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
