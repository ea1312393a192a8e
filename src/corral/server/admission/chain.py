"""The admission chain: every plug-in may change a write, then every plug-in may refuse it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from corral.core.admission import AdmissionPlugin, AdmissionRequest
from corral.core.meta import Obj


class Holding(ABC):
    """A plug-in for which a write needs something else to stay as it was, from the beginning until the write is stored."""

    @abstractmethod
    def handles(self, request: AdmissionRequest) -> bool:
        """As of every plug-in."""

    @abstractmethod
    def ground(self, request: AdmissionRequest) -> str:
        """The identity of what such a write stands on; empty when there is nothing."""

    @abstractmethod
    def hold(self, request: AdmissionRequest, before: str) -> None:
        """Refuse the write when what it stands on is going, is gone, or is another one than `before`."""


class Chain:
    """Plug-ins in order. `plugins` may be added to; those in `last` only refuse, after all others. A plug-in that names
    its `kinds`, as (group, kind), is asked about no others."""

    def __init__(self, plugins: Sequence[AdmissionPlugin] = (), last: Sequence[AdmissionPlugin] = ()):
        self.plugins = list(plugins)
        self.last = list(last)
        self._asked: dict[tuple[str, str], tuple[int, list[AdmissionPlugin]]] = {}
        self._holding: dict[tuple[str, str], tuple[int, list[Holding]]] = {}

    def _of(self, kind: tuple[str, str]) -> list[AdmissionPlugin]:
        """The plug-ins to be asked about a kind, remembered until one is added."""
        count, found = self._asked.get(kind, (-1, []))
        if count != len(self.plugins):
            found = [plugin for plugin in self.plugins if kind in getattr(plugin, "kinds", (kind,))]
            self._asked[kind] = len(self.plugins), found
        return found

    async def mutate(self, request: AdmissionRequest) -> tuple[Obj | None, bool]:
        """The object after all plug-ins had their say, and whether one changed it that is not built in: what such a
        plug-in returns must be read and defaulted again."""
        foreign = False
        for plugin in self._of(request.kind):
            if plugin.handles(request):
                changed = await plugin.mutate(request)
                if changed is not request.obj:
                    request = replace(request, obj=changed)
                    foreign = foreign or not getattr(plugin, "canonical", False)
        return request.obj, foreign

    def ground(self, request: AdmissionRequest) -> list[str]:
        """What this write stands on as it begins, as the plug-ins name it that hold on to something."""
        return [plugin.ground(request) for plugin in self._that_hold(request)]

    def hold(self, request: AdmissionRequest, ground: Sequence[str]) -> None:
        """Refuse what was admitted on a `ground` that has changed since. Nothing comes between this and the store."""
        for plugin, before in zip(self._that_hold(request), ground, strict=True):
            plugin.hold(request, before)

    def _that_hold(self, request: AdmissionRequest) -> list[Holding]:
        count, found = self._holding.get(request.kind, (-1, []))
        if count != len(self.plugins):
            found = [plugin for plugin in self._of(request.kind) if isinstance(plugin, Holding)]
            self._holding[request.kind] = len(self.plugins), found
        return [plugin for plugin in found if plugin.handles(request)]

    async def validate(self, request: AdmissionRequest) -> None:
        for plugin in (*self._of(request.kind), *self.last):
            if plugin.handles(request):
                await plugin.validate(request)
