"""The folder of one pod: what the process runtime keeps on disk, and finds again after a restart.

pod.json                      address and devices
hosts, hostname               mounted into every container
volumes/<name>/               volume content
containers/<name>/work, tmp   private folders of a container
containers/<name>/<attempt>/  launch.json, log, exit.json, termination-log: one run; `simulated` where it only pretends
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from corral.node.process.connection import Ending
from corral.node.process.supervisor import write_whole


@dataclass(frozen=True, slots=True)
class Holding:
    """What a pod occupies on its node."""

    namespace: str
    name: str
    node: str
    address: str
    devices: tuple[str, ...] = ()
    """The names under which its devices are claimed."""


class RunId(NamedTuple):
    """One run of a container. As text it is the name of that run to the supervisor."""

    pod: str
    container: str
    attempt: int

    def __str__(self) -> str:
        return "/".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> RunId | None:
        """The run that the supervisor knows by this name; None for an exec session."""
        parts = text.split("/")
        return cls(parts[0], parts[1], int(parts[2])) if len(parts) == 3 else None


@dataclass(frozen=True, slots=True)
class PodFolder:
    """Paths and small records under one pod's folder."""

    path: Path

    @property
    def uid(self) -> str:
        return self.path.name

    @property
    def hosts(self) -> Path:
        return self.path / "hosts"

    @property
    def hostname(self) -> Path:
        return self.path / "hostname"

    @property
    def volumes(self) -> Path:
        return self.path / "volumes"

    def container(self, name: str) -> Path:
        return self.path / "containers" / name

    def run(self, name: str, attempt: int) -> Path:
        return self.container(name) / str(attempt)

    def attempts(self, name: str) -> list[int]:
        """The numbers of the runs there were, in order. A run that was prepared but never ordered does not count."""
        orders = self.container(name).glob("*/launch.json")
        return sorted(int(order.parent.name) for order in orders if order.parent.name.isdigit())

    def ending(self, name: str, attempt: int) -> Ending | None:
        try:
            return Ending.from_json(json.loads((self.run(name, attempt) / "exit.json").read_text()))
        except FileNotFoundError:
            return None

    def mark_simulated(self, name: str, attempt: int) -> None:
        (self.run(name, attempt) / "simulated").touch()

    def is_simulated(self, name: str, attempt: int) -> bool:
        return (self.run(name, attempt) / "simulated").exists()

    def places(self) -> Iterator[tuple[int, int]]:
        """Device and number of what every container of the pod sees, and nobody else."""
        for path in (self.hosts, *sorted(self.path.glob("containers/*/work"))):
            try:
                found = path.stat()
            except OSError:
                continue
            yield found.st_dev, found.st_ino

    def save(self, holding: Holding) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        data = {name: getattr(holding, name) for name in Holding.__slots__}
        write_whole(self.path / "pod.json", json.dumps(data))

    def load(self) -> Holding | None:
        try:
            data: dict[str, Any] = json.loads((self.path / "pod.json").read_text())
        except FileNotFoundError:
            return None
        # Devices were numbers once; those of a pod that still runs are not claimed by anybody.
        return Holding(**{**data, "devices": tuple(name for name in data["devices"] if isinstance(name, str))})

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def folders(root: Path) -> Iterator[PodFolder]:
    """Every pod folder under `root`."""
    if root.is_dir():
        for path in sorted(root.iterdir()):
            yield PodFolder(path)
