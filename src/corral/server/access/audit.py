"""The audit log: one JSON line a request, in the shape of audit.k8s.io Events at level Metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO

import msgspec

from corral.core.admission import UserInfo
from corral.server.access.authentication import user_status
from corral.server.paths import RequestInfo

_encode = msgspec.json.Encoder().encode


class AuditLog:
    """Writes to a text file; reads of health endpoints are not worth a line."""

    def __init__(self, file: TextIO, timestamp: Callable[[], str], next_id: Callable[[], str]) -> None:
        self._file = file
        self._timestamp = timestamp
        self._next_id = next_id

    def record(
        self,
        info: RequestInfo,
        user: UserInfo,
        impersonated: UserInfo | None,
        target: str,
        agent: str,
        code: int,
        received: str,
    ) -> None:
        if not info.is_resource and info.path in ("/healthz", "/livez", "/readyz"):
            return
        event: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": self._next_id(),
            "stage": "ResponseComplete",
            "requestURI": target,
            "verb": info.verb,
            "user": user_status(user),
            "userAgent": agent,
            "responseStatus": {"metadata": {}, "code": code},
            "requestReceivedTimestamp": received,
            "stageTimestamp": self._timestamp(),
        }
        if impersonated is not None:
            event["impersonatedUser"] = user_status(impersonated)
        if info.is_resource:
            reference = {
                "resource": info.resource,
                "namespace": info.namespace,
                "name": info.name,
                "apiGroup": info.group,
                "apiVersion": info.version,
                "subresource": info.subresource,
            }
            event["objectRef"] = {name: value for name, value in reference.items() if value}
        self._file.write(_encode(event).decode() + "\n")

    def close(self) -> None:
        self._file.close()
