"""Bad input over HTTP: whatever is sent, the answer is the client's fault, and the server is as healthy as before."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.security.noise import is_theirs

from corral.clusters.embedded_api import EmbeddedApi

_SETTINGS = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


class Server:
    """A server on a loop of its own, and what it logged."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.cluster = self.call(self._start())
        self.port = self.cluster.server.port
        self.token = self.cluster.server.admin_token
        self.context = ssl.create_default_context(cadata=self.cluster.server.authority.certificate.decode())

    async def _start(self) -> EmbeddedApi:
        cluster = EmbeddedApi(None)
        await cluster.start()
        return cluster

    def call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    def stop(self) -> None:
        self.call(self.cluster.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()

    def raw(self, data: bytes, wait: float = 0.08, until: bytes = b"") -> bytes:
        """What the server says to `data`: everything, or as far as `until`."""
        plain = socket.create_connection(("127.0.0.1", self.port), 60.0)
        with plain, self.context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            connection.sendall(data)
            connection.settimeout(wait)
            chunks = []
            try:
                while chunk := connection.recv(65536):
                    chunks.append(chunk)
                    if until and until in chunk:
                        break
            except (TimeoutError, ssl.SSLError, ConnectionError):
                pass  # the server waits for more of a request that is not complete
            return b"".join(chunks)

    def request(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        lines = [f"{method} {target} HTTP/1.1", "Host: x", f"Authorization: Bearer {self.token}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body or method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"
        answer = self.raw(head + body, wait=60.0)
        assert answer.startswith(b"HTTP/1.1 "), answer[:100]
        front, _, rest = answer.partition(b"\r\n\r\n")
        return int(front.split(b" ", 2)[1]), rest

    def is_healthy(self) -> bool:
        return self.request("GET", "/readyz", {}, b"")[0] == 200


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def no_failures_logged(server: Server, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.ERROR):
        yield
    assert server.is_healthy()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


_printable = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20)
_segments = st.one_of(
    st.sampled_from(
        ["api", "apis", "v1", "batch", "namespaces", "default", "pods", "jobs", "configmaps", "a", "status", "scale", "log",
         "exec", "watch", "..", ".", "", "%00", "%2e%2e", "%ff", "openapi", "v3", "kueue.x-k8s.io", "v1beta2", "nodes",
         "clusterqueues", "customresourcedefinitions", "apiextensions.k8s.io", "portforward", "binding", "token"]
    ),
    _printable.map(lambda text: text.replace("#", "").replace("?", "")),
)  # fmt: skip
_paths = st.lists(_segments, max_size=9).map(lambda parts: "/" + "/".join(parts))
_names = st.one_of(
    st.sampled_from(
        ["limit", "continue", "watch", "timeoutSeconds", "timeout", "resourceVersion", "resourceVersionMatch", "labelSelector",
         "fieldSelector", "dryRun", "fieldManager", "fieldValidation", "force", "sendInitialEvents", "container", "command",
         "tailLines", "gracePeriodSeconds", "propagationPolicy", "pretty", "includeObject"]
    ),
    _printable,
)  # fmt: skip
_values = st.one_of(
    st.sampled_from(
        ["1", "0", "-1", "true", "false", "All", "x", "", "a=b", "a in (b", "9" * 30, "%00", "%zz", "Strict"]
    ),
    _printable,
)
_queries = st.lists(st.tuples(_names, _values), max_size=5).map(
    lambda pairs: "&".join(f"{name}={value}".replace("#", "") for name, value in pairs)
)
_methods = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
_types = st.sampled_from(
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/json-patch+json",
     "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml",
     "text/plain", "", ";;;", "application/json; charset=\"", "multipart/form-data"]
)  # fmt: skip
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)
_objects = st.fixed_dictionaries(
    {},
    optional={
        "apiVersion": _json | st.sampled_from(["v1", "batch/v1"]),
        "kind": _json | st.sampled_from(["ConfigMap", "Job", "Pod"]),
        "metadata": _json | st.fixed_dictionaries({"name": _json | st.just("a")}, optional={"labels": _json, "ownerReferences": _json, "finalizers": _json, "managedFields": _json}),
        "spec": _json | st.fixed_dictionaries({}, optional={"template": _json, "containers": _json, "suspend": _json, "parallelism": _json}),
        "data": _json,
        "status": _json,
    },
)  # fmt: skip
_bodies = st.one_of(
    st.binary(max_size=200),
    _json.map(lambda value: json.dumps(value).encode()),
    _objects.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(
        [b"[" * 100_000, b'{"a":' * 50_000, b"k8s\x00" + b"\xff" * 50, b"k8s\x00", b"a: &a [*a]", b"- " * 5000]
    ),
)


