"""What a cluster in this process is asked to do: writes by kind, subresource and operation, reconciles by controller and
how many of them wrote nothing.

    counts = Counts()
    counts.follow(api, manager)
    ...
    counts.print(per=1000)

Only for finding out where time goes: it looks over the API's shoulder and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Any

from corral.runtime.controller import Controller, Manager
from corral.server.api import Api

_asked: ContextVar[list[int]] = ContextVar("asked", default=[0])  # noqa: B039  # of whoever is not a reconcile nobody asks


class Counts:
    """Writes that made a revision, writes that changed nothing, reconciles, and reconciles that asked for no write."""

    def __init__(self) -> None:
        self.writes: Counter[str] = Counter()
        self.reconciles: Counter[str] = Counter()
        self.idle: Counter[str] = Counter()

    def follow(self, api: Api, *managers: Manager, name: str = "") -> None:
        prefix = f"{name} " if name else ""
        for verb, resource_at, subresource_at in (
            ("create", 1, 0),
            ("update", 1, 6),
            ("patch", 1, 7),
            ("delete", 1, 0),
        ):
            self._wrap(api, verb, resource_at, subresource_at, prefix)
        for manager in managers:
            for controller in _controllers(manager):
                self._wrap_reconciles(controller, prefix)

    def _wrap(self, api: Api, verb: str, resource_at: int, subresource_at: int, prefix: str) -> None:
        call: Callable[..., Awaitable[Any]] = getattr(api, verb)

        async def counted(*args: Any, **options: Any) -> Any:
            subresource = options.get("subresource") or (
                args[subresource_at] if subresource_at and len(args) > subresource_at else ""
            )
            what = f"{prefix}{args[resource_at].plural}{'/' + subresource if subresource else ''} {verb}"
            before = api.store.revision
            _asked.get()[0] += 1
            try:
                answer = await call(*args, **options)
            except Exception as error:
                self.writes[f"{what} {type(error).__name__}"] += 1
                raise
            self.writes[what if api.store.revision != before else f"{what} (nothing changed)"] += 1
            return answer

        setattr(api, verb, counted)

    def _wrap_reconciles(self, controller: Controller, prefix: str) -> None:
        reconcile = controller._reconcile

        async def counted(key: Any) -> None:
            self.reconciles[prefix + controller.name] += 1
            asked = [0]
            token = _asked.set(asked)
            try:
                await reconcile(key)
            finally:
                _asked.reset(token)
            if not asked[0]:
                self.idle[prefix + controller.name] += 1

        controller._reconcile = counted  # type: ignore[method-assign]

    def print(self, per: int) -> None:
        """Both tables, per one of `per` things done."""
        tables = ("writes", self.writes), ("reconciles", self.reconciles), ("of them without a write", self.idle)
        for title, counter in tables:
            print(f"{title}: {counter.total() / per:.2f} each")
            for what, count in sorted(counter.items(), key=lambda entry: -entry[1]):
                if count * 50 >= per:
                    print(f"  {count / per:6.2f}  {what}")


def _controllers(manager: Manager) -> Iterator[Controller]:
    """Those of a manager, and those that share its caches under identities of their own."""
    yield from manager.controllers
    for acting in manager._acting:
        yield from _controllers(acting)
