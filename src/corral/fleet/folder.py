"""The folder a fleet lives in: where each file is, and what is known about the running processes."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from corral.configuration.fleet import FleetError, FleetSpec
from corral.fleet.lock import holder


class ClusterStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of one cluster process. `url` is set once it is ready."""

    name: str
    pid: int = 0
    port: int = 0
    url: str = ""
    restarts: int = 0
    last_exit: str = ""
    network: str = ""


class FleetStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the supervisor last wrote about the fleet."""

    supervisor: int
    ready: bool = False
    problem: str = ""
    clusters: list[ClusterStatus] = []


class FleetFolder:
    """The files of one fleet under one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def default(cls) -> FleetFolder:
        """$CORRAL_HOME, else ~/.corral."""
        return cls(Path(os.environ.get("CORRAL_HOME") or Path.home() / ".corral"))

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def spec_file(self) -> Path:
        return self.root / "fleet.json"

    @property
    def status_file(self) -> Path:
        return self.root / "status.json"

    @property
    def marker(self) -> Path:
        """What says that a folder is Corral's, and which clusters it has ever started there."""
        return self.root / ".corral-fleet.json"

    @property
    def supervisor_log(self) -> Path:
        return self.root / "logs" / "supervisor.log"

    def cluster(self, name: str) -> Path:
        """Where a cluster keeps its database, certificates and pods."""
        return self.root / "clusters" / name

    def known_clusters(self) -> set[str]:
        """The clusters that have ever been started here."""
        return {path.name for path in (self.root / "clusters").iterdir()}

    def started(self) -> list[str]:
        """The clusters Corral has ever been told to start here; a folder of another's making has none."""
        try:
            return msgspec.json.decode(self.marker.read_bytes(), type=list[str])
        except (FileNotFoundError, msgspec.DecodeError):
            return []

    def log(self, name: str) -> Path:
        return self.root / "logs" / f"{name}.log"

    def admin_kubeconfig(self, name: str) -> Path:
        return self.cluster(name) / "admin.kubeconfig"

    def create(self) -> None:
        """Make the folder, readable by its owner only. Raises FleetError where that would overwrite another's files."""
        if not self.marker.exists() and not self.spec_file.exists() and self.kubeconfig.exists():
            raise FleetError(f"{self.kubeconfig} is not of Corral's making; name another folder with --state")
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.marker.exists():
            _replace(self.marker, b"[]")
        (self.root / "logs").mkdir(exist_ok=True)
        (self.root / "clusters").mkdir(exist_ok=True)

    def write_spec(self, spec: FleetSpec | None) -> None:
        """Remember what to start next time; None forgets it."""
        if spec is None:
            self.spec_file.unlink(missing_ok=True)
        else:
            started = {*self.started(), *(cluster.name for cluster in spec.clusters)}
            _replace(self.marker, msgspec.json.encode(sorted(started)))
            _replace(self.spec_file, msgspec.json.format(msgspec.json.encode(spec)))

    def read_spec(self) -> FleetSpec | None:
        """What was started last; None when nothing was. Raises FleetError where another version wrote it."""
        try:
            return msgspec.json.decode(self.spec_file.read_bytes(), type=FleetSpec)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise FleetError(
                f"{self.spec_file}: {error}; say what to start (--workers, --fleet or -f), and it is written anew"
            ) from error

    def write_status(self, status: FleetStatus) -> None:
        _replace(self.status_file, msgspec.json.format(msgspec.json.encode(status)))

    def read_status(self) -> FleetStatus | None:
        """What the supervisor wrote, if it is still running."""
        status = self.last_status()
        return status if status is not None and status.supervisor == self.holder() else None

    def holder(self) -> int | None:
        """The process that starts or runs the fleet; None when there is none, 0 in the moment before it has said."""
        return holder(self.root)

    def last_status(self) -> FleetStatus | None:
        """What the supervisor wrote, running or not: where ports are remembered."""
        try:
            return msgspec.json.decode(self.status_file.read_bytes(), type=FleetStatus)
        except (FileNotFoundError, msgspec.DecodeError):
            return None


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_bytes(content)
    temporary.replace(path)
