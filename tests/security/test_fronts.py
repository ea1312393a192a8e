"""Front processes of a cluster: whoever asks through one gets what he would get of the owner, no more, and at nobody's cost."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.security.served import World, read_answer, rule, served
from tests.waiting import PATIENCE_S

from corral.clusters.embedded_api import EmbeddedApi
from corral.clusters.fronts.messages import Held
from corral.clusters.fronts.pool import FrontsError, sum_of
from corral.core.server_limits import Limits
from corral.runtime.clock import Clock

FRONTS = 2
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with served(
        state=tmp_path / "state", fronts=FRONTS, users=("mallory", "alice"), audit=tmp_path / "audit.log"
    ) as world:
        yield world


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.02)


WISHES = (
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: nothing\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n",
    b"POST /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 3\r\n\r\nabc",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
)


async def test_a_wish_to_switch_protocols_leaves_no_connection_behind_that_swallows_what_others_ask(
    world: World,
) -> None:
    for wish in WISHES:
        for _ in range(FRONTS):
            await world.send(wish)
        for _ in range(2 * FRONTS):
            async with asyncio.timeout(5):
                assert (await world.ask("GET", "/version", token="")).status == 200, wish


async def test_a_connection_that_wished_to_switch_takes_no_more_requests(world: World) -> None:
    """Also where no front is between: what follows the wish is no HTTP."""
    answer = await world.send(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
    assert (answer.status, answer.headers["connection"]) == (200, "close")


async def test_a_client_cannot_say_who_he_is_to_the_owner(world: World) -> None:
    forged = json.dumps(["kubernetes-admin", ["system:masters"], "", {}])
    for name in ("Corral-Peer", "corral-peer", "CORRAL-PEER"):
        head = f"GET /api/v1/secrets?resourceVersion=1&resourceVersionMatch=Exact HTTP/1.1\r\nHost: x\r\n{name}: {forged}\r\n\r\n"
        assert (await world.send(head.encode())).status == 403
        whoami = f"POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: x\r\n{name}: {forged}\r\n"
        body = b"{}"
        whoami += f"Authorization: Bearer token-of-mallory\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        answer = await world.send(whoami.encode() + body)
        assert answer.json["status"]["userInfo"]["username"] == "mallory"


async def test_names_are_the_same_bytes_whichever_process_looks_at_them(world: World) -> None:
    """A name in UTF-8 that is handed on stays that name, and so do its rights."""

    async def whoami(name: bytes) -> Any:
        head = (
            b"POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: x\r\nImpersonate-User: " + name
        )
        head += (
            b"\r\nAuthorization: Bearer token-of-admin\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        )
        return (await world.send(head)).json["status"]["userInfo"]["username"]

    for name in ("zoë".encode(), b"zo\xeb", b"zoe"):
        assert await whoami(name) == name.decode("latin-1")


async def test_every_request_has_its_line_in_the_audit_log_and_counts_once(world: World, tmp_path: Path) -> None:
    made = {"metadata": {"name": "audited"}}
    for method, path, body in (
        ("POST", MAPS, made),
        ("GET", f"{MAPS}/audited", None),
        ("GET", f"{MAPS}?watch=1&timeoutSeconds=1", None),
        ("DELETE", f"{MAPS}/audited", None),
        ("GET", "/version?x", None),
    ):
        await world.ask(method, path, body)
    assert (await world.ask("GET", f"{MAPS}/audited", token="token-of-mallory")).status == 403

    def audited() -> list[Any]:
        lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
        return [line for line in lines if "configmaps" in line["requestURI"] or "version?x" in line["requestURI"]]

    await until(lambda: len(audited()) >= 6)
    about = audited()
    assert [(line["verb"], line["responseStatus"]["code"], line["user"]["username"]) for line in about] == [
        ("create", 201, "kubernetes-admin"),
        ("get", 200, "kubernetes-admin"),
        ("watch", 200, "kubernetes-admin"),
        ("delete", 200, "kubernetes-admin"),
        ("get", 200, "kubernetes-admin"),
        ("get", 403, "mallory"),
    ]

    async def deletions() -> int:
        text = (await world.ask("GET", "/metrics")).body.decode()
        wanted = 'apiserver_request_total{code="200",group="",resource="configmaps",subresource="",verb="DELETE",version="v1"}'
        return next((int(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(wanted)), 0)

    beats = world.cluster.server.requests
    seen: list[int] = []
    add = beats.add

    def noted(counted: Iterable[Any]) -> None:
        add(counted)
        seen.append(1)

    beats.add = noted  # type: ignore[method-assign]
    await until(lambda: len(seen) > 2 * FRONTS)
    assert await deletions() == 1


async def test_what_is_handed_on_is_counted_as_his_who_asked(world: World) -> None:
    """Not as the fronts', who are not held to anybody's share: one user's answers would fill what all others need."""
    beside = world.cluster.fronts._forwarded
    assert beside is not None

    def owners() -> set[str]:
        return {place.share.user.name for place in beside._known.values()}

    for name in ("mallory", "alice"):
        for _ in range(2 * FRONTS):
            assert (await world.ask("GET", "/version", token=f"token-of-{name}")).status == 200
        assert owners() <= {name, "system:fronts"}
        assert name in owners()


