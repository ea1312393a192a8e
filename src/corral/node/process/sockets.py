"""One address per pod without a network namespace.

A program that listens on every address of "its" machine would take the port from every other pod. The kernel stops each
`bind` and `connect` of a pod for us; a wildcard or loopback bind is turned to the pod's own address, and a connect to
loopback goes to the pod's own address when the pod listens on that port. Everything else passes as it is.
"""

from __future__ import annotations

import os
import re
import socket
import struct
from enum import Enum
from pathlib import Path

from corral.node.process import kernel

_ANY_4, _LOOPBACK_4 = bytes(4), bytes([127, 0, 0, 1])
_ANY_6, _LOOPBACK_6 = bytes(16), bytes(15) + b"\x01"
_MAPPED = bytes(10) + b"\xff\xff"
_PORT = struct.Struct("!H")
_THREAD_GROUP = re.compile(r"^Tgid:\s*(\d+)", re.MULTILINE)


class PodPorts:
    """The ports a pod listens on, shared by its containers."""

    def __init__(self, address: str) -> None:
        self.own = socket.inet_aton(address)
        self.ports: set[int] = set()


class CallVerdict(Enum):
    """What becomes of a stopped call."""

    RUN = "run"
    RUN_ON_OWN_ADDRESS = "own"
    RUN_ON_OWN_ADDRESS_UNLESS_V6_ONLY = "own6"


def answer(listener: int, pod: PodPorts) -> None:
    """Look at one stopped call, change its address if need be, and let it run."""
    try:
        call = kernel.next_socket_call(listener)
    except OSError:
        return  # the process was killed while it waited
    run = True
    try:
        run = _redirect(listener, call, pod)
    except OSError:
        pass  # its memory is gone or closed to us; the call then sees the unchanged address
    try:
        kernel.settle(listener, call, run=run)
    except OSError:
        pass  # the process was killed meanwhile


def _redirect(listener: int, call: kernel.SocketCall, pod: PodPorts) -> bool:
    """Whether the call shall still run."""
    with open(f"/proc/{call.pid}/mem", "r+b", buffering=0) as memory:  # noqa: PTH123  # a kernel file
        kernel.check_stopped(listener, call)
        data = os.pread(memory.fileno(), min(call.length, 28), call.address)
        verdict = judge(data, call.is_bind, pod)
        if verdict is CallVerdict.RUN:
            return True
        if verdict is CallVerdict.RUN_ON_OWN_ADDRESS:
            os.pwrite(memory.fileno(), pod.own, call.address + 4)
            return True
        if _is_v6_only(listener, call):
            # The pod has no IPv6 address of its own: the socket listens on a port nobody knows instead of failing.
            return False
        os.pwrite(memory.fileno(), _MAPPED + pod.own, call.address + 8)
        return True


def judge(data: bytes, is_bind: bool, pod: PodPorts) -> CallVerdict:
    """What to do with a call on the socket address `data`. Remembers the ports that are bound."""
    if len(data) < 8:
        return CallVerdict.RUN
    family = int.from_bytes(data[:2], "little")
    port: int = _PORT.unpack_from(data, 2)[0]
    if port == 0:
        return CallVerdict.RUN  # the kernel picks a free port, which is in nobody's way
    if family == socket.AF_INET:
        value, own, verdict = data[4:8], pod.own, CallVerdict.RUN_ON_OWN_ADDRESS
        is_local = value in (_ANY_4, _LOOPBACK_4)
    elif family == socket.AF_INET6 and len(data) >= 24:
        value, own, verdict = data[8:24], _MAPPED + pod.own, CallVerdict.RUN_ON_OWN_ADDRESS_UNLESS_V6_ONLY
        is_local = value in (_ANY_6, _LOOPBACK_6, _MAPPED + _ANY_4, _MAPPED + _LOOPBACK_4)
    else:
        return CallVerdict.RUN
    if is_bind and (is_local or value == own):
        pod.ports.add(port)
    return verdict if is_local and (is_bind or port in pod.ports) else CallVerdict.RUN


def _is_v6_only(listener: int, call: kernel.SocketCall) -> bool:
    status = Path(f"/proc/{call.pid}/status").read_text()
    leader = _THREAD_GROUP.search(status)
    copy = kernel.copy_descriptor(int(leader[1]) if leader else call.pid, call.descriptor)
    with socket.socket(fileno=copy) as twin:
        kernel.check_stopped(listener, call)
        return bool(twin.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY))
