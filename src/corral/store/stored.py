"""One version of one object, as bytes first and decoded on demand; and the event that made it.

A stored version never changes. Its canonical JSON is encoded once and shared by every reader and watcher; the decoded
object is shared too, so nobody may mutate it, and it is dropped again when the cache of decoded objects is full. Another thread
may do that at any moment, after it has kept the bytes: who wants either looks for the decoded form first, once.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from corral.core.meta import Obj
from corral.store.decoding import Decoding

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict).decode


class ObjectKey(NamedTuple):
    """Where an object lives: `resource` is the group-resource name, such as `jobs.batch`."""

    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource} {self.namespace}/{self.name}" if self.namespace else f"{self.resource} {self.name}"


class _OwnerReference(msgspec.Struct):
    uid: str = ""


class _Metadata(msgspec.Struct):
    generation: int = 0
    labels: dict[str, str] | None = None
    ownerReferences: list[_OwnerReference] | None = None


class _Envelope(msgspec.Struct):
    metadata: _Metadata


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


class DecodedCache:
    """Bounds how many decoded objects are kept: first decoded, first dropped. What it decodes shares what is equal."""

    __slots__ = ("_kept", "decode", "limit")

    def __init__(self, limit: int):
        self.limit = limit
        self.decode = Decoding().decode
        self._kept: deque[Stored] = deque()

    def keep(self, stored: Stored) -> None:
        self._kept.append(stored)
        if len(self._kept) > self.limit:
            self._kept.popleft().drop_decoded()


class Stored:
    """One version of one object. Made by the store (or by the API for a converted view); immutable."""

    __slots__ = ("_cache", "_labels", "_obj", "_owners", "_raw", "key", "revision", "views")

    def __init__(
        self,
        key: ObjectKey,
        revision: int,
        *,
        raw: bytes | None = None,
        obj: Obj | None = None,
        cache: DecodedCache | None = None,
    ):
        self.key = key
        self.revision = revision
        self._raw = raw
        self._obj = obj
        self._cache = cache
        self._labels: dict[str, str] | None = None
        self._owners: tuple[str, ...] | None = None
        self.views: tuple[object, dict[str, Stored]] | None = None  # as readers of other versions see it, kept by them
        if cache is not None and obj is not None:
            cache.keep(self)

    @property
    def raw(self) -> bytes:
        """The canonical JSON, encoded at most once."""
        obj, raw = self._obj, self._raw
        if raw is None:
            raw = self._raw = _encode(obj)
        return raw

    @property
    def obj(self) -> Obj:
        """The decoded object, shared by everyone: do not mutate."""
        obj = self._obj
        if obj is None:
            assert self._raw is not None
            cache = self._cache
            if cache is None:
                obj = self._obj = _decode(self._raw)
            else:
                obj = self._obj = cache.decode(self._raw)
                cache.keep(self)
        return obj

    @property
    def labels(self) -> dict[str, str]:
        """The labels, without decoding the whole object."""
        if self._labels is None:
            self._read_metadata()
        assert self._labels is not None
        return self._labels

    @property
    def owners(self) -> tuple[str, ...]:
        """The uids of the owners, without decoding the whole object."""
        if self._owners is None:
            if self._obj is None and self._raw is not None and b'"ownerReferences"' not in self._raw:
                self._owners = ()  # as most have none
            else:
                self._read_metadata()
        assert self._owners is not None
        return self._owners

    @property
    def may_be_ending(self) -> bool:
        """Whether the object can be one that is being deleted, without decoding it."""
        obj = self._obj
        if obj is not None:
            return bool((obj.get("metadata") or {}).get("deletionTimestamp"))
        assert self._raw is not None
        return b'"deletionTimestamp"' in self._raw

    def is_in(self, api_version: str) -> bool:
        """Whether the object is in this version, without decoding it where its bytes start with the version."""
        obj = self._obj
        if obj is not None:
            return bool(obj.get("apiVersion") == api_version)
        assert self._raw is not None
        opening = b'{"apiVersion":"%b"' % api_version.encode()
        return self._raw.startswith(opening) or self.obj.get("apiVersion") == api_version

    @property
    def generation(self) -> int:
        """The generation, without decoding the whole object."""
        obj = self._obj
        if obj is not None:
            return int(obj["metadata"].get("generation") or 0)
        assert self._raw is not None
        return _decode_envelope(self._raw).metadata.generation

    def encoded_size(self) -> int:
        """Bytes of the canonical form; kept for later where bytes are the primary form."""
        obj, raw = self._obj, self._raw
        if raw is not None:
            return len(raw)
        encoded = _encode(obj)
        if self._cache is not None:
            self._raw = encoded
        return len(encoded)

    def drop_decoded(self) -> None:
        """Forget the decoded form; called by the cache."""
        obj = self._obj
        if self._raw is None:
            self._raw = _encode(obj)
        self._obj = None

    def set_aside(self) -> None:
        """Forget the decoded form of what nobody is going to ask for soon, where bytes are the primary form."""
        if self._cache is not None:
            self.drop_decoded()

    def _read_metadata(self) -> None:
        obj = self._obj
        if obj is not None:
            metadata = obj.get("metadata") or {}
            self._labels = metadata.get("labels") or _NO_LABELS
            self._owners = tuple([ref.get("uid", "") for ref in metadata.get("ownerReferences") or ()])
        else:
            assert self._raw is not None
            decoded = _decode_envelope(self._raw).metadata
            self._labels = decoded.labels or _NO_LABELS
            self._owners = tuple([ref.uid for ref in decoded.ownerReferences or ()])

    def __repr__(self) -> str:
        return f"<Stored {self.key} @{self.revision}>"


_NO_LABELS: dict[str, str] = {}


class Event:
    """One change as watchers see it: ADDED, MODIFIED, DELETED or BOOKMARK. Shared by all watchers, so is its line."""

    __slots__ = ("_line", "previous", "stored", "type")

    def __init__(self, type: str, stored: Stored, previous: Stored | None = None):
        self.type = type
        self.stored = stored
        self.previous = previous
        self._line: bytes | None = None

    @property
    def line(self) -> bytes:
        """The watch frame `{"type":…,"object":…}` with its newline, encoded at most once."""
        line = self._line
        if line is None:
            line = self._line = b'{"type":"%b","object":%b}\n' % (self.type.encode(), self.stored.raw)
        return line

    @property
    def revision(self) -> int:
        return self.stored.revision

    def __repr__(self) -> str:
        return f"<{self.type} {self.stored.key} @{self.stored.revision}>"
