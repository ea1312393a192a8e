"""What one look at a JobSet decides."""

from __future__ import annotations

from dataclasses import dataclass

from corral.core.meta import (
    Obj,
)

Event = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class JobSetPlan:
    """Everything one look decides. Status first says what happened, then children follow."""

    status: Obj
    delete: tuple[Obj, ...] = ()
    create: tuple[Obj, ...] = ()
    suspend: tuple[Obj, ...] = ()
    """Child Jobs to suspend."""
    resume: tuple[Obj, ...] = ()
    """Child Jobs as they should be once resumed; their start time is cleared first."""
    service: Obj | None = None
    claims: tuple[Obj, ...] = ()
    expire: bool = False
    """The JobSet itself is to be deleted now."""
    wait_s: float | None = None
    events: tuple[Event, ...] = ()
