"""The listener that looks at calls of pods writes into the memory of the process that called, and of no other one."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
from multiprocessing import get_context
from multiprocessing.connection import Connection

import pytest

from corral.node.process import kernel
from corral.node.process.sockets import PodPorts, answer

WILDCARD = struct.pack("=H", socket.AF_INET) + struct.pack("!H", 8080) + bytes(12)
OWN = "127.64.0.10"


def test_what_is_at_the_number_of_a_process_that_is_gone_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number may be anybody's by then: here it is that of the test."""
    memory = ctypes.create_string_buffer(WILDCARD, len(WILDCARD))
    call = kernel.SocketCall(7, os.getpid(), True, 3, ctypes.addressof(memory), len(WILDCARD))

    def gone(listener: int, stopped: kernel.SocketCall) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(kernel, "next_socket_call", lambda listener: call)
    monkeypatch.setattr(kernel, "check_stopped", gone, raising=False)
    monkeypatch.setattr(kernel, "settle", lambda *_, **__: None)
    answer(0, PodPorts(OWN))
    assert memory.raw == WILDCARD


def _binds(pipe: Connection) -> None:
    listener = kernel.watch_socket_calls()
    pipe.send(listener)
    with socket.socket() as sock:
        sock.bind(("0.0.0.0", 0))
        sock.close()
    with socket.socket() as sock:
        sock.bind(("0.0.0.0", 18479))
        pipe.send(sock.getsockname()[0])


@pytest.mark.skipif(sys.platform != "linux" or not hasattr(os, "pidfd_open"), reason="asks the kernel")
def test_the_kernel_says_which_call_still_waits() -> None:
    ours, theirs = get_context("fork").Pipe()
    process = get_context("fork").Process(target=_binds, args=(theirs,))
    process.start()
    try:
        number = ours.recv()
    except EOFError:
        pytest.skip("this kernel gives no listener")
    listener = kernel.copy_descriptor(process.pid or 0, number)
    try:
        call = kernel.next_socket_call(listener)
        kernel.check_stopped(listener, call)
        kernel.settle(listener, call, run=True)
        with pytest.raises(FileNotFoundError):
            kernel.check_stopped(listener, call)
        answer(listener, PodPorts(OWN))
        assert ours.recv() == OWN
    finally:
        os.close(listener)
        process.join()
