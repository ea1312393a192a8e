"""The DaemonSet operator: one pod on every node that may have one."""

from __future__ import annotations

from corral.core.errors import ApiError
from corral.core.meta import Key, Obj, controller_of, labels_of, namespace_of, spec_of, status_of, with_status
from corral.core.selectors import from_label_selector
from corral.decide.apps.daemonset import REVISION, daemon_status, plan_daemons
from corral.decide.apps.replicaset import until_available
from corral.jobs.framework.child_objects import MANAGER, Children, slow_start, typed
from corral.jobs.framework.expectations import Expectations
from corral.jobs.framework.ownership import controlled_by, index_by_controller
from corral.jobs.framework.template_history import History
from corral.kinds.kubernetes.apps.kinds import DAEMON_SETS
from corral.kinds.kubernetes.core.kinds import NODES, PODS
from corral.runtime.controller import Manager, Result, Watch, owner_key


class DaemonSetController:
    """Runs apps/v1 DaemonSets."""

    name = "daemonset"

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._sets = manager.informer(DAEMON_SETS)
        self._pods = manager.informer(PODS)
        self._nodes = manager.informer(NODES)
        index_by_controller(self._pods)
        self._pods.add_index("uncontrolled", lambda pod: [] if controller_of(pod) else [namespace_of(pod)])
        recorder = manager.recorder.named("daemonset-controller")
        self._children = Children(self._client, recorder, PODS, MANAGER)
        self._expectations = Expectations(self._pods, self._clock)
        self._history = History(self._client, manager, MANAGER)
        watches = [
            Watch(DAEMON_SETS),
            Watch(PODS, map=owner_key("DaemonSet", "apps")),
            Watch(NODES, map=self._all_keys, when=_changes_eligibility),
        ]
        manager.add(self, watches=watches, workers=2)

    def _all_keys(self, node: Obj) -> list[Key]:
        return [Key(namespace_of(entry), entry["metadata"]["name"]) for entry in self._sets.list()]

    async def reconcile(self, key: Key) -> Result | None:
        found = self._sets.get(key)
        if found is None:
            self._expectations.forget(key)
            return None
        if not self._expectations.met(key):
            return None
        daemon_set = typed(found, "apps/v1", "DaemonSet")
        selector = from_label_selector(spec_of(daemon_set).get("selector"))
        candidates = controlled_by(self._pods, daemon_set)
        candidates += self._pods.by_index("uncontrolled", key.namespace)
        pods = await self._children.claim(daemon_set, selector, candidates)
        nodes, now = self._nodes.list(), self._clock.now()
        revision = (await self._history.note(daemon_set)).rpartition("-")[2]
        plan = plan_daemons(daemon_set, pods, nodes, revision, now)

        async def make(body: Obj) -> Obj:
            pod = await self._children.create(daemon_set, body)
            self._expectations.made(key, pod)
            return pod

        _, failure = await slow_start(plan.create, make)
        for pod in plan.delete:
            self._expectations.removing(key, pod)
            try:
                await self._children.delete(daemon_set, pod)
            except ApiError as error:
                self._expectations.give_up(key, pod)
                failure = failure or error
        status = daemon_status(daemon_set, pods, nodes, revision, now)
        live = {f"{key.name}-{labels_of(pod).get(REVISION)}" for pod in pods}
        await self._history.forget(daemon_set, {f"{key.name}-{revision}", *live})
        if status != status_of(daemon_set):
            changed = with_status(daemon_set, status)
            await self._client.update(DAEMON_SETS, changed, subresource="status", manager=MANAGER)
        if failure is not None:
            raise failure
        minimum = float(spec_of(daemon_set).get("minReadySeconds") or 0)
        return Result(until_available(pods, minimum, now))


def _changes_eligibility(old: Obj | None, new: Obj | None) -> bool:
    if old is None or new is None:
        return True
    return (old["metadata"].get("labels"), spec_of(old).get("taints")) != (
        new["metadata"].get("labels"),
        spec_of(new).get("taints"),
    )
