"""A client in front of another one hands on every call of the protocol."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from corral.client.protocol import Client, ObjectList
from corral.client.wrapper import ClientWrapper
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kubernetes.core.kinds import PODS

T = TypeVar("T")
CALLS = sorted(name for name, _ in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_"))
STREAMS = ("watch", "logs")


class Target:
    """Answers whatever it is asked, and remembers it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def stream(*arguments: Any, **options: Any) -> Any:
            self.asked.append((name, arguments, options))

            async def nothing() -> Any:
                return
                yield

            return nothing()

        async def answer(*arguments: Any, **options: Any) -> Any:
            self.asked.append((name, arguments, options))
            return ObjectList([], "1") if name == "list" else {}

        return stream if name in STREAMS else answer


class Counting(ClientWrapper):
    carried = 0

    async def _carry(self, resource: Resource | None, call: Callable[[], Awaitable[T]]) -> T:
        self.carried += 1
        return await super()._carry(resource, call)

    def _there(self, resource: Resource, name: str) -> str:
        return f"{name}-there"

    def _out(self, resource: Resource, obj: Obj) -> Obj:
        return {**obj, "out": True}


def _arguments(name: str) -> tuple[list[Any], dict[str, Any]]:
    """Something for each parameter of a call; those with a name for themselves by that name."""
    known = {"resource": PODS, "obj": {"kind": "Pod"}, "name": "a"}
    positional, named = [], {}
    for parameter in list(inspect.signature(getattr(Client, name)).parameters.values())[1:]:
        value = known.get(parameter.name, f"some {parameter.name}")
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            positional.append(value)
    return positional, named


@pytest.mark.parametrize("name", CALLS)
async def test_every_call_is_handed_on_with_all_it_was_given(name: str) -> None:
    target = Target()
    client = Counting(lambda: target)  # type: ignore[arg-type, return-value]
    given, options = _arguments(name)
    called = getattr(client, name)(*given, **options)
    if name in STREAMS:
        assert [item async for item in called] == []
    else:
        await called
    there = [
        "a-there" if value == "a" and name != "logs" else {**value, "out": True} if isinstance(value, dict) else value
        for value in given
    ]
    assert target.asked == [(name, tuple(there), options)]
    assert client.carried == (0 if name in (*STREAMS, "close") else 1)
