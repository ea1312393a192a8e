"""Virtual resources served to a real cluster as an aggregated API: discovery, OpenAPI and objects, as an embedded server
serves them, behind the API server in front."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from corral.client.protocol import Client
from corral.clusters.access_reviews import require
from corral.clusters.webhooks.front_proxy import FrontProxy
from corral.kinds.machinery.registry import Registry
from corral.kinds.machinery.virtual_resources import ExtraApi
from corral.runtime.clock import Clock
from corral.runtime.random import Random
from corral.server import paths
from corral.server.access.rbac import attributes_of
from corral.server.api import Api
from corral.server.content.discovery import Discovery
from corral.server.content.openapi import OpenApi
from corral.server.content.representations import Views
from corral.server.http.message import Answer, Request
from corral.server.resources import Resources
from corral.server.verbs.options import Warnings
from corral.store import Store


class AggregatedApi:
    """Answers for `extras` whom `front_proxy` vouches for and the cluster's roles let."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        extras: Sequence[ExtraApi],
        front_proxy: Callable[[], FrontProxy],
    ) -> None:
        kinds = [kind for extra in extras for kind in extra.kinds]
        registry = Registry(kinds)
        api = Api(Store(now=clock.now), registry, clock=clock, random=random)  # nothing is ever stored in it
        self._client = client
        self._front_proxy = front_proxy
        self._resources = Resources(api, Views(clock.now), {}, {}, extras)
        self._discovery = Discovery(registry, kinds, "")
        self._openapi = OpenApi(registry, self._discovery)
        self.versions = [(kind.group, version.name) for kind in kinds[:1] for version in kind.served_versions]
        """What is to be registered: (group, version)."""

    async def answer(self, request: Request) -> Answer | None:
        """The answer, or None where there is nothing. Raises ApiError."""
        first = request.path.split("/")[1] if "/" in request.path else ""
        if first not in ("apis", "openapi"):
            return None
        user = self._front_proxy().identify(request)
        info = paths.parse(request.method, request.path, watch=request.query.flag("watch"))
        await require(self._client, user, attributes_of(info))
        if info.is_resource:
            return await self._resources.answer(request, info, user, Warnings())
        if first == "openapi":
            return await self._openapi.answer(request)
        return self._discovery.answer(request)
