"""A program that is started in a container, with its streams: `exec` over WebSocket, blocking and on one thread.

Framing is the `websockets` package's sans-I/O protocol on a connection of the blocking client. Nothing waits for one
direction alone: who writes to a program whose output nobody reads would wait for ever.
"""

from __future__ import annotations

import json
import os
import select
import ssl
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side, State
from websockets.utils import generate_key

from corral.client.sync import SyncClient
from corral.core.errors import ConnectionFailed
from corral.core.meta import Obj, name_of, namespace_of
from corral.core.whole_numbers import whole_number
from corral.kinds.kubernetes.core.kinds import PODS

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
ERROR: Final = 3
RESIZE: Final = 4
CLOSE: Final = 255
CLOSING_VERSION: Final = "v5.channel.k8s.io"
"""The version in which the end of the input can be told."""
VERSIONS: Final = (CLOSING_VERSION, "v4.channel.k8s.io")
PIECE: Final = 32 * 1024
BACKLOG: Final = 256 * 1024
"""How much is read ahead of what the server takes."""
LOOK_S: Final = 0.2
QUIET: Final = 10
"""How many looks without news end a session whose program has ended and whose server does not hang up."""
MAX_MESSAGE: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the program ended. Without a code it did not run at all, or nobody knows."""

    code: int | None
    message: str = ""


class Session(AbstractContextManager["Session"]):
    """One program. Entered with `with`; leaving it closes the connection, which ends a program that reads from it."""

    def __init__(
        self,
        client: SyncClient,
        pod: Obj,
        container: str,
        command: Sequence[str],
        *,
        stdin: bool = False,
        tty: bool = False,
    ) -> None:
        """Raises ApiError when the server refuses."""
        query = [("command", word) for word in command]
        query += [("container", container), ("stdout", "true"), ("stderr", "false" if tty else "true")]
        query += [("stdin", "true")] * stdin + [("tty", "true")] * tty
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": generate_key(),
            "Sec-WebSocket-Protocol": ", ".join(VERSIONS),
        }
        path = PODS.path(namespace_of(pod), name_of(pod), "exec")
        self._server = client.access.server
        self._connection, response = client.switched(path, query, headers)
        self._can_close = response.getheader("Sec-WebSocket-Protocol") == CLOSING_VERSION
        self._socket = self._connection.sock
        self._socket.setblocking(False)
        self._protocol = Protocol(Side.CLIENT, state=State.OPEN, max_size=MAX_MESSAGE)
        self._unsent = bytearray()
        self._partial = bytearray()
        self._ended: Outcome | None = None
        try:
            # What came with the answer stays in its reader, which is not asked again.
            self._protocol.receive_data(response.fp.peek(PIECE))
        except (BlockingIOError, ssl.SSLWantReadError):
            pass

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @property
    def outcome(self) -> Outcome:
        """How it ended, once `pump` has come to its end."""
        return self._ended or Outcome(None, f"the connection to {self._server} ended before the program did")

    def resize(self, columns: int, rows: int) -> None:
        """The size of the terminal that shows the program."""
        self._queue(RESIZE, json.dumps({"Width": columns, "Height": rows}).encode())

    def pump(self, source: int | None = None) -> Iterator[tuple[int, bytes]]:
        """(STDOUT or STDERR, bytes) until the program ends; meanwhile it gets what can be read from descriptor `source`."""
        yield from self._arrived()
        quiet = 0
        while self._protocol.state is State.OPEN and quiet < QUIET:
            reading = [self._socket, *([source] if source is not None and len(self._unsent) < BACKLOG else [])]
            writing = [self._socket] if self._unsent else []
            ready, _, _ = select.select(reading, writing, [], 0 if self._pending() else LOOK_S)
            if source is not None and source in ready and not self._feed(source):
                source = None
            if self._ended is not None:  # what it wrote last may come after that, until the server hangs up
                quiet = 0 if self._socket in ready else quiet + 1
            if not self._receive():
                break
            yield from self._arrived()
            self._flush()

    def _feed(self, source: int) -> bool:
        """Hand on what there is to read; False at its end."""
        data = os.read(source, PIECE)
        if data:
            self._queue(STDIN, data)
        elif self._can_close:
            self._queue(CLOSE, bytes([STDIN]))
        return bool(data)

    def _queue(self, channel: int, data: bytes) -> None:
        self._protocol.send_binary(bytes([channel]) + data)
        self._flush()

    def _flush(self) -> None:
        """Send as much as the connection takes now."""
        self._unsent += b"".join(self._protocol.data_to_send())
        while self._unsent:
            try:
                sent = self._socket.send(bytes(self._unsent[:PIECE]))
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError:
                self._unsent.clear()  # its end is noticed by reading
                return
            del self._unsent[:sent]

    def _pending(self) -> bool:
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _receive(self) -> bool:
        """Take what has come; False when nothing more will."""
        try:
            data = self._socket.recv(PIECE)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        except OSError as error:
            raise ConnectionFailed(f"the connection to {self._server} is lost: {error}") from error
        if data:
            self._protocol.receive_data(data)
        return bool(data)

    def _arrived(self) -> Iterator[tuple[int, bytes]]:
        for event in self._protocol.events_received():
            if not isinstance(event, Frame) or event.opcode not in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT):
                continue
            self._partial += event.data
            if not event.fin:
                continue
            message, self._partial = bytes(self._partial), bytearray()
            if message[:1] == bytes([ERROR]):
                self._ended = outcome_of(message[1:])
            elif message and message[0] in (STDOUT, STDERR) and len(message) > 1:
                yield message[0], message[1:]


def outcome_of(text: bytes) -> Outcome:
    """What the error channel says at the end: a Status, whose causes tell the exit code."""
    try:
        status = json.loads(text)
    except ValueError:
        return Outcome(None, text.decode(errors="replace").strip())
    if status.get("status") == "Success":
        return Outcome(0)
    message = str(status.get("message") or "the program could not be run")
    for cause in (status.get("details") or {}).get("causes") or ():
        code = whole_number(str(cause.get("message"))) if cause.get("reason") == "ExitCode" else None
        if code is not None:
            return Outcome(code, message)
    return Outcome(None, message)


def run(client: SyncClient, pod: Obj, container: str, command: Sequence[str]) -> tuple[Outcome, str]:
    """Run a program that needs no input; how it ended, and the last it wrote to stderr, else to stdout."""
    written: dict[int, bytes] = {}
    with Session(client, pod, container, command) as session:
        for channel, data in session.pump():
            written[channel] = (written.get(channel, b"") + data)[-PIECE:]
    return session.outcome, (written.get(STDERR) or written.get(STDOUT) or b"").decode(errors="replace").strip()