async def test_where_none_can_be_started_those_there_are_still_looked_after(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fronts = world.cluster.fronts
    tried = 0

    async def none_left(*_: object, **__: object) -> None:
        nonlocal tried
        tried += 1
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    with monkeypatch.context() as short:
        short.setattr(asyncio, "create_subprocess_exec", none_left)
        os.kill(fronts.processes[0], signal.SIGKILL)
        await until(lambda: tried >= 2)
        os.kill(fronts.processes[0], signal.SIGSTOP)
        await until(lambda: not fronts.processes)
        assert (await world.ask("GET", "/version")).status == 200
    await until(lambda: len(fronts.processes) == FRONTS)


async def test_one_user_has_no_more_of_several_processes_than_of_one(tmp_path: Path) -> None:
    """Of what is held for long, and as soon as the processes have told each other."""
    limits = Limits(connections_each=24, watches_each=6)
    async with served(limits, tmp_path / "state", FRONTS, ("mallory", "alice")) as world:
        fronts = world.cluster.fronts
        for name in ("mallory", "alice"):
            await world.allow(name, rule("get list watch", "configmaps"))
        writers = []

        async def watch(name: str) -> int:
            reader, writer = await world.connect()
            writers.append(writer)
            head = f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-of-{name}\r\n\r\n"
            writer.write(head.encode())
            return int((await reader.readline()).split()[1])

        def known(of: Callable[[Held], dict[str, int]]) -> int:
            return of(sum_of(front.beat.held for front in fronts._fronts)).get("mallory", 0)

        assert [await watch("mallory") for _ in range(6)] == [200] * 6
        assert all(count >= 2 for count in fronts.connections), "of each some"
        await until(lambda: known(lambda held: held.watches) == 6)
        beats = fronts._fronts[0].heard
        await until(lambda: fronts._fronts[0].heard > beats)  # and the others have been told
        assert [await watch("mallory") for _ in range(2 * FRONTS)] == [429] * 2 * FRONTS
        assert [await watch("alice") for _ in range(2 * FRONTS)] == [200] * 2 * FRONTS

        async def connected() -> int:
            reader, writer = await world.connect()
            writers.append(writer)
            writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-of-mallory\r\n\r\n")
            return (await read_answer(reader)).status

        while known(lambda held: held.connections) < 24:
            assert await connected() == 200
            await asyncio.sleep(0.1)
        beats = fronts._fronts[0].heard
        await until(lambda: fronts._fronts[0].heard > beats)
        assert [await connected() for _ in range(2 * FRONTS)] == [429] * 2 * FRONTS
        assert (await world.ask("GET", "/version", token="token-of-alice")).status == 200
        for writer in writers:
            writer.close()


async def test_users_who_take_all_they_can_are_refused_politely_and_leave_room_for_others(tmp_path: Path) -> None:
    """Unfinished bodies over every front: each is told, none is cut off, and whoever comes is served."""
    greedy = [f"greedy{number}" for number in range(6)]
    async with served(Limits(bytes=4_000_000), tmp_path / "state", FRONTS, (*greedy, "modest")) as world:
        for name in (*greedy, "modest"):
            await world.allow(name, rule("create", "configmaps"))
        writers, answers = [], []
        for number in range(24):
            reader, writer = await world.connect()
            head = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-of-{greedy[number % 6]}\r\nContent-Length: 400000\r\n\r\n"
            writer.write(head.encode() + b" " * 300_000)
            await writer.drain()
            writers.append(writer)
            answers.append(asyncio.ensure_future(read_answer(reader)))
        async with asyncio.timeout(PATIENCE_S):
            first = [
                await answer for answer in itertools.islice(asyncio.as_completed(answers), 12)
            ]  # there is room for half
        assert {answer.status for answer in first} == {429}
        assert {answer.headers["retry-after"] for answer in first} == {"1"}
        made = {"metadata": {"name": "a"}, "data": {"x": "y" * 50_000}}
        assert (await world.ask("POST", MAPS, made, token="token-of-modest")).status == 201
        for answer in answers:
            answer.cancel()
        for writer in writers:
            writer.transport.abort()
        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        assert not [each for each in outcomes if isinstance(each, OSError)]


async def test_a_start_whose_fronts_end_at_once_is_given_up_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'corral.clusters.fronts.process' in sys.orig_argv: os._exit(3)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    cluster = EmbeddedApi(tmp_path / "state", fronts=FRONTS)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(
            FrontsError, match="front processes ended before they served; the last lines of the log say why"
        ):
            await cluster.start()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", cluster.server.port)
    monkeypatch.delenv("PYTHONPATH")
    again = EmbeddedApi(tmp_path / "state", fronts=1)  # the state is not held any more
    await again.start()
    await again.stop()


class Jumping:
    """A clock on which time has passed of which this process has had nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.passed = 0.0

    def monotonic(self) -> float:
        return self._clock.monotonic() + self.passed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)


async def test_an_owner_that_was_stopped_for_a_while_does_not_take_its_fronts_for_silent(world: World) -> None:
    fronts = world.cluster.fronts
    there = list(fronts.processes)
    fronts._clock = clock = Jumping(fronts._clock)
    clock.passed = 600.0
    seen = [front.heard for front in fronts._fronts]
    await until(lambda: all(front.heard > before + 600 for front, before in zip(fronts._fronts, seen, strict=False)))
    assert list(fronts.processes) == there
    assert (await world.ask("GET", "/version")).status == 200


async def test_a_reader_gets_an_answer(world: World) -> None:
    """The helpers of this module do reach a front."""
    assert world.cluster.server.listener.shared is not None
    reader, writer = await world.connect()
    writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await read_answer(reader)).status == 200
    assert not world.cluster.server.listener.shared.connections
    writer.close()
