"""The log of one run, in the line format container runtimes use: time, stream, full or partial, text.

Written by the supervisor as bytes arrive; a line that does not end within `MAX_LINE` is written in parts. When the file
grows over `MAX_BYTES` it is set aside as `log.1`, so a container never fills the disk.
"""

from __future__ import annotations

import time
from io import FileIO
from pathlib import Path

MAX_LINE = 16 * 1024
MAX_BYTES = 32 * 1024 * 1024


class LogFile:
    """Appends the output of one container run."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._file = _open(path)
        self._size = self._file.tell()
        self._rest = {"stdout": b"", "stderr": b""}

    def write(self, stream: str, data: bytes) -> None:
        """Take in bytes; complete lines reach the disk before this returns."""
        text = self._rest[stream] + data
        lines = text.split(b"\n")
        rest = lines.pop()
        prefix = f"{_now()} {stream} ".encode()
        rows = [row for line in lines for row in _rows(prefix, line, b"F")]
        if len(rest) >= MAX_LINE:
            rows += _rows(prefix, rest, b"P")
            rest = b""
        self._rest[stream] = rest
        self._append(b"".join(rows))

    def close(self) -> None:
        """Write what is left without its line end."""
        for stream, rest in self._rest.items():
            if rest:
                self._append(b"".join(_rows(f"{_now()} {stream} ".encode(), rest, b"P")))
        self._rest = {"stdout": b"", "stderr": b""}
        self._file.close()

    def _append(self, data: bytes) -> None:
        if not data:
            return
        if self._size and self._size + len(data) > self._max_bytes:
            self._file.close()
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._file = _open(self._path)
            self._size = 0
        self._file.write(data)
        self._size += len(data)


def _open(path: Path) -> FileIO:
    """A log that only its owner reads, whatever the folder and the umask allow."""
    path.touch(0o600)
    return path.open("ab", buffering=0)


def _rows(prefix: bytes, line: bytes, last: bytes) -> list[bytes]:
    parts = [line[start : start + MAX_LINE] for start in range(0, len(line), MAX_LINE)] or [b""]
    return [
        prefix + (b"P" if number < len(parts) - 1 else last) + b" " + part + b"\n" for number, part in enumerate(parts)
    ]


def _now() -> str:
    nanos = time.time_ns()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(nanos // 1_000_000_000)) + f".{nanos % 1_000_000_000:09d}Z"
