"""What strangers and single users can make a server hold on to is bounded: bytes, connections, requests, watches, time."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.security.served import World, read_answer, rule, served

from corral.clusters.embedded import EmbeddedCluster
from corral.configuration.fleet import parse
from corral.core import names, selectors
from corral.core.admission import UserInfo
from corral.core.errors import TooManyRequests
from corral.core.remembering import LONGEST, remembered
from corral.core.server_limits import Limits
from corral.server.access.authorization import Authorizer
from corral.server.access.rbac import Attributes
from corral.server.http import shared as http
from corral.server.http.connection import Connection
from corral.server.http.limits import Load
from corral.server.http.message import Request, Response
from corral.server.http.shared import Shared
from corral.store import Store

ALICE, BOB, ADMIN = UserInfo("alice"), UserInfo("bob"), UserInfo("root", ("system:masters",))


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = self.aborted = False

    def get_extra_info(self, name: str) -> None:
        return None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def pause_reading(self) -> None: ...

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True


class Anybody:
    """An application that lets those in who say who they are."""

    def knows(self, request: Request) -> bool:
        return "authorization" in request.headers

    def refuse_body(self, request: Request) -> Response | None:
        return None if self.knows(request) else Response(401, b"who?")

    def answer_now(self, request: Request) -> Response:
        return Response(200, b"%d" % len(request.body))

    async def answer(self, request: Request) -> Response:
        return self.answer_now(request)

    def refuse(self, code: int, message: str) -> Response:
        return Response(code, message.encode())


def connected(shared: Shared) -> tuple[Connection, Wire]:
    made, wire = Connection(shared), Wire()
    made.connection_made(wire)  # type: ignore[arg-type]  # as much of a transport as it needs
    return made, wire


def head(length: int | None, *, known: bool) -> bytes:
    who = b"Authorization: me\r\n" if known else b""
    size = b"Transfer-Encoding: chunked\r\n" if length is None else b"Content-Length: %d\r\n" % length
    return b"POST /x HTTP/1.1\r\nHost: x\r\n" + who + size + b"\r\n"


async def test_a_stranger_sends_little_and_is_answered_before_the_end() -> None:
    made, wire = connected(Shared(Anybody()))
    made.data_received(head(2_900_000, known=False))
    for _ in range(2900):
        made.data_received(b"x" * 1000)
    assert wire.written.startswith(b"HTTP/1.1 401 ")
    assert wire.written.count(b"HTTP/1.1") == 1
    assert sum(map(len, made.body)) <= http.MAX_UNASKED_BODY


async def test_a_known_user_sends_as_much_as_there_is_room_for() -> None:
    made, wire = connected(Shared(Anybody()))
    made.data_received(head(2_900_000, known=True) + b"x" * 2_900_000)
    assert wire.written.endswith(b"2900000")


@pytest.mark.parametrize("known", [True, False])
async def test_a_body_without_end_is_refused_where_the_limit_is(known: bool) -> None:
    made, wire = connected(Shared(Anybody()))
    made.data_received(head(None, known=known))
    for _ in range(200):
        made.data_received(b"10000\r\n" + b"x" * 65536 + b"\r\n")
    assert wire.written.startswith(b"HTTP/1.1 413 " if known else b"HTTP/1.1 401 ")
    assert sum(map(len, made.body)) == 0


async def test_a_body_that_says_it_is_too_large_is_refused_unseen() -> None:
    made, wire = connected(Shared(Anybody()))
    made.data_received(head(1 << 40, known=True))
    assert wire.written.startswith(b"HTTP/1.1 413 ")


async def test_a_stranger_is_not_asked_to_continue() -> None:
    made, wire = connected(Shared(Anybody()))
    made.data_received(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    assert wire.written.startswith(b"HTTP/1.1 401 ")


async def test_a_long_path_is_refused_before_anybody_remembers_it() -> None:
    made, wire = connected(Shared(Anybody()))
    made.data_received(b"GET /" + b"a" * http.MAX_PATH + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert wire.written.startswith(b"HTTP/1.1 414 ")


async def test_a_head_or_body_that_trickles_in_has_a_deadline_in_all() -> None:
    made, _ = connected(Shared(Anybody()))
    begun = made.loop.time()
    made.data_received(b"GET / HTTP/1.1\r\nX: ")
    for _ in range(50):
        made.data_received(b"y")
    assert not made.is_overdue(begun)
    assert made.is_overdue(begun + http.HEAD_TIMEOUT_S + 1)
    slow, _ = connected(Shared(Anybody()))
    slow.data_received(head(1000, known=True) + b"x")
    assert not slow.is_overdue(begun + http.HEAD_TIMEOUT_S + 1)
    assert slow.is_overdue(slow.loop.time() + http.BODY_TIMEOUT_S + 1)


async def test_strangers_make_room_for_each_other_and_never_drive_out_the_known() -> None:
    shared = Shared(Anybody(), Limits(connections=10, strangers=3))
    known, known_wire = connected(shared)
    known.data_received(head(0, known=True))
    wires = [connected(shared)[1] for _ in range(5)]
    assert [wire.aborted for wire in wires] == [True, True, False, False, False]
    assert not known_wire.aborted
    assert len(shared.connections) == 4


async def test_there_are_only_so_many_connections() -> None:
    shared = Shared(Anybody(), Limits(connections=2))
    wires = [connected(shared)[1] for _ in range(3)]
    assert [wire.written[:13] for wire in wires] == [b"", b"", b"HTTP/1.1 429 "]


async def test_a_closed_connection_is_given_back_without_the_collector() -> None:
    gc.disable()
    try:
        made, wire = connected(Shared(Anybody()))
        made.data_received(head(1000, known=True) + b"x" * 500)
        gone = weakref.ref(made)
        made.connection_lost(None)
        del made, wire
        assert gone() is None
    finally:
        gc.enable()


def test_one_user_does_not_take_every_place() -> None:
    load = Load(Limits(requests=4, requests_each=2, watches_each=1))
    with load.request(ALICE, "get"), load.request(ALICE, "get"):
        with pytest.raises(TooManyRequests), load.request(ALICE, "get"):
            pytest.fail("not reached")
        with load.request(BOB, "list"), load.request(BOB, "list"):
            with pytest.raises(TooManyRequests), load.request(UserInfo("carol"), "get"):
                pytest.fail("not reached")
            with load.request(ADMIN, "get"):
                pass
    with load.request(ALICE, "get"):
        pass
    with load.watch(ALICE):
        with pytest.raises(TooManyRequests), load.request(ALICE, "watch"):
            pytest.fail("not reached")
        with load.request(BOB, "watch"):
            pass
    with load.request(ALICE, "watch"):
        pass


async def test_a_server_keeps_to_the_limits_it_is_given() -> None:
    async with served(Limits(watches_each=1)) as world:
        alice = world.user("alice")
        await world.allow("alice", rule("watch", "pods"))
        path = "/api/v1/namespaces/default/pods?watch=true"
        reader, writer = await world.connect()
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {alice}\r\n\r\n".encode())
        assert b" 200 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        refused = await world.ask("GET", path, token=alice)
        assert (refused.status, refused.json["message"]) == (429, "Too many watches, please try again later.")
        writer.close()


async def test_a_cluster_keeps_to_the_limits_of_its_fleet_file(tmp_path: Path) -> None:
    document = {"clusters": [{"name": "a", "roles": ["worker"], "limits": {"connections": 1}}]}
    fleet = parse(document, "fleet.yaml")
    cluster = EmbeddedCluster(fleet, fleet.cluster("a"), tmp_path, 0, "127.64.0.0/16")
    await cluster.start()
    try:
        world = World(cluster.base)
        _, kept = await world.connect()
        refused = await world.ask("GET", "/version")
        assert (refused.status, refused.json["message"]) == (429, "Too many connections, please try again later.")
        kept.close()
    finally:
        await cluster.stop()


# caches


def test_long_texts_are_not_remembered() -> None:
    asked: list[str] = []

    @remembered(10)
    def shout(text: str) -> str:
        asked.append(text)
        return text.upper()

    for text in ("a", "a", "b" * LONGEST, "b" * LONGEST, "c" * (LONGEST + 1), "c" * (LONGEST + 1)):
        assert shout(text) == text.upper()
    assert [text[0] for text in asked] == ["a", "b", "c", "c"]


async def test_no_decision_is_remembered_for_words_somebody_made_up() -> None:
    authorizer = Authorizer(Store(now=lambda: 0.0))
    before = _held(authorizer)
    for number in range(50):
        long = str(number) * 5000
        for wanted in (Attributes(long), Attributes("get", long), Attributes("get", "", "pods", name=long)):
            assert not authorizer.allowed(ALICE, wanted)
        assert not authorizer.allowed(UserInfo(long), Attributes("get"))
        assert not authorizer.allowed(UserInfo("a", (long,)), Attributes("get"))
    assert _held(authorizer) - before < 5000


def _held(authorizer: Authorizer) -> int:
    """The length of all that the authorizer keeps, written out."""
    return len(repr(authorizer._decisions)) + len(repr(list(authorizer._grants)))


@pytest.mark.parametrize(
    "check",
    [selectors.parse_field_selector, names.check_subdomain, names.check_label_value, names.check_qualified_name],
)
def test_checks_of_long_texts_leave_nothing_behind(check: Any) -> None:
    text = "metadata.name=" + "x" * 100_000
    kept = weakref.WeakSet[Any]()

    class Text(str):
        """A text whose end can be seen."""

        __slots__ = ("__weakref__",)

    given = Text(text)
    kept.add(given)
    check(given)
    del given
    gc.collect()
    assert not kept


# over the wire


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with served() as made:
        yield made


async def test_a_stranger_cannot_upload_and_a_reader_cannot_either(world: World) -> None:
    token = world.user("reader")
    await world.allow("reader", rule("get", "configmaps"))
    for who in ("", token):
        credentials = f"Authorization: Bearer {who}\r\n" if who else ""
        reader, writer = await world.connect()
        start = f"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\n{credentials}Content-Length: 2900000\r\n\r\n"
        writer.write(start.encode() + b" " * 200_000)
        assert (await asyncio.wait_for(read_answer(reader), 30)).status == 403
        writer.close()
