"""The LeaderWorkerSet operator: leaders and their workers as StatefulSets."""

from __future__ import annotations

from corral.core import conditions
from corral.core.errors import AlreadyExists, NotFound
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    is_deleting,
    is_owned_by,
    labels_of,
    name_of,
    namespace_of,
    owner_references_of,
    spec_of,
    status_of,
    uid_of,
    with_status,
)
from corral.core.resource import Resource
from corral.decide.pods.growth import STEP
from corral.jobs.framework.child_objects import typed
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.framework.template_history import History
from corral.jobs.leader_worker_set.kind import (
    GROUP,
    LEADER_NAME,
    LEADER_WORKER_SETS,
    NAME,
    REVISION,
    WORKER_INDEX,
    replicas_of,
)
from corral.jobs.leader_worker_set.plan import (
    group_of,
    group_states,
    leader_set,
    plan_groups,
    revision_of,
    services,
    versioned,
)
from corral.jobs.leader_worker_set.rollout import Groups, first_step, next_step
from corral.jobs.stateful_set.plan import ordinal_of
from corral.kinds.kubernetes.apps.kinds import DISPATCHED, STATEFUL_SETS
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES
from corral.runtime.controller import Manager, PermanentError, Result, Watch, owner_key

MANAGER = "lws"


def _set_key(obj: Obj) -> list[Key]:
    """The LeaderWorkerSet a pod or StatefulSet belongs to."""
    name = labels_of(obj).get(NAME)
    return [Key(namespace_of(obj), name)] if name else []


