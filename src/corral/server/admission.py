"""The admission chain: every plug-in may change a write, then every plug-in may refuse it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from corral.core.admission import AdmissionPlugin, AdmissionRequest
from corral.core.meta import Obj


class Chain:
    """Plug-ins in order."""

    def __init__(self, plugins: Sequence[AdmissionPlugin] = ()):
        self.plugins = list(plugins)

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        """The object after all plug-ins had their say; the very same one when none changed it."""
        for plugin in self.plugins:
            if plugin.handles(request):
                changed = await plugin.mutate(request)
                if changed is not request.obj:
                    request = replace(request, obj=changed)
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        for plugin in self.plugins:
            if plugin.handles(request):
                await plugin.validate(request)
