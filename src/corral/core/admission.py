"""The admission interface: what a plug-in sees of a write, and what it may do to it.

The server runs plug-ins in order: every `mutate`, then every `validate`. Remote webhooks are one plug-in; Corral's own
rules are others, and the same plug-ins can be served to a real Kubernetes as webhooks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from corral.core.meta import Obj
from corral.core.resource import Resource


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who is asking."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = field(default_factory=dict)


ANONYMOUS = UserInfo("system:anonymous", ("system:unauthenticated",))
"""Who asks without credentials."""

SERVER = UserInfo("system:apiserver", ("system:masters", "system:authenticated"))
"""The API server itself, which makes what every cluster has from the start. Controllers have identities of their own."""


def ignore_warning(message: str) -> None:
    """The sink of warnings nobody asked for."""


@dataclass(slots=True)  # frozen would make it four times as dear, and every write makes two
class AdmissionRequest:
    """One write on its way into the store. `obj` is None on DELETE, `old` is None on CREATE; nothing may be mutated."""

    operation: str  # CREATE, UPDATE, DELETE, CONNECT
    resource: Resource
    subresource: str
    namespace: str
    name: str
    user: UserInfo
    obj: Obj | None
    old: Obj | None
    dry_run: bool = False
    warn: Callable[[str], None] = ignore_warning

    @property
    def kind(self) -> tuple[str, str]:
        return self.resource.group, self.resource.kind


class AdmissionPlugin(Protocol):
    """One rule or set of rules over writes.

    A plug-in that only changes, or only refuses, some of what it handles may say so with methods `changes(request)` and
    `refuses(request)`: as a webhook it is then called for those writes alone."""

    name: str

    def handles(self, request: AdmissionRequest) -> bool:
        """Cheap test whether this plug-in cares about the request."""
        ...

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        """The object to store instead of `request.obj`; return `request.obj` itself when nothing changes."""
        ...

    async def validate(self, request: AdmissionRequest) -> None:
        """Raise ApiError to refuse the write."""
        ...


def may_change(plugin: AdmissionPlugin, request: AdmissionRequest) -> bool:
    """Whether a plug-in may change such a write; only the kind of write is looked at."""
    changes: Callable[[AdmissionRequest], bool] = getattr(plugin, "changes", plugin.handles)
    return plugin.handles(request) and changes(request)


def may_refuse(plugin: AdmissionPlugin, request: AdmissionRequest) -> bool:
    """Whether a plug-in may refuse such a write; only the kind of write is looked at."""
    refuses: Callable[[AdmissionRequest], bool] = getattr(plugin, "refuses", plugin.handles)
    return plugin.handles(request) and refuses(request)
