"""Where the steps of a request are done: those over large objects beside the event loop, all others at once.

Reading, defaulting, owning fields and checking take time in proportion to the object, some of them much for each of its values.
What they work on is private to the request or never changes, so another thread may do it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from corral.runtime.aside import Aside
from corral.server.verbs.intake import Writing
from corral.store import Stored

LONG_BODY = 8 * 1024
"""From this size on nobody knows what a body costs: a kilobyte can be three hundred containers with nothing in them."""
LONG_OBJECT = 128 * 1024
"""What is stored has been checked once, and costs less for its size."""
P = ParamSpec("P")
T = TypeVar("T")


class Steps:
    """Does the steps of requests. Without `aside`, as in simulations, all of them at once."""

    def __init__(self, aside: Aside | None = None) -> None:
        self._aside = aside

    async def read(self, owner: str, size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A step over a body of `size` bytes that `owner` has sent."""
        if self._aside is None or size <= LONG_BODY:
            return function(*args, **kwargs)
        return await self._aside.run(owner, function, *args, **kwargs)

    def weighed(self, writing: Writing, current: Stored | None = None) -> Writing:
        """`writing`, knowing whether it is heavy: by what was sent, or by the stored object it is about."""
        if writing.heavy or self._aside is None:
            return writing
        heavy = writing.options.size > LONG_BODY or (current is not None and current.encoded_size() > LONG_OBJECT)
        return writing._replace(heavy=True) if heavy else writing

    async def do(self, writing: Writing, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """One step of a write that has been weighed."""
        if self._aside is None or not writing.heavy:
            return function(*args, **kwargs)
        return await self._aside.run(writing.user.name, function, *args, **kwargs)
