"""An API server that is killed under write load loses nothing it has answered for, and watches go on after it is back."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

import pytest
from tests.soaking import Tally, only_soaking

from corral.client.http import HttpClient
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Obj
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS

KILLS = 10
MOST_WRITES = 200
WRITERS = 8
START_S = 180.0


class Server:
    """`corral serve` as a child process over one state folder."""

    def __init__(self, folder: Path):
        self._state = folder / "state"
        self.kubeconfig = folder / "kubeconfig"

    async def start(self) -> HttpClient:
        code = "import sys; from corral.cli.main import main; sys.exit(main())"
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, "serve", "--state", str(self._state), "--kubeconfig", str(self.kubeconfig),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), START_S)
        assert b"ready" in line, line
        return HttpClient.from_kubeconfig(self.kubeconfig)

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()


class Load:
    """What was answered for: the last value of every object, None after a delete, and what may have happened besides."""

    def __init__(self) -> None:
        self.values: dict[str, int | None] = {}
        self.doubtful: dict[str, int | None] = {}
        self.answered = 0
        self._count = 0
        self._enough = 0
        self._reached = asyncio.Event()

    async def answers(self, count: int) -> None:
        """Wait for so many answers more."""
        self._enough = self.answered + count
        self._reached.clear()
        if count:
            await self._reached.wait()

    async def write(self, client: HttpClient, number: int, source: random.Random) -> None:
        """Create, change and delete objects of its own until the server is gone."""
        while True:
            name = f"w{number}-{source.randrange(4)}"
            self._count += 1
            value = self._count
            gone = self.values.get(name) is None
            self.doubtful[name] = None if not gone and value % 5 == 0 else value
            try:
                if gone:
                    await client.create(CONFIG_MAPS, thing(name, value))
                elif value % 5 == 0:
                    await client.delete(CONFIG_MAPS, name, "default")
                else:
                    await client.patch(CONFIG_MAPS, name, "default", {"data": {"value": str(value)}})
            except ApiError:
                return
            self.values[name] = self.doubtful.pop(name)
            self.answered += 1
            if self.answered >= self._enough:
                self._reached.set()

    def settle(self, found: dict[str, int]) -> None:
        """Compare with what is there; a request that was never answered may or may not have been carried out."""
        for name in {*self.values, *self.doubtful, *found}:
            possible = [self.values.get(name)]
            if name in self.doubtful:
                possible.append(self.doubtful[name])
            assert found.get(name) in possible, (name, found.get(name), possible)
        self.doubtful.clear()
        self.values = dict(found)


def thing(name: str, value: int) -> Obj:
    data = {"value": str(value), "filler": "x" * (value % 3000)}
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


async def read(client: HttpClient) -> tuple[dict[str, int], str]:
    listing = await client.list(CONFIG_MAPS, "default")
    found = {
        item["metadata"]["name"]: int(item["data"]["value"])
        for item in listing.items
        if item["metadata"]["name"].startswith("w")
    }
    return found, listing.resource_version


async def life(server: Server, load: Load, source: random.Random) -> None:
    """One life of the server: check what the last one left, write, die."""
    client = await server.start()
    found, version = await read(client)
    load.settle(found)
    writers = [
        asyncio.create_task(load.write(client, number, random.Random(source.random()))) for number in range(WRITERS)
    ]
    await load.answers(source.randrange(MOST_WRITES))
    await server.kill()
    await asyncio.gather(*writers)
    await client.close()
    assert version.isdigit()


async def kill_often(folder: Path, kills: range, tally: Tally) -> None:
    """One server that dies again and again; the first number is the seed."""
    source = random.Random(kills.start)
    server, load = Server(folder), Load()
    for _ in kills:
        await life(server, load, source)
    client = await server.start()
    found, _ = await read(client)
    load.settle(found)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "never-written", "default")
    await client.close()
    await server.kill()
    assert load.answered > len(kills)
    tally("kills of a server", len(kills))
    tally("writes a killed server had answered for", load.answered)


@pytest.mark.e2e
async def test_killed_server_keeps_every_write_it_answered_for(tmp_path: Path, tally: Tally) -> None:
    await kill_often(tmp_path, range(KILLS), tally)


@pytest.mark.e2e
@only_soaking("kills of a server", first=KILLS)
async def test_server_killed_very_often_keeps_every_write_it_answered_for(
    seeds: range, tmp_path: Path, tally: Tally
) -> None:
    await kill_often(tmp_path, seeds, tally)


@pytest.mark.e2e
async def test_a_watch_goes_on_from_its_version_after_the_server_was_killed(tmp_path: Path) -> None:
    server = Server(tmp_path)
    client = await server.start()
    first = await client.create(CONFIG_MAPS, thing("wa", 1))
    await client.create(CONFIG_MAPS, thing("wb", 2))
    await client.delete(CONFIG_MAPS, "wb", "default")
    await client.close()
    await server.kill()
    client = await server.start()
    seen = []
    version = first["metadata"]["resourceVersion"]
    async for event in client.watch(CONFIG_MAPS, "default", labels="", resource_version=version, timeout=60):
        if event.obj["metadata"].get("name") == "wb":
            seen.append(event.type)
        if len(seen) == 2:
            break
    assert seen == ["ADDED", "DELETED"]
    await client.close()
    await server.kill()
