"""A real control plane for tests: etcd, kube-apiserver and kube-controller-manager on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests import waiting

from corral.client import kubeconfig
from corral.core.errors import ApiError
from corral.server.access.certificates import Authority

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
TOKEN = "test-token"
USER_TOKEN = "alices-token"
"""Of a user without any rights."""
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
PATIENCE_S = 180.0
"""Waiting costs nothing when the thing happens, and a machine with several control planes may be busy for a while."""


def programs() -> Path | None:
    """Where the real programs are: KUBEBUILDER_ASSETS, or what `make kube-tools` built."""
    for variable in ("KUBEBUILDER_ASSETS", "KUBE_TOOLS"):
        folder = Path(os.environ.get(variable, ""))
        if os.environ.get(variable) and all(shutil.which(name, path=str(folder)) for name in PROGRAMS):
            return folder
    return None


def older_programs() -> dict[str, Path]:
    """Folders with a kube-apiserver of another version, by that version, where `tools/kube-tools FOLDER VERSION` made any."""
    usual = programs()
    found = sorted(usual.glob("1.*/kube-apiserver")) if usual is not None else []
    return {path.parent.name: path.parent for path in found}


def free_port() -> int:
    """A port below those that outgoing connections are given: minutes may pass until the program that asked for it binds it."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)  # tests side by side must not choose alike
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


async def eventually(question: Callable[[], Awaitable[Any]], seconds: float = PATIENCE_S) -> Any:
    """The first true answer; fails when there is none in time."""
    deadline = asyncio.get_running_loop().time() + seconds
    last: BaseException | None = None
    while asyncio.get_running_loop().time() < deadline:
        try:
            if answer := await question():
                return answer
        except ApiError as error:
            last = error
        await asyncio.sleep(0.2)
    raise AssertionError(f"it did not happen in time; last error: {last}")


class ControlPlane:
    """One cluster without nodes."""

    def __init__(self, name: str, folder: Path, binaries: Path) -> None:
        self.name, self.folder, self._binaries = name, folder, binaries
        self.port = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._server_arguments: tuple[str, ...] = ()

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def start(
        self, *, controllers: bool = True, without: tuple[str, ...] = ("ServiceAccount",), options: tuple[str, ...] = ()
    ) -> None:
        """With Kubernetes' own controllers or without, and without some of the API server's admission plugins; `options` are more of
        its arguments."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_keys()
        etcd, peers = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
        self._spawn(
            "etcd", f"--data-dir={self.folder / 'etcd'}", f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}",
            "--log-level=error", "--unsafe-no-fsync",
        )  # fmt: skip
        self._server_arguments = (
            f"--etcd-servers={etcd}", f"--secure-port={self.port}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--cert-dir={self.folder / 'certs'}",
            f"--tls-cert-file={self.folder / 'server.crt'}", f"--tls-private-key-file={self.folder / 'server.key'}",
            f"--client-ca-file={self.folder / 'ca.crt'}", f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC", "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'sa.key'}",
            f"--service-account-signing-key-file={self.folder / 'sa.key'}",
            f"--proxy-client-cert-file={self.folder / 'front-proxy.crt'}",
            f"--proxy-client-key-file={self.folder / 'front-proxy.key'}",
            f"--requestheader-client-ca-file={self.folder / 'front-proxy-ca.crt'}",
            "--requestheader-allowed-names=front-proxy-client", "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--service-cluster-ip-range=10.96.0.0/16", f"--disable-admission-plugins={','.join(without)}", *options, *self._audited(),
        )  # fmt: skip
        self.start_server()
        if controllers:
            self._start_controllers()

    def _audited(self) -> tuple[str, ...]:
        """Where CORRAL_AUDIT names a folder, who calls for what is kept there, in a log named after the test
        (`tools/deployment/needs.py` reads them)."""
        folder = os.environ.get("CORRAL_AUDIT")
        if not folder:
            return ()
        policy = self.folder / "audit.json"
        policy.write_text(json.dumps(AUDIT))
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]
        log = Path(folder) / f"{Path(test).stem.removeprefix('test_')}-{self.port}.log"
        return (f"--audit-policy-file={policy}", f"--audit-log-path={log}")

    def start_server(self) -> None:
        """The API server, for the first time or after it was killed."""
        self._spawn("kube-apiserver", *self._server_arguments)
        self._await_ready()

    def kill_server(self) -> None:
        """Without a warning; what it stored stays, and so do Kubernetes' own controllers."""
        self._processes["kube-apiserver"].kill()
        self._processes["kube-apiserver"].wait(30)

    def _start_controllers(self) -> None:
        self._spawn(
            "kube-controller-manager", f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={self.folder / 'sa.key'}", f"--root-ca-file={self.folder / 'ca.crt'}",
            "--leader-elect=false", f"--secure-port={free_port()}", "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder / 'manager-certs'}", "--kube-api-qps=200", "--kube-api-burst=400",
            # There are no nodes: pods that a script plays must not be taken for lost.
            "--controllers=*,-pod-garbage-collector-controller,-node-lifecycle-controller,-taint-eviction-controller",
        )  # fmt: skip

    def stop(self) -> None:
        for process in reversed(self._processes.values()):
            process.kill()
        for process in self._processes.values():
            process.wait(30)

    def _spawn(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [str(self._binaries / name), *arguments]
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def _await_ready(self) -> None:
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))

        def answers() -> bool:
            with urllib.request.urlopen(f"{self.server}/readyz", context=context, timeout=10):
                return True

        try:
            waiting.eventually(answers, PATIENCE_S, failing=(urllib.error.URLError, OSError))
        except AssertionError as error:
            raise AssertionError((self.folder / "kube-apiserver.log").read_text()[-2000:]) from error

    def _write_keys(self) -> None:
        now = time.time()
        authority = Authority.create(f"{self.name}-ca", now)
        pair = authority.issue_server(["127.0.0.1", "localhost"], now)
        in_front = Authority.create(f"{self.name}-front-proxy-ca", now)
        front_proxy = in_front.issue_client("front-proxy-client", (), now)
        account = ec.generate_private_key(ec.SECP256R1())
        form = (Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        files = {
            "ca.crt": authority.certificate,
            "server.crt": pair.certificate,
            "server.key": pair.key,
            "sa.key": account.private_bytes(*form),
            "front-proxy-ca.crt": in_front.certificate,
            "front-proxy.crt": front_proxy.certificate,
            "front-proxy.key": front_proxy.key,
            "tokens.csv": f"{TOKEN},admin,admin,system:masters\n{USER_TOKEN},alice,alice,\n".encode(),
        }
        for name, content in files.items():
            (self.folder / name).write_bytes(content)
        document = kubeconfig.document_for(self.name, self.server, authority.certificate, token=TOKEN)
        kubeconfig.write(document, self.kubeconfig)
