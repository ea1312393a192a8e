"""What is left of finished jobs, on disk: one file a job, so that the logs outlive the manager's process."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any

import msgspec

log = logging.getLogger(__name__)


class SavedPod(msgspec.Struct, frozen=True):
    """A pod as it was shown last, and the log of each container."""

    pod: dict[str, Any]
    logs: dict[str, bytes]


class SavedJob(msgspec.Struct, frozen=True):
    """The pods of one finished job, and when they were read."""

    uid: str
    kept_at: float
    pods: list[SavedPod]


class KeptFiles:
    """The files in `folder`. A disk that fails costs logs of the past and nothing else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self) -> list[SavedJob]:
        """All jobs, the oldest first. What cannot be read, because a crash cut it or another version wrote it, goes."""
        found = []
        for path in sorted(self._folder.iterdir()) if self._folder.is_dir() else ():
            try:
                found.append(msgspec.msgpack.decode(path.read_bytes(), type=SavedJob))
            except (OSError, msgspec.MsgspecError) as error:
                log.warning("kept logs cannot be read", extra={"path": str(path), "error": str(error)})
                self._unlink(path)
        return sorted(found, key=lambda job: (job.kept_at, job.uid))

    def save(self, job: SavedJob) -> None:
        path = self._path(job.uid)
        part = path.with_suffix(".part")
        try:
            self._folder.mkdir(exist_ok=True, mode=0o700)
            part.touch(0o600)
            part.write_bytes(msgspec.msgpack.encode(job))
            part.replace(path)
        except OSError as error:
            log.warning("logs are kept in memory only", extra={"path": str(path), "error": str(error)})
            self._unlink(part)

    def remove(self, uid: str) -> None:
        self._unlink(self._path(uid))

    def _path(self, uid: str) -> Path:
        return self._folder / hashlib.sha256(uid.encode()).hexdigest()[:32]

    @staticmethod
    def _unlink(path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("kept logs cannot be removed", extra={"path": str(path), "error": str(error)})
