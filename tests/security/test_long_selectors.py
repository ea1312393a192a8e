"""What is asked for may be long, and the collection may be large: neither makes the other dearer, and none of it holds up the loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.security.served import World, read_answer, rule, served
from tests.security.test_limits import Anybody, connected, head
from tests.security.test_parsers import calls

from corral.core.admission import UserInfo
from corral.core.errors import TooManyRequests
from corral.core.selectors import FEW, FieldRequirement, FieldSelector, Requirement, Selector, parse_field_selector
from corral.core.selectors import parse_label_selector as parse
from corral.core.server_limits import Limits
from corral.server.content import parameters
from corral.server.content.representations import Views
from corral.server.http.connection import WRITE_PIECE
from corral.server.http.limits import Load
from corral.server.http.message import Request, Response
from corral.server.http.shared import IDLE_TIMEOUT_S, STREAM_BUFFER, Shared

ALICE = UserInfo("alice")
VALUES = st.sampled_from(["a", "b", "c", "1", "2", "3"])
KEYS = st.sampled_from(["k", "l", "m", "n"])
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from(["exists", "!"])),
    st.builds(lambda key, op, value: Requirement(key, op, (value,)), KEYS, st.sampled_from(["=", "==", "!="]), VALUES),
    st.builds(
        lambda key, op, values: Requirement(key, op, tuple(values)),
        KEYS,
        st.sampled_from(["in", "notin"]),
        st.lists(VALUES, min_size=1, max_size=4),
    ),
    st.builds(
        lambda key, op, value: Requirement(key, op, (value,)),
        KEYS,
        st.sampled_from([">", "<"]),
        st.sampled_from(["1", "2", "3"]),
    ),
)


@given(st.lists(REQUIREMENTS, max_size=12), st.dictionaries(KEYS, VALUES))
def test_many_requirements_mean_what_each_of_them_means(asked: list[Requirement], labels: dict[str, str]) -> None:
    filler = tuple(Requirement(f"filler-{number}", "!") for number in range(FEW + 1))
    expected = all(requirement.matches(labels) for requirement in asked)
    assert Selector((*asked, *filler)).matches(labels) is expected
    assert Selector(tuple(asked)).matches(labels) is expected


@given(st.lists(st.builds(FieldRequirement, KEYS, st.booleans(), VALUES), max_size=6), st.dictionaries(KEYS, VALUES))
def test_many_fields_mean_what_each_of_them_means(asked: list[FieldRequirement], values: dict[str, str]) -> None:
    expected = all((values.get(item.field, "") == item.value) is not item.negated for item in asked)
    assert FieldSelector(tuple(asked)).matches(lambda name: values.get(name, "")) is expected


LONG: dict[str, Callable[[int], Any]] = {
    "absent labels": lambda n: parse(",".join(f"!k{k}" for k in range(n))).matches,
    "labels that must be there": lambda n: parse(",".join(f"k{k}" for k in range(n))).matches,
    "values of one label": lambda n: parse(f"a in ({','.join(f'v{k}' for k in range(n))})").matches,
    "one label again and again": lambda n: parse(",".join(f"a!=v{k}" for k in range(n))).matches,
    "bounds of one label": lambda n: parse(",".join(f"a>{k}" for k in range(n))).matches,
}  # fmt: skip


def names_but(count: int) -> str:
    return ",".join(f"metadata.name!=v{k}" for k in range(count))


@pytest.mark.parametrize("what", LONG)
def test_asking_of_an_object_costs_the_same_however_long_the_selector(what: str) -> None:
    short, long = LONG[what](20), LONG[what](2000)
    labels = {"a": "100000", "b": "c"}
    assert calls(lambda: long(labels)) <= calls(lambda: short(labels)) + 5


def test_asking_for_names_costs_the_same_however_many() -> None:
    short, long = parse_field_selector(names_but(2)), parse_field_selector(names_but(2000))
    assert calls(lambda: long.matches(lambda field: "x")) == calls(lambda: short.matches(lambda field: "x"))


def test_a_selector_that_begins_wrong_is_not_read_to_its_end() -> None:
    def refused(text: str) -> int:
        return calls(lambda: parse(text))

    assert refused("(" * 20_000) <= refused("(" * 20) + 5


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with served() as made:
        yield made


async def test_nothing_of_a_long_selector_is_read_on_the_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[str, set[int]] = {}

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            threads.setdefault(name, set()).add(threading.get_ident())
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(parameters, "_labels", noted("labels", parameters._labels))
    monkeypatch.setattr(parameters, "_fields", noted("fields", parameters._fields))
    long = ",".join(f"!k{number:05}" for number in range(5000))
    pods, usage = "/api/v1/pods", "/apis/metrics.k8s.io/v1beta1/pods"
    for asked in (pods, f"{pods}?watch=true&timeoutSeconds=1", usage):
        await world.ask(
            "GET", f"{asked}{'&' if '?' in asked else '?'}labelSelector={long}&fieldSelector={names_but(900)}"
        )
    await world.ask("DELETE", f"/api/v1/namespaces/default/pods?labelSelector={long}&fieldSelector={names_but(900)}")
    assert set(threads) == {"labels", "fields"}
    assert threading.get_ident() not in set().union(*threads.values())


async def test_a_long_list_is_encoded_beside_the_loop_and_reads_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    for number in range(5):
        body = {"metadata": {"name": f"big-{number}"}, "data": {"text": "x" * 50_000}}
        assert (await world.ask("POST", maps, body)).status == 201
    threads: set[int] = set()
    made = Views.list

    def noted(*args: Any) -> Any:
        threads.add(threading.get_ident())
        return made(*args)

    monkeypatch.setattr(Views, "list", noted)
    reader, writer = await world.connect()
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    ask = f"GET {maps}?includeObject=Object HTTP/1.1\r\nHost: x\r\nAccept: {table}\r\nAuthorization: Bearer {world.admin}\r\n\r\n"
    writer.write(ask.encode())
    answer = (await read_answer(reader)).json
    writer.close()
    assert [row["object"]["metadata"]["name"] for row in answer["rows"][:5]] == [f"big-{n}" for n in range(5)]
    assert list(answer) == ["kind", "apiVersion", "metadata", "columnDefinitions", "rows"]
    assert threads
    assert threading.get_ident() not in threads


async def test_a_user_has_so_many_bytes_in_requests_and_watches() -> None:
    load = Load(Limits(bytes_each=1000))
    with load.request(ALICE, "watch", 900), load.watch(ALICE, 900):
        with pytest.raises(TooManyRequests), load.request(ALICE, "list", 200):
            pytest.fail("not reached")
        with (
            load.request(UserInfo("bob"), "list", 200),
            load.request(UserInfo("root", ("system:masters",)), "list", 2000),
        ):
            pass
    with load.request(ALICE, "create", 5000):
        pass  # the only one is never too large: other limits say how large a request may be


async def test_watches_that_are_being_begun_count() -> None:
    load = Load(Limits(watches_each=1))
    with load.request(ALICE, "watch"), pytest.raises(TooManyRequests), load.request(ALICE, "watch"):
        pytest.fail("not reached")


async def test_long_selectors_of_one_user_are_not_kept_without_end() -> None:
    async with served(Limits(bytes_each=1_000_000)) as world:
        alice = world.user("alice")
        await world.allow("alice", rule("watch list", "pods"))
        path = f"/api/v1/pods?watch=true&labelSelector={'!' + 'k' * 60},{','.join(f'!k{n:05}' for n in range(2500))}"
        reader, writer = await world.connect()
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {alice}\r\n\r\n".encode())
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        refused = await world.ask("GET", path, token=alice)
        assert (refused.status, refused.json["message"]) == (429, "Too many bytes in requests, please try again later.")
        writer.close()


class Large(Anybody):
    """An application with a large answer."""

    body = bytes(range(256)) * 8192

    def answer_now(self, request: Request) -> Response:
        return None  # type: ignore[return-value]  # not now

    async def answer(self, request: Request) -> Response:
        return Response(200, self.body)


async def test_a_large_answer_is_written_as_the_client_takes_it() -> None:
    made, wire = connected(Shared(Large()))
    made.data_received(head(0, known=True))
    made.pause_writing()
    task = made.task
    assert task is not None
    await turns(20)
    assert len(wire.written) < STREAM_BUFFER + 2 * WRITE_PIECE
    made.resume_writing()
    await task
    assert wire.written.endswith(b"\r\n\r\n" + Large.body)
    assert b"Content-Length: %d\r\n" % len(Large.body) in wire.written


async def test_so_many_bytes_of_large_answers_wait_for_one_user() -> None:
    """Each would be kept until its client has taken it; one is answered in any case."""
    shared = Shared(Large(), Limits(answers_each=5 << 20))
    readers = [connected(shared) for _ in range(4)]
    for made, _ in readers:
        made.data_received(head(0))
        made.pause_writing()
    await turns(20)
    assert [wire.written[:13] for _, wire in readers] == [*[b"HTTP/1.1 200 "] * 2, *[b"HTTP/1.1 429 "] * 2]
    assert b"Too many bytes in answers" in readers[2][1].written
    other, wire = connected(shared)
    other.data_received(head(0, who="you"))
    await turns(200)
    assert wire.written.endswith(Large.body), "others get theirs"
    first, second = readers[0][0], readers[1][0]
    first.resume_writing()
    second.connection_lost(None)
    await turns(200)
    for _ in range(2):
        made, wire = connected(shared)
        made.data_received(head(0))
        await turns(200)
        assert wire.written.endswith(Large.body), "what has been taken does not count, nor what nobody waits for"


async def test_nothing_is_done_any_more_for_a_reader_who_has_left() -> None:
    made, _ = connected(Shared(Large()))
    made.data_received(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: me\r\n\r\n")
    made.pause_writing()
    task = made.task
    assert task is not None
    await turns(5)
    made.connection_lost(None)
    await turns(5)
    assert task.done()


async def test_a_large_answer_that_is_not_taken_is_given_back_without_the_collector() -> None:
    gc.disable()
    try:
        made, wire = connected(Shared(Large()))
        made.data_received(head(0))
        made.pause_writing()
        await turns(5)
        made.sweep(made.loop.time() + IDLE_TIMEOUT_S - 1)
        assert not wire.aborted
        made.sweep(made.loop.time() + IDLE_TIMEOUT_S + 1)
        assert wire.aborted
        gone = weakref.ref(made)
        made.connection_lost(None)
        del made, wire
        await turns(5)
        assert gone() is None
    finally:
        gc.enable()


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
