"""The admission chain: every plug-in may change a write, then every plug-in may refuse it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from corral.core.admission import AdmissionPlugin, AdmissionRequest
from corral.core.meta import Obj


class Chain:
    """Plug-ins in order. `plugins` may be added to; those in `last` only refuse, after all others. A plug-in that names
    its `kinds`, as (group, kind), is asked about no others."""

    def __init__(self, plugins: Sequence[AdmissionPlugin] = (), last: Sequence[AdmissionPlugin] = ()):
        self.plugins = list(plugins)
        self.last = list(last)
        self._asked: dict[tuple[str, str], tuple[int, list[AdmissionPlugin]]] = {}

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

    def hold(self, request: AdmissionRequest) -> None:
        """Refuse what was admitted when something that a plug-in holds on to has changed since. Nothing comes between this and the store."""
        for plugin in self._of(request.kind):
            hold: Callable[[AdmissionRequest], None] | None = getattr(plugin, "hold", None)
            if hold is not None and plugin.handles(request):
                hold(request)

    async def validate(self, request: AdmissionRequest) -> None:
        for plugin in (*self._of(request.kind), *self.last):
            if plugin.handles(request):
                await plugin.validate(request)
