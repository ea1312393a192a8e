"""Paths that are no resources: health, version, metrics, the issuer's documents and the index of paths."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable

from corral.core.meta import Obj
from corral.server.access.tokens import ISSUER, Signer
from corral.server.content.representations import plain
from corral.server.http.message import TEXT, Request, Response

VERSION = ("1", "34", "v1.34.11+corral")
_CHECKS = ("ping", "log", "store", "informer-sync", "poststarthook/rbac/bootstrap-roles", "shutdown")


def version() -> Obj:
    """What this server calls itself; clients choose their behaviour by the minor version."""
    major, minor, full = VERSION
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": full,
        "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": f"python{sys.version_info.major}.{sys.version_info.minor}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{sys.platform}/{machine}",
    }


class Endpoints:
    """Serves the paths that are no resources. `ready` says whether requests can be served, `trouble` why writes are not
    kept, `metrics` gives the text."""

    def __init__(
        self,
        signer: Signer,
        url: str,
        paths: Callable[[], Iterable[str]],
        ready: Callable[[], bool],
        trouble: Callable[[], str],
        metrics: Callable[[], bytes],
    ) -> None:
        self._signer = signer
        self._url = url
        self._paths = paths
        self._ready = ready
        self._trouble = trouble
        self._metrics = metrics
        self._version = plain(version())

    def answer(self, request: Request) -> Response | None:
        """The answer, or None when the path is none of these."""
        path = request.path.rstrip("/") or "/"
        if path == "/version":
            return self._version
        first = path.removeprefix("/").partition("/")[0]
        if first in ("healthz", "livez", "readyz"):
            return self._health(first, path, "verbose" in request.query)
        if path == "/metrics":
            return Response(200, self._metrics(), "text/plain; version=0.0.4; charset=utf-8")
        if path == "/openid/v1/jwks":
            answer = plain(self._signer.key_set())
            answer.content_type, answer.cache = "application/jwk-set+json", "public, max-age=3600"
            return answer
        if path == "/.well-known/openid-configuration":
            return self._issuer()
        if path == "/":
            return plain({"paths": sorted(self._paths())})
        return None

    def _health(self, endpoint: str, path: str, verbose: bool) -> Response:
        check = path.removeprefix(f"/{endpoint}").strip("/")
        if check and check not in _CHECKS:
            return Response(404, b"404 page not found\n", TEXT)
        ready = endpoint == "livez" or self._ready()
        if not ready:
            return Response(500, f"[-]shutdown failed: server is stopping\n{endpoint} check failed\n".encode(), TEXT)
        if endpoint == "readyz" and (trouble := self._trouble()):
            return Response(500, f"[-]journal failed: {trouble}\nreadyz check failed\n".encode(), TEXT)
        if not verbose:
            return Response(200, b"ok", TEXT)
        lines = [f"[+]{name} ok" for name in _CHECKS]
        return Response(200, "\n".join([*lines, f"{endpoint} check passed\n"]).encode(), TEXT)

    def _issuer(self) -> Response:
        answer = plain(
            {
                "issuer": ISSUER,
                "jwks_uri": f"{self._url}/openid/v1/jwks",
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
            }
        )
        answer.cache = "public, max-age=3600"
        return answer


ENDPOINT_PATHS = (
    "/.well-known/openid-configuration", "/api", "/apis", "/healthz", "/healthz/ping", "/livez", "/livez/ping", "/metrics",
    "/openapi/v2", "/openapi/v3", "/openid/v1/jwks", "/readyz", "/readyz/ping", "/version",
)  # fmt: skip
