"""What keeps the pods of an admitted job from running, or ended them before their time: read from their statuses and events. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from corral.core import conditions
from corral.core.meta import Obj, name_of, spec_of, status_of

USUAL: Final = (None, "ContainerCreating", "PodInitializing")
PROGRAM_FAILED: Final = "Error"
"""The reason of a container whose program ended with another code than 0 by itself."""
FAMILIES: Final = {"ImagePullBackOff": "ErrImagePull"}
"""Reasons that take turns while one and the same thing is wrong."""
RETOLD: Final = ("ErrImagePull", "CrashLoopBackOff")
"""Reasons whose text is another with every try."""
NUMBER: Final = re.compile(r"\d+")

Sort = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong with one pod."""

    about: str
    """`pod train-x`"""
    part: str
    """`container main`; nothing where it is the pod itself."""
    reason: str
    message: str = ""
    exit_code: int = 0
    is_over: bool = False
    """The pod has ended with it: nothing is kept from running any more."""

    @property
    def cause(self) -> str:
        return ": ".join(filter(None, (self.reason, self.message)))

    @property
    def text(self) -> str:
        """What is wrong, without who it is about."""
        if not self.exit_code:
            return self.cause
        return f"{self.reason}, exit code {self.exit_code}" + (f": {self.message}" if self.message else "")

    @property
    def sort(self) -> Sort:
        """What it has in common with that of other pods, and with itself a moment later: numbers of nodes and seconds change."""
        family = FAMILIES.get(self.reason, self.reason)
        return self.part, family, "" if family in RETOLD else f"{self.exit_code} {NUMBER.sub('N', self.message)}"

    @property
    def word(self) -> str:
        """The same in a word that does not change while it is wrong."""
        return "no node" if self.reason == "Unschedulable" else self.sort[1]

    def __str__(self) -> str:
        if self.reason == "Unschedulable":
            return f"{self.about} has no node: {self.message}"
        return ": ".join(filter(None, (", ".join(filter(None, (self.about, self.part))), self.text)))


def troubles_of(pods: Iterable[Obj]) -> list[Trouble]:
    """What is wrong with some pods, in their order; a manager shows those of its workers."""
    return [trouble for pod in pods for trouble in _of_pod(pod)]


def trouble_of_events(about: str, events: Sequence[Obj]) -> Trouble | None:
    """What is told of an object that shows nothing itself: a volume that cannot be mounted, pods that may not be made."""
    warnings = [event for event in events if event.get("type") == "Warning"]
    latest = max(
        warnings, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""), default={}
    )
    message = str(latest.get("message") or "").strip()
    return Trouble(about, "", str(latest.get("reason")), message) if message else None


def unscheduled(pod: Obj) -> str:
    """Why no node takes a pod; nothing for one that has a node or is not looked at."""
    scheduled = conditions.find(pod, "PodScheduled") or {}
    gated = scheduled.get("reason") == "SchedulingGated"
    return str(scheduled.get("message") or "") if scheduled.get("status") == "False" and not gated else ""


def has_ended(pod: Obj) -> bool:
    """Whether nothing of a pod runs any more."""
    return status_of(pod).get("phase") in ("Succeeded", "Failed")


def is_held_up(pod: Obj) -> bool:
    """Whether a node has a pod and did not start it yet: if its status does not say why, its events may."""
    return status_of(pod).get("phase") in (None, "Pending") and bool(spec_of(pod).get("nodeName"))


def _of_pod(pod: Obj) -> list[Trouble]:
    about, status = f"pod {name_of(pod)}", status_of(pod)
    is_over = has_ended(pod)
    if why := unscheduled(pod):
        return [Trouble(about, "", "Unschedulable", why)]
    if status.get("phase") == "Failed" and (reason := str(status.get("reason") or "")):
        return [Trouble(about, "", reason, str(status.get("message") or ""), is_over=is_over)]
    entries = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return [trouble for entry in entries if (trouble := _of_container(about, entry, is_over=is_over)) is not None]


def _of_container(about: str, entry: Obj, *, is_over: bool) -> Trouble | None:
    """Why a container does not run, or how it failed."""
    part, state = f"container {entry['name']}", entry.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    if waiting and (waiting.get("reason") not in USUAL or waiting.get("message")):
        before = _failure(about, part, (entry.get("lastState") or {}).get("terminated") or {})
        last = f"before it ended with {before.text}" if before is not None else ""
        message = "; ".join(filter(None, (str(waiting.get("message") or ""), last)))
        return Trouble(about, part, str(waiting.get("reason") or ""), message, is_over=is_over)
    return _failure(about, part, ended, is_over=is_over)


def _failure(about: str, part: str, ended: Obj, *, is_over: bool = False) -> Trouble | None:
    if not (code := ended.get("exitCode")):
        return None
    return Trouble(about, part, str(ended.get("reason") or ""), str(ended.get("message") or ""), int(code), is_over)
