"""The audit log: one JSON line a request, in the shape of audit.k8s.io Events at level Metadata.

Bodies are never in it, and neither are headers but the user agent. What a client chooses the length of is cut, and the file is
set aside as `.1`, `.2` and so on when it is full, so nobody fills the disk by asking.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from corral.core.admission import UserInfo
from corral.server.access.authentication import user_status
from corral.server.paths import RequestInfo

log = logging.getLogger(__name__)

Level = Literal["None", "Metadata"]
LEVELS: Final[dict[str, Level]] = {"None": "None", "Metadata": "Metadata"}
MAX_URI: Final = 2048
MAX_TEXT: Final = 1024  # any other text a client chooses, such as a name or its user agent
MAX_ITEMS: Final = 64  # of a list or map a client chooses, such as the groups it impersonates
_CUT: Final = "…"
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
# Applications behind a proxied path take credentials there.
_CREDENTIALS: Final = re.compile(r"([?&;](?:[\w.-]*token|password|secret|api[_-]?key)=)[^&;#]*", re.IGNORECASE)

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What is worth a line, and how much is kept: the file of at most `max_bytes`, and `backups` earlier ones."""

    max_bytes: int = 100 << 20
    backups: int = 3
    default: Level = "Metadata"
    levels: Mapping[str, Level] = field(default_factory=dict)
    """By group-resource name, such as `jobs.batch`, where it is not the default."""

    def level(self, info: RequestInfo) -> Level:
        if not info.is_resource:
            return "None" if info.path in _HEALTH else self.default
        return self.levels.get(f"{info.resource}.{info.group}" if info.group else info.resource, self.default)


def read_levels(texts: Iterable[str]) -> tuple[Level, dict[str, Level]]:
    """The default and the exceptions from words such as `Metadata` or `leases.coordination.k8s.io=None`; raises ValueError."""
    default: Level = "Metadata"
    levels: dict[str, Level] = {}
    for text in texts:
        resource, equals, name = text.rpartition("=")
        if name not in LEVELS or (equals and not resource):
            raise ValueError(f"{text!r} is neither a level (None, Metadata) nor RESOURCE=LEVEL, as in secrets=Metadata")
        if equals:
            levels[resource] = LEVELS[name]
        else:
            default = LEVELS[name]
    return default, levels


class AuditLog:
    """Makes the lines, which `append` takes to the file."""

    def __init__(
        self,
        append: Callable[[bytes], None],
        options: AuditOptions,
        timestamp: Callable[[], str],
        next_id: Callable[[], str],
    ) -> None:
        self._append = append
        self._options = options
        self._timestamp = timestamp
        self._next_id = next_id

    def record(
        self,
        info: RequestInfo,
        user: UserInfo,
        impersonated: UserInfo | None,
        target: str,
        agent: str,
        code: int,
        received: str,
    ) -> None:
        if self._options.level(info) == "None":
            return
        event: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": self._next_id(),
            "stage": "ResponseComplete",
            "requestURI": _cut(_CREDENTIALS.sub(r"\1REDACTED", target), MAX_URI),
            "verb": info.verb,
            "user": _bounded(user_status(user)),
            "userAgent": _cut(agent, MAX_TEXT),
            "responseStatus": {"metadata": {}, "code": code},
            "requestReceivedTimestamp": received,
            "stageTimestamp": self._timestamp(),
        }
        if impersonated is not None:
            event["impersonatedUser"] = _bounded(user_status(impersonated))
        if info.is_resource:
            reference = {
                "resource": info.resource,
                "namespace": info.namespace,
                "name": info.name,
                "apiGroup": info.group,
                "apiVersion": info.version,
                "subresource": info.subresource,
            }
            event["objectRef"] = {name: _cut(value, MAX_TEXT) for name, value in reference.items() if value}
        self._append(_encode(event) + b"\n")


class AuditFile:
    """The file at `path`. A disk that takes no more is reported in the log, and the server goes on."""

    def __init__(self, path: Path, options: AuditOptions) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._options = options
        self._file = _open(path)
        self._rotates = path.is_file()  # a pipe or a device is the reader's
        self._size = self._file.tell() if self._rotates else 0
        self._failing = False

    def close(self) -> None:
        self._file.close()

    def append(self, line: bytes) -> None:
        try:
            if self._rotates and self._size and self._size + len(line) > self._options.max_bytes:
                self._rotate()
            self._file.write(line)
        except OSError as error:
            if not self._failing:
                log.error("requests are not audited: path=%s error=%s", self._path, error)
            self._failing = True
        else:
            self._size += len(line)
            self._failing = False

    def _rotate(self) -> None:
        """Start an empty file; the oldest of those set aside goes."""
        names = [
            self._path,
            *(self._path.with_name(f"{self._path.name}.{n + 1}") for n in range(self._options.backups)),
        ]
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            if newer.exists():
                newer.replace(older)
        if not self._options.backups:
            self._path.unlink(missing_ok=True)
        fresh = _open(self._path)
        self._file.close()
        self._file, self._size = fresh, fresh.tell()


def _open(path: Path) -> FileIO:
    """A file that only its owner reads, also one that an earlier start has left readable. Devices stay as they are."""
    if not path.exists():
        path.touch(0o600)
    if path.is_file():
        path.chmod(0o600)
    return path.open("ab", buffering=0)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + _CUT


def _bounded(value: Any) -> Any:
    """A value of JSON with every text and collection cut."""
    if isinstance(value, str):
        return _cut(value, MAX_TEXT)
    if isinstance(value, dict):
        return {_cut(name, MAX_TEXT): _bounded(value[name]) for name in list(value)[:MAX_ITEMS]}
    return [_bounded(item) for item in value[:MAX_ITEMS]]
