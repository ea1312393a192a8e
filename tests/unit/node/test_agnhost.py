"""The stand-in for agnhost ends as the program it stands for ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from corral.node import agnhost


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("test-webserver", "--port=0"), -signal.SIGTERM),
        (("liveness",), -signal.SIGTERM),
        (("netexec", "--http-port=0"), 0),
        (("serve-hostname", "--port=0"), 0),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_server_without_a_signal_handler_is_killed_and_one_with_it_ends_well(
    words: tuple[str, ...], code: int
) -> None:
    environment = {**os.environ, "CORRAL_POD_IP": "127.213.7.9"}
    command = [sys.executable, agnhost.__file__, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as server:
        assert server.stdout is not None
        assert b"Started" in server.stdout.readline()
        server.send_signal(signal.SIGTERM)
        assert server.wait() == code
