"""What strangers and single users can make a server hold on to is bounded: bytes, connections, requests, watches, time."""

from __future__ import annotations

import asyncio
import gc
import itertools
import socket
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.security.served import World, read_answer, rule, served

from corral.clusters.embedded import EmbeddedCluster
from corral.configuration.fleet import parse
from corral.core import names, selectors
from corral.core.admission import ANONYMOUS, UserInfo
from corral.core.errors import TooManyRequests
from corral.core.remembering import LONGEST, remembered
from corral.core.server_limits import Limits
from corral.server import paths
from corral.server.access.authorization import Authorizer
from corral.server.access.rbac import Attributes
from corral.server.content import parameters
from corral.server.http import shared as http
from corral.server.http.accepting import HANDSHAKES, STRANGER_RECEIVES
from corral.server.http.connection import Connection
from corral.server.http.limits import Load
from corral.server.http.message import Request, Response
from corral.server.http.shared import Shared
from corral.server.request_metrics import RequestMetrics
from corral.store import Store

ALICE, BOB, ADMIN = UserInfo("alice"), UserInfo("bob"), UserInfo("root", ("system:masters",))


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = self.aborted = self.paused = False

    def get_extra_info(self, name: str) -> None:
        return None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

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

    def caller(self, request: Request) -> UserInfo | None:
        name = request.headers.get("authorization")
        return (ADMIN if name == ADMIN.name else UserInfo(name)) if name else None

    def refuse_body(self, request: Request) -> Response | None:
        return None if self.caller(request) else Response(401, b"who?")

    def answer_now(self, request: Request) -> Response:
        return Response(200, b"%d" % len(request.body))

    async def answer(self, request: Request) -> Response:
        return self.answer_now(request)

    def refuse(self, code: int, message: str) -> Response:
        return Response(code, message.encode())


LARGE = 3_000_000


class Large(Anybody):
    """An application with one large answer, which its client does not take at once."""

    def answer_now(self, request: Request) -> None:  # type: ignore[override]  # later
        return None

    async def answer(self, request: Request) -> Response:
        return Response(200, b"x" * LARGE)


def connected(shared: Shared) -> tuple[Connection, Wire]:
    made, wire = Connection(shared), Wire()
    made.connection_made(wire)  # type: ignore[arg-type]  # as much of a transport as it needs
    return made, wire


def head(length: int | None, *, known: bool = True, who: str = "me") -> bytes:
    credentials = f"Authorization: {who}\r\n".encode() if known else b""
    size = b"Transfer-Encoding: chunked\r\n" if length is None else b"Content-Length: %d\r\n" % length
    return b"POST /x HTTP/1.1\r\nHost: x\r\n" + credentials + size + b"\r\n"


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


async def test_a_header_without_end_is_refused_though_the_parser_keeps_it_to_itself() -> None:
    made, wire = connected(Shared(Anybody()))
    made.data_received(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
    for _ in range(100):
        made.data_received(b"y" * 64 * 1024)
    assert wire.written.startswith(b"HTTP/1.1 431 ")
    assert made.arrived <= 3 * http.MAX_HEAD


@pytest.mark.parametrize(
    "unfinished",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 200_000,
        b"GET /?" + b"y" * 200_000,
        head(60_000, known=False) + b"y" * 50_000,
    ],
    ids=["header", "query", "body"],
)
async def test_all_strangers_together_hold_little_and_the_greediest_go_first(unfinished: bytes) -> None:
    shared = Shared(Anybody())
    modest, modest_wire = connected(shared)
    modest.data_received(b"GET / HTTP/1.1\r\n")
    greedy = [connected(shared) for _ in range(300)]
    for made, _ in greedy:
        made.data_received(unfinished)
    assert sum(made.arrived for made, wire in greedy if not wire.aborted) <= http.STRANGERS_HOLD
    assert not modest_wire.aborted
    for made, _ in greedy:
        made.connection_lost(None)
    assert sum(shared.strangers.values()) == modest.arrived


