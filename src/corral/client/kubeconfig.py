"""Kubeconfig files: reading one into what it takes to reach a cluster, and writing ours.

Nothing here opens a connection. Errors name the file or Secret, the entry and what is missing.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from corral.core.meta import Obj


class KubeconfigError(ValueError):
    """The kubeconfig cannot be used; the message says why and where."""


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """How to reach one cluster and who to be there. Holds secrets: it prints only the server."""

    server: str
    ca: bytes = b""
    insecure: bool = False
    server_name: str = ""
    certificate: bytes = b""
    key: bytes = b""
    token: str = ""
    token_file: str = ""
    exec: Obj | None = None
    username: str = ""
    password: str = ""
    namespace: str = "default"

    def __repr__(self) -> str:
        return f"Access({self.server})"

    def ssl_context(self) -> ssl.SSLContext:
        """A TLS context that trusts this cluster's CA and shows our certificate."""
        # Given authorities are the only ones trusted, and reading the system's takes a while.
        context = ssl.create_default_context(cadata=self.ca.decode() if self.ca and not self.insecure else None)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            _load_chain(context, self.certificate, self.key)
        return context


def _load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # The ssl module takes client certificates from files only.
    with tempfile.TemporaryDirectory(prefix="corral-") as folder:
        path = Path(folder) / "client.pem"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate + b"\n" + key)
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise KubeconfigError(f"the client certificate and key do not load: {error}") from error


def default_path() -> Path:
    """Where kubectl looks: the first file of $KUBECONFIG, else ~/.kube/config."""
    listed = [entry for entry in os.environ.get("KUBECONFIG", "").split(os.pathsep) if entry]
    return Path(listed[0]) if listed else Path.home() / ".kube" / "config"


def load(path: Path | None = None) -> Obj:
    """The kubeconfig document at `path` (default: kubectl's)."""
    path = path or default_path()
    try:
        text = path.read_bytes()
    except OSError as error:
        raise KubeconfigError(f"kubeconfig {path}: {error.strerror}") from error
    return parse(text, str(path))


def parse(text: bytes, origin: str) -> Obj:
    """The document in `text`; `origin` is named in errors."""
    try:
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise KubeconfigError(f"kubeconfig {origin} is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise KubeconfigError(f"kubeconfig {origin} is not a mapping")
    return document


def access(document: Obj, context: str = "", *, folder: Path | None = None, origin: str = "kubeconfig") -> Access:
    """How to reach the cluster of `context` (default: the current one). Relative file names are taken from `folder`."""
    context = context or str(document.get("current-context") or "")
    if not context:
        raise KubeconfigError(f"{origin}: no current-context is set; name a context")
    entry = _named(document, "contexts", context, "context", origin)
    cluster = _named(document, "clusters", str(entry.get("cluster", "")), "cluster", origin)
    user = _named(document, "users", str(entry["user"]), "user", origin) if entry.get("user") else {}
    if not cluster.get("server"):
        raise KubeconfigError(f"{origin}: cluster {entry.get('cluster')!r} has no server")
    return Access(
        server=str(cluster["server"]).rstrip("/"),
        ca=_data(cluster, "certificate-authority", folder, origin),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=str(cluster.get("tls-server-name") or ""),
        certificate=_data(user, "client-certificate", folder, origin),
        key=_data(user, "client-key", folder, origin),
        token=str(user.get("token") or ""),
        token_file=str(user.get("tokenFile") or ""),
        exec=user.get("exec"),
        username=str(user.get("username") or ""),
        password=str(user.get("password") or ""),
        namespace=str(entry.get("namespace") or "default"),
    )


def _named(document: Obj, section: str, name: str, field: str, origin: str) -> Obj:
    for entry in document.get(section) or []:
        if isinstance(entry, dict) and entry.get("name") == name:
            return entry.get(field) or {}
    known = [str(entry.get("name")) for entry in document.get(section) or [] if isinstance(entry, dict)]
    there = f"; there are {', '.join(known)}" if known else ""
    raise KubeconfigError(f"{origin}: {field} {name!r} is not defined under {section}{there}")


def _data(entry: Obj, field: str, folder: Path | None, origin: str) -> bytes:
    """The bytes of `field-data` (base64) or of the file `field` names."""
    if encoded := entry.get(f"{field}-data"):
        try:
            return base64.b64decode(encoded, validate=False)
        except binascii.Error as error:
            raise KubeconfigError(f"{origin}: {field}-data is not base64") from error
    if not (name := entry.get(field)):
        return b""
    path = Path(name) if folder is None else folder / name
    try:
        return path.read_bytes()
    except OSError as error:
        raise KubeconfigError(f"{origin}: {field} {path}: {error.strerror}") from error


def document_for(
    name: str, server: str, ca: bytes, *, token: str = "", certificate: bytes = b"", key: bytes = b""
) -> Obj:
    """A kubeconfig with one cluster, user and context, all called `name`."""
    user: dict[str, Any] = {}
    if token:
        user["token"] = token
    if certificate:
        user["client-certificate-data"] = base64.b64encode(certificate).decode()
        user["client-key-data"] = base64.b64encode(key).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": server, "certificate-authority-data": base64.b64encode(ca).decode()}}
        ],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def merged(documents: list[Obj], current: str = "") -> Obj:
    """One kubeconfig with the entries of all; later entries of the same name win."""
    result: Obj = {"apiVersion": "v1", "kind": "Config"}
    for section in ("clusters", "users", "contexts"):
        entries = {entry["name"]: entry for document in documents for entry in document.get(section) or []}
        result[section] = list(entries.values())
    result["current-context"] = current or next(
        (d["current-context"] for d in documents if d.get("current-context")), ""
    )
    return result


def write(document: Obj, path: Path) -> None:
    """Write a kubeconfig only its owner can read, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        yaml.safe_dump(document, file, sort_keys=False)
    temporary.replace(path)
