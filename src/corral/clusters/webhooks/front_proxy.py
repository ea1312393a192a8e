"""Who is asking an aggregated API: the API server in front says so in headers, and is believed by its certificate.

What the user may do is asked of the API server again (`clusters.access_reviews`): its roles hold here as everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from corral.core.admission import UserInfo
from corral.core.errors import Unauthorized
from corral.core.meta import Obj
from corral.server.access.authentication import authenticated
from corral.server.http.message import Request

CONFIG_NAMESPACE, CONFIG_NAME = "kube-system", "extension-apiserver-authentication"


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """What the ConfigMap of a cluster says about the server in front of its aggregated APIs."""

    authority: str = ""
    names: Sequence[str] = ()
    user_headers: Sequence[str] = ("X-Remote-User",)
    group_headers: Sequence[str] = ("X-Remote-Group",)
    extra_prefixes: Sequence[str] = ("X-Remote-Extra-",)

    @staticmethod
    def read(config_map: Obj) -> FrontProxy:
        data = config_map.get("data") or {}

        def listed(name: str) -> list[str]:
            return [str(each) for each in json.loads(data.get(f"requestheader-{name}") or "[]")]

        return FrontProxy(
            data.get("requestheader-client-ca-file") or "",
            listed("allowed-names"),
            listed("username-headers"),
            listed("group-headers"),
            listed("extra-headers-prefix"),
        )

    def identify(self, request: Request) -> UserInfo:
        """The user behind a request. Unauthorized unless the server in front says who it is."""
        peer = request.peer
        if not self.authority or peer is None or (self.names and peer.name not in self.names):
            raise Unauthorized("Unauthorized")
        names = [value for name in self.user_headers for value in request.all_headers(name.lower()) if value]
        if not names:
            raise Unauthorized("Unauthorized")
        groups = [value for name in self.group_headers for value in request.all_headers(name.lower())]
        extra: dict[str, list[str]] = {}
        for prefix in (each.lower() for each in self.extra_prefixes):
            for key, value in request.fields:
                if key.startswith(prefix):
                    extra.setdefault(unquote(key.removeprefix(prefix)), []).append(value)
        return authenticated(UserInfo(names[0], tuple(groups), extra=extra))
