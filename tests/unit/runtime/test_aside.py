"""Work beside the event loop: its outcome comes back, owners take turns, and nothing starts before there is work."""

from __future__ import annotations

import asyncio
import threading

import pytest

from corral.runtime.aside import Aside


async def test_work_is_done_in_another_thread_and_its_outcome_comes_back() -> None:
    aside = Aside()
    assert await aside.run("a", threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await aside.run("a", lambda: 1 // 0)
    aside.close()


async def test_an_owner_with_much_work_does_not_keep_another_one_waiting() -> None:
    aside, order = Aside(), list[str]()
    work = [aside.run(owner, order.append, owner) for owner in ("a", "a", "a", "a", "b", "c")]
    await asyncio.gather(*work)
    assert order == ["a", "a", "b", "c", "a", "a"]
    aside.close()


async def test_work_nobody_waits_for_any_more_is_not_begun() -> None:
    aside, order, may_end = Aside(), list[str](), threading.Event()
    first = asyncio.create_task(aside.run("a", may_end.wait))
    left = asyncio.create_task(aside.run("a", order.append, "left"))
    last = asyncio.create_task(aside.run("a", order.append, "last"))
    await asyncio.sleep(0)
    left.cancel()
    may_end.set()
    await asyncio.gather(first, last)
    assert order == ["last"]
    aside.close()
