"""Which workers hold something of each Workload: a look at one costs what it is on, not how many workers there are."""

from __future__ import annotations

from collections.abc import Collection

from corral.core.meta import Key


class Holdings:
    """The names of workers by Workload, kept as copies and jobs come and go there."""

    def __init__(self) -> None:
        self._workers: dict[Key, dict[str, None]] = {}

    def note(self, workload: Key, worker: str, *, holds: bool) -> None:
        """Whether a worker holds anything of a Workload by now."""
        if holds:
            self._workers.setdefault(workload, {})[worker] = None
        elif worker in (held := self._workers.get(workload, {})):
            del held[worker]
            if not held:
                del self._workers[workload]

    def of(self, workload: Key) -> Collection[str]:
        """The workers that hold something of a Workload."""
        return self._workers.get(workload, ())

    def drop(self, worker: str) -> None:
        """Nothing is known of a worker any more."""
        for workload in [key for key, held in self._workers.items() if worker in held]:
            self.note(workload, worker, holds=False)
