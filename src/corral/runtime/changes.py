"""Which changes of a watched object concern a controller: mostly all but the reports it writes there itself."""

from __future__ import annotations

from collections.abc import Callable

from corral.core.meta import Obj

Predicate = Callable[[Obj | None, Obj | None], bool]


def changed(*parts: Callable[[Obj], object]) -> Predicate:
    """True for objects that come or go, and for those of which one of `parts` is not what it was."""

    def predicate(old: Obj | None, new: Obj | None) -> bool:
        return old is None or new is None or any(part(old) != part(new) for part in parts)

    return predicate
