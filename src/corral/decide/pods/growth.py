"""How fast a job of very many replicas grows.

A manifest may ask for two billion replicas, and one look may not plan them all. It plans a step; the next one follows
after a pause, and none while as many as anybody could use have not started yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from corral.core.meta import Obj

STEP = 500
"""Children made at a time, as Kubernetes makes pods of a Job."""
PAUSE_S = 1.0
MOST_WAITING = 5000
"""Children that were made and have not started: more of them would wait as well."""


def at_once(room: int, waiting: int) -> int:
    """How many children to make now, where `room` are allowed and so many made before are `waiting`."""
    return max(0, min(room, MOST_WAITING - waiting))


def first(items: Iterable[Obj], count: int) -> list[Obj]:
    """At most `count` of `items`; no more are looked at."""
    return list(islice(items, count))
