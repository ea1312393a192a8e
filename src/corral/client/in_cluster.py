"""Reaching the cluster a process runs in: what Kubernetes gives every pod of a service account.

The token is renewed by the kubelet in its file, and read again from there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from corral.client.kubeconfig import Access, KubeconfigError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(folder: Path = ACCOUNT, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process runs in a pod that has an account."""
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (folder / "token").exists()


def access(folder: Path = ACCOUNT, environment: Mapping[str, str] = os.environ) -> Access:
    """How a pod reaches its own cluster, its namespace included."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        authority = (folder / "ca.crt").read_bytes()
        namespace = (folder / "namespace").read_text().strip()
    except OSError as error:
        raise KubeconfigError(f"the pod's service account: {error.filename}: {error.strerror}") from error
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca=authority,
        token_file=str(folder / "token"),
        namespace=namespace,
    )
