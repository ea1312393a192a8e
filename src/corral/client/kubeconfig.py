"""Kubeconfig files: reading one into what it takes to reach a cluster, and writing ours.

Nothing here opens a connection. Errors name the file or Secret, the entry and what is missing.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from corral.core import yaml_documents
from corral.core.meta import Obj

"""How deep a kubeconfig may be nested; real ones are at five."""


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
        try:
            context = ssl.create_default_context(cadata=self.ca.decode() if self.ca and not self.insecure else None)
        except (ssl.SSLError, ValueError) as error:
            raise KubeconfigError("certificate-authority-data does not hold certificates in PEM") from error
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
            raise KubeconfigError(f"the client certificate and key do not load: {error.reason or 'not PEM'}") from error


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
        document = yaml_documents.load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise KubeconfigError(f"kubeconfig {origin} is not YAML: {yaml_problem(error)}") from error
    if not isinstance(document, dict):
        raise KubeconfigError(f"kubeconfig {origin} is not a mapping")
    return document


def yaml_problem(error: BaseException) -> str:
    """What is wrong with the YAML and where, in the words users know from kubectl; never what the text says."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return "it cannot be read"
    problem = str(error.problem or "")
    if match := re.match(r"expected (.*?),? but (?:got|found) ", problem):
        problem = f"did not find expected {match[1]}"
    elif not re.fullmatch(r"(?:[A-Za-z ,-]|'[^A-Za-z0-9]')*", problem):  # a single mark of YAML's own, never the text
        problem = "not well formed"
    return f"yaml: line {max(error.problem_mark.line, 1)}: {problem}"


def access(document: Obj, context: str = "", *, folder: Path | None = None, origin: str = "kubeconfig") -> Access:
    """How to reach the cluster of `context` (default: the current one). Relative file names are taken from `folder`."""
    context = context or _text(document, "current-context", origin)
    if not context:
        raise KubeconfigError(f"{origin}: no current-context is set; name a context")
    entry = _named(document, "contexts", context, "context", origin)
    name, user_name = _text(entry, "cluster", origin), _text(entry, "user", origin)
    cluster = _named(document, "clusters", name, "cluster", origin)
    user = _named(document, "users", user_name, "user", origin) if user_name else {}
    server = _text(cluster, "server", origin)
    if not server:
        raise KubeconfigError(f"{origin}: cluster {name!r} has no server")
    _check_server(server, f"{origin}: the server of cluster {name!r}")
    return Access(
        server=server.rstrip("/"),
        ca=_data(cluster, "certificate-authority", folder, origin),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=_text(cluster, "tls-server-name", origin),
        certificate=_data(user, "client-certificate", folder, origin),
        key=_data(user, "client-key", folder, origin),
        token=_text(user, "token", origin),
        token_file=_text(user, "tokenFile", origin),
        exec=_mapping(user, "exec", origin) or None,
        username=_text(user, "username", origin),
        password=_text(user, "password", origin),
        namespace=_text(entry, "namespace", origin) or "default",
    )


def entries(document: Obj, section: str, field: str, origin: str = "kubeconfig") -> list[tuple[str, Obj]]:
    """The named entries of a section, each a mapping under `field`."""
    found = document.get(section) or []
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise KubeconfigError(f"{origin}: {section} is not a list of mappings")
    return [(_text(entry, "name", origin), _mapping(entry, field, origin)) for entry in found]


def by_context(document: Obj, folder: Path, origin: str) -> dict[str, Access]:
    """How the server of every context is reached; entries that are broken are not asked for here."""
    found: dict[str, Access] = {}
    for context, _ in entries(document, "contexts", "context", origin):
        with contextlib.suppress(KubeconfigError):
            found[context] = access(document, context, folder=folder, origin=origin)
    return found


def by_server(contexts: Mapping[str, Access]) -> dict[str, Access]:
    """How every server with a context is reached; the first of several contexts counts."""
    return {one.server: one for one in reversed(list(contexts.values()))}


def _check_server(server: str, where: str) -> None:
    """Refuse what is no address, or holds a secret; messages do not show it, it may hold one."""
    try:
        parts = urlsplit(server)
        known, host, secret = parts.scheme in ("http", "https"), parts.hostname, "@" in parts.netloc
        _ = parts.port
    except ValueError as error:
        raise KubeconfigError(f"{where} is not a URL") from error
    if secret:
        raise KubeconfigError(f"{where} holds a user or a password; name them under users instead")
    if not known or not host or not server.isprintable() or parts.query or parts.fragment:
        raise KubeconfigError(f"{where} is not of the form https://host[:port][/path]")


def _text(entry: Obj, field: str, origin: str) -> str:
    """A field that is a text, or a number that was meant as one; values are not shown, they may be secrets."""
    value = entry.get(field)
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise KubeconfigError(f"{origin}: {field} is not a text")


def _mapping(entry: Obj, field: str, origin: str) -> Obj:
    value = entry.get(field)
    if value is None or isinstance(value, dict):
        return value or {}
    raise KubeconfigError(f"{origin}: {field} is not a mapping")


def _named(document: Obj, section: str, name: str, field: str, origin: str) -> Obj:
    held = entries(document, section, field, origin)
    for known_as, entry in held:
        if known_as == name:
            return entry
    known = [known_as for known_as, _ in held]
    there = f"; there are {', '.join(known)}" if known else ""
    raise KubeconfigError(f"{origin}: {field} {name!r} is not defined under {section}{there}")


def _data(entry: Obj, field: str, folder: Path | None, origin: str) -> bytes:
    """The bytes of `field-data` (base64) or of the file `field` names."""
    if encoded := _text(entry, f"{field}-data", origin):
        try:
            return base64.b64decode(encoded, validate=False)
        except ValueError as error:
            raise KubeconfigError(f"{origin}: {field}-data is not base64") from error
    if not (name := _text(entry, field, origin)):
        return b""
    path = Path(name) if folder is None else folder / name
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not the name of a file"
        raise KubeconfigError(f"{origin}: {field} {path}: {why}") from error


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
