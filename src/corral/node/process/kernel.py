"""The few Linux calls that Python does not offer: namespaces, mounts, process attributes and system call notification.

Every function raises OSError with the kernel's reason. Nothing here decides anything.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from pathlib import Path
from typing import NamedTuple

_libc = ctypes.CDLL(None, use_errno=True)

NEW_MOUNTS = 0x00020000
NEW_HOSTNAME = 0x04000000
NEW_USERS = 0x10000000

_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _SLAVE = 1, 32, 4096, 16384, 1 << 19
_DETACH = 2
_PARENT_DEATH_SIGNAL, _NO_NEW_PRIVILEGES, _CHILD_SUBREAPER = 1, 38, 36
_DROP_CAPABILITY, _HAS_CAPABILITY = 24, 23
_MOUNT_ATTRIBUTES, _HERE, _WHOLE_TREE = 442, -100, 0x8000
_CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)  # fmt: skip


class _Numbers(NamedTuple):
    audit_arch: int
    pivot_root: int
    seccomp: int
    bind: int
    connect: int


_NUMBERS = {
    "x86_64": _Numbers(0xC000003E, 155, 317, 49, 42),
    "aarch64": _Numbers(0xC00000B7, 41, 277, 200, 203),
}


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def _numbers() -> _Numbers:
    numbers = _NUMBERS.get(platform.machine())
    if numbers is None:
        raise OSError(f"no system call table for {platform.machine()}")
    return numbers


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones."""
    _check(_libc.unshare(flags), "unshare")


def enter(namespace_fd: int, flags: int) -> None:
    """Join the namespace an open /proc/<pid>/ns file stands for."""
    _check(_libc.setns(namespace_fd, flags), "setns")


