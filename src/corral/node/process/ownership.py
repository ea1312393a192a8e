"""`fsGroup`: the volumes of a pod belong to a group of its own, and what is made in them does, too.

The tree is walked by open folders and never through a link, because a pod may have put one there while another used the
same claim.
"""

# Descriptors instead of pathlib: a name could stand for something else by the time it is used.
# ruff: noqa: PTH101

from __future__ import annotations

import os
import stat
from pathlib import Path

_FOLDER_MODE = stat.S_ISGID | 0o770
_FILE_MODE = 0o660
_READ_ONLY_MODE = 0o440


def hand_to_group(place: Path, group: int, *, only_on_mismatch: bool = False, is_read_only: bool = False) -> None:
    """Give `place` and all below it to `group`, which may read and, unless it is read-only, write."""
    if only_on_mismatch and _belongs(place, group):
        return
    file_mode = _READ_ONLY_MODE if is_read_only else _FILE_MODE
    for _, _, files, handle in os.fwalk(place, topdown=False, follow_symlinks=False):
        for name in files:
            os.chown(name, -1, group, dir_fd=handle, follow_symlinks=False)
            _widen(name, handle, file_mode)
        os.fchown(handle, -1, group)
        os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode) | _FOLDER_MODE)


def _belongs(place: Path, group: int) -> bool:
    found = place.stat()
    return found.st_gid == group and found.st_mode & _FOLDER_MODE == _FOLDER_MODE


def _widen(name: str, folder: int, more: int) -> None:
    """Add permissions to a plain file; links and whatever else lies there keep theirs."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISREG(mode):
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(mode) | more)
    finally:
        os.close(handle)
