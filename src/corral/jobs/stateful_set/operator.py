"""The StatefulSet operator: named pods and their claims, one revision of the template after another."""

from __future__ import annotations

from corral.core import conditions
from corral.core.errors import AlreadyExists, ApiError, NotFound
from corral.core.meta import (
    Key,
    Obj,
    controller_of,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    status_of,
    uid_of,
    with_status,
)
from corral.core.selectors import from_label_selector
from corral.core.whole_numbers import whole_number
from corral.decide.apps.replicaset import until_available
from corral.jobs.framework.child_objects import MANAGER, Children, typed
from corral.jobs.framework.expectations import Expectations
from corral.jobs.framework.growth_pacing import Steps
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.framework.ownership import controlled_by, index_by_controller
from corral.jobs.framework.template_history import History
from corral.jobs.stateful_set.plan import Revisions, StatefulPlan, claim_name, ordinals, plan_stateful, stateful_status
from corral.kinds.kubernetes.apps.kinds import DISPATCHED, STATEFUL_SETS
from corral.kinds.kubernetes.core.kinds import PERSISTENT_VOLUME_CLAIMS, PODS
from corral.runtime.controller import Manager, Result, Watch, owner_key


class StatefulSetController:
    """Runs apps/v1 StatefulSets."""

    name = "statefulset"

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._steps = Steps(manager.clock)
        self._sets = manager.informer(STATEFUL_SETS)
        self._pods = manager.informer(PODS)
        self._history = History(self._client, manager, MANAGER)
        index_by_controller(self._pods)
        self._pods.add_index("uncontrolled", lambda pod: [] if controller_of(pod) else [namespace_of(pod)])
        self._recorder = manager.recorder.named("statefulset-controller")
        self._children = Children(self._client, self._recorder, PODS, MANAGER)
        self._expectations = Expectations(self._pods, self._clock)
        watches = [Watch(STATEFUL_SETS), Watch(PODS, map=owner_key("StatefulSet", "apps"))]
        manager.add(self, watches=watches, workers=5)

    async def reconcile(self, key: Key) -> Result | None:
        found = self._sets.get(key)
        if found is None:
            self._expectations.forget(key)
            self._steps.forget(key)
            return None
        if not self._expectations.met(key):
            return None
        stateful_set = typed(found, "apps/v1", "StatefulSet")
        selector = from_label_selector(spec_of(stateful_set).get("selector"))
        candidates = controlled_by(self._pods, stateful_set)
        candidates += [pod for pod in self._pods.by_index("uncontrolled", key.namespace) if _is_named(key.name, pod)]
        pods = await self._children.claim(stateful_set, selector, candidates)
        revisions = await self._current_revisions(stateful_set)
        now = self._clock.now()
        plan = plan_stateful(stateful_set, pods, revisions, now, self._steps.room(key))
        self._steps.made(key, len(plan.create))
        await self._act(key, stateful_set, plan)
        status = stateful_status(stateful_set, pods, revisions, now)
        if status != status_of(stateful_set) and not conditions.is_true(stateful_set, DISPATCHED):
            changed = with_status(stateful_set, status)
            await self._client.update(STATEFUL_SETS, changed, subresource="status", manager=MANAGER)
        await self._forget_claims(stateful_set, pods)
        minimum = float(spec_of(stateful_set).get("minReadySeconds") or 0)
        return Result(self._steps.wait(key, until_available(pods, minimum, now)))

    async def _current_revisions(self, stateful_set: Obj) -> Revisions:
        """The revisions pods may have now; a changed template becomes a new ControllerRevision."""
        update = await self._history.note(stateful_set)
        templates = {name_of(entry): entry["data"]["spec"]["template"] for entry in self._history.of(stateful_set)}
        templates[update] = spec_of(stateful_set).get("template") or {}
        current = status_of(stateful_set).get("currentRevision") or update
        if current not in templates:
            current = update
        pods = controlled_by(self._pods, stateful_set)
        live = {str(labels_of(pod).get("controller-revision-hash")) for pod in pods}
        await self._history.forget(stateful_set, {current, update, *live})
        return Revisions(current, update, templates)

    async def _act(self, key: Key, stateful_set: Obj, plan: StatefulPlan) -> None:
        for pod in plan.delete:
            self._expectations.removing(key, pod)
            try:
                await self._client.delete(PODS, name_of(pod), namespace_of(pod), uid=uid_of(pod))
            except ApiError as error:
                self._expectations.give_up(key, pod)
                if not isinstance(error, NotFound):
                    self._say(stateful_set, "delete", pod, error)
                    raise
            else:
                self._say(stateful_set, "delete", pod)
        for body in plan.create:
            await self._make_claims(stateful_set, body)
            try:
                pod = await self._client.create(PODS, body, manager=MANAGER)
            except AlreadyExists:
                continue
            except ApiError as error:
                self._say(stateful_set, "create", body, error)
                raise
            self._expectations.made(key, pod)
            self._say(stateful_set, "create", pod)

    def _say(self, stateful_set: Obj, verb: str, pod: Obj, error: ApiError | None = None) -> None:
        word = verb.capitalize()
        subject = f"{word} Pod {name_of(pod)} in StatefulSet {name_of(stateful_set)}"
        if error is None:
            self._recorder.event(stateful_set, "Normal", f"Successful{word}", f"{subject} successful")
        else:
            text = f"{subject} failed error: {error.message}"
            self._recorder.event(stateful_set, "Warning", f"Failed{word}", text)

    async def _make_claims(self, stateful_set: Obj, pod: Obj) -> None:
        spec = spec_of(stateful_set)
        policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        labels = (spec.get("selector") or {}).get("matchLabels") or {}
        for template in spec.get("volumeClaimTemplates") or ():
            metadata = {
                **template["metadata"],
                "name": claim_name(template, name_of(pod)),
                "namespace": namespace_of(stateful_set),
                "labels": {**(template["metadata"].get("labels") or {}), **labels},
            }
            if policy.get("whenDeleted") == "Delete":
                metadata["ownerReferences"] = [owner_ref(stateful_set, controller=False, block=False)]
            body = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": template.get("spec") or {},
            }
            try:
                await self._client.create(PERSISTENT_VOLUME_CLAIMS, body, manager=MANAGER)
            except AlreadyExists:
                continue
            text = f"create Claim {metadata['name']} Pod {name_of(pod)} in StatefulSet {name_of(stateful_set)} success"
            self._recorder.event(stateful_set, "Normal", "SuccessfulCreate", text)

    async def _forget_claims(self, stateful_set: Obj, pods: list[Obj]) -> None:
        """With whenScaled Delete, claims of ordinals that are gone go too."""
        spec = spec_of(stateful_set)
        templates = spec.get("volumeClaimTemplates") or []
        policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        if not templates or policy.get("whenScaled") != "Delete" or is_deleting(stateful_set):
            return
        wanted = ordinals(stateful_set)
        kept = {claim_name(template, name) for template in templates for name in map(name_of, pods)}
        prefixes = tuple(f"{template['metadata']['name']}-{name_of(stateful_set)}-" for template in templates)
        claims = await self._client.list(PERSISTENT_VOLUME_CLAIMS, namespace_of(stateful_set))
        for claim in claims.items:
            prefix, _, ordinal = name_of(claim).rpartition("-")
            is_surplus = (
                f"{prefix}-" in prefixes and (number := whole_number(ordinal)) is not None and number not in wanted
            )
            if is_surplus and name_of(claim) not in kept and not is_deleting(claim):
                await self._client.delete(PERSISTENT_VOLUME_CLAIMS, name_of(claim), namespace_of(claim))


def _is_named(owner: str, pod: Obj) -> bool:
    prefix, _, ordinal = name_of(pod).rpartition("-")
    return prefix == owner and whole_number(ordinal) is not None


def operators(context: OperatorContext) -> None:
    StatefulSetController(context.manager)
