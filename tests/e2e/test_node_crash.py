"""kill -9 of a control plane with a hundred running jobs: none is lost, none runs twice, counters are right."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(1200)]

JOBS = 100


async def start(state: Path, data: Path) -> asyncio.subprocess.Process:
    arguments = ("-m", "tests.e2e.crash_child", str(state), str(data), str(JOBS))
    return await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


async def test_jobs_survive_kill_of_the_control_plane(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for enough in (20, 60, JOBS):
        child = await start(tmp_path / "state", data)
        async with asyncio.timeout(240):
            while len(lines(data / "started")) < enough and child.returncode is None:  # noqa: ASYNC110  # a file, not an event
                await asyncio.sleep(0.02)
        child.kill()
        await child.wait()
    child = await start(tmp_path / "state", data)
    async with asyncio.timeout(300):
        output, _ = await child.communicate()
    assert child.returncode == 0
    assert sorted(lines(data / "started")) == sorted(f"job-{number}" for number in range(JOBS))
    assert sorted(lines(data / "finished")) == sorted(lines(data / "started"))
    assert output.decode().splitlines()[-1] == "counters [(1, None)]"
