"""A small blocking client on the standard library, for the command line: starts in milliseconds and imports nothing heavy."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from corral.client import kubeconfig
from corral.core.errors import ApiError, ConnectionFailed
from corral.core.meta import Obj, name_of, namespace_of
from corral.core.resource import Resource

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

    def __init__(self, access: kubeconfig.Access) -> None:
        self.access = access
        parts = urlsplit(access.server)
        self._host, self._port, self._prefix = parts.hostname or "", parts.port, parts.path.rstrip("/")
        self._ssl: ssl.SSLContext | None = access.ssl_context() if parts.scheme == "https" else None
        self._token = access.token
        self._kept: http.client.HTTPConnection | None = None
        self._kept_since = 0.0

    @classmethod
    def from_kubeconfig(cls, path: Path | None = None, context: str = "") -> SyncClient:
        path = path or kubeconfig.default_path()
        document = kubeconfig.load(path)
        return cls(kubeconfig.access(document, context, folder=path.parent, origin=str(path)))

    def get(self, resource: Resource, name: str, namespace: str = "") -> Obj:
        return self.call("GET", resource.path(namespace, name))

    def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Obj:
        """The List object; items carry apiVersion and kind."""
        found = self.call("GET", resource.path(namespace), {"labelSelector": labels, "fieldSelector": fields})
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        return {**found, "items": [{**kind, **item} for item in found.get("items") or []]}

    def table(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Obj:
        """What `kubectl get` prints, as a Table object."""
        query = {"labelSelector": labels, "fieldSelector": fields}
        return self.call("GET", resource.path(namespace), query, accept=TABLE)

    def create(self, resource: Resource, obj: Obj, *, manager: str = "corral", dry_run: bool = False) -> Obj:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        query = {"fieldManager": manager, "dryRun": "All" if dry_run else ""}
        return self.call("POST", resource.path(namespace_of(obj)), query, body)

    def patch(
        self, resource: Resource, name: str, namespace: str, patch: Any, *, kind: str = "merge", subresource: str = ""
    ) -> Obj:
        path = resource.path(namespace, name, subresource)
        return self.call("PATCH", path, {"fieldManager": "corral"}, patch, content_type=PATCH_TYPES[kind])

    def apply(self, resource: Resource, obj: Obj, *, manager: str = "corral", force: bool = True) -> Obj:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        path = resource.path(namespace_of(obj), name_of(obj))
        return self.call("PATCH", path, query, body, content_type=PATCH_TYPES["apply"])

    def delete(self, resource: Resource, name: str, namespace: str = "", *, propagation: str = "Background") -> Obj:
        return self.call("DELETE", resource.path(namespace, name), {}, {"propagationPolicy": propagation})

    def create_subresource(self, resource: Resource, name: str, namespace: str, subresource: str, body: Obj) -> Obj:
        return self.call("POST", resource.path(namespace, name, subresource), {}, body)

    def watch(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", resource_version: str = ""
    ) -> Iterator[tuple[str, Obj]]:
        """(type, object) of every change until the server ends the stream."""
        query = {
            "watch": "true", "labelSelector": labels, "fieldSelector": fields, "resourceVersion": resource_version
        }  # fmt: skip
        for line in self.lines(resource.path(namespace), query):
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise ApiError.from_status(event["object"])
            yield event["type"], event["object"]

    def lines(self, path: str, query: Mapping[str, str] | None = None) -> Iterator[bytes]:
        """The lines of a streaming answer, as they come."""
        connection, response = self._send("GET", path, query or {}, None, "", "*/*", timeout=None)
        try:
            while line := response.readline():
                yield line
        except OSError as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

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
        connection, response = self._send(method, path, query or {}, body, content_type, accept, timeout=TIMEOUT_S)
        try:
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._unreachable(error) from error
        self._keep(connection, response)
        decoded = json.loads(content) if content.startswith((b"{", b"[")) else {"text": content.decode()}
        return decoded if isinstance(decoded, dict) else {"items": decoded}

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
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        parameters = urlencode({name: value for name, value in query.items() if value})
        target = self._prefix + path + ("?" + parameters if parameters else "")
        headers = {"Accept": accept, "User-Agent": "corral-cli"}
        if token := self._bearer():
            headers["Authorization"] = f"Bearer {token}"
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = content_type
        connection = self._take(timeout) or self._connection(timeout)
        try:
            connection.request(method, target, data, headers)
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._unreachable(error) from error
        if response.status >= 400:
            content = response.read()
            self._keep(connection, response)
            raise _error(content, response.status)
        return connection, response

    def close(self) -> None:
        """Let go of the connection of the last call; the client can still be used."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _take(self, timeout: float | None) -> http.client.HTTPConnection | None:
        """The connection of the last call, for calls that follow closely; streams have their own."""
        kept, self._kept = self._kept, None
        if kept is None or timeout is None or time.monotonic() - self._kept_since > KEEP_S:
            return None
        return kept

    def _keep(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        if response.will_close:
            connection.close()
        else:
            self._kept, self._kept_since = connection, time.monotonic()

    def _connection(self, timeout: float | None) -> http.client.HTTPConnection:
        if self._ssl is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._ssl)

    def _bearer(self) -> str:
        if self._token:
            return self._token
        if self.access.token_file:
            self._token = Path(self.access.token_file).read_text().strip()
        elif self.access.exec:
            plugin = self.access.exec
            command = [plugin["command"], *(plugin.get("args") or [])]
            answer = subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT_S)
            self._token = str((json.loads(answer.stdout).get("status") or {}).get("token") or "")
        return self._token

    def _unreachable(self, error: BaseException) -> ConnectionFailed:
        return ConnectionFailed(f"cannot reach {self.access.server}: {error or type(error).__name__}")


def _error(content: bytes, code: int) -> ApiError:
    try:
        status = json.loads(content)
        if isinstance(status, dict):
            return ApiError.from_status(status, code)
    except ValueError:
        pass
    return ApiError(content[:200].decode(errors="replace"), code=code)