@pytest.mark.parametrize("path", ["/?" + "y" * 200_000, "/" + "y" * 200_000], ids=["answered", "refused"])
async def test_the_room_that_tls_keeps_for_what_came_at_once_counts_as_long_as_a_stranger_stays(path: str) -> None:
    shared = Shared(Anybody())
    modest, modest_wire = connected(shared)
    modest.data_received(head(0, known=False))
    for _ in range(100):
        connected(shared)[0].data_received(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert len(shared.strangers) <= 1 + http.STRANGERS_HOLD // 200_000
    assert not modest_wire.aborted
    for made in [each for each in shared.connections if each is not modest]:
        made.connection_lost(None)  # type: ignore[attr-defined]
    assert connected(shared)[1].aborted is False
    assert len(shared.strangers) == 2


async def test_what_came_at_once_is_no_strangers_when_it_says_who_it_is() -> None:
    shared = Shared(Anybody())
    for _ in range(100):
        made, wire = connected(shared)
        made.data_received(head(60_000) + b"x" * 60_000)
        assert not wire.aborted
    assert shared._arriving.held(ANONYMOUS) == 0


async def test_what_a_known_user_sends_does_not_count_as_a_strangers() -> None:
    shared = Shared(Anybody())
    made, wire = connected(shared)
    for _ in range(10):
        made.data_received(head(1_000_000, known=True) + b"x" * 1_000_000)
    assert wire.written.count(b"HTTP/1.1 200 ") == 10
    assert not wire.aborted
    assert not shared.strangers


@pytest.mark.parametrize("known", [True, False])
async def test_who_does_not_read_answers_gets_no_more_of_them(known: bool) -> None:
    made, wire = connected(Shared(Anybody()))
    made.data_received(head(0, known=known))
    made.pause_writing()
    for _ in range(40):
        made.data_received(head(0, known=known))
    assert wire.written.count(b"HTTP/1.1 ") == 1
    assert wire.paused, "no more is read of somebody who reads nothing"
    made.resume_writing()
    assert wire.written.count(b"HTTP/1.1 ") == 41
    assert not wire.paused


async def test_who_reads_nothing_for_long_is_not_waited_for() -> None:
    made, wire = connected(Shared(Anybody()))
    made.data_received(head(0, known=True))
    made.pause_writing()
    made.sweep(made.loop.time() + http.IDLE_TIMEOUT_S + 1)
    assert wire.aborted


def test_metrics_do_not_remember_words_that_callers_make_up() -> None:
    metrics = RequestMetrics()
    metrics.count(paths.parse("GET", "/api/v1/namespaces/default/pods"), 403)
    for number in range(100):
        for path in (
            f"/api/v1/{'x' * 8000}{number}",
            f"/apis/{'x' * 8000}{number}/v1/a",
            f"/api/v1/pods/a/{'x' * 8000}{number}",
        ):
            metrics.count(paths.parse("GET", path), 403)
    assert len(metrics.render()) < 1000


async def test_a_long_field_selector_is_not_parsed_for_somebody_who_may_not_list(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(parameters, "_fields", parsed.append)
    answer = await world.ask("GET", f"/api/v1/pods?fieldSelector=metadata.name%3D{'x' * 200_000}", token="")
    assert answer.status == 403
    assert len(answer.body) < 1000
    assert not parsed


async def test_those_who_do_not_get_on_with_their_handshake_make_room(world: World) -> None:
    silent = [await asyncio.open_connection("127.0.0.1", world.cluster.server.port) for _ in range(HANDSHAKES + 20)]
    assert (await world.ask("GET", "/version")).status == 200
    assert await asyncio.wait_for(silent[0][0].read(), 5) == b"", "the oldest had to go"
    for _, writer in silent:
        writer.transport.abort()


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


async def test_one_user_has_so_many_connections_and_makes_room_for_others() -> None:
    shared = Shared(Anybody(), Limits(connections=8, connections_each=4))

    def come(who: str) -> Wire:
        made, wire = connected(shared)
        made.data_received(head(0, who=who))
        return wire

    mine = [come("me") for _ in range(6)]
    assert [wire.written[:13] for wire in mine] == [*[b"HTTP/1.1 200 "] * 4, *[b"HTTP/1.1 429 "] * 2]
    assert b"Too many connections" in mine[4].written
    others = [come("you"), come(ADMIN.name), come("she")]
    assert [wire.written[:13] for wire in others] == [b"HTTP/1.1 200 "] * 3
    assert [wire.aborted for wire in mine[:4]] == [True, False, False, False], "who had the most gave one up"
    crowd = [come(ADMIN.name) for _ in range(4)]
    assert not any(wire.aborted for wire in crowd), "the system's own are not held to a share"


@pytest.mark.parametrize("known", [True, False])
async def test_what_waits_for_its_turn_counts_with_its_body(known: bool) -> None:
    shared = Shared(Anybody(), Limits(bytes_each=500_000))
    greedy = [connected(shared) for _ in range(100)]
    for made, wire in greedy:
        made.data_received(head(0, known=known))
        made.pause_writing()
        for _ in range(10):
            made.data_received(head(50_000, known=known) + b"x" * 50_000)
        if known:
            assert b" 429 " in wire.written or sum(len(ready.body) for ready, _ in made.waiting) <= 500_000
    kept = sum(len(ready.body) for made, wire in greedy if not wire.aborted for ready, _ in made.waiting)
    assert kept <= (500_000 if known else http.STRANGERS_HOLD)


async def test_all_that_one_user_has_not_finished_sending_is_bounded() -> None:
    shared = Shared(Anybody(), Limits(bytes_each=1_000_000))
    greedy = [connected(shared) for _ in range(50)]
    for made, _ in greedy:
        made.data_received(head(0))
        made.data_received(head(300_000) + b"x" * 299_000)
    answers = [wire.written.count(b" 429 ") for _, wire in greedy]
    assert sum(sum(map(len, made.body)) for made, _ in greedy) <= 1_000_000
    assert answers[:3] == [0, 0, 0]
    assert answers[3:] == [1] * 47
    other, wire = connected(shared)
    other.data_received(head(300_000, who="you") + b"x" * 300_000)
    assert wire.written.endswith(b"300000"), "others are not held up"
    for made, _ in greedy:
        made.connection_lost(None)
    again, wire = connected(shared)
    again.data_received(head(300_000) + b"x" * 300_000)
    assert wire.written.endswith(b"300000"), "what is gone does not count"


async def test_a_large_body_is_its_users_as_soon_as_he_is_known() -> None:
    shared = Shared(Anybody())
    senders = [connected(shared) for _ in range(8)]
    for made, _ in senders:
        made.data_received(head(2_900_000) + b"x" * 100)
        for _ in range(28):
            made.data_received(b"x" * 100_000)
    assert not any(wire.aborted for _, wire in senders)
    for made, wire in senders:
        made.data_received(b"x" * 99_900)
        assert wire.written.endswith(b"2900000")


async def test_many_users_together_leave_room_for_the_next() -> None:
    """Each sends and leaves unread as much as he may; the bytes of all are bounded, and nobody is the last to get any."""
    shared = Shared(Anybody(), Limits(bytes=4_000_000, answers=4_000_000))
    senders = [connected(shared) for _ in range(200)]
    for number, (made, _) in enumerate(senders):
        made.data_received(head(300_000, who=f"user{number % 40}") + b"x" * 299_000)
    assert sum(sum(map(len, made.body)) for made, _ in senders) <= 4_000_000
    readers = [connected(shared) for _ in range(200)]
    for number, (made, _) in enumerate(readers):
        made.data_received(head(0, who=f"user{number % 40}"))
        made.pause_writing()
    assert 2_000_000 <= sum(http.STREAM_BUFFER for _, wire in readers if not wire.aborted) <= 4_000_000
    newcomer, wire = connected(shared)
    newcomer.data_received(head(20_000, who="newcomer") + b"x" * 20_000)
    assert wire.written.endswith(b"20000")
    for made, _ in senders + readers:
        made.connection_lost(None)
    again, wire = connected(shared)
    again.data_received(head(1_000_000) + b"x" * 1_000_000)
    assert wire.written.endswith(b"1000000"), "what is gone does not count"


async def test_who_says_who_he_is_in_the_head_is_told_that_there_is_no_room_and_not_cut_off() -> None:
    shared = Shared(Anybody(), Limits(bytes=1_000_000))
    for who in ("a", "b", "c"):
        connected(shared)[0].data_received(head(400_000, who=who) + b"x" * 200_000)
    wires = []
    for number in range(20):
        made, wire = connected(shared)
        made.data_received(head(400_000, who=f"new-{number % 3}") + b"x" * 50_000)
        wires.append(wire)
    assert not [wire for wire in wires if wire.aborted]
    assert wires[-1].written.startswith(b"HTTP/1.1 429 ")


async def test_what_was_refused_counts_for_nobody_any_more() -> None:
    shared = Shared(Anybody(), Limits(bytes=1_000_000))
    made, wire = connected(shared)
    made.data_received(head(900_000, who="a") + b"x" * 600_000)
    assert wire.written.startswith(b"HTTP/1.1 429 ")
    made.data_received(b"x" * 200_000)
    assert shared._arriving.held(UserInfo("a")) == 0


async def test_strangers_are_the_first_to_make_room() -> None:
    shared = Shared(Anybody(), Limits(bytes=1_000_000))
    stranger, stranger_wire = connected(shared)
    stranger.data_received(head(60_000, known=False) + b"y" * 50_000)
    assert not stranger_wire.aborted
    senders = [connected(shared) for _ in range(3)]
    for number, (made, _) in enumerate(senders):
        made.data_received(head(300_000, who=f"user{number}") + b"x" * 290_000)
    stranger.data_received(b"y")
    assert stranger_wire.aborted
    assert not any(wire.written for _, wire in senders[:2])


async def test_an_answer_that_is_taken_very_slowly_has_a_deadline_in_all() -> None:
    made, wire = connected(Shared(Large()))
    made.data_received(head(0))
    await asyncio.sleep(0)
    begun = made.loop.time()
    made.piece_since = begun + http.time_to_take(LARGE) - 10
    made.sweep(begun + http.time_to_take(LARGE) - 1)
    assert not wire.closed
    made.sweep(begun + http.time_to_take(LARGE) + 1)
    assert wire.closed
    made.connection_lost(None)


@pytest.mark.parametrize("sent", [head(1000) + b"x" * 500, b"GET /" + b"x" * 200_000], ids=["unfinished", "refused"])
async def test_a_closed_connection_is_given_back_without_the_collector(sent: bytes) -> None:
    gc.disable()
    try:
        made, wire = connected(Shared(Anybody()))
        made.data_received(sent)
        gone = weakref.ref(made), weakref.ref(wire)
        made.connection_lost(None)
        del made, wire
        assert [each() for each in gone] == [None, None]
    finally:
        gc.enable()


def test_one_user_does_not_take_every_place() -> None:
    load = Load(Limits(requests=6, requests_each=2, watches_each=1))
    with load.request(ALICE, "get"), load.request(ALICE, "get"):
        with pytest.raises(TooManyRequests), load.request(ALICE, "get"):
            pytest.fail("not reached")
        with load.request(BOB, "list"), load.request(BOB, "list"), load.request(UserInfo("carol"), "get"):
            with pytest.raises(TooManyRequests), load.request(UserInfo("dave"), "get"):
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


async def test_the_system_takes_in_little_of_strangers_before_we_look_and_more_of_users(world: World) -> None:
    shared = world.cluster.server.listener.shared
    assert shared is not None
    reader, writer = await world.connect()
    writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await read_answer(reader)).status == 200
    (stranger,) = shared.strangers
    accepted = stranger.transport.get_extra_info("socket")
    twice = 2 * STRANGER_RECEIVES  # as the system counts
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == twice
    writer.write(f"GET /version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.admin}\r\n\r\n".encode())
    assert (await read_answer(reader)).status == 200
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) > 4 * twice
    writer.close()


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


