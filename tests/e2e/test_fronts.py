"""Processes in front of the one that owns the store: no client can tell which one it talks to, and none of them is missed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from corral.client import kubeconfig
from corral.client.http import HttpClient
from corral.clusters.embedded_api import EmbeddedApi
from corral.core.errors import ApiError, Conflict, Forbidden, NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES, RESOURCE_QUOTAS, SERVICE_ACCOUNTS
from corral.kinds.kubernetes.rbac import CLUSTER_ROLE_BINDINGS

pytestmark = pytest.mark.e2e
FRONTS = 2


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedApi]:
    cluster = EmbeddedApi(tmp_path, fronts=FRONTS)
    await cluster.start()
    yield cluster
    await cluster.stop()


def client(cluster: EmbeddedApi, token: str = "") -> HttpClient:
    """One with connections of its own."""
    document = cluster.server.kubeconfig()
    if token:
        document["users"][0]["user"] = {"token": token}
    return HttpClient(kubeconfig.access(document))


def config_map(name: str, value: str = "") -> Obj:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"value": value}}


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(ApiError, OSError):
                if await condition():
                    return
            await asyncio.sleep(0.02)


async def test_what_one_process_has_answered_the_others_know(cluster: EmbeddedApi) -> None:
    clients = [client(cluster) for _ in range(6)]
    created = await clients[0].create(CONFIG_MAPS, config_map("a", "0"))
    for number in range(60):
        writer, reader = clients[number % 6], clients[(number + 1) % 6]
        changed = {**created, "data": {"value": str(number)}}
        created = await writer.update(CONFIG_MAPS, changed)
        assert (await reader.get(CONFIG_MAPS, "a", "default"))["data"]["value"] == str(number)
        assert [
            obj["data"]
            for obj in (await clients[number % 5].list(CONFIG_MAPS, "default")).items
            if obj["metadata"]["name"] == "a"
        ] == [{"value": str(number)}]
    await asyncio.gather(*(each.close() for each in clients))


async def test_connections_are_spread_over_all_of_them(cluster: EmbeddedApi) -> None:
    clients = [client(cluster) for _ in range(8)]
    for each in clients:
        await each.list(NAMESPACES)
    assert cluster.server.listener.shared is not None
    assert not cluster.server.listener.shared.connections, "none is left for the owner"

    async def counted() -> bool:
        for each in clients:  # whoever was asked to come back over another connection does so now
            await each.list(NAMESPACES)
        return sorted(cluster.fronts.connections) == [4, 4]

    await until(counted)
    await asyncio.gather(*(each.close() for each in clients))


async def test_of_writers_that_compete_none_loses_anothers_change(cluster: EmbeddedApi) -> None:
    clients = [client(cluster) for _ in range(4)]
    await clients[0].create(CONFIG_MAPS, config_map("count", "0"))

    async def count(with_: HttpClient) -> int:
        conflicts = 0
        for _ in range(25):
            while True:
                current = await with_.get(CONFIG_MAPS, "count", "default")
                value = str(int(current["data"]["value"]) + 1)
                try:
                    await with_.update(CONFIG_MAPS, {**current, "data": {"value": value}})
                    break
                except Conflict:
                    conflicts += 1
        return conflicts

    conflicts = sum(await asyncio.gather(*map(count, clients)))
    assert (await clients[0].get(CONFIG_MAPS, "count", "default"))["data"]["value"] == "100"
    assert conflicts, "they did compete"
    await asyncio.gather(*(each.close() for each in clients))


async def test_a_watch_through_one_sees_what_all_of_them_write(cluster: EmbeddedApi) -> None:
    watcher, writers = client(cluster), [client(cluster) for _ in range(3)]
    listed = await watcher.list(CONFIG_MAPS, "default")
    seen: list[str] = []

    async def watch() -> None:
        async for event in watcher.watch(CONFIG_MAPS, "default", resource_version=listed.resource_version):
            seen.append(event.obj["metadata"]["name"])
            if len(seen) == 30:
                return

    watching = asyncio.create_task(watch())
    for number in range(30):
        await writers[number % 3].create(CONFIG_MAPS, config_map(f"w-{number}"))
    async with asyncio.timeout(PATIENCE_S):
        await watching
    assert seen == [f"w-{number}" for number in range(30)]
    await asyncio.gather(watcher.close(), *(each.close() for each in writers))


async def test_a_kind_is_served_by_all_as_soon_as_its_definition_is_made_and_by_none_when_it_is_gone(
    cluster: EmbeddedApi,
) -> None:
    clients = [client(cluster) for _ in range(4)]
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "fronts.example", "names": names, "scope": "Namespaced", "versions": [version]}
    await clients[0].create(CUSTOM_RESOURCE_DEFINITIONS, {"metadata": {"name": "things.fronts.example"}, "spec": spec})
    things = Resource("fronts.example", "v1", "things", "Thing")
    for number, each in enumerate(clients):
        await each.create(things, {"metadata": {"name": f"t-{number}", "namespace": "default"}})
        assert len((await each.list(things, "default")).items) == number + 1
    await clients[1].delete(CUSTOM_RESOURCE_DEFINITIONS, "things.fronts.example")

    async def gone(each: HttpClient) -> bool:
        try:
            await each.list(things, "default")
        except NotFound:
            return True
        return False

    for each in clients:
        await until(lambda each=each: gone(each))  # type: ignore[misc]
    await asyncio.gather(*(each.close() for each in clients))


async def test_rights_that_are_taken_away_are_gone_everywhere_at_once(cluster: EmbeddedApi) -> None:
    administrator = client(cluster)
    await administrator.create(SERVICE_ACCOUNTS, {"metadata": {"name": "somebody", "namespace": "default"}})
    token = await administrator.create_subresource(SERVICE_ACCOUNTS, "somebody", "default", "token", {"spec": {}})
    users = [client(cluster, token["status"]["token"]) for _ in range(4)]
    binding = {
        "metadata": {"name": "somebody"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "somebody", "namespace": "default"}],
    }
    for _ in range(5):
        await administrator.create(CLUSTER_ROLE_BINDINGS, binding)
        for user in users:
            await user.list(CONFIG_MAPS, "default")
        await administrator.delete(CLUSTER_ROLE_BINDINGS, "somebody")
        for user in users:
            with pytest.raises(Forbidden):
                await user.list(CONFIG_MAPS, "default")
    await asyncio.gather(administrator.close(), *(each.close() for each in users))


async def test_quotas_hold_across_processes(cluster: EmbeddedApi) -> None:
    clients = [client(cluster) for _ in range(4)]
    await clients[0].create(NAMESPACES, {"metadata": {"name": "small"}})
    quota = {
        "metadata": {"name": "q", "namespace": "small"},
        "spec": {"hard": {"count/leases.coordination.k8s.io": "10"}},
    }
    await clients[0].create(RESOURCE_QUOTAS, quota)
    leases = Resource("coordination.k8s.io", "v1", "leases", "Lease")

    async def counted() -> bool:
        found = await clients[0].get(RESOURCE_QUOTAS, "q", "small")
        return "used" in (found.get("status") or {})

    await until(counted)

    async def fill(number: int) -> int:
        made = 0
        for step in range(10):
            with suppress(Forbidden):
                await clients[number].create(leases, {"metadata": {"name": f"l-{number}-{step}", "namespace": "small"}})
                made += 1
        return made

    assert sum(await asyncio.gather(*map(fill, range(4)))) == 10
    await asyncio.gather(*(each.close() for each in clients))


async def test_one_that_is_killed_takes_nothing_with_it_that_was_acknowledged_and_is_replaced(
    cluster: EmbeddedApi,
) -> None:
    first = set(cluster.fronts.processes)
    acknowledged: set[str] = set()
    stop = asyncio.Event()

    async def write(number: int) -> None:
        with_ = client(cluster)
        for step in range(10_000):
            if stop.is_set():
                break
            with suppress(ApiError, OSError):
                await with_.create(CONFIG_MAPS, config_map(f"k-{number}-{step}"))
                acknowledged.add(f"k-{number}-{step}")
        await with_.close()

    writing = [asyncio.create_task(write(number)) for number in range(4)]
    for _ in range(3):
        before = len(acknowledged)
        os.kill(next(iter(cluster.fronts.processes)), signal.SIGKILL)

        async def goes_on(before: int = before) -> bool:
            return len(acknowledged) > before + 40 and len(cluster.fronts.processes) == FRONTS

        await until(goes_on)
    stop.set()
    await asyncio.gather(*writing)
    reader = client(cluster)
    kept = {obj["metadata"]["name"] for obj in (await reader.list(CONFIG_MAPS, "default")).items}
    assert acknowledged <= kept
    assert len(set(cluster.fronts.processes) - first) >= 1
    await reader.close()


async def test_one_that_hangs_is_replaced_and_holds_up_its_own_clients_only(cluster: EmbeddedApi) -> None:
    clients = [client(cluster) for _ in range(4)]

    async def spread() -> bool:
        for each in clients:
            await each.list(NAMESPACES)
        return sorted(cluster.fronts.connections) == [2, 2]

    await until(spread)
    hung = next(iter(cluster.fronts.processes))
    os.kill(hung, signal.SIGSTOP)
    asked = [asyncio.create_task(each.list(NAMESPACES)) for each in clients]

    async def others_are_answered() -> bool:
        return sum(task.done() for task in asked) == 2

    await until(others_are_answered)
    assert hung in cluster.fronts.processes, "before it is replaced"
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)

    async def replaced() -> bool:
        return hung not in cluster.fronts.processes and len(cluster.fronts.processes) == FRONTS

    await until(replaced)
    for each in clients:
        await each.list(NAMESPACES)
        await each.close()


async def test_they_end_with_the_process_that_owns_the_store(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys; from pathlib import Path; from corral.clusters.embedded_api import EmbeddedApi\n"
        "async def main():\n"
        "    cluster = EmbeddedApi(Path(sys.argv[1]), fronts=2)\n"
        "    await cluster.start(); print(*cluster.fronts.processes, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    fronts = [int(word) for word in (await owner.stdout.readline()).split()]
    assert len(fronts) == 2
    owner.kill()
    await owner.wait()

    async def gone() -> bool:
        return not any(Path(f"/proc/{pid}/cmdline").exists() and _is_running(pid) for pid in fronts)

    await until(gone)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_cluster_that_is_stopped_answers_what_was_asked_and_its_processes_end(tmp_path: Path) -> None:
    cluster = EmbeddedApi(tmp_path, fronts=FRONTS)
    await cluster.start()
    pids = list(cluster.fronts.processes)
    asker = client(cluster)
    asked = [asyncio.create_task(asker.create(CONFIG_MAPS, config_map(f"s-{number}"))) for number in range(20)]
    await asyncio.sleep(0.01)
    await cluster.stop()
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert not any(_is_running(pid) for pid in pids)
    await asker.close()
    again = EmbeddedApi(tmp_path)
    await again.start()
    kept = {stored.key.name for stored in again.store.scan("configmaps", "default")}
    assert {str(each["metadata"]["name"]) for each in outcomes if isinstance(each, dict)} <= kept
    await again.stop()
