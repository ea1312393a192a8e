"""Which changes of a watched object concern a controller: mostly all but the reports it writes there itself."""

from __future__ import annotations

from collections.abc import Callable

from corral.core.meta import Obj

Predicate = Callable[[Obj | None, Obj | None], bool]


def changed(*parts: Callable[[Obj], object]) -> Predicate:
    """True for objects that come or go, and for those of which one of `parts` is not what it was; what changes most is best named first."""

    def predicate(old: Obj | None, new: Obj | None) -> bool:
        if old is None or new is None:
            return True
        for part in parts:  # noqa: SIM110 - asked for every change of every object, and `any` costs half as much again
            if part(old) != part(new):
                return True
        return False

    return predicate