async def test_users_who_take_all_they_can_leave_a_server_free_for_others() -> None:
    """Unfinished bodies of many identities at once, over TLS: refused politely, and whoever comes is still served."""
    async with served(Limits(bytes=2_000_000, requests=20, requests_each=20)) as world:
        await world.allow("greedy", rule("create", "configmaps"))
        greedy = [world.user(f"greedy{number}", "greedy") for number in range(6)]
        binding = {
            "metadata": {"name": "all-of-them"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "rights-of-greedy"},
            "subjects": [{"kind": "Group", "name": "greedy", "apiGroup": "rbac.authorization.k8s.io"}],
        }
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        assert (await world.ask("POST", path, binding)).status == 201
        writers, answers = [], []
        for number in range(24):
            reader, writer = await world.connect()
            start = (
                "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\n"
                f"Authorization: Bearer {greedy[number % 6]}\r\nContent-Length: 400000\r\n\r\n"
            )
            writer.write(start.encode() + b" " * 300_000)
            await writer.drain()
            writers.append(writer)
            answers.append(asyncio.ensure_future(read_answer(reader)))
        ended = asyncio.as_completed(answers)
        refused = [await answer for answer in itertools.islice(ended, 18)]  # six are all there is room for
        assert {answer.status for answer in refused} == {429}
        assert {answer.headers["retry-after"] for answer in refused} == {"1"}
        modest = world.user("modest", "greedy")
        made = {"metadata": {"name": "a"}, "data": {"x": "y" * 50_000}}
        assert (await world.ask("POST", "/api/v1/namespaces/default/configmaps", made, token=modest)).status == 201
        assert (await world.ask("GET", "/api/v1/namespaces/default/configmaps/a")).status == 200
        for waiting in answers:
            waiting.cancel()
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*answers, return_exceptions=True)