class LeaderWorkerSetController:
    """Runs leaderworkerset.x-k8s.io LeaderWorkerSets."""

    name = "leaderworkerset"

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._lws = manager.informer(LEADER_WORKER_SETS)
        self._stateful = manager.informer(STATEFUL_SETS)
        self._services = manager.informer(SERVICES)
        self._pods = manager.informer(PODS)
        self._pods.add_index("lws", lambda pod: map(str, _set_key(pod)))
        self._history = History(self._client, manager, MANAGER)
        self._recorder = manager.recorder.named("leaderworkerset-controller")
        watches = [
            Watch(LEADER_WORKER_SETS),
            Watch(STATEFUL_SETS, map=_set_key),
            Watch(PODS, map=_set_key),
            Watch(SERVICES, map=owner_key("LeaderWorkerSet", GROUP), when=lambda old, new: new is None),
        ]
        manager.add(self, watches=watches, workers=2)

    async def reconcile(self, key: Key) -> Result | None:
        found = self._lws.get(key)
        if found is None or is_deleting(found):
            return None
        lws = typed(found, LEADER_WORKER_SETS.api_version, "LeaderWorkerSet")
        held = self._stateful.get(key)
        if held is not None and not is_owned_by(held, uid_of(lws)):
            self._refuse(lws, held)
        groups = max(replicas_of(lws), int(spec_of(held).get("replicas") or 0) if held is not None else 0)
        leaders = self._leaders(key, groups)
        # A group's service is there before its leader; of very many groups only the next ones come soon.
        soon = min(groups, max(map(group_of, leaders), default=0) + 1 + STEP)
        for service in services(lws, soon):
            if self._services.get(Key(key.namespace, name_of(service))) is None:
                await self._create(SERVICES, service)
        workers, sets = self._members(key, leaders)
        await self._ensure_leaders(lws, held, group_states(lws, leaders, sets, groups))
        plan = plan_groups(lws, leaders, workers, sets, self._clock.now(), await self._older(lws, leaders))
        for body in plan.worker_sets:
            await self._create(STATEFUL_SETS, body)
        for leader in plan.recreate:
            await self._recreate(lws, leader, sets.get(name_of(leader)))
        is_remote = conditions.is_true(lws, DISPATCHED)  # its status comes from the worker that runs it
        if plan.status is not None and plan.status != status_of(lws) and not is_remote:
            changed = with_status(lws, plan.status)
            await self._client.update(LEADER_WORKER_SETS, changed, subresource="status", manager=MANAGER)
        return None

    async def _older(self, lws: Obj, leaders: list[Obj]) -> dict[str, Obj]:
        """The templates of older revisions by their hash; those no leader is of are forgotten."""
        current = await self._history.note(lws, versioned(lws), "leaderWorkerTemplate")
        used = {f"{name_of(lws)}-{labels_of(leader).get(REVISION)}" for leader in leaders}
        await self._history.forget(lws, {current, *used})
        found = {}
        for entry in self._history.of(lws):
            template = {
                key: value for key, value in entry["data"]["spec"]["leaderWorkerTemplate"].items() if key[0] != "$"
            }
            found[name_of(entry).rpartition("-")[2]] = template
        return found

    async def _create(self, resource: Resource, body: Obj) -> None:
        try:
            await self._client.create(resource, body, manager=MANAGER)
        except AlreadyExists:
            return

    def _refuse(self, lws: Obj, held: Obj) -> None:
        """Who may create StatefulSets can be there first: theirs is neither used nor changed."""
        text = f'StatefulSet "{name_of(held)}" already exists and belongs to somebody else'
        self._recorder.event(lws, "Warning", "FailedCreate", text)
        raise PermanentError(text)

    async def _ensure_leaders(self, lws: Obj, held: Obj | None, states: Groups) -> None:
        if held is None:
            await self._create(STATEFUL_SETS, leader_set(lws, first_step(lws)))
            return
        outdated = labels_of(held).get(REVISION) != revision_of(lws)
        wanted = leader_set(lws, next_step(lws, held, states, changed=outdated))
        changes = {
            field: wanted["spec"][field]
            for field in ("replicas", "updateStrategy")
            if spec_of(held).get(field) != wanted["spec"][field]
        }
        if outdated:
            changes["template"] = wanted["spec"]["template"]
        marks = {**annotations_of(held), **wanted["metadata"]["annotations"]}
        if changes or marks != annotations_of(held):
            labels = {**labels_of(held), **wanted["metadata"]["labels"]}
            metadata = {**held["metadata"], "labels": labels, "annotations": marks}
            changed = {**held, "metadata": metadata, "spec": {**spec_of(held), **changes}}
            await self._client.update(STATEFUL_SETS, changed, manager=MANAGER)

    def _leaders(self, key: Key, groups: int) -> list[Obj]:
        pods = self._pods.by_index("lws", str(key))
        leaders = [pod for pod in pods if labels_of(pod).get(WORKER_INDEX) == "0"]
        wanted = range(groups)
        return [pod for pod in leaders if ordinal_of(key.name, pod) in wanted]

    def _members(self, key: Key, leaders: list[Obj]) -> tuple[dict[str, list[Obj]], dict[str, Obj]]:
        """Worker pods and worker StatefulSets by the name of their living leader."""
        workers: dict[str, list[Obj]] = {}
        for pod in self._pods.by_index("lws", str(key)):
            led_by = annotations_of(pod).get(LEADER_NAME)
            if led_by:
                workers.setdefault(led_by, []).append(pod)
        sets: dict[str, Obj] = {}
        for leader in leaders:
            held = self._stateful.get(Key(key.namespace, name_of(leader)))
            if held is not None and not is_deleting(held):
                owners = [ref.get("uid") for ref in owner_references_of(held)]
                if uid_of(leader) in owners:
                    sets[name_of(leader)] = held
        return workers, sets

    async def _recreate(self, lws: Obj, leader: Obj, workers: Obj | None) -> None:
        text = f"Worker pod failed, deleted leader pod {name_of(leader)} to recreate group"
        self._recorder.event(lws, "Normal", "RecreateGroupOnPodRestart", text)
        try:
            if workers is not None:
                await self._client.delete(
                    STATEFUL_SETS, name_of(workers), namespace_of(workers), propagation="Foreground"
                )
            await self._client.delete(PODS, name_of(leader), namespace_of(leader), uid=uid_of(leader))
        except NotFound:
            return


def operators(context: OperatorContext) -> None:
    LeaderWorkerSetController(context.manager)
