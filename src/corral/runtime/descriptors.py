"""How many files and connections this process may have open at once: the kernel refuses the next one, whoever it is for."""

from __future__ import annotations

import resource
import sys


def raise_limit() -> None:
    """As many as this process may allow itself; shells give programs few of them, for old ones' sake."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def limit() -> int:
    """How many there may be."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
