"""Reading a worker's kubeconfig, and refusing those that would let it reach into the manager.

The rules are MultiKueue's: credentials inline, TLS verified, no programs to run, no files to read, a plain host name.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from corral.client import kubeconfig
from corral.client.kubeconfig import Access, KubeconfigError
from corral.core.meta import Key, Obj, spec_of

BAD = "BadKubeConfig"
INSECURE = "InsecureKubeConfig"
_HOST = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z", re.IGNORECASE)
_IPV6 = re.compile(r"[0-9a-f:.]+\Z", re.IGNORECASE)


class AccessProblem(Exception):
    """The kubeconfig cannot be used. `wait` says that only a change of its source can help."""

    def __init__(self, reason: str, message: str, *, wait: bool = True) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = f"load client config failed: {message}"
        self.wait = wait


def secret_name(cluster: Obj) -> str:
    """The Secret a MultiKueueCluster takes its kubeconfig from; empty when it does not."""
    source = _source(cluster)
    return str(source.get("location") or "") if source.get("locationType", "Secret") == "Secret" else ""


def _source(cluster: Obj) -> Obj:
    spec = spec_of(cluster)
    return (spec.get("clusterSource") or {}).get("kubeConfig") or spec.get("kubeConfig") or {}


def load_document(cluster: Obj, namespace: str, secret: Callable[[Key], Obj | None]) -> bytes:
    """The kubeconfig text of a MultiKueueCluster."""
    source = _source(cluster)
    location = str(source.get("location") or "")
    if source.get("locationType", "Secret") == "Path":
        try:
            return Path(location).read_bytes()
        except OSError as error:
            text = f"open {location}: {(error.strerror or str(error)).lower()}"
            raise AccessProblem(BAD, text, wait=False) from error
    found = secret(Key(namespace, location))
    if found is None:
        raise AccessProblem(BAD, f'secrets "{location}" not found')
    encoded = (found.get("data") or {}).get("kubeconfig")
    if encoded is None:
        raise AccessProblem(BAD, f"key 'kubeconfig' not found in secret {location!r}".replace("'", '"'))
    try:
        return base64.b64decode(encoded)
    except binascii.Error as error:
        raise AccessProblem(BAD, f'secret "{location}" does not hold base64') from error


def safe_access(text: bytes) -> Access:
    """How to reach the cluster of a kubeconfig that keeps the rules."""
    try:
        document = kubeconfig.parse(text, "kubeconfig")
        _refuse_dangers(document)
        found = kubeconfig.access(document)
    except KubeconfigError as error:
        raise AccessProblem(INSECURE, str(error)) from error
    host = urlsplit(found.server).hostname or ""
    if not _HOST.match(host) and not _IPV6.match(host):
        raise AccessProblem(INSECURE, f"untrusted server endpoint: {found.server}")
    return found


def _refuse_dangers(document: Obj) -> None:
    for entry in document.get("clusters") or []:
        cluster = entry.get("cluster") or {}
        if cluster.get("insecure-skip-tls-verify"):
            raise AccessProblem(INSECURE, "insecure-skip-tls-verify is not allowed")
        if cluster.get("certificate-authority"):
            raise AccessProblem(
                INSECURE, "certificate-authority files are not allowed; give certificate-authority-data"
            )
        if not cluster.get("server"):
            raise AccessProblem(INSECURE, "server is required")
    for entry in document.get("users") or []:
        user = entry.get("user") or {}
        for field in ("tokenFile", "exec", "auth-provider", "username", "client-certificate", "client-key"):
            if user.get(field):
                raise AccessProblem(INSECURE, f"{field} is not allowed")
