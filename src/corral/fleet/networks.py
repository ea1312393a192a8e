"""Loopback networks for the pods and Services of this machine's clusters, no two of which may share one.

Fleets do not know each other, and may belong to different users. A network is claimed by binding an abstract Unix socket called after it:
such names are unique in exactly the network namespace whose loopback addresses they stand for, need no folder that everybody may
write to, and are free again when the last process that holds one has ended, however it ended.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Final

FIRST: Final = 64
SOCKET: Final = "corral-pod-network"
COUNT: Final = 128


def network(number: int) -> str:
    """The network a cluster with this number in its fleet has, where nobody else does."""
    return f"127.{FIRST + number % COUNT}.0.0/16"


class Claims:
    """The networks this process, and what it forks, has claimed."""

    def __init__(self) -> None:
        self._held: dict[str, socket.socket] = {}

    def claim(self, preferred: Iterable[str]) -> str:
        """The first free one of `preferred`, else any; what is none of these networks is not preferred. Raises OSError when none is
        free."""
        all_of_them = [network(number) for number in range(COUNT)]
        for wanted in (*preferred, *all_of_them):
            if wanted in all_of_them and wanted not in self._held and self._take(wanted):
                return wanted
        raise OSError(f"all {COUNT} pod networks of this machine are in use; `corral down` in another fleet frees some")

    def release(self) -> None:
        while self._held:
            self._held.popitem()[1].close()

    def _take(self, wanted: str) -> bool:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0{SOCKET}-{wanted}")
        except OSError:
            claim.close()
            return False
        self._held[wanted] = claim
        return True
