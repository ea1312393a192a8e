"""Kueue's own manager as a process beside a real API server, as its pod would be: leader election, no webhooks registered."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import yaml
from cluster import ControlPlane, free_port

from corral.core.meta import Obj
from corral.server.access.certificates import Authority


def program() -> str | None:
    """Where Kueue's manager is: beside the real Kubernetes programs (`make kueue`)."""
    return shutil.which("kueue", path=os.environ.get("KUBE_TOOLS", ""))


class RealKueue:
    """Start it, kill it."""

    def __init__(self, plane: ControlPlane, folder: Path, frameworks: list[str], more: Obj | None = None) -> None:
        """`more` is added to its configuration."""
        folder.mkdir(parents=True, exist_ok=True)
        self._plane = plane
        self.log = folder / "kueue.log"
        self._config = folder / "kueue.yaml"
        now = time.time()
        pair = Authority.create("kueue", now).issue_server(["localhost"], now)
        (folder / "tls.crt").write_bytes(pair.certificate)
        (folder / "tls.key").write_bytes(pair.key)
        document = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": "kueue-system",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{free_port()}"},
            "metrics": {"bindAddress": f"127.0.0.1:{free_port()}"},
            "webhook": {"port": free_port(), "certDir": str(folder)},
            "internalCertManagement": {"enable": False},
            "leaderElection": {"leaderElect": True, "resourceNamespace": "kueue-system"},
            "integrations": {"frameworks": frameworks},
            "featureGates": {"VisibilityOnDemand": False},
            **(more or {}),
        }
        self._config.write_text(yaml.safe_dump(document))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        found = program()
        assert found is not None
        with self.log.open("ab") as output:
            command = [found, f"--config={self._config}", f"--kubeconfig={self._plane.kubeconfig}"]
            environment = {**os.environ, "KUEUE_METRICS_CERTS": str(self.log.parent)}
            self._process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(30)
