"""How jobs end, for those who place them without queueing them: the answers of the adapters, by kind."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.jobs.framework.registry import adapter_for


class KnownEndings:
    """The ends of every kind with an adapter."""

    def knows(self, group: str, kind: str) -> bool:
        adapter = adapter_for(Resource(group, "", "", kind))
        return adapter is not None and adapter.ends

    def success(self, job: Obj) -> bool | None:
        group = str(job.get("apiVersion", "")).rpartition("/")[0]
        adapter = adapter_for(Resource(group, "", "", str(job.get("kind"))))
        finish = adapter.finished(job) if adapter is not None else None
        return finish.success if finish is not None else None


ENDINGS = KnownEndings()
