"""A small blocking client on the standard library, for the command line: starts in milliseconds and imports nothing heavy."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from corral.client import kubeconfig, limits
from corral.client.kubeconfig import KubeconfigError
from corral.client.limits import CONNECT_S
from corral.core.errors import ApiError, ConnectionFailed, LimitExceeded
from corral.core.meta import Obj, name_of, namespace_of
from corral.core.resource import Resource
from corral.core.text_files import read_text

TIMEOUT_S = 30.0
KEEP_S = 2.0
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PATCH_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class SyncClient:
    """One cluster's API, one call at a time."""

    def __init__(self, access: kubeconfig.Access, *, timeout: float = TIMEOUT_S) -> None:
        self._kept: http.client.HTTPConnection | None = None
        self._kept_since = 0.0
        self.access = access
        self.timeout = timeout
        """How long one call may take to be answered; streams may be silent for longer once they have begun."""
        parts = urlsplit(access.server)
        self._host, self._port, self._prefix = parts.hostname or "", parts.port, parts.path.rstrip("/")
        self._ssl: ssl.SSLContext | None = access.ssl_context() if parts.scheme == "https" else None
        self._token = access.token

    @classmethod
    def from_kubeconfig(cls, path: Path | None = None, context: str = "", *, timeout: float = TIMEOUT_S) -> SyncClient:
        path = path or kubeconfig.default_path()
        document = kubeconfig.load(path)
        return cls(kubeconfig.access(document, context, folder=path.parent, origin=str(path)), timeout=timeout)

    def get(self, resource: Resource, name: str, namespace: str = "") -> Obj:
        return self.call("GET", resource.path(namespace, name))

    def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Obj:
        """The List object; items carry apiVersion and kind."""
        found = self.call("GET", resource.path(namespace), {"labelSelector": labels, "fieldSelector": fields})
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        return {**found, "items": [{**kind, **item} for item in found.get("items") or []]}

    def table(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        name: str | None = None,
        labels: str = "",
        fields: str = "",
        include: str = "",
    ) -> Obj:
        """What `kubectl get` prints of all objects or of one, as a Table object; `include` is how much of each it carries."""
        query = {"labelSelector": labels, "fieldSelector": fields, "includeObject": include}
        return self.call("GET", resource.path(namespace, name), query, accept=TABLE)

    def create(self, resource: Resource, obj: Obj, *, manager: str = "corral", dry_run: bool = False) -> Obj:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        query = {"fieldManager": manager, "dryRun": "All" if dry_run else ""}
        return self.call("POST", resource.path(namespace_of(obj)), query, body)

    def patch(
        self, resource: Resource, name: str, namespace: str, patch: Any, *, kind: str = "merge", subresource: str = ""
    ) -> Obj:
        path = resource.path(namespace, name, subresource)
        return self.call("PATCH", path, {"fieldManager": "corral"}, patch, content_type=PATCH_TYPES[kind])

    def apply(
        self, resource: Resource, obj: Obj, *, manager: str = "corral", force: bool = True, dry_run: bool = False
    ) -> Obj:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        query = {
            "fieldManager": manager, "force": "true" if force else "false", "dryRun": "All" if dry_run else ""
        }  # fmt: skip
        path = resource.path(namespace_of(obj), name_of(obj))
        return self.call("PATCH", path, query, body, content_type=PATCH_TYPES["apply"])

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: str = "Background",
        grace: int | None = None,
        dry_run: bool = False,
    ) -> Obj:
        options: Obj = {"propagationPolicy": propagation}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if dry_run:
            options["dryRun"] = ["All"]
        return self.call("DELETE", resource.path(namespace, name), {}, options)

    def create_subresource(self, resource: Resource, name: str, namespace: str, subresource: str, body: Obj) -> Obj:
        return self.call("POST", resource.path(namespace, name, subresource), {}, body)

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        include: str = "",
    ) -> Iterator[tuple[str, Obj]]:
        """(type, object) of every change until the server ends the stream; with `include`, Tables of one row each."""
        query = {
            "watch": "true", "labelSelector": labels, "fieldSelector": fields, "resourceVersion": resource_version,
            "includeObject": include,
        }  # fmt: skip
        for line in self.lines(resource.path(namespace), query, accept=TABLE if include else "*/*"):
            try:
                event = json.loads(line)
                kind, obj = str(event["type"]), dict(event["object"])
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise self._unreachable(ConnectionError(f"what it says is no event: {error}")) from error
            if kind == "ERROR":
                raise ApiError.from_status(obj)
            yield kind, obj

    def lines(self, path: str, query: Mapping[str, str] | None = None, *, accept: str = "*/*") -> Iterator[bytes]:
        """The lines of a streaming answer, as they come."""
        connection, response = self._send("GET", path, query or {}, None, "", accept, timeout=None)
        try:
            while line := response.readline(limits.LINE_BYTES):
                yield line
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def switched(
        self, path: str, query: Sequence[tuple[str, str]], headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """A connection of its own that the server has agreed to use for another protocol. Raises ApiError."""
        self.close()
        target = f"{path}?{urlencode(query)}"
        connection, response = self._send("GET", target, {}, None, "", "*/*", timeout=self.timeout, more=headers)
        if response.status != http.client.SWITCHING_PROTOCOLS:
            connection.close()
            raise self._unreachable(ConnectionError(f"it answered {response.status} instead of switching protocols"))
        return connection, response

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Obj:
        """One JSON call; raises ApiError."""
        connection, response = self._send(method, path, query or {}, body, content_type, accept, timeout=self.timeout)
        content = self._read(connection, response, limits.LIST_BYTES)
        try:
            decoded = json.loads(content) if content.startswith((b"{", b"[")) else {"text": content.decode()}
        except (ValueError, RecursionError) as error:
            raise self._unreachable(ConnectionError(f"what it says is no JSON: {error}")) from error
        return decoded if isinstance(decoded, dict) else {"items": decoded}

    def _read(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, most: int) -> bytes:
        """The body of an answer, no more of it than is taken in from any cluster."""
        try:
            content = response.read(most)
            is_whole = response.isclosed() or not response.read(1)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._unreachable(error) from error
        if not is_whole:
            connection.close()
            raise LimitExceeded(f"{self.access.server} answers with more than {most} bytes")
        self._keep(connection, response)
        return content

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any,
        content_type: str,
        accept: str,
        *,
        timeout: float | None,
        more: Mapping[str, str] | None = None,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        parameters = urlencode({name: value for name, value in query.items() if value})
        target = self._prefix + path + ("?" + parameters if parameters else "")
        headers = {"Accept": accept, "User-Agent": "corral-cli", **(more or {})}
        if token := self._bearer():
            headers["Authorization"] = f"Bearer {token}"
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = content_type
        connection = self._take(timeout)
        try:
            connection = connection or self._opened(timeout)
            connection.request(method, target, data, headers)
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            if connection is not None:
                connection.close()
            raise self._unreachable(error) from error
        if response.status >= 400:
            raise _error(self._read(connection, response, limits.ERROR_BYTES), response.status)
        return connection, response

    def close(self) -> None:
        """Let go of the connection of the last call; the client can still be used."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def __del__(self) -> None:
        # Those of workers and members are made for one look, by who does not know which calls follow.
        self.close()

    def _take(self, timeout: float | None) -> http.client.HTTPConnection | None:
        """The connection of the last call, for calls that follow closely; streams have their own."""
        if timeout is None or self._kept is None:
            return None
        if time.monotonic() - self._kept_since > KEEP_S:
            self.close()
            return None
        kept, self._kept = self._kept, None
        kept.timeout = timeout
        if kept.sock is not None:
            kept.sock.settimeout(timeout)
        return kept

    def _keep(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        if response.will_close:
            connection.close()
        else:
            # A stream that was refused leaves its connection beside that of the last call, and so does another thread.
            former, self._kept, self._kept_since = self._kept, connection, time.monotonic()
            if former is not None:
                former.close()

    def _opened(self, timeout: float | None) -> http.client.HTTPConnection:
        """A connection that the server has taken up: one that hangs is noticed here, however long its answer may take."""
        connection = self._connection(CONNECT_S if timeout is None else min(timeout, CONNECT_S))
        try:
            connection.connect()
        except OSError:
            connection.close()
            raise
        connection.timeout = timeout
        connection.sock.settimeout(timeout)
        return connection

    def _connection(self, timeout: float | None) -> http.client.HTTPConnection:
        if self._ssl is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._ssl)

    def _bearer(self) -> str:
        if self._token:
            return self._token
        if self.access.token_file:
            self._token = read_text(Path(self.access.token_file)).strip()
        elif self.access.exec:
            self._token = _token_of_program(self.access.exec)
        return self._token

    def _unreachable(self, error: BaseException) -> ConnectionFailed:
        why = "it does not answer" if isinstance(error, TimeoutError) else error or type(error).__name__
        return ConnectionFailed(f"cannot reach {self.access.server}: {why}")


def _token_of_program(plugin: Obj) -> str:
    """What the program of a kubeconfig says; one that fails is told with its last words."""
    command = [str(plugin["command"]), *map(str, plugin.get("args") or [])]
    try:
        answer = subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT_S)
        return str((json.loads(answer.stdout).get("status") or {}).get("token") or "")
    except subprocess.CalledProcessError as error:
        last = (error.stderr or b"").decode(errors="replace").strip().splitlines()[-1:]
        why = f"exit code {error.returncode}{': ' if last else ''}{''.join(last)}"
        raise KubeconfigError(f"the credential program {command[0]} failed: {why}") from error
    except (OSError, subprocess.TimeoutExpired, ValueError, AttributeError) as error:
        raise KubeconfigError(f"the credential program {command[0]} gave no token: {error}") from error


def _error(content: bytes, code: int) -> ApiError:
    try:
        status = json.loads(content)
        if isinstance(status, dict):
            return ApiError.from_status(status, code)
    except (ValueError, RecursionError):
        pass
    return ApiError(content[:200].decode(errors="replace"), code=code)
