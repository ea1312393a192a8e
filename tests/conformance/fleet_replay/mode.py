"""How the hub and the members of a replay are set: as they ship, or with everything as upstream does it."""

from __future__ import annotations

from dataclasses import dataclass

from corral.configuration.member import MemberSettings, member_settings
from corral.configuration.placement import PlacementSettings, placement_settings


@dataclass(frozen=True, slots=True)
class Mode:
    """The settings that a configuration leads to, read as `corral up` reads it."""

    name: str
    placement: PlacementSettings
    member: MemberSettings

    @property
    def is_upstream(self) -> bool:
        return self.name == "upstream"


def _mode(name: str, *, upstream: bool) -> Mode:
    configuration = {"placement": {"upstream": True}, "member": {"upstream": True}} if upstream else {}
    return Mode(name, placement_settings(configuration), member_settings(configuration))


SHIPPED = _mode("shipped", upstream=False)
"""What a user gets who configures nothing."""
UPSTREAM = _mode("upstream", upstream=True)
MODES = {mode.name: mode for mode in (SHIPPED, UPSTREAM)}
