"""The ReplicaSet operator: keeps the wanted number of pods alive."""

from __future__ import annotations

from corral.core.errors import ApiError
from corral.core.meta import Key, Obj, controller_of, namespace_of, spec_of, status_of, with_status
from corral.core.selectors import from_label_selector
from corral.decide.apps.replicaset import plan_replicas, replica_status, until_available
from corral.jobs.framework.child_objects import MANAGER, Children, slow_start, typed
from corral.jobs.framework.expectations import Expectations
from corral.jobs.framework.ownership import controlled_by, index_by_controller
from corral.kinds.kubernetes.apps.kinds import REPLICA_SETS
from corral.kinds.kubernetes.core.kinds import PODS
from corral.runtime.controller import Manager, Result, Watch, owner_key


class ReplicaSetController:
    """Runs apps/v1 ReplicaSets."""

    name = "replicaset"

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._sets = manager.informer(REPLICA_SETS)
        self._pods = manager.informer(PODS)
        index_by_controller(self._pods)
        self._pods.add_index("uncontrolled", lambda pod: [] if controller_of(pod) else [namespace_of(pod)])
        recorder = manager.recorder.named("replicaset-controller")
        self._children = Children(self._client, recorder, PODS, MANAGER)
        self._expectations = Expectations(self._pods, self._clock)
        watches = [Watch(REPLICA_SETS), Watch(PODS, map=owner_key("ReplicaSet", "apps"))]
        manager.add(self, watches=watches, workers=5)

    async def reconcile(self, key: Key) -> Result | None:
        found = self._sets.get(key)
        if found is None:
            self._expectations.forget(key)
            return None
        replica_set = typed(found, "apps/v1", "ReplicaSet")
        if not self._expectations.met(key):
            return None
        selector = from_label_selector(spec_of(replica_set).get("selector"))
        candidates = controlled_by(self._pods, replica_set)
        candidates += self._pods.by_index("uncontrolled", key.namespace)
        pods = await self._children.claim(replica_set, selector, candidates)
        failure = await self._act(key, replica_set, pods)
        await self._report(replica_set, pods, failure)
        if failure is not None:
            raise failure
        minimum = float(spec_of(replica_set).get("minReadySeconds") or 0)
        return Result(until_available(pods, minimum, self._clock.now()))

    async def _act(self, key: Key, replica_set: Obj, pods: list[Obj]) -> ApiError | None:
        plan = plan_replicas(replica_set, pods)

        async def make(body: Obj) -> Obj:
            pod = await self._children.create(replica_set, body)
            self._expectations.made(key, pod)
            return pod

        _, failure = await slow_start(plan.create, make)
        for pod in plan.delete:
            self._expectations.removing(key, pod)
            try:
                await self._children.delete(replica_set, pod)
            except ApiError as error:
                self._expectations.give_up(key, pod)
                failure = failure or error
        return failure

    async def _report(self, replica_set: Obj, pods: list[Obj], failure: ApiError | None) -> None:
        status = replica_status(replica_set, pods, self._clock.now(), failure.message if failure else "")
        if status != status_of(replica_set):
            changed = with_status(replica_set, status)
            await self._client.update(REPLICA_SETS, changed, subresource="status", manager=MANAGER)
