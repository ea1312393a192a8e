#!/usr/bin/env python3
"""Runs a command in another pod of the same MPI job: what ssh and sshd do elsewhere, for pods that are processes.

This file is mounted into the pods of MPI jobs and uses nothing but the standard library. A worker runs `serve`; the
launcher's mpirun calls the file itself as its remote shell: `mpi-agent [options] HOST COMMAND...`. Both sides prove
with the job's own key that they belong to the same job. Standard streams and the exit code are carried over.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

PORT = int(os.environ.get("MPI_AGENT_PORT", "2222"))
STDIN, STDOUT, STDERR, EXIT = 0, 1, 2, 3
GOODBYE_S = 10.0
OPTIONS_WITH_VALUE = ("-o", "-p", "-l", "-i", "-F")


def job_key() -> bytes:
    """The private key that every pod of the job has mounted."""
    folder = Path(os.environ.get("MPI_SSH_PATH", "/root/.ssh"))
    return hashlib.sha256((folder / "id_rsa").read_bytes()).digest()


def send(sock: socket.socket, kind: int, data: bytes = b"") -> None:
    sock.sendall(struct.pack("!BI", kind, len(data)) + data)


def read_exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def receive(sock: socket.socket) -> tuple[int, bytes]:
    kind, length = struct.unpack("!BI", read_exactly(sock, 5))
    return int(kind), read_exactly(sock, int(length))


def serve() -> None:
    """Accept commands until told to stop."""
    address = os.environ.get("POD_IP") or "0.0.0.0"
    server = socket.create_server((address, PORT), reuse_port=False)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while True:
        connection, _ = server.accept()
        threading.Thread(target=attend, args=(connection,), daemon=True).start()


def attend(connection: socket.socket) -> None:
    """One command: check the caller, run it, carry its streams."""
    with connection, contextlib.suppress(EOFError, OSError):
        nonce = secrets.token_bytes(32)
        send(connection, STDIN, nonce)
        _, request = receive(connection)
        proof, body = request[:32], request[32:]
        if not hmac.compare_digest(proof, hmac.digest(job_key(), nonce + body, "sha256")):
            send(connection, STDERR, b"mpi-agent: the caller does not belong to this job\n")
            send(connection, EXIT, struct.pack("!i", 255))
            return
        command = json.loads(body)["command"]
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        lock = threading.Lock()
        pumps = [
            threading.Thread(target=pump, args=(stream, connection, kind, lock), daemon=True)
            for kind, stream in ((STDOUT, process.stdout), (STDERR, process.stderr))
            if stream is not None
        ]
        for thread in pumps:
            thread.start()
        feeder = threading.Thread(target=feed, args=(connection, process), daemon=True)
        feeder.start()
        code = process.wait()
        for thread in pumps:
            thread.join()
        with lock:
            send(connection, EXIT, struct.pack("!i", code if code >= 0 else 128 - code))
        feeder.join(GOODBYE_S)


def pump(stream: IO[bytes], connection: socket.socket, kind: int, lock: threading.Lock) -> None:
    while True:
        data = os.read(stream.fileno(), 65536)
        if not data:
            return
        with lock:
            send(connection, kind, data)


def feed(connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """Standard input from the caller; when the caller goes, the command goes.

    Reads on after the command has ended: closing a connection with unread data would take the exit code along.
    """
    while True:
        try:
            _, data = receive(connection)
        except (EOFError, OSError):
            break
        with contextlib.suppress(OSError, ValueError):
            if process.stdin is not None:
                if data:
                    process.stdin.write(data)
                    process.stdin.flush()
                else:
                    process.stdin.close()
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)


def connect(host: str) -> socket.socket:
    """A worker may still be starting; give it a minute."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection((address_of(host), PORT), timeout=10)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def address_of(host: str) -> str:
    """Where a host is: as the job's own list says, else whatever its name resolves to."""
    with contextlib.suppress(OSError):
        for line in Path(os.environ.get("MPI_HOSTS", "/etc/mpi/hosts")).read_text().splitlines():
            name, _, address = line.partition(" ")
            if name == host:
                return address
    return host


def is_here(host: str) -> bool:
    """Whether a host is this pod: a launcher that is a worker too."""
    try:
        return socket.gethostbyname(address_of(host)) == os.environ.get("POD_IP")
    except OSError:
        return False


def run(host: str, command: str) -> int:
    """Run `command` on `host`; returns its exit code."""
    if is_here(host):
        return subprocess.run(["/bin/sh", "-c", command], check=False).returncode
    try:
        connection = connect(host)
    except OSError as error:
        sys.stderr.write(f"mpi-agent: {host}: {error}\n")
        return 255
    connection.settimeout(None)
    _, nonce = receive(connection)
    body = json.dumps({"command": command}).encode()
    send(connection, STDIN, hmac.digest(job_key(), nonce + body, "sha256") + body)
    threading.Thread(target=forward_input, args=(connection,), daemon=True).start()
    while True:
        try:
            kind, data = receive(connection)
        except (EOFError, OSError):
            return 255
        if kind == EXIT:
            return int(struct.unpack("!i", data)[0])
        target = sys.stdout if kind == STDOUT else sys.stderr
        target.buffer.write(data)
        target.buffer.flush()


def forward_input(connection: socket.socket) -> None:
    with contextlib.suppress(OSError, ValueError):
        while True:
            data = os.read(0, 65536)
            send(connection, STDIN, data)
            if not data:
                return


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["serve"]:
        serve()
        return 0
    position = 0
    while position < len(arguments) and arguments[position].startswith("-"):
        position += 2 if arguments[position] in OPTIONS_WITH_VALUE else 1
    if len(arguments) - position < 2:
        sys.stderr.write("usage: mpi-agent serve | mpi-agent [options] HOST COMMAND...\n")
        return 2
    return run(arguments[position], " ".join(arguments[position + 1 :]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
