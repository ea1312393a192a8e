"""A folder packed for a job: how large it may be, and the ConfigMaps that carry it.

The archive is the same bytes for the same files, so that its name is its content: a folder sent before is not sent again.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from corral.core.meta import Obj
from corral.submit.errors import PackingError
from corral.submit.folder import FILE, IGNORE_FILES, LINK, Entry, contents, reading

PIECE = 700 * 1024
"""Bytes in a ConfigMap: base64 makes them a third more, and a server takes about a mebibyte."""
MAX_BYTES = 8 * 1024 * 1024
LABEL = "corral.dev/code"


@dataclass(frozen=True, slots=True)
class Archive:
    """A packed folder."""

    content: bytes
    names: frozenset[str]
    """What is in it, by its path."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def config_maps(self, namespace: str) -> list[Obj]:
        """The objects that carry it, in order; their names tell the content."""
        pieces = [self.content[start : start + PIECE] for start in range(0, len(self.content), PIECE)]
        return [self._config_map(namespace, number, piece) for number, piece in enumerate(pieces)]

    def _config_map(self, namespace: str, number: int, piece: bytes) -> Obj:
        short = self.digest[:16]
        return {
            "metadata": {"name": f"corral-code-{short}-{number}", "namespace": namespace, "labels": {LABEL: short}},
            "immutable": True,
            "binaryData": {f"part-{number:03d}": base64.b64encode(piece).decode()},
        }


def pack(folder: Path | None, *, files: Mapping[str, bytes] | None = None, limit: int = MAX_BYTES) -> Archive:
    """What is in a folder and some more files, compressed. Raises PackingError when they are too large to travel with a job."""
    found = contents(folder) if folder is not None else []
    more = dict(sorted((files or {}).items()))
    sizes = {entry.name: entry.size for entry in found} | {name: len(content) for name, content in more.items()}
    if (total := sum(sizes.values())) > limit * 8:  # what is far too large is not compressed first
        raise PackingError(_too_large(folder, sizes, total, limit * 8))
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry in found:
            assert folder is not None
            _add(archive, folder, entry)
        for name, content in more.items():
            _add_content(archive, name, content)
    content = buffer.getvalue()
    if len(content) > limit:
        raise PackingError(_too_large(folder, sizes, len(content), limit))
    return Archive(content, frozenset(sizes))


def _add_content(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    head = tarfile.TarInfo(name)
    head.size, head.mode = len(content), mode
    archive.addfile(head, io.BytesIO(content))


def _add(archive: tarfile.TarFile, folder: Path, entry: Entry) -> None:
    if entry.kind == FILE:
        with reading(folder / entry.name):
            content = (folder / entry.name).read_bytes()
        _add_content(archive, entry.name, content, 0o755 if entry.is_program else 0o644)
        return
    head = tarfile.TarInfo(entry.name)
    head.type, head.mode = (tarfile.SYMTYPE, 0o777) if entry.kind == LINK else (tarfile.DIRTYPE, 0o755)
    head.linkname = entry.target
    archive.addfile(head)


def _too_large(folder: Path | None, sizes: Mapping[str, int], size: int, limit: int) -> str:
    largest = sorted(sizes.items(), key=lambda entry: (-entry[1], entry[0]))[:3]
    named = ", ".join(f"{name} ({_shown(bytes_)})" for name, bytes_ in largest)
    leave_out = f"Name what to leave out in {folder / IGNORE_FILES[0]}; what" if folder is not None else "What"
    return (
        f"{folder or 'this'} is too large to travel with a job: {_shown(size)}, and {_shown(limit)} are possible; "
        f"the largest files are {named}. {leave_out} the job needs all the same "
        "it reads from a volume or from its image. Where pods are processes of this machine, --in-place runs it in the folder itself, "
        "however large, and absolute paths are there for all; --no-code sends no folder at all"
    )


def _shown(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"
