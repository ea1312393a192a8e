"""ResourceQuotas hold also against those who ask at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from corral.core.admission import UserInfo
from corral.core.errors import Forbidden
from corral.jobs.framework.served_kinds import builtin_registry
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES, RESOURCE_QUOTAS
from corral.runtime.clock import WallClock
from corral.runtime.random import Random
from corral.server.api import Api
from corral.store import ObjectKey, SqliteJournal, Store

ADMIN = UserInfo("admin", ("system:masters",))


async def test_of_many_that_ask_at_once_no_more_are_admitted_than_there_is_room_for(tmp_path: Path) -> None:
    store = Store(SqliteJournal(tmp_path / "store.db"), now=lambda: 0.0)
    api = Api(store, builtin_registry(), clock=WallClock(), random=Random())
    await api.create(ADMIN, NAMESPACES, "", {"metadata": {"name": "small"}})
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "5"}}}
    await api.create(ADMIN, RESOURCE_QUOTAS, "small", quota)
    key = ObjectKey("resourcequotas", "small", "q")
    counted = store.get(key)
    assert counted is not None
    await store.put(key, {**counted.obj, "status": {"hard": {"configmaps": "5"}, "used": {"configmaps": "0"}}})
    asked = [api.create(ADMIN, CONFIG_MAPS, "small", {"metadata": {"name": f"c{number}"}}) for number in range(20)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    refused = [each for each in outcomes if isinstance(each, Forbidden)]
    assert len(refused) == 15
    assert store.count("configmaps", "small") == 5
    kept = store.get(key)
    assert kept is not None
    assert kept.obj["status"]["used"] == {"configmaps": "5"}
    await store.close()
