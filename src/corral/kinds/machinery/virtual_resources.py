"""Read-only virtual resources that other rooms mount: metrics, visibility of queues and the like.

Nothing of them is stored; the implementation computes them when asked. Authorization, discovery, tables and OpenAPI come
from the server, as for any other kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from corral.core.admission import UserInfo
from corral.core.meta import Obj
from corral.core.selectors import Selector
from corral.kinds.machinery.definition import KindDef


@dataclass(frozen=True, slots=True)
class ExtraRequest:
    """What is being read; `name` is empty for a list, `version` is the one in the URL."""

    kind: KindDef
    version: str
    namespace: str
    name: str
    subresource: str
    user: UserInfo
    labels: Selector | None
    query: Mapping[str, str]


class ExtraApi(Protocol):
    """One group of virtual resources. `kinds` declares them; their verbs say what may be asked."""

    kinds: Sequence[KindDef]

    async def get(self, request: ExtraRequest) -> Obj:
        """One object, or a subresource of it; raise core.errors.not_found when there is none."""
        ...

    async def list(self, request: ExtraRequest) -> list[Obj]:
        """All objects of a namespace ("" for all), matching `request.labels` if given."""
        ...
