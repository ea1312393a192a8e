"""Logs of finished jobs outlive the manager's process, within the same limits."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.unit.controllers.dispatch.remote_pods.test_kept_pods import Worker, keep

from corral.controllers.dispatch.remote_pods.kept_files import KeptFiles
from corral.controllers.dispatch.remote_pods.kept_pods import POD_BYTES, KeptPods
from corral.core.streams import LogOptions
from corral.runtime.clock import VirtualClock
from corral.runtime.virtual import run_virtual

DAY = 86400.0


def kept_pods(folder: Path, limit: int = 64 << 20, age_s: float = 7 * DAY) -> KeptPods:
    return KeptPods(VirtualClock(), "multikueue", limit, age_s, KeptFiles(folder))


def names(kept: KeptPods) -> list[str]:
    return [key.name for key, _ in kept.all()]


def test_a_restarted_manager_shows_the_logs_of_finished_jobs(tmp_path: Path) -> None:
    async def main() -> None:
        before = kept_pods(tmp_path / "logs")
        for name in "ab":
            await keep(before, Worker(name))
        assert {path.stat().st_mode & 0o777 for path in (tmp_path / "logs").iterdir()} == {0o600}
        after = kept_pods(tmp_path / "logs")
        assert list(after.all()) == list(before.all())
        ((_, pod), _) = after.all()
        assert after.log(pod, "main", LogOptions()) == b"done\n"
        after.forget("here-a")
        assert names(kept_pods(tmp_path / "logs")) == ["b-00"]

    run_virtual(main)


def test_jobs_that_went_while_nobody_looked_take_their_logs_along(tmp_path: Path) -> None:
    async def main() -> None:
        for name in "abc":
            await keep(kept_pods(tmp_path), Worker(name))
        after = kept_pods(tmp_path)
        after.retain({"here-b", "here-x"})
        assert names(after) == names(kept_pods(tmp_path)) == ["b-00"]
        assert len(list(tmp_path.iterdir())) == 1

    run_virtual(main)


def test_limits_of_size_and_age_hold_on_disk_too(tmp_path: Path) -> None:
    async def main() -> None:
        kept = kept_pods(tmp_path)
        for name in "abcd":
            await keep(kept, Worker(name))
            await asyncio.sleep(DAY)
        assert names(kept_pods(tmp_path, limit=3 * (POD_BYTES + 100))) == ["b-00", "c-00", "d-00"]
        assert names(kept_pods(tmp_path, age_s=2.5 * DAY)) == ["c-00", "d-00"]
        assert len(list(tmp_path.iterdir())) == 2
        kept = kept_pods(tmp_path)
        await asyncio.sleep(30 * DAY)
        kept.expire()
        assert (names(kept), list(tmp_path.iterdir())) == ([], [])

    run_virtual(main)


def test_files_that_cannot_be_read_or_written_cost_nothing_else(tmp_path: Path) -> None:
    async def main() -> None:
        kept = kept_pods(tmp_path / "logs")
        for name in "ab":
            await keep(kept, Worker(name))
        first, _ = sorted((tmp_path / "logs").iterdir())
        first.write_bytes(first.read_bytes()[:-5])
        assert len(names(kept_pods(tmp_path / "logs"))) == 1
        assert not first.exists()
        (tmp_path / "file").write_text("in the way")
        memory = kept_pods(tmp_path / "file")
        await keep(memory, Worker("c"))
        assert names(memory) == ["c-00"]

    run_virtual(main)
