"""kill -9 of a node's supervisor under load: its programs die with it, and each pod goes on as its restart policy says."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest
from tests.e2e.process_cluster import ProcessCluster, process_cluster
from tests.soaking import Tally, only_soaking
from tests.waiting import eventually

from corral.core.meta import Obj, status_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

KILLS = 3
POLICIES = ("Never", "OnFailure")
PODS_OF_A_POLICY = 4
PROGRAM = "echo $$ >> /data/$NAME; while [ ! -e /data/go ]; do sleep 0.05; done"


def programs(mark: str) -> set[int]:
    """The processes of this machine that carry the mark in their environment."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"MARK={mark}\0".encode() in (entry / "environ").read_bytes() + b"\0":
                found.add(int(entry.name))
        except OSError:
            continue  # ended meanwhile
    return found


def starts(data: Path, name: str) -> int:
    return len((data / name).read_text().split()) if (data / name).exists() else 0


def restarts(pod: Obj) -> int:
    return sum(one["restartCount"] for one in status_of(pod).get("containerStatuses") or [])


async def run_pods(cluster: ProcessCluster, data: Path) -> dict[str, str]:
    """Pods that run until there is a file `go`; the policy of each."""
    names = {
        f"{data.name}-{policy.lower()}-{number}": policy for policy in POLICIES for number in range(PODS_OF_A_POLICY)
    }
    volumes = [{"name": "data", "hostPath": {"path": str(data)}}]
    mounts = [{"name": "data", "mountPath": "/data"}]
    for name, policy in names.items():
        values = {"NAME": name, "MARK": str(data)}
        env = [{"name": key, "value": value} for key, value in values.items()]
        command = ["sh", "-c", PROGRAM]
        await cluster.run(name, command, env=env, volumes=volumes, volumeMounts=mounts, restartPolicy=policy)
    return names


async def kill_once(cluster: ProcessCluster, pid_file: Path, data: Path, source: random.Random) -> None:
    """Kill amid the starts or after all of them; what ran is gone, and every pod ends as it should."""
    data.mkdir()
    names = await run_pods(cluster, data)
    enough = source.randint(1, len(names))
    await asyncio.to_thread(eventually, lambda: sum(starts(data, name) for name in names) >= enough, pause=0.005)
    supervisor = int(pid_file.read_text())
    running = programs(str(data))
    os.kill(supervisor, signal.SIGKILL)
    await asyncio.to_thread(eventually, lambda: not running & programs(str(data)), what="the end of the programs")
    (data / "go").touch()
    for name, policy in names.items():
        ended = await cluster.ended(name)
        assert restarts(ended) <= (policy == "OnFailure")
        assert status_of(ended)["phase"] == "Succeeded" or policy == "Never", status_of(ended)
        assert starts(data, name) <= 1 + (policy == "OnFailure")
    assert int(pid_file.read_text()) != supervisor
    await asyncio.to_thread(eventually, lambda: not programs(str(data)), what="the end of every program")


async def kill_often(folder: Path, kills: range, tally: Tally) -> None:
    source = random.Random(kills.start)
    async with process_cluster(folder / "state") as cluster:
        for kill in kills:
            await kill_once(cluster, folder / "state" / "node" / "supervisor.pid", folder / f"kill-{kill}", source)
    tally("kills of a node supervisor under load", len(kills))


async def test_pods_go_on_after_a_kill_of_their_supervisor(tmp_path: Path, tally: Tally) -> None:
    await kill_often(tmp_path, range(KILLS), tally)


@only_soaking("kills of a node supervisor under load", first=KILLS)
async def test_pods_go_on_after_very_many_kills_of_their_supervisor(seeds: range, tmp_path: Path, tally: Tally) -> None:
    await kill_often(tmp_path, seeds, tally)
