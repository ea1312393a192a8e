"""Lists, pages, selectors and watches through the API."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from api_setup import ADMIN, CONFIG_MAPS, GADGETS, PODS, HandClock

from corral.core.errors import ApiError, BadRequest, Expired, Invalid, Timeout
from corral.core.meta import Obj
from corral.core.selectors import parse_field_selector, parse_label_selector
from corral.runtime.virtual import run_virtual
from corral.server.api import Api, ListOptions, Watch, WatchOptions
from corral.store import Event


def config(name: str, **labels: str) -> Obj:
    return {"metadata": {"name": name, "labels": labels}, "data": {"k": "v"}}


async def fill(api: Api, count: int) -> None:
    for index in range(count):
        await api.create(ADMIN, CONFIG_MAPS, "ns", config(f"c{index}", parity="odd" if index % 2 else "even"))


def names(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.type, event.stored.key.name) for event in events]


async def test_list_shows_everything_at_one_revision(api: Api) -> None:
    await fill(api, 3)
    await api.create(ADMIN, CONFIG_MAPS, "other", config("x"))
    listing = await api.list(ADMIN, CONFIG_MAPS, ListOptions(namespace="ns"))
    assert [stored.key.name for stored in listing.items] == ["c0", "c1", "c2"]
    assert listing.resource_version == "4"
    assert listing.continue_token == ""
    assert len((await api.list(ADMIN, CONFIG_MAPS)).items) == 4


async def test_selectors_narrow_a_list(api: Api) -> None:
    await fill(api, 4)
    odd = await api.list(ADMIN, CONFIG_MAPS, ListOptions(labels=parse_label_selector("parity=odd")))
    assert [stored.key.name for stored in odd.items] == ["c1", "c3"]
    one = await api.list(
        ADMIN, CONFIG_MAPS, ListOptions(namespace="ns", fields=parse_field_selector("metadata.name=c2"))
    )
    assert [stored.key.name for stored in one.items] == ["c2"]
    rest = await api.list(ADMIN, CONFIG_MAPS, ListOptions(fields=parse_field_selector("metadata.name!=c2")))
    assert len(rest.items) == 3


@pytest.mark.parametrize(
    ("resource", "selector", "message"),
    [
        (CONFIG_MAPS, "data.k=v", '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        (GADGETS, "spec.size=2", "field label not supported: spec.size"),
    ],
)
async def test_unknown_field_selectors_are_refused(api: Api, resource: Any, selector: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        await api.list(ADMIN, resource, ListOptions(fields=parse_field_selector(selector)))
    assert caught.value.message == message


async def test_pages_continue_at_their_revision(api: Api) -> None:
    await fill(api, 5)
    first = await api.list(ADMIN, CONFIG_MAPS, ListOptions(namespace="ns", limit=2))
    assert (len(first.items), first.remaining) == (2, 3)
    await api.delete(ADMIN, CONFIG_MAPS, "ns", "c3")
    second = await api.list(
        ADMIN, CONFIG_MAPS, ListOptions(namespace="ns", limit=10, continue_token=first.continue_token)
    )
    assert [stored.key.name for stored in second.items] == ["c2", "c3", "c4"]
    assert second.resource_version == first.resource_version
    selected = await api.list(ADMIN, CONFIG_MAPS, ListOptions(labels=parse_label_selector("parity=even"), limit=1))
    assert selected.remaining is None
    assert selected.continue_token
    api.store.compact(api.store.revision)
    with pytest.raises(Expired) as caught:
        await api.list(ADMIN, CONFIG_MAPS, ListOptions(namespace="ns", continue_token=first.continue_token))
    token = caught.value.status["metadata"]["continue"]
    again = await api.list(ADMIN, CONFIG_MAPS, ListOptions(namespace="ns", continue_token=token))
    assert [stored.key.name for stored in again.items] == ["c2", "c4"]


async def test_pages_across_namespaces(api: Api) -> None:
    for namespace in ("a", "b"):
        for name in ("x", "y"):
            await api.create(ADMIN, CONFIG_MAPS, namespace, config(name))
    seen, token = [], ""
    while True:
        page = await api.list(ADMIN, CONFIG_MAPS, ListOptions(limit=1, continue_token=token))
        seen += [stored.key[1:] for stored in page.items]
        token = page.continue_token
        if not token:
            break
    assert seen == [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("garbage", "invalid continue token: continue key is not valid: invalid character '\\u0081' looking for"),
        (
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi8uLi8ifQ",
            "invalid continue token: continue key is not valid: ../../",
        ),
    ],
)
async def test_bad_continue_tokens_are_refused(api: Api, token: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        await api.list(ADMIN, CONFIG_MAPS, ListOptions(limit=1, continue_token=token))
    assert caught.value.message.startswith(message)


async def test_resource_versions_of_lists(api: Api, clock: HandClock) -> None:
    await fill(api, 3)
    exact = await api.list(ADMIN, CONFIG_MAPS, ListOptions(resource_version="2", resource_version_match="Exact"))
    assert len(exact.items) == 2
    assert exact.resource_version == "2"
    newer = await api.list(ADMIN, CONFIG_MAPS, ListOptions(resource_version="2"))
    assert len(newer.items) == 3
    started = clock.time
    with pytest.raises(Timeout, match=r"^Timeout: Too large resource version: 99, current: 3$"):
        await api.list(ADMIN, CONFIG_MAPS, ListOptions(resource_version="99"))
    assert clock.time - started == pytest.approx(3, abs=0.1)
    with pytest.raises(BadRequest, match=r'invalid resource version: resourceVersion: Invalid value: "abc"'):
        await api.list(ADMIN, CONFIG_MAPS, ListOptions(resource_version="abc"))
    with pytest.raises(Invalid, match=r"resourceVersionMatch is forbidden unless resourceVersion is provided"):
        await api.list(ADMIN, CONFIG_MAPS, ListOptions(resource_version_match="Exact"))
    api.store.compact(3)
    with pytest.raises(Expired, match=r"The resourceVersion for the provided list is too old."):
        await api.list(ADMIN, CONFIG_MAPS, ListOptions(resource_version="2", resource_version_match="Exact"))


async def test_watch_without_a_version_starts_with_what_is_there(api: Api) -> None:
    await fill(api, 2)
    watch = api.watch(ADMIN, CONFIG_MAPS, WatchOptions(namespace="ns"))
    assert names(await watch.next()) == [("ADDED", "c0"), ("ADDED", "c1")]
    await api.delete(ADMIN, CONFIG_MAPS, "ns", "c0")
    assert names(await watch.next()) == [("DELETED", "c0")]
    watch.close()
    assert await watch.next() == []


async def test_writes_between_the_snapshot_and_its_delivery_are_not_lost(api: Api) -> None:
    await fill(api, 1)
    watch = api.watch(ADMIN, CONFIG_MAPS)
    await fill_more(api)
    assert names(await watch.next()) == [("ADDED", "c0")]
    assert names(await watch.next()) == [("ADDED", "late")]


async def fill_more(api: Api) -> None:
    await api.create(ADMIN, CONFIG_MAPS, "ns", config("late"))


async def test_watch_from_a_version_sees_what_came_after(api: Api) -> None:
    await fill(api, 3)
    watch = api.watch(ADMIN, CONFIG_MAPS, WatchOptions(resource_version="1"))
    assert names(await watch.next()) == [("ADDED", "c1"), ("ADDED", "c2")]
    api.store.compact(3)
    with pytest.raises(Expired, match=r"^too old resource version: 1 \(3\)$"):
        api.watch(ADMIN, CONFIG_MAPS, WatchOptions(resource_version="1"))
    with pytest.raises(ApiError) as caught:
        api.watch(ADMIN, CONFIG_MAPS, WatchOptions(resource_version="abc"))
    assert (caught.value.code, caught.value.reason) == (500, "")


async def test_watch_with_a_selector_sees_objects_come_and_go(api: Api) -> None:
    watch = api.watch(ADMIN, CONFIG_MAPS, WatchOptions(labels=parse_label_selector("l=x"), resource_version="0"))
    waiting = asyncio.ensure_future(watch.next())
    await asyncio.sleep(0)
    await api.create(ADMIN, CONFIG_MAPS, "ns", config("a", l="y"))
    await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "merge", {"metadata": {"labels": {"l": "x"}}})
    assert names(await waiting) == [("ADDED", "a")]
    await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "merge", {"data": {"k": "w"}})
    await api.patch(ADMIN, CONFIG_MAPS, "ns", "a", "merge", {"metadata": {"labels": {"l": "z"}}})
    await api.delete(ADMIN, CONFIG_MAPS, "ns", "a")
    batch = await watch.next()
    assert names(batch) == [("MODIFIED", "a"), ("DELETED", "a")]
    last = batch[1].stored.obj["metadata"]
    assert (last["labels"], last["resourceVersion"]) == ({"l": "x"}, "4")


async def test_watch_of_the_future_waits(api: Api) -> None:
    watch = api.watch(ADMIN, CONFIG_MAPS, WatchOptions(resource_version="2"))
    waiting = asyncio.ensure_future(watch.next())
    await fill(api, 3)
    assert names(await waiting) == [("ADDED", "c2")]


async def test_send_initial_events_ends_with_an_annotated_bookmark(api: Api) -> None:
    await fill(api, 2)
    options = WatchOptions(send_initial_events=True, resource_version_match="NotOlderThan", bookmarks=True)
    watch = api.watch(ADMIN, CONFIG_MAPS, options)
    assert names(await watch.next()) == [("ADDED", "c0"), ("ADDED", "c1")]
    (bookmark,) = await watch.next()
    assert bookmark.type == "BOOKMARK"
    assert bookmark.stored.obj == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {
            "resourceVersion": "2",
            "creationTimestamp": None,
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
    }
    watch.close()
    with pytest.raises(Invalid, match=r"sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"):
        api.watch(ADMIN, CONFIG_MAPS, WatchOptions(send_initial_events=True))
    with pytest.raises(Invalid, match=r"forbidden for watch unless sendInitialEvents is provided"):
        api.watch(ADMIN, CONFIG_MAPS, WatchOptions(resource_version="1", resource_version_match="Exact"))


def test_bookmarks_come_each_minute_and_a_timeout_ends_the_watch(api: Api) -> None:
    async def scenario() -> list[tuple[str, int]]:
        await fill(api, 1)
        watch = api.watch(ADMIN, CONFIG_MAPS, WatchOptions(resource_version="1", bookmarks=True, timeout=150))
        await api.create(ADMIN, PODS, "ns", {"metadata": {"name": "p"}, "spec": {"containers": []}})
        return [(event.type, event.revision) async for batch in watch for event in batch]

    assert run_virtual(scenario) == [("BOOKMARK", 2), ("BOOKMARK", 2), ("BOOKMARK", 2)]


async def test_watch_is_an_async_iterator_that_close_ends(api: Api) -> None:
    watch: Watch = api.watch(ADMIN, CONFIG_MAPS)
    seen: list[tuple[str, str]] = []

    async def consume() -> None:
        async for batch in watch:
            seen.extend(names(batch))

    task = asyncio.ensure_future(consume())
    await asyncio.sleep(0)
    await fill(api, 2)
    await asyncio.sleep(0)
    watch.close()
    await asyncio.wait_for(task, 60)
    assert seen == [("ADDED", "c0"), ("ADDED", "c1")]


async def test_one_line_is_shared_by_all_watchers(api: Api) -> None:
    watches = [api.watch(ADMIN, CONFIG_MAPS) for _ in range(3)]
    await fill(api, 1)
    lines = {id((await watch.next())[0].line) for watch in watches}
    assert len(lines) == 1
