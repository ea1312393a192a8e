"""Pods of other clusters in the API: listed, read, watched and reached like own ones, but never written."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from corral.client import kubeconfig
from corral.client.http import HttpClient
from corral.clusters.embedded_api import EmbeddedApi
from corral.controllers.dispatch.remote_pods.changes import History, PodChangeFeed
from corral.core.admission import UserInfo
from corral.core.errors import ApiError, BadRequest, Expired, Forbidden, NotFound
from corral.core.meta import Obj, labels_of, name_of, namespace_of
from corral.core.remote_pods import Forwarded, PodChange, PodListing
from corral.core.streams import LogOptions
from corral.decide.dispatch.remote_pods import part_of
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.machinery.virtual_resources import ExtraRequest
from corral.server.pods.remote_usage import MOST, RemoteUsage


def pod(name: str, phase: str = "Running", **labels: str) -> Obj:
    metadata = {"name": name, "namespace": "default", "labels": {"corral.dev/cluster": "w1", **labels}}
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


class Answer:
    """What another server says."""

    status = 200
    headers: Sequence[tuple[str, str]] = [("content-type", "text/plain"), ("authorization", "x")]

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b"from "
        yield b"elsewhere\n"

    async def receive(self) -> bytes:
        return b""

    async def send(self, data: bytes) -> None:
        """Nobody listens."""


class Fake:
    """Pods elsewhere, as a test puts them."""

    def __init__(self, api: EmbeddedApi) -> None:
        self._api = api
        self.listing = PodListing.LISTED
        self.history = History()
        self.history.start(0)
        self.pods: dict[str, Obj] = {}
        self.kept: dict[str, dict[str, bytes]] = {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []

    def put(self, new: Obj | None, name: str = "") -> None:
        key = name or name_of(new or {})
        old = self.pods.pop(key, None)
        revision = self._api.store.revision
        if new is not None:
            new = {**new, "metadata": {**new["metadata"], "resourceVersion": str(revision)}}
            self.pods[key] = new
        self.history.add(revision, PodChange(old, new))

    def has_stand_ins(self, pod: Obj) -> bool:
        return labels_of(pod).get("app") == "set"

    async def list(self, namespace: str = "", revision: int = 0) -> Sequence[Obj]:
        self.history.mark(revision)
        return [held for held in self.pods.values() if namespace in ("", namespace_of(held))]

    async def get(self, namespace: str, name: str) -> Obj | None:
        return self.pods.get(name) if namespace == "default" else None

    def known(self, namespace: str, name: str) -> Obj | None:
        return self.pods.get(name)

    async def follow(self, after: int) -> tuple[Sequence[Obj], PodChangeFeed]:
        return ([] if after else list(self.pods.values())), self.history.follow(after or None)

    def kept_log(self, pod: Obj, container: str, options: LogOptions) -> bytes | None:
        kept = self.kept.get(name_of(pod))
        return None if kept is None else part_of(kept.get(container, b""), options)

    async def forward(
        self, pod: Obj, method: str, target: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Forwarded]:
        self.asked.append((method, target, dict(headers)))

        @asynccontextmanager
        async def opened() -> AsyncIterator[Forwarded]:
            yield Answer()

        return opened()


class World:
    def __init__(self, api: EmbeddedApi, fake: Fake, client: HttpClient) -> None:
        self.api, self.fake, self.client = api, fake, client


@pytest.fixture
async def world() -> AsyncIterator[World]:
    api = EmbeddedApi(None)
    fake = Fake(api)
    api.server.remote_pods = fake
    await api.start()
    client = HttpClient(kubeconfig.access(api.server.kubeconfig()))
    try:
        yield World(api, fake, client)
    finally:
        await client.close()
        await api.stop()


def own(name: str) -> Obj:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def test_lists_have_them_behind_the_own_ones_and_own_ones_hide_theirs(world: World) -> None:
    await world.client.create(PODS, own("z"))
    world.fake.put(pod("a", app="x"))
    world.fake.put(pod("z", app="x"))
    assert [name_of(held) for held in (await world.client.list(PODS, "default")).items] == ["z", "a"]
    assert [name_of(held) for held in (await world.client.list(PODS, labels="app=x")).items] == ["a"]
    assert [name_of(held) for held in (await world.client.list(PODS, fields="metadata.name=a")).items] == ["a"]
    assert (await world.client.list(PODS, "other")).items == []
    assert (await world.client.get(PODS, "a", "default"))["status"]["phase"] == "Running"


async def test_controllers_of_the_cluster_do_not_see_them(world: World) -> None:
    world.fake.put(pod("a"))
    assert (await world.api.client.list(PODS)).items == []
    with pytest.raises(NotFound):
        await world.api.client.get(PODS, "a", "default")


async def test_they_cannot_be_written(world: World) -> None:
    world.fake.put(pod("a"))
    with pytest.raises(Forbidden, match="runs on cluster w1 and is only shown here"):
        await world.client.delete(PODS, "a", "default")
    with pytest.raises(Forbidden, match="change its job instead"):
        await world.client.patch(PODS, "a", "default", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(NotFound):
        await world.client.delete(PODS, "nobody", "default")


async def next_events(stream: Any, count: int) -> list[tuple[str, str]]:
    async with asyncio.timeout(60):
        seen = [await anext(stream) for _ in range(count)]
    return [(event.type, name_of(event.obj)) for event in seen]


async def test_a_watch_goes_on_after_a_list_with_own_and_other_changes(world: World) -> None:
    world.fake.put(pod("before", app="x"))
    listed = await world.client.list(PODS, "default", labels="app=x")
    world.fake.put(pod("a", "Pending", app="x"))
    world.fake.put(pod("other", "Pending"))
    stream = world.client.watch(PODS, "default", labels="app=x", resource_version=listed.resource_version)
    assert await next_events(stream, 1) == [("ADDED", "a")]
    world.fake.put(pod("a", "Running", app="x"))
    assert await next_events(stream, 1) == [("MODIFIED", "a")]
    mine = own("mine")
    mine["metadata"]["labels"] = {"app": "x"}
    await world.client.create(PODS, mine)
    assert await next_events(stream, 1) == [("ADDED", "mine")]
    world.fake.put(None, "a")
    assert await next_events(stream, 1) == [("DELETED", "a")]
    await stream.aclose()


async def test_a_watch_without_a_start_begins_with_what_is_there(world: World) -> None:
    await world.client.create(PODS, own("mine"))
    world.fake.put(pod("a"))
    stream = world.client.watch(PODS, "default")
    assert sorted(await next_events(stream, 2)) == [("ADDED", "a"), ("ADDED", "mine")]
    await stream.aclose()


async def test_a_watch_from_too_long_ago_has_to_list_again(world: World) -> None:
    listed = await world.client.list(PODS, "default")
    await world.client.create(PODS, own("mine"))
    world.fake.history.start(world.api.store.revision)
    with pytest.raises(Expired):
        await anext(world.client.watch(PODS, "default", resource_version=listed.resource_version))


async def test_logs_are_handed_on_without_the_users_credentials(world: World) -> None:
    world.fake.put(pod("a"))
    said = [chunk async for chunk in world.client.logs("a", "default", tail_lines=3)]
    assert b"".join(said) == b"from elsewhere\n"
    ((method, target, headers),) = world.fake.asked
    assert (method, target) == ("GET", "/api/v1/namespaces/default/pods/a/log?tailLines=3")
    assert set(headers) <= {"accept", "connection"}


async def test_what_is_handed_on_is_what_was_allowed_however_it_was_spelt(world: World) -> None:
    world.fake.put(pod("a"))
    pods = "/api/v1/namespaces/default/pods"
    for spelt in (
        "a/log/../../../../secrets", "a/log/..%2f..%2f..%2f..%2fsecrets", "%61/l%6fg", "a/log/", "a//log", "a/log/%2e%2e/exec", "a/log;x",
        "a/log?x=/../../secrets",
    ):  # fmt: skip
        asking = await world.client.forward("GET", f"{pods}/{spelt}", {})
        async with asking as answer:
            assert answer.status in (200, 400, 404, 405), spelt
    asked = {target.partition("?")[0] for _, target, _ in world.fake.asked}
    assert asked == {f"{pods}/a/log"}
    assert len(world.fake.asked) >= 3


async def test_what_an_own_pod_waits_for_elsewhere_answers_from_there(world: World) -> None:
    await world.client.create(PODS, own("gated"))
    world.fake.put(pod("gated"))
    said = [chunk async for chunk in world.client.logs("gated", "default")]
    assert b"".join(said) == b"from elsewhere\n"


async def test_what_is_kept_of_a_pods_log_is_read_like_a_log_and_nothing_else_is_left(world: World) -> None:
    world.fake.put(pod("a", "Succeeded"))
    lines = [f"2026-11-16T10:00:0{number}.000000000Z line {number}\n".encode() for number in range(5)]
    world.fake.kept["a"] = {"c": b"".join(lines)}

    async def said(**options: Any) -> bytes:
        return b"".join([chunk async for chunk in world.client.logs("a", "default", **options)])

    assert await said() == b"line 0\nline 1\nline 2\nline 3\nline 4\n"
    assert await said(tail_lines=1) == b"line 4\n"
    assert await said(tail_lines=1, timestamps=True) == lines[4]
    assert await said(follow=True, tail_lines=2) == b"line 3\nline 4\n"
    with pytest.raises(BadRequest, match="container x is not valid for pod a"):
        await said(container="x")
    with pytest.raises(BadRequest, match="what is left of its log is of the last run of 'c'"):
        await said(previous=True)
    with pytest.raises(BadRequest, match="pod a has ended and is gone"):
        await world.client.raw("POST", "/api/v1/namespaces/default/pods/a/exec?command=true")
    assert world.fake.asked == []


def waiting(name: str) -> Obj:
    held = own(name)
    held["spec"]["schedulingGates"] = [{"name": "example.com/dispatched"}]
    return held


async def test_a_pod_behind_its_gate_is_shown_as_the_one_that_runs_for_it(world: World) -> None:
    made = await world.client.create(PODS, waiting("member-0"))
    listed = await world.client.list(PODS, "default")
    stream = world.client.watch(PODS, "default", resource_version=listed.resource_version)
    world.fake.put(pod("member-0"))
    assert await next_events(stream, 1) == [("MODIFIED", "member-0")]
    shown = await world.client.get(PODS, "member-0", "default")
    assert (shown["status"]["phase"], shown["metadata"]["labels"]) == ("Running", {"corral.dev/cluster": "w1"})
    assert shown["spec"] == made["spec"]
    assert [shown["metadata"][field] for field in ("uid", "resourceVersion")] == [
        made["metadata"][field] for field in ("uid", "resourceVersion")
    ]
    for labels in ("", "corral.dev/cluster=w1"):
        (again,) = (await world.client.list(PODS, "default", labels=labels)).items
        assert again["status"]["phase"] == "Running"
    assert (await world.api.client.get(PODS, "member-0", "default"))["status"]["phase"] == "Pending"
    await world.client.patch(PODS, "member-0", "default", {"metadata": {"labels": {"a": "b"}}})
    assert await next_events(stream, 1) == [("MODIFIED", "member-0")]
    world.fake.put(None, "member-0")
    assert await next_events(stream, 1) == [("MODIFIED", "member-0")]
    shown = await world.client.get(PODS, "member-0", "default")
    assert (shown["status"]["phase"], shown["metadata"]["labels"]) == ("Pending", {"a": "b"})
    await world.client.delete(PODS, "member-0", "default", grace=0)
    assert await next_events(stream, 1) == [("DELETED", "member-0")]
    await stream.aclose()


async def test_a_watch_begins_with_a_gated_pod_once_as_it_runs(world: World) -> None:
    await world.client.create(PODS, waiting("member-0"))
    world.fake.put(pod("member-0"))
    stream = world.client.watch(PODS, "default")
    async with asyncio.timeout(60):
        event = await anext(stream)
    assert (event.type, event.obj["status"]["phase"]) == ("ADDED", "Running")
    await world.client.create(PODS, own("next"))
    assert await next_events(stream, 1) == [("ADDED", "next")]
    await stream.aclose()


async def test_pods_of_a_set_are_listed_by_those_that_wait_here_unless_their_cluster_is_named(world: World) -> None:
    await world.client.create(PODS, waiting("member-0"))
    listed = await world.client.list(PODS, "default")
    stream = world.client.watch(PODS, "default", resource_version=listed.resource_version)
    world.fake.put(pod("member-0", app="set"))
    world.fake.put(pod("member-1", app="set"))
    world.fake.put(pod("job-a"))
    assert await names(world) == ["member-0", "job-a"]
    assert await names(world, "corral.dev/cluster") == ["job-a", "member-0", "member-1"]
    assert await next_events(stream, 2) == [("MODIFIED", "member-0"), ("ADDED", "job-a")]
    assert (await world.client.get(PODS, "member-1", "default"))["status"]["phase"] == "Running"
    await stream.aclose()


async def test_on_request_lists_and_watches_have_own_pods_only_and_as_they_are_stored(world: World) -> None:
    world.fake.listing = PodListing.ON_REQUEST
    await world.client.create(PODS, waiting("member-0"))
    listed = await world.client.list(PODS, "default")
    stream = world.client.watch(PODS, "default", resource_version=listed.resource_version)
    for name in ("member-0", "member-1"):
        world.fake.put(pod(name, app="set"))
    world.fake.put(pod("job-a", app="x"))
    await world.client.create(PODS, own("next"))
    assert await next_events(stream, 1) == [("ADDED", "next")]
    await stream.aclose()
    assert await names(world) == ["member-0", "next"]
    assert await names(world, "app=x") == []
    assert (await world.client.get(PODS, "member-0", "default"))["status"]["phase"] == "Pending"


async def test_on_request_pods_elsewhere_are_found_by_name_and_by_the_label_of_their_cluster(world: World) -> None:
    world.fake.listing = PodListing.ON_REQUEST
    await world.client.create(PODS, waiting("member-0"))
    world.fake.put(pod("member-0", app="set"))
    world.fake.put(pod("job-a"))
    assert (await world.client.get(PODS, "job-a", "default"))["status"]["phase"] == "Running"
    assert [chunk async for chunk in world.client.logs("job-a", "default")]
    assert await names(world, "corral.dev/cluster=w1") == ["job-a", "member-0"]
    stream = world.client.watch(PODS, "default", labels="corral.dev/cluster")
    assert sorted(await next_events(stream, 2)) == [("ADDED", "job-a"), ("ADDED", "member-0")]
    await stream.aclose()


async def names(world: World, labels: str = "") -> list[str]:
    found = [name_of(held) for held in (await world.client.list(PODS, "default", labels=labels)).items]
    return sorted(found) if labels else found


class Endless(Answer):
    """What a hostile cluster says: more than anybody has room for."""

    def __init__(self, chunk: bytes, status: int = 200) -> None:
        self._chunk, self.status = chunk, status
        self.said = 0

    async def chunks(self) -> AsyncIterator[bytes]:
        while self.said < 200_000_000:
            self.said += len(self._chunk)
            yield self._chunk
            await asyncio.sleep(0)


class Once(Answer):
    def __init__(self, body: bytes) -> None:
        self._body = body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body


def says(world: World, answer: Answer) -> None:
    async def forward(*_: object) -> AbstractAsyncContextManager[Forwarded]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Forwarded]:
            yield answer

        return opened()

    world.fake.forward = forward  # type: ignore[method-assign]


async def test_of_a_log_without_end_no_more_is_kept_than_the_client_has_to_take(world: World) -> None:
    world.fake.put(pod("a"))
    says(world, endless := Endless(b"x" * 65_536))
    context = ssl.create_default_context(cadata=world.api.server.authority.certificate.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", world.api.server.port, ssl=context)
    head = f"GET /api/v1/namespaces/default/pods/a/log HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.api.server.admin_token}\r\n\r\n"
    writer.write(head.encode())
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    for _ in range(2000):
        await asyncio.sleep(0)
    assert endless.said < 32_000_000
    writer.transport.abort()


async def test_of_an_error_without_end_the_beginning_is_told(world: World) -> None:
    world.fake.put(pod("a"))
    says(world, endless := Endless(b"x" * 65_536, 500))
    with pytest.raises(ApiError) as told:
        _ = [chunk async for chunk in world.client.logs("a", "default")]
    assert told.value.code == 500
    assert endless.said < 1_000_000


@pytest.mark.parametrize(
    "answer",
    [
        Endless(b'{"items":[' + b'{"metadata":{"name":"a","namespace":"default"}},' * 1000),
        *(
            Once(body)
            for body in (b"", b"[]", b'{"items":{}}', b'{"items":[1,null,{"metadata":[]},{"metadata":{"name":5}}]}')
        ),
    ],
    ids=["endless", "empty", "a list", "no items", "what are none"],
)
async def test_usage_that_is_none_is_left_out(world: World, answer: Answer) -> None:
    world.fake.put(pod("a"))
    says(world, answer)
    usage = RemoteUsage(lambda: world.fake)
    (kind,) = (kind for kind in usage.kinds if kind.kind == "PodMetrics")
    request = ExtraRequest(kind, "v1beta1", "default", "", "", UserInfo("u"), None, {})
    assert await usage.list(request) == []
    assert not isinstance(answer, Endless) or answer.said < 2 * MOST
