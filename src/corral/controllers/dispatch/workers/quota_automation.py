"""Keeps the quota of ClusterQueues that dispatch in line with what their workers have, where that is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from corral.controllers.dispatch.workers.admission_checks import config_name
from corral.controllers.dispatch.workers.remotes import Remotes
from corral.core.conditions import condition, conditions_of, set_condition
from corral.core.meta import Key, Obj, generation_of, key_of, spec_of, with_spec
from corral.decide.dispatch.quota import CONDITION, QuotaVerdict, automated
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTI_KUEUE_CLUSTERS,
    MULTI_KUEUE_CONFIGS,
    names,
)
from corral.runtime.controller import Controller, Manager, Watch


class QuotaAutomation:
    """Writes the quota and the condition that tells about it."""

    name = "multikueue_clusterqueue"

    def __init__(self, manager: Manager, remotes: Remotes) -> None:
        self._remotes = remotes
        self._manager = manager
        self._queues = manager.informer(CLUSTER_QUEUES)
        self._local_queues = manager.informer(LOCAL_QUEUES)
        self._checks = manager.informer(ADMISSION_CHECKS)
        self._configs = manager.informer(MULTI_KUEUE_CONFIGS)
        others = (LOCAL_QUEUES, ADMISSION_CHECKS, MULTI_KUEUE_CONFIGS, MULTI_KUEUE_CLUSTERS)
        watches = [Watch(CLUSTER_QUEUES), *(Watch(resource, map=self._all) for resource in others)]
        self._controller: Controller = manager.add(self, watches=watches)

    def queues_changed(self, cluster: str) -> None:
        """A worker's queues are others now."""
        for key in self._all({}):
            self._controller.queue.add(key)

    def _all(self, _: Obj) -> Iterable[Key]:
        return [key_of(queue) for queue in self._queues.list() if self._check_of(queue) is not None]

    async def reconcile(self, key: Key) -> None:
        queue = self._queues.get(key)
        check = self._check_of(queue) if queue is not None else None
        if queue is None or check is None:
            return
        config = self._configs.get(Key("", config_name(check)))
        workers = spec_of(config).get("clusters") or () if config is not None else ()
        verdict = automated(queue, config, list(self._behind(key.name, workers)))
        client = self._manager.client
        if verdict.spec is not None and verdict.spec != spec_of(queue):
            queue = await client.update(CLUSTER_QUEUES, with_spec(queue, verdict.spec), manager=names.QUEUEING_MANAGER)
        await self._report(queue, verdict)

    async def _report(self, queue: Obj, verdict: QuotaVerdict) -> None:
        entry = condition(CONDITION, verdict.ok, verdict.reason, verdict.message, generation_of(queue))
        held = conditions_of(queue)
        updated = set_condition(held, entry, self._manager.clock.timestamp())
        if updated != held:
            patch = {"metadata": {"resourceVersion": queue["metadata"]["resourceVersion"]}}
            await self._manager.client.patch(
                CLUSTER_QUEUES,
                key_of(queue).name,
                "",
                {**patch, "status": {"conditions": updated}},
                subresource="status",
                manager=names.QUEUEING_MANAGER,
            )

    def _check_of(self, queue: Obj) -> Obj | None:
        """The check by which a ClusterQueue dispatches."""
        strategy = spec_of(queue).get("admissionChecksStrategy") or {}
        for rule in strategy.get("admissionChecks") or []:
            check = self._checks.get(Key("", rule["name"]))
            if check is not None and spec_of(check).get("controllerName") == names.MULTIKUEUE_CONTROLLER:
                return check
        return None

    def _behind(self, name: str, workers: Iterable[str]) -> Iterator[Obj]:
        """The workers' ClusterQueues behind the LocalQueues that lead to a ClusterQueue of the manager, each once."""
        local = [key_of(queue) for queue in self._local_queues.list() if spec_of(queue).get("clusterQueue") == name]
        for worker in self._remotes.distinct(list(workers)):
            remote = self._remotes.get(worker)
            if remote is None or not remote.connected or remote.local_queues is None or remote.cluster_queues is None:
                continue
            found = (remote.local_queues.get(key) for key in local)
            queues = {str(spec_of(queue).get("clusterQueue")): None for queue in found if queue is not None}
            yield from (queue for name in queues if (queue := remote.cluster_queues.get(Key("", name))) is not None)
