"""The Deployment operator: carries out the rollout steps that `decide.apps.deployment` finds."""

from __future__ import annotations

from corral.core.errors import AlreadyExists, ApiError
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
    with_annotations,
    with_status,
)
from corral.core.selectors import from_label_selector
from corral.decide.apps.deployment import (
    REVISION,
    RolloutPlan,
    Scale,
    deployment_status,
    plan_rollout,
    progress_left,
    scaled,
    split,
)
from corral.decide.apps.replicaset import replicas_of
from corral.decide.apps.revision import same_template
from corral.decide.pods.facts import is_terminal
from corral.jobs.framework.child_objects import MANAGER, Children, typed
from corral.jobs.framework.ownership import controlled_by, index_by_controller
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS, REPLICA_SETS
from corral.kinds.kubernetes.core.kinds import PODS
from corral.runtime.controller import Manager, Result, Watch, owner_key


class DeploymentController:
    """Runs apps/v1 Deployments."""

    name = "deployment"

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._deployments = manager.informer(DEPLOYMENTS)
        self._sets = manager.informer(REPLICA_SETS)
        self._pods = manager.informer(PODS)
        for informer in (self._sets, self._pods):
            index_by_controller(informer)
        self._sets.add_index("uncontrolled", lambda rs: [] if controller_of(rs) else [namespace_of(rs)])
        self._recorder = manager.recorder.named("deployment-controller")
        self._children = Children(self._client, self._recorder, REPLICA_SETS, MANAGER)
        watches = [
            Watch(DEPLOYMENTS),
            Watch(REPLICA_SETS, map=owner_key("Deployment", "apps")),
            Watch(PODS, map=self._deployment_of, when=lambda old, new: new is None),
        ]
        manager.add(self, watches=watches, workers=5)

    def _deployment_of(self, pod: Obj) -> list[Key]:
        """Recreate waits for the last old pod to go."""
        for set_key in owner_key("ReplicaSet", "apps")(pod):
            replica_set = self._sets.get(set_key)
            if replica_set is not None:
                return list(owner_key("Deployment", "apps")(replica_set))
        return []

    async def reconcile(self, key: Key) -> Result | None:
        found = self._deployments.get(key)
        if found is None:
            return None
        deployment = typed(found, "apps/v1", "Deployment")
        selector = from_label_selector(spec_of(deployment).get("selector"))
        candidates = controlled_by(self._sets, deployment)
        candidates += self._sets.by_index("uncontrolled", key.namespace)
        sets = await self._children.claim(deployment, selector, candidates)
        news = None
        if not is_deleting(deployment):
            plan = plan_rollout(deployment, sets, old_pods_left=self._old_pods_left(deployment, sets))
            deployment, sets, news = await self._act(deployment, sets, plan)
        status = deployment_status(deployment, sets, self._clock.now(), news)
        if status != status_of(deployment):
            changed = with_status(deployment, status)
            await self._client.update(DEPLOYMENTS, changed, subresource="status", manager=MANAGER)
        return Result(progress_left(deployment, status["conditions"], self._clock.now()) or None)

    def _old_pods_left(self, deployment: Obj, sets: list[Obj]) -> bool:
        _, old = split(deployment, sets)
        pods = (pod for rs in old for pod in controlled_by(self._pods, rs))
        return any(not is_terminal(pod) for pod in pods)

    async def _act(
        self, deployment: Obj, sets: list[Obj], plan: RolloutPlan
    ) -> tuple[Obj, list[Obj], tuple[str, str] | None]:
        """Carry out one step; the Deployment, its ReplicaSets and the news afterwards."""
        news = None
        if plan.create is not None:
            made = await self._create(deployment, plan.create)
            sets = [*sets, made]
            news = ("NewReplicaSetCreated", f'Created new replica set "{name_of(made)}"')
        for step in plan.scale:
            changed = await self._scale(deployment, step)
            sets = [changed if uid_of(rs) == uid_of(changed) else rs for rs in sets]
        if plan.annotate is not None and not plan.scale:
            changed = await self._client.update(REPLICA_SETS, plan.annotate, manager=MANAGER)
            sets = [changed if uid_of(rs) == uid_of(changed) else rs for rs in sets]
        for outdated in plan.delete:
            await self._client.delete(REPLICA_SETS, name_of(outdated), namespace_of(outdated), uid=uid_of(outdated))
        if plan.revision and annotations_of(deployment).get(REVISION) != plan.revision:
            noted = with_annotations(deployment, {REVISION: plan.revision})
            deployment = typed(await self._client.update(DEPLOYMENTS, noted, manager=MANAGER), "apps/v1", "Deployment")
        return deployment, sets, news

    async def _create(self, deployment: Obj, body: Obj) -> Obj:
        try:
            made = await self._client.create(REPLICA_SETS, body, manager=MANAGER)
        except AlreadyExists:
            held = await self._client.get(REPLICA_SETS, name_of(body), namespace_of(body))
            owner = controller_of(held) or {}
            template = spec_of(deployment).get("template") or {}
            if owner.get("uid") == uid_of(deployment) and same_template(spec_of(held)["template"], template):
                return held
            count = int(status_of(deployment).get("collisionCount") or 0) + 1
            status = {**status_of(deployment), "collisionCount": count}
            await self._client.update(
                DEPLOYMENTS, with_status(deployment, status), subresource="status", manager=MANAGER
            )
            raise
        except ApiError as error:
            text = f'Failed to create new replica set "{name_of(body)}": {error.message}'
            self._recorder.event(deployment, "Warning", "ReplicaSetCreateError", text)
            raise
        if replicas_of(made) > 0:
            text = f"Scaled up replica set {name_of(made)} from 0 to {replicas_of(made)}"
            self._recorder.event(deployment, "Normal", "ScalingReplicaSet", text)
        return made

    async def _scale(self, deployment: Obj, step: Scale) -> Obj:
        before = replicas_of(step.replica_set)
        changed = await self._client.update(REPLICA_SETS, scaled(deployment, step), manager=MANAGER)
        if before != step.replicas:
            word = "up" if step.replicas > before else "down"
            text = f"Scaled {word} replica set {name_of(changed)} from {before} to {step.replicas}"
            self._recorder.event(deployment, "Normal", "ScalingReplicaSet", text)
        return changed