@_SETTINGS
@given(_methods, _paths, _queries)
def test_paths_and_queries(server: Server, method: str, path: str, query: str) -> None:
    if "watch" in query or "/watch/" in path or "follow" in query:
        query += "&timeoutSeconds=1"
    code, body = server.request(method, f"{path}?{query}" if query else path, {}, b"")
    assert is_theirs(code, body), (code, body[:300])


@_SETTINGS
@given(
    _methods,
    st.sampled_from(
        ["/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps/a", "/api/v1/namespaces/default/pods",
         "/apis/batch/v1/namespaces/default/jobs", "/apis/batch/v1/namespaces/default/jobs/a/status", "/api/v1/namespaces",
         "/apis/kueue.x-k8s.io/v1beta2/clusterqueues", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/a",
         "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/authentication.k8s.io/v1/tokenreviews",
         "/api/v1/namespaces/default/serviceaccounts/default/token", "/api/v1/namespaces/default/pods/a/binding",
         "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/apps/v1/namespaces/default/deployments/a/scale",
         "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"]
    ),
    _types,
    _bodies,
)  # fmt: skip
def test_bodies(server: Server, method: str, path: str, content_type: str, body: bytes) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    suffix = "?fieldManager=fuzz" if content_type == "application/apply-patch+yaml" else ""
    code, answer = server.request(method, path + suffix, headers, body)
    assert is_theirs(code, answer), (code, answer[:300])


@_SETTINGS
@given(
    st.dictionaries(
        st.sampled_from(
            ["Accept", "Content-Type", "Upgrade", "Connection", "Expect", "Impersonate-User", "Impersonate-Group",
             "Impersonate-Extra-x%zz", "If-None-Match", "Sec-WebSocket-Protocol", "X-Stream-Protocol-Version", "User-Agent",
             "Range", "Transfer-Encoding", "Cookie"]
        ),
        st.one_of(_printable, st.sampled_from(["websocket", "Upgrade", "SPDY/3.1", "100-continue", "gzip", "application/json;as=Table;v=v1;g=meta.k8s.io"])),
        max_size=6,
    ),
    st.sampled_from(["/api", "/apis", "/api/v1/namespaces/default/pods/a/exec?command=a", "/api/v1/namespaces", "/openapi/v2", "/version"]),
)  # fmt: skip
def test_headers(server: Server, headers: dict[str, str], path: str) -> None:
    answer = server.raw(
        b"GET %b HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\n" % (path.encode(), server.token.encode())
        + b"".join(f"{name}: {value}\r\n".encode() for name, value in headers.items())
        + b"\r\n"
    )
    if answer.startswith(b"HTTP/1.1"):
        code = int(answer.split(b" ", 2)[1])
        assert code < 500 or is_theirs(code, answer.partition(b"\r\n\r\n")[2]), answer[:300]


@_SETTINGS
@given(st.binary(max_size=300))
def test_noise_instead_of_http(server: Server, noise: bytes) -> None:
    answer = server.raw(noise)
    assert not answer or answer.startswith(b"HTTP/1.1 4"), answer[:100]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\n\r\n", 414, id="endless path"),
        pytest.param(b"GET /?" + b"a" * 300_000 + b" HTTP/1.1\r\n\r\n", 431, id="endless query"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 60_000 + b"\r\n", 431, id="endless headers"),
        pytest.param(
            b"POST /api/v1/namespaces HTTP/1.1\r\nContent-Length: 4000000\r\n\r\n" + b" " * 4_000_000,
            413,
            id="huge body",
        ),
        pytest.param(b"GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", 400, id="negative length"),
        pytest.param(b"GET / HTTP/9.9\r\n\r\n", 400, id="unknown version"),
        pytest.param(
            b"POST /api/v1/namespaces HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400, id="bad chunk size"
        ),
    ],
)
def test_limits(server: Server, data: bytes, code: int) -> None:
    assert server.raw(data, wait=60.0, until=b"\r\n\r\n").split(b" ", 2)[1] == str(code).encode()


def test_connections_that_never_finish_do_not_stop_others(server: Server) -> None:
    held = []
    for _ in range(50):
        plain = socket.create_connection(("127.0.0.1", server.port))
        connection = server.context.wrap_socket(plain, server_hostname="127.0.0.1")
        connection.sendall(b"POST /api/v1/namespaces HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
        held.append(connection)
    assert server.is_healthy()
    for connection in held:
        connection.close()
