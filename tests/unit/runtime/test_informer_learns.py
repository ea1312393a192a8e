"""An informer takes in the answers to its owner's writes, and never goes back behind what its watch has shown."""

from __future__ import annotations

from corral.core.meta import Key, Obj, name_of
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS
from corral.runtime.informer import Informer
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

KEY = Key("default", "a")


async def following(cluster: VirtualCluster) -> tuple[Informer, list[str]]:
    informer = cluster.manager.informer(CONFIG_MAPS)
    seen: list[str] = []

    def note(old: Obj | None, new: Obj | None) -> None:
        if name_of(new or old or {}) == KEY.name:
            seen.append("gone" if new is None else str(new["data"]["v"]))

    informer.on_change(note)
    await informer.synced()
    return informer, seen


def config(value: str) -> Obj:
    return {"metadata": {"name": KEY.name, "namespace": KEY.namespace}, "data": {"v": value}}


def test_what_was_written_is_known_at_once_and_told_once() -> None:
    async def main() -> None:
        async with VirtualCluster() as cluster:
            informer, seen = await following(cluster)
            informer.learn(await cluster.client.create(CONFIG_MAPS, config("1")))
            assert informer.get(KEY) is not None
            await cluster.settle()
            assert seen == ["1"]

    run_virtual(main)


def test_what_is_older_than_the_watch_is_not_taken() -> None:
    async def main() -> None:
        async with VirtualCluster() as cluster:
            informer, seen = await following(cluster)
            first = await cluster.client.create(CONFIG_MAPS, config("1"))
            second = await cluster.client.update(CONFIG_MAPS, {**first, "data": {"v": "2"}})
            await cluster.client.delete(CONFIG_MAPS, KEY.name, KEY.namespace)
            await cluster.advance(0.1)
            for obj in (first, second):
                informer.learn(obj)
            assert informer.get(KEY) is None
            assert seen == ["1", "2", "gone"]

    run_virtual(main)


def test_an_older_event_does_not_undo_what_was_learned() -> None:
    async def main() -> None:
        async with VirtualCluster() as cluster:
            informer, seen = await following(cluster)
            first = await cluster.client.create(CONFIG_MAPS, config("1"))
            informer.learn(await cluster.client.update(CONFIG_MAPS, {**first, "data": {"v": "2"}}))
            await cluster.advance(0.1)
            assert seen == ["2"] or seen == ["1", "2"]

    run_virtual(main)


def test_a_write_shows_when_the_watch_has_passed_it_even_if_the_object_has_gone_since() -> None:
    async def main() -> None:
        async with VirtualCluster() as cluster:
            informer, _ = await following(cluster)
            first = await cluster.client.create(CONFIG_MAPS, config("1"))
            assert not informer.shows(first)
            informer.learn(first)
            assert informer.shows(first)
            second = await cluster.client.update(CONFIG_MAPS, {**first, "data": {"v": "2"}})
            assert not informer.shows(second)
            await cluster.client.delete(CONFIG_MAPS, KEY.name, KEY.namespace)
            await cluster.advance(0.1)
            assert informer.shows(first)
            assert informer.shows(second)

    run_virtual(main)


def test_an_object_replaced_out_of_sight_goes_and_comes() -> None:
    async def main() -> None:
        async with VirtualCluster() as cluster:
            await cluster.client.create(CONFIG_MAPS, config("1"))
            informer, seen = await following(cluster)
            await cluster.client.delete(CONFIG_MAPS, KEY.name, KEY.namespace)
            informer.learn(await cluster.client.create(CONFIG_MAPS, config("2")))
            assert seen == ["1", "gone", "2"]

    run_virtual(main)


def test_a_write_that_is_expected_is_awaited_until_the_watch_has_brought_it_or_what_became_of_it() -> None:
    async def main() -> None:
        async with VirtualCluster() as cluster:
            informer, seen = await following(cluster)
            informer.expect(await cluster.client.create(CONFIG_MAPS, config("1")))
            assert informer.awaits(KEY)
            assert seen == []
            await cluster.settle()
            assert not informer.awaits(KEY)
            held = informer.get(KEY)
            assert held is not None
            informer.expect(await cluster.client.update(CONFIG_MAPS, {**held, "data": {"v": "2"}}))
            await cluster.client.delete(CONFIG_MAPS, KEY.name, KEY.namespace)
            assert informer.awaits(KEY)
            await cluster.advance(0.1)
            assert not informer.awaits(KEY)

    run_virtual(main)


def test_what_has_not_come_to_sight_yet_is_not_taken_for_gone() -> None:
    async def main() -> None:
        async with VirtualCluster() as cluster:
            informer, _ = await following(cluster)
            assert await informer.is_gone(KEY)
            await cluster.client.create(CONFIG_MAPS, config("1"))
            assert informer.get(KEY) is None, "the watch has not brought it"
            assert not await informer.is_gone(KEY)
            await cluster.settle()
            assert not await informer.is_gone(KEY)
            await cluster.client.delete(CONFIG_MAPS, KEY.name, KEY.namespace)
            assert not await informer.is_gone(KEY), "the watch shows it yet"
            await cluster.settle()
            assert await informer.is_gone(KEY)

    run_virtual(main)
