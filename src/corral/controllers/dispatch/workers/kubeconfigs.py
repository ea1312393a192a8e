"""Reading a worker's kubeconfig, and refusing those that would let it reach into the manager.

The rules are MultiKueue's: credentials inline, TLS verified, no programs to run, no files to read, a plain host name.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from corral.client import kubeconfig
from corral.client.kubeconfig import Access, KubeconfigError
from corral.core.meta import Key, Obj, spec_of

BAD = "BadKubeConfig"
INSECURE = "InsecureKubeConfig"
MAX_BYTES = 1 << 20
"""As much as a Secret may hold."""
PROFILE_DISABLED = "MultiKueueClusterProfileFeatureDisabled"
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


def is_path(cluster: Obj) -> bool:
    """Whether a MultiKueueCluster names a file on the manager."""
    return bool(_source(cluster).get("locationType", "Secret") == "Path")


def path_of(cluster: Obj) -> str:
    """The name of the Secret or file of a MultiKueueCluster."""
    return str(_source(cluster).get("location") or "")


def _source(cluster: Obj) -> Obj:
    spec = spec_of(cluster)
    return (spec.get("clusterSource") or {}).get("kubeConfig") or spec.get("kubeConfig") or {}


def load_document(cluster: Obj, namespace: str, secret: Callable[[Key], Obj | None]) -> bytes:
    """The kubeconfig text of a MultiKueueCluster; the place of a file has been checked."""
    location = path_of(cluster)
    if is_path(cluster):
        try:
            with Path(location).open("rb") as file:
                return file.read(MAX_BYTES + 1)
        except OSError as error:
            text = f"open {location}: {(error.strerror or str(error)).lower()}"
            raise AccessProblem(BAD, text, wait=False) from error
    found = secret(Key(namespace, location))
    if found is None:
        raise AccessProblem(BAD, f'Secret "{location}" not found')
    encoded = (found.get("data") or {}).get("kubeconfig")
    if encoded is None:
        raise AccessProblem(BAD, f'key "kubeconfig" not found in secret "{location}"')
    try:
        return base64.b64decode(encoded)
    except ValueError as error:
        raise AccessProblem(BAD, f'secret "{location}" does not hold base64') from error


def safe_access(text: bytes, *, plain: bool = False) -> Access:
    """How to reach the cluster of a kubeconfig that keeps the rules; `plain` lets it do so without TLS."""
    document = _parse(text)
    try:
        _refuse_dangers(document)
        context = str(document.get("current-context") or "")
        if context not in [name for name, _ in kubeconfig.entries(document, "contexts", "context")]:
            missing = f"context was not found for specified context: {context}"
            raise AccessProblem(INSECURE, f"invalid configuration: [{missing}, cluster has no server defined]")
        found = kubeconfig.access(document)
    except KubeconfigError as error:
        raise AccessProblem(INSECURE, f"invalid configuration: {error}") from error
    check_endpoint(found.server, INSECURE, plain=plain)
    return found


def check_endpoint(server: str, reason: str, *, plain: bool) -> None:
    """Refuse for `reason` what is no address of a server, and one without TLS unless that is `plain`ly wanted."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    if not _HOST.match(host) and not _IPV6.match(host):
        raise AccessProblem(reason, "untrusted server endpoint")
    if parts.scheme != "https" and not plain:
        advice = "use https, or set corral.insecureKubeconfigs"
        raise AccessProblem(reason, f"the server is reached without TLS, which shows its credentials: {advice}")


def _parse(text: bytes) -> Obj:
    if len(text) > MAX_BYTES:
        raise AccessProblem(INSECURE, f"the kubeconfig is larger than {MAX_BYTES} bytes")
    try:
        document = kubeconfig.parse(text, "kubeconfig") if text.strip() else {}
    except KubeconfigError as error:
        cause = error.__cause__
        problem = str(error) if cause is None else kubeconfig.yaml_problem(cause)
        raise AccessProblem(INSECURE, f"failed to parse kubeconfig(apiconfig): {problem}") from error
    if not document.get("clusters") and not document.get("contexts"):
        hint = "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
        raise AccessProblem(INSECURE, f"invalid configuration: {hint}")
    return document


def _refuse_dangers(document: Obj) -> None:
    for name, cluster in kubeconfig.entries(document, "clusters", "cluster"):
        if cluster.get("insecure-skip-tls-verify"):
            raise AccessProblem(INSECURE, f"insecure TLS verification is not allowed for cluster {name}")
        if cluster.get("certificate-authority"):
            advice = "use certificate-authority-data"
            text = f"certificate-authority file paths are not allowed, {advice} for cluster {name}"
            raise AccessProblem(INSECURE, text)
        if not cluster.get("server"):
            raise AccessProblem(INSECURE, f"server URL is required for cluster {name}")
    for _, user in kubeconfig.entries(document, "users", "user"):
        for field, text in FORBIDDEN.items():
            if user.get(field):
                raise AccessProblem(INSECURE, f"{text} not allowed")


FORBIDDEN = {
    "tokenFile": "tokenFile is",
    "exec": "exec plugins are",
    "auth-provider": "auth providers are",
    "username": "basic auth is",
    "password": "basic auth is",
    "client-certificate": "client-certificate file paths are",
    "client-key": "client-key file paths are",
}
"""Parts of a user that would let a kubeconfig read the manager's files or run programs there."""
