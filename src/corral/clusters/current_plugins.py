"""Admission by the plug-ins of whatever configuration is in force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from corral.core.admission import AdmissionPlugin, AdmissionRequest
from corral.core.meta import Obj


class CurrentPlugins:
    """One plug-in that asks those that `current` gives."""

    def __init__(self, name: str, current: Callable[[], Sequence[AdmissionPlugin]]) -> None:
        self.name = name
        self._current = current

    def handles(self, request: AdmissionRequest) -> bool:
        return any(plugin.handles(request) for plugin in self._current())

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        for plugin in self._current():
            if plugin.handles(request):
                changed = await plugin.mutate(request)
                if changed is not request.obj:
                    request = replace(request, obj=changed)
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        for plugin in self._current():
            if plugin.handles(request):
                await plugin.validate(request)
