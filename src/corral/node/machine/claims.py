"""Who has which device of this machine, over all clusters and fleets on it: no device is ever held twice.

A device is claimed by binding an abstract Unix socket called after it. Such names need no folder that everybody may write to, and are
free again when the process that holds them has ended, however it ended: the supervisor of a cluster's programs, with which they
die. A share (`name#1`) and its whole device (`name`) exclude each other: each binds its own name first and then looks for the
other's, so of two at the same moment never both go on.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

SOCKET: Final = "corral-device"
MOST_SHARES: Final = 64
SHARE: Final = "#"
SUPERVISOR: Final = b"corral.node.process.supervisor"


class DeviceClaims:
    """The devices this process holds, by holder."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, socket.socket]] = {}

    def take(self, holder: str, count: int, among: Sequence[str]) -> list[str]:
        """`count` devices of `among` for `holder`; those it has already stay its own. Takes all or none (an empty list)."""
        own = self._held.setdefault(holder, {})
        taken = [name for name in among if name in own][:count]
        fresh: dict[str, socket.socket] = {}
        for name in among:
            if len(taken) == count:
                break
            if name not in own and (claim := _claimed(name)) is not None:
                fresh[name] = claim
                taken.append(name)
        if len(taken) < count:
            for claim in fresh.values():
                claim.close()
            return []
        own.update(fresh)
        return taken

    def give_back(self, holder: str) -> None:
        for claim in self._held.pop(holder, {}).values():
            claim.close()


def holder_of(name: str) -> str:
    """Who holds a device, in words; "" when nobody is seen to: it is free, or another user's."""
    whole = name.partition(SHARE)[0]
    for line in Path("/proc/net/unix").read_text().splitlines():
        words = line.split()
        bound = words[-1].removeprefix(f"@{SOCKET}-")
        if bound != words[-1] and bound.partition(SHARE)[0] == whole and (pid := _process_with(words[-2])):
            return _described(pid)
    return ""


def _process_with(inode: str) -> int:
    """The supervisor that has a socket open; 0 when it cannot be seen."""
    for folder in Path("/proc").iterdir():
        try:
            is_supervisor = folder.name.isdigit() and SUPERVISOR in (folder / "cmdline").read_bytes()
            opened = [str(link.readlink()) for link in (folder / "fd").iterdir()] if is_supervisor else []
        except OSError:
            continue
        if f"socket:[{inode}]" in opened:
            return int(folder.name)
    return 0


def _described(pid: int) -> str:
    """A supervisor by the cluster whose folder it was started with."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    folder = next((Path(word.decode(errors="replace")) for word in words if word.endswith(b"/node")), None)
    return f"cluster {folder.parent.name} in {folder.parent.parent}" if folder else f"process {pid}"


def _claimed(name: str) -> socket.socket | None:
    own = _bound(name)
    if own is None:
        return None
    whole, share, _ = name.partition(SHARE)
    rivals = [whole] if share else [f"{name}{SHARE}{slot}" for slot in range(1, MOST_SHARES + 1)]
    if any(map(_is_taken, rivals)):
        own.close()
        return None
    return own


def _bound(name: str) -> socket.socket | None:
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0{SOCKET}-{name}")
    except OSError:
        claim.close()
        return None
    return claim


def _is_taken(name: str) -> bool:
    claim = _bound(name)
    if claim is None:
        return True
    claim.close()
    return False
