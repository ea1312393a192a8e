"""How much of what a server says is taken in: every number that bounds what another cluster can cost this process.

A worker, a member or a hub is run by somebody else, and may be broken or taken over. Whatever it answers costs a bounded
number of bytes, requests and seconds; past a limit the connection is closed and `LimitExceeded` says which one it was. The
numbers are far above what Kubernetes itself produces: its objects are at most 1.5 MiB, its error messages a few lines.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20

HEADER_BYTES: Final = 64 * KIB
"""Bytes in a row without any body: the headers of an answer, its trailers, what surrounds its chunks."""
ANSWER_BYTES: Final = 64 * MIB
"""The body of one answer, be it an object or a page of a list."""
ERROR_BYTES: Final = 1 * MIB
"""The body of an answer that says what went wrong."""
ERROR_TEXT: Final = 16 * KIB
"""Characters of an error's message that are kept."""
LINE_BYTES: Final = 8 * MIB
"""One event of a watch."""
DECODE_BYTES: Final = 1 * MIB
"""How much of a list is decoded before others get their turn."""

LIST_PAGE: Final = 1000
"""Objects asked for at a time; a server that sends more than it was asked for is not listened to."""
LIST_PAGES: Final = 500
"""Pages of one list."""
LIST_BYTES: Final = 512 * MIB
"""All pages of one list together, or all of it that a watch begins with."""
STREAM_PAUSE_S: Final = 15.0
"""How long a server that streams a list may say nothing; one that does not know how to never says that it is all there."""

ANSWER_S: Final = 1.0
"""How long a cluster that somebody does not ask about itself has to answer or to give a sign of life: workers of a manager, members
of a hub, clusters of a fleet. All are asked at once, one that is silent is named and done without."""
CALL_S: Final = 30.0
"""One call, from the first byte sent to the last one received."""
CONNECT_S: Final = 10.0
"""Opening a connection, with its handshake; one that hangs is noticed by it where a call may take longer."""
WATCH_S: Final = 290.0
"""One watch; it is taken up again where it stopped."""
WATCH_SPREAD: Final = 0.3
"""By what part of that watches may be shorter, so that those of one process end one after the other."""
WATCH_GRACE_S: Final = 20.0
"""How much longer than it was asked for a watch may last."""
READ_ATTEMPTS: Final = 3
"""How often a read is tried when the connection breaks; past a limit it is not tried again."""
RETRY_AFTER_S: Final = 10.0
"""The longest wait before a read is tried again, whatever the server asks for."""

CONDITION_TEXT: Final = 1000
"""Characters of another cluster's words in a condition of ours."""


def shortened(text: str, most: int = CONDITION_TEXT) -> str:
    """`text`, cut and marked so where it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
