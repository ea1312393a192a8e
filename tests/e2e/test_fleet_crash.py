"""kill -9 of a whole fleet under load: `corral up` brings it back with every write it answered for, and jobs end well."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import pytest
from tests.e2e.started import client, corral, eventually, started
from tests.e2e.test_taken_down import job
from tests.soaking import Tally, only_soaking

from corral.core import conditions
from corral.core.errors import ApiError
from corral.core.meta import name_of, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

KILLS = 2
WRITERS = 4
MOST_WRITES = 200


def processes(state: Path) -> list[int]:
    """Everything that was started with the folder on its command line: the fleet, its clusters, the supervisors of nodes."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(state).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue  # ended meanwhile
    return found


class Writers:
    """Threads that create objects until nobody answers, and remember what was answered for."""

    def __init__(self, state: Path, life: int) -> None:
        self.answered: list[str] = []
        self._state = state
        self._threads = [threading.Thread(target=self._write, args=(f"l{life}-w{one}",)) for one in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def _write(self, prefix: str) -> None:
        to = client(self._state)
        number = 0
        while True:
            name = f"{prefix}-{number}"
            try:
                to.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}, "data": {"name": name}})
            except (ApiError, OSError):
                return
            self.answered.append(name)
            number += 1

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


def kill_once(state: Path, data: Path, life: int, source: random.Random) -> int:
    """Kill everything amid writes and with a job running, start again, and look; how many writes were answered for."""
    data.mkdir()
    name = data.name
    made = job(name, data, "OnFailure")
    made["spec"]["backoffLimit"] = (
        3  # a container that is started again counts while it runs; with 0 its Job has failed
    )
    client(state).create(JOBS, made)
    eventually((data / "runs").exists)
    writers = Writers(state, life)
    enough = source.randrange(MOST_WRITES)
    eventually(lambda: len(writers.answered) >= enough)
    for process in processes(state):
        os.kill(process, signal.SIGKILL)
    writers.join()
    eventually(lambda: processes(state) == [])
    corral(state, "up")
    found = {name_of(held) for held in client(state).list(CONFIG_MAPS, "default")["items"]}
    assert set(writers.answered) <= found
    eventually(lambda: (data / "runs").read_text().count("started") == 2)
    (data / "go").touch()
    eventually(lambda: conditions.is_true(client(state).get(JOBS, name, "default"), "Complete"))
    assert status_of(client(state).get(JOBS, name, "default")).get("failed") is None
    assert (data / "runs").read_text().count("started") == 2
    return len(writers.answered)


def kill_often(folder: Path, kills: range, tally: Tally) -> None:
    source = random.Random(kills.start)
    with started(folder / "state", "--workers", "0") as state:
        written = sum(kill_once(state, folder / f"life-{life}", life, source) for life in kills)
    tally("kills of a whole fleet under load", len(kills))
    tally("writes a killed fleet had answered for", written)


def test_a_fleet_that_is_killed_comes_back_with_all_it_answered_for(tmp_path: Path, tally: Tally) -> None:
    kill_often(tmp_path, range(KILLS), tally)


@only_soaking("kills of a whole fleet under load", first=KILLS)
def test_a_fleet_that_is_killed_very_often_comes_back_with_all_it_answered_for(
    seeds: range, tmp_path: Path, tally: Tally
) -> None:
    kill_often(tmp_path, seeds, tally)
