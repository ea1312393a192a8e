"""The servers under test: Corral as `corral serve` runs it, and kube-apiserver with a durable etcd."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from client import Connection

READY_TIMEOUT_S = 90.0


def assets() -> Path | None:
    """The folder with kube-apiserver and etcd, if given."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    folder = Path(given) if given else None
    return folder if folder is not None and (folder / "kube-apiserver").exists() else None


class Server(ABC):
    """A running API server."""

    name = ""
    lacks: tuple[str, ...] = ()

    settles_s = 0.0
    """How long it takes until what only a burst needs is given back."""

    def __init__(self, client_processes: int = 1) -> None:
        self.client_processes = client_processes
        self.port = 0
        self.token = ""
        self.context: ssl.SSLContext
        self.processes: list[subprocess.Popen[bytes]] = []

    @abstractmethod
    async def start(self, folder: Path) -> None:
        """Start with its state in `folder`; serves when this returns."""

    def _spawn(self, folder: Path, command: Sequence[object]) -> None:
        log = (folder / f"{self.name}-{len(self.processes)}.log").open("wb")
        self.processes.append(subprocess.Popen([str(part) for part in command], stdout=log, stderr=log))

    async def prepare(self) -> None:
        """What has to be done once before measuring, outside the measured start."""
        return

    async def connect(self) -> Connection:
        return await Connection(self.port, self.token, self.context).open()

    async def until_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            try:
                connection = await self.connect()
                status, _ = await connection.request("GET", "/readyz")
                connection.close()
                if status == 200:
                    return
            except (OSError, asyncio.IncompleteReadError):
                pass  # not listening yet
            if time.monotonic() > deadline or any(process.poll() is not None for process in self.processes):
                raise RuntimeError(f"{self.name} did not start")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def pids(self) -> list[int]:
        """All its processes, those that they have started included."""
        found = [process.pid for process in self.processes]
        for pid in found:
            try:
                found += [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
            except OSError:
                pass
        return found

    def rss_mb(self) -> float:
        """Memory of all its processes, what they share counted once."""
        total = 0
        for pid in self.pids():
            rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
        return total * 1024 / 1e6

    def forget_peak(self) -> None:
        """Begin anew to note how much memory was resident at most."""
        for pid in self.pids():
            Path(f"/proc/{pid}/clear_refs").write_text("5")

    def peak_mb(self) -> float:
        """The most memory that was resident since then."""
        rows = [Path(f"/proc/{pid}/status").read_text().splitlines() for pid in self.pids()]
        return sum(int(row.split()[1]) for lines in rows for row in lines if row.startswith("VmHWM:")) * 1024 / 1e6

    def cpu_seconds(self) -> float:
        """Of all its processes; of those that have ended, where their parent has waited for them."""
        total = 0.0
        for pid in self.pids():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        return total


class Corral(Server):
    name = "corral"
    fronts: int | None = None

    async def start(self, folder: Path) -> None:
        self.port = free_port()
        code = "from corral.cli.main import main; main()"
        command = [sys.executable, "-c", code, "serve", "--state", str(folder / "state"), "--port", str(self.port)]
        command += ["--kubeconfig", str(folder / "kubeconfig")]
        command += [
            "--limit",
            "watchesEach=4096",
            "--limit",
            "connectionsEach=4096",
        ]  # all the watchers are one user here
        if self.fronts is not None:
            command += ["--fronts", str(self.fronts)]
        self._spawn(folder, command)
        while not (folder / "kubeconfig").exists():
            if self.processes[0].poll() is not None:
                raise RuntimeError((folder / "corral-0.log").read_text())
            await asyncio.sleep(0.002)
        self.token = (folder / "state" / "pki" / "tokens.csv").read_text().partition(",")[0]
        self.context = ssl.create_default_context(cafile=str(folder / "state" / "pki" / "ca.crt"))
        await self.until_ready()


class KubeApiserver(Server):
    """Needs the Kueue CRDs for the tests of custom kinds; those are skipped."""

    name = "kube-apiserver"

    async def start(self, folder: Path) -> None:
        programs = assets()
        assert programs is not None
        self.port, etcd, peers = free_port(), free_port(), free_port()
        self._write_keys(folder)
        client_url, peer_url = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peers}"
        self._spawn(
            folder,
            [programs / "etcd", "--data-dir", folder / "etcd", "--log-level", "error",
             "--listen-client-urls", client_url, "--advertise-client-urls", client_url,
             "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url,
             "--initial-cluster", f"default={peer_url}"],
        )  # fmt: skip
        self._spawn(
            folder,
            [programs / "kube-apiserver", f"--etcd-servers={client_url}", f"--secure-port={self.port}",
             "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--cert-dir={folder / 'certs'}",
             f"--tls-cert-file={folder / 'server.crt'}", f"--tls-private-key-file={folder / 'server.key'}",
             f"--client-ca-file={folder / 'ca.crt'}", f"--token-auth-file={folder / 'tokens.csv'}",
             "--authorization-mode=RBAC", "--service-account-issuer=https://kubernetes.default.svc",
             f"--service-account-key-file={folder / 'sa.key'}",
             f"--service-account-signing-key-file={folder / 'sa.key'}",
             "--service-cluster-ip-range=10.96.0.0/16", "--disable-admission-plugins=ServiceAccount"],
        )  # fmt: skip
        await self.until_ready()

    def _write_keys(self, folder: Path) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        from corral.server.access.certificates import Authority

        now = time.time()
        authority = Authority.create("bench", now)
        pair = authority.issue_server(["127.0.0.1", "localhost"], now)
        account = ec.generate_private_key(ec.SECP256R1())
        self.token = "bench-token"
        (folder / "ca.crt").write_bytes(authority.certificate)
        (folder / "server.crt").write_bytes(pair.certificate)
        (folder / "server.key").write_bytes(pair.key)
        # The real server reads the keys of service accounts in the traditional form only.
        form = (Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        (folder / "sa.key").write_bytes(account.private_bytes(*form))
        (folder / "tokens.csv").write_text(f"{self.token},admin,admin,system:masters\n")
        self.context = ssl.create_default_context(cafile=str(folder / "ca.crt"))

    async def prepare(self) -> None:
        """Give the real server the custom kind Corral has from the start."""
        import json

        from corral.jobs.framework.served_kinds import native_kinds
        from corral.kinds.machinery.crd import crd_manifest

        connection = await self.connect()
        for kind in native_kinds():
            if kind.group == "kueue.x-k8s.io" and kind.kind == "Workload":
                body = json.dumps(crd_manifest(kind)).encode()
                path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
                status, answer = await connection.request("POST", path, body)
                if status != 201:
                    print(f"kube-apiserver refuses the Workload definition: {answer[:200]!r}")
                    self.lacks = ("create-workload", "status-patch-workload")
        await asyncio.sleep(3)  # until the definition is established
        connection.close()


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
