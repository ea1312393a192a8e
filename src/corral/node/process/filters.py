"""The seccomp profile `RuntimeDefault`: system calls that change the machine rather than the program are refused.

Those are calls that load code into the kernel, mount, change the clock, reach into other namespaces or keep keys in the
kernel: what no ordinary program makes. A refused call fails with EPERM, and `clone3`, whose wishes a filter cannot read, as
if the kernel did not have it, so that programs fall back to `clone`. Programs of another architecture are refused.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterator
from typing import NamedTuple

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _ANSWER = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NOT_PERMITTED, _NOT_THERE = 1, 38
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_NEW_NAMESPACES = 0x7E020000
_FOREIGN_NUMBERS = 0x40000000
"""From here on x86-64 has another set of the same calls."""


class _Calls(NamedTuple):
    audit_arch: int
    clone: int
    clone3: int
    refused: dict[str, int]


_SAME_EVERYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442, "quotactl_fd": 443,
}  # fmt: skip

_CALLS = {
    "x86_64": _Calls(0xC000003E, 56, 435, {
        "acct": 163, "add_key": 248, "bpf": 321, "clock_adjtime": 305, "clock_settime": 227, "create_module": 174,
        "delete_module": 176, "finit_module": 313, "init_module": 175, "ioperm": 173, "iopl": 172, "kcmp": 312,
        "kexec_file_load": 320, "kexec_load": 246, "keyctl": 250, "lookup_dcookie": 212, "mount": 165,
        "name_to_handle_at": 303, "open_by_handle_at": 304, "perf_event_open": 298, "pivot_root": 155, "quotactl": 179,
        "reboot": 169, "request_key": 249, "setns": 308, "settimeofday": 164, "swapoff": 168, "swapon": 167,
        "sysfs": 139, "syslog": 103, "umount2": 166, "unshare": 272, "uselib": 134, "userfaultfd": 323, "ustat": 136,
        "vhangup": 153, **_SAME_EVERYWHERE,
    }),
    "aarch64": _Calls(0xC00000B7, 220, 435, {
        "acct": 89, "add_key": 217, "bpf": 280, "clock_adjtime": 266, "clock_settime": 112, "delete_module": 106,
        "finit_module": 273, "init_module": 105, "kcmp": 272, "kexec_file_load": 294, "kexec_load": 104, "keyctl": 219,
        "lookup_dcookie": 18, "mount": 40, "name_to_handle_at": 264, "open_by_handle_at": 265, "perf_event_open": 241,
        "pivot_root": 41, "quotactl": 60, "reboot": 142, "request_key": 218, "setns": 268, "settimeofday": 170,
        "swapoff": 225, "swapon": 224, "syslog": 116, "umount2": 39, "unshare": 97, "userfaultfd": 282, "vhangup": 58,
        **_SAME_EVERYWHERE,
    }),
}  # fmt: skip


def is_known_machine() -> bool:
    """Whether we know the numbers of this machine's system calls."""
    return platform.machine() in _CALLS


def refused_calls() -> dict[str, int]:
    """The calls that are refused on this machine, by name."""
    return dict(_CALLS[platform.machine()].refused)


def default_profile() -> bytes:
    """The filter, as the kernel reads it."""
    return b"".join(struct.pack("=HBBI", *row) for row in _rows(_CALLS[platform.machine()]))


def _rows(calls: _Calls) -> Iterator[tuple[int, int, int, int]]:
    """Instructions are (what, rows to skip when it holds, rows to skip when not, with what)."""
    numbers = sorted(calls.refused.values())
    yield (_LOAD, 0, 0, _ARCHITECTURE)
    yield (_EQUAL, 0, len(numbers) + 6, calls.audit_arch)
    yield (_LOAD, 0, 0, _NUMBER)
    yield (_AT_LEAST, len(numbers) + 4, 0, _FOREIGN_NUMBERS)
    for index, number in enumerate(numbers):
        yield (_EQUAL, len(numbers) - index - 1 + 4, 0, number)
    yield (_EQUAL, 4, 0, calls.clone3)
    yield (_EQUAL, 0, 4, calls.clone)
    yield (_LOAD, 0, 0, _FIRST_ARGUMENT)
    yield (_ANY_BIT, 0, 2, _NEW_NAMESPACES)
    yield (_ANSWER, 0, 0, _FAIL | _NOT_PERMITTED)
    yield (_ANSWER, 0, 0, _FAIL | _NOT_THERE)
    yield (_ANSWER, 0, 0, _ALLOW)
