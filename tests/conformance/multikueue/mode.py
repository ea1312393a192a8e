"""How the manager of a replay is set: as it ships, or collecting news from workers for a second, as upstream does."""

from __future__ import annotations

from dataclasses import dataclass

from multikueue.facts import Obj


@dataclass(frozen=True, slots=True)
class Mode:
    """A configuration, as the manager reads it."""

    name: str
    configuration: Obj

    @property
    def is_upstream(self) -> bool:
        return self.name == "upstream"


SHIPPED = Mode("shipped", {})
"""What a user gets who configures nothing."""
UPSTREAM = Mode("upstream", {"corral": {"remoteEventBatch": "1s"}})
MODES = {mode.name: mode for mode in (SHIPPED, UPSTREAM)}