def become_root_of_new_users() -> None:
    """Enter a user namespace in which the caller is root and its files stay its own."""
    uid, gid = os.getuid(), os.getgid()
    unshare(NEW_USERS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123  # a kernel file, written in one call
            file.write(text)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    result = _libc.mount(source.encode() or None, target.encode(), kind.encode() or None, flags, data.encode() or None)
    _check(result, f"mount {source} on {target}")


def detach_propagation() -> None:
    """Keep this namespace's mounts from reaching the host."""
    _mount("", "/", "", _RECURSIVE | _SLAVE)


def mount_memory(target: str, size: str = "64m") -> None:
    _mount("tmpfs", target, "tmpfs", 0, f"mode=755,size={size}")


def bind(source: str, target: str, *, read_only: bool = False) -> None:
    """Make the tree at `source` appear at `target`."""
    _mount(source, target, "", _BIND | _RECURSIVE)
    if read_only:
        try:
            set_read_only(target)
        except OSError:
            _mount("", target, "", _BIND | _REMOUNT | _READ_ONLY)  # a kernel before 5.12


def set_read_only(target: str, *, read_only: bool = True, with_mounts_below: bool = False) -> None:
    """Make a mount read-only or writable and leave its other attributes, which an outer namespace may have locked, alone."""
    put, taken = (_READ_ONLY, 0) if read_only else (0, _READ_ONLY)
    attributes = struct.pack("=QQQQ", put, taken, 0, 0)
    flags = _WHOLE_TREE if with_mounts_below else 0
    call = _libc.syscall(_MOUNT_ATTRIBUTES, _HERE, target.encode(), flags, attributes, ctypes.c_size_t(len(attributes)))
    _check(call, f"make {target} {'read-only' if read_only else 'writable'}")


def change_root(target: str) -> None:
    """Make `target`, a mount point, the root of this namespace and forget the old one."""
    os.chdir(target)
    _check(_libc.syscall(_numbers().pivot_root, b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _DETACH), "umount")
    os.chdir("/")


def set_hostname(name: str) -> None:
    text = name.encode()
    _check(_libc.sethostname(text, len(text)), "sethostname")


def die_with_parent(signal: int) -> None:
    """Get `signal` when the parent ends."""
    _check(_libc.prctl(_PARENT_DEATH_SIGNAL, signal, 0, 0, 0), "prctl")


def refuse_new_privileges() -> None:
    """From here on no program that is executed has more rights than its caller."""
    _check(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")


def drop_capabilities(dropped: tuple[str, ...], kept: tuple[str, ...]) -> None:
    """Take these capabilities, or ALL but those `kept`, from every program that is executed from here on."""
    for number, name in enumerate(_CAPABILITIES):
        is_dropped = name in dropped or ("ALL" in dropped and name not in kept)
        if not is_dropped or _libc.prctl(_HAS_CAPABILITY, number, 0, 0, 0) != 1:
            continue
        try:
            _check(_libc.prctl(_DROP_CAPABILITY, number, 0, 0, 0), f"drop {name}")
        except PermissionError:
            refuse_new_privileges()  # a plain user has no capability to lose, and now none to win
            return


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _check(_libc.prctl(_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


# System call notification: `bind` and `connect` of a process stop until a listener has looked at them.

_SET_FILTER, _NEW_LISTENER = 1, 8
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_RECEIVE, _ANSWER, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_CONTINUE = 1
_GET_DESCRIPTOR = 438
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_REPLY = struct.Struct("=QqiI")


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


class SocketCall(NamedTuple):
    """A stopped `bind` or `connect`."""

    id: int
    pid: int
    is_bind: bool
    descriptor: int
    address: int
    length: int


def can_watch_socket_calls() -> bool:
    """Whether this kernel can stop system calls for a listener and we know its numbers."""
    try:
        actions = Path("/proc/sys/kernel/seccomp/actions_avail").read_text().split()
    except OSError:
        return False
    return "user_notif" in actions and platform.machine() in _NUMBERS


def _program() -> bytes:
    numbers = _numbers()
    load, equal, answer = 0x20, 0x15, 0x06
    rows = (
        (load, 0, 0, 4),
        (equal, 0, 3, numbers.audit_arch),
        (load, 0, 0, 0),
        (equal, 2, 0, numbers.bind),
        (equal, 1, 0, numbers.connect),
        (answer, 0, 0, _ALLOW),
        (answer, 0, 0, _NOTIFY),
    )
    return b"".join(struct.pack("=HBBI", *row) for row in rows)


def watch_socket_calls() -> int:
    """Stop every later `bind` and `connect` of this process and its children for the owner of the returned descriptor."""
    return _add_filter(_program(), _NEW_LISTENER)


def filter_calls(code: bytes) -> None:
    """Pass every later system call of this process and its children through a filter."""
    _add_filter(code, 0)


def can_filter_calls() -> bool:
    """Whether this kernel can refuse system calls for us."""
    try:
        return "errno" in Path("/proc/sys/kernel/seccomp/actions_avail").read_text().split()
    except OSError:
        return False


def _add_filter(code: bytes, flags: int) -> int:
    refuse_new_privileges()  # what the kernel asks of a plain user before it takes a filter
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _FilterProgram(len(code) // 8, ctypes.addressof(buffer))
    call = _libc.syscall(_numbers().seccomp, _SET_FILTER, flags, ctypes.byref(program))
    return _check(call, "seccomp")


def next_socket_call(listener: int) -> SocketCall:
    """The stopped call a readable `listener` has."""
    buffer = ctypes.create_string_buffer(_NOTIFICATION.size)
    _check(_libc.ioctl(listener, ctypes.c_ulong(_RECEIVE), buffer), "ioctl")
    identity, pid, _, number, _, _, descriptor, address, length, *_ = _NOTIFICATION.unpack(buffer.raw)
    return SocketCall(identity, pid, number == _numbers().bind, descriptor, address, length)


def check_stopped(listener: int, call: SocketCall) -> None:
    """Raise OSError when a call no longer waits: then its process may be gone, and the number be another's. What was opened by that
    number before this returns is the process' own."""
    buffer = ctypes.create_string_buffer(struct.pack("=Q", call.id), 8)
    _check(_libc.ioctl(listener, ctypes.c_ulong(_IS_VALID), buffer), "ioctl")


def settle(listener: int, call: SocketCall, *, run: bool) -> None:
    """Let a stopped call run with whatever its memory holds now, or tell its caller that it succeeded without it."""
    buffer = ctypes.create_string_buffer(_REPLY.pack(call.id, 0, 0, _CONTINUE if run else 0), _REPLY.size)
    _check(_libc.ioctl(listener, ctypes.c_ulong(_ANSWER), buffer), "ioctl")


def copy_descriptor(process: int, descriptor: int) -> int:
    """A descriptor of ours for what `descriptor` is in another process, given by its leading thread."""
    handle = os.pidfd_open(process)
    try:
        return _check(_libc.syscall(_GET_DESCRIPTOR, handle, descriptor, 0), "pidfd_getfd")
    finally:
        os.close(handle)
