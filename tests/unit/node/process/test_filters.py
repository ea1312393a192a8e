"""The default profile refuses what changes the machine, and lets programs live."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from corral.node.process import filters, kernel

CHILD = """
import ctypes, os, subprocess, sys, threading
from corral.node.process import filters, kernel
kernel.filter_calls(filters.default_profile())
libc = ctypes.CDLL(None, use_errno=True)
for name, number in sorted(filters.refused_calls().items()):
    if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 1:
        sys.exit(f"{name} is allowed: {ctypes.get_errno()}")
thread = threading.Thread(target=lambda: None); thread.start(); thread.join()
assert subprocess.run(["true"]).returncode == 0
number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
assert libc.syscall(number, 0x10000000, 0, 0, 0, 0) == -1 and ctypes.get_errno() == 1
print("lives")
"""


@pytest.mark.skipif(not (filters.is_known_machine() and kernel.can_filter_calls()), reason="no filters on this machine")
def test_refused_calls_fail_and_threads_and_children_still_start() -> None:
    result = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert (result.stdout.strip(), result.stderr) == ("lives", "")


def test_an_unknown_machine_has_no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "abacus")
    assert not filters.is_known_machine()
