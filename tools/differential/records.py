"""What both sides decided, each as often as it was asked."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from tools.differential import compare, embedded, kueue
from tools.differential.player import Record, Rest
from tools.differential.scenario import SETTINGS, scenario


class Records:
    """By seed, in the order of turns; those of Kueue are kept in a folder, where there is one."""

    def __init__(self, keep: Path | None, at_once: int) -> None:
        self._keep, self._at_once = keep, at_once
        self._theirs: dict[int, list[Record]] = {}
        self._ours: dict[int, list[Record]] = {}

    # Playing

    async def play(self, seeds: list[int], turns: Iterable[int]) -> None:
        """As often as there are turns on both sides; Corral's tasks run in another order each turn."""
        todo = [(seed, turn) for seed in seeds for turn in turns]
        pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        try:
            ours = {which: pool.submit(_ours, *which) for which in todo if not self._is_timed(which[0])}
            await self._play_kueue(todo)
            for seed, turn in todo:
                if self._is_timed(seed):
                    ours[seed, turn] = pool.submit(_ours, seed, turn, self._theirs[seed][turn].times)
            for which in todo:
                self._ours.setdefault(which[0], []).append(await asyncio.wrap_future(ours[which]))
        finally:
            pool.shutdown(cancel_futures=True)

    async def _play_kueue(self, todo: list[tuple[int, int]]) -> None:
        found = {which: record for which in todo if (record := self._kept(*which)) is not None}
        groups: dict[str, dict[str, tuple[int, int]]] = {}
        for seed, turn in todo:
            if (seed, turn) not in found:
                one = scenario(seed, turn)
                groups.setdefault(one.settings, {})[one.name] = seed, turn
        for settings, members in groups.items():
            started = time.monotonic()
            async for record in kueue.play(settings, [scenario(*which) for which in members.values()], self._at_once):
                seed, turn = members[record.name]
                found[seed, turn] = record
                if self._keep:
                    self._keep.mkdir(parents=True, exist_ok=True)
                    self._file(self._keep, seed, turn).write_text(json.dumps(asdict(record)))
            print(f"kueue, {settings}: {len(members)} scenarios in {time.monotonic() - started:.0f} s", flush=True)
        for seed, turn in todo:
            self._theirs.setdefault(seed, []).append(found[seed, turn])

    @staticmethod
    def _is_timed(seed: int) -> bool:
        """Do decisions depend on how long things took? Then Corral takes the times that Kueue took."""
        return "admissionFairSharing" in SETTINGS[scenario(seed).settings]

    @staticmethod
    def _file(folder: Path, seed: int, turn: int) -> Path:
        return folder / f"{seed}.{turn}.json"

    def _kept(self, seed: int, turn: int) -> Record | None:
        if self._keep is None or not self._file(self._keep, seed, turn).exists():
            return None
        read = json.loads(self._file(self._keep, seed, turn).read_text())
        rests = [Rest.from_json(rest) for rest in read["rests"]]
        return Record(read["name"], rests, read["restless"], times=read.get("times", []))

    # Judging

    def difference(self, seed: int) -> compare.Difference | None:
        """Of the first turn."""
        return compare.decisions(self._theirs[seed][0], self._ours[seed][0])

    def verdict(self, seed: int) -> str:
        if self._is_timed(seed):
            return compare.timed_verdict(self._theirs[seed], self._ours[seed])
        return compare.verdict(self._theirs[seed], self._ours[seed])

    def is_chance(self, seed: int) -> bool:
        return self.verdict(seed) == compare.CHANCE

    def words(self, seed: int) -> list[compare.Difference]:
        return compare.reasons(self._theirs[seed][0], self._ours[seed][0])

    def evicting(self) -> int:
        return sum(any(rest.evictions for rest in records[0].rests) for records in self._theirs.values())

    def restless(self) -> int:
        return sum(bool(records[0].restless) for records in self._theirs.values())


def _ours(seed: int, turn: int, pace: Sequence[float] = ()) -> Record:
    return embedded.play_seed(seed, turn or None, pace)
