"""The AppWrapper operator: deploys whatever is wrapped, all or nothing, and watches its pods.

An AppWrapper may hold objects of any kind. They are created by the user who made it, not by the operator: what that user
may not create when the time has come is refused, and the AppWrapper says so.
"""

from __future__ import annotations

from corral.client.protocol import Client
from corral.core.errors import ApiError, Forbidden, NotFound
from corral.core.meta import (
    Key,
    Obj,
    finalizers_of,
    is_deleting,
    is_owned_by,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
    with_finalizer,
    with_status,
    without_finalizer,
)
from corral.core.resource import Resource
from corral.jobs.appwrapper.creator import creator_of
from corral.jobs.appwrapper.kind import APP_WRAPPERS, FINALIZER, LABEL
from corral.jobs.appwrapper.plan import (
    POLL_S,
    WrapperPlan,
    WrapperView,
    after_failed_deployment,
    built,
    is_managed_here,
    plan_app_wrapper,
)
from corral.jobs.framework.child_objects import typed
from corral.jobs.framework.operators import ActAs, OperatorContext
from corral.jobs.framework.served_kinds import builtin_kinds, native_kinds
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kubernetes.core.kinds import PODS
from corral.runtime.controller import Manager, Result, Watch

MANAGER = "appwrapper-controller"


def _wrapper_key(pod: Obj) -> list[Key]:
    name = labels_of(pod).get(LABEL)
    return [Key(namespace_of(pod), name)] if name else []


class AppWrapperController:
    """Runs workload.codeflare.dev AppWrappers."""

    name = "appwrapper"

    def __init__(self, manager: Manager, act_as: ActAs | None = None) -> None:
        self._client = manager.client
        self._act_as = act_as
        self._clock = manager.clock
        self._resources = {(kind.group, kind.kind): kind.resource() for kind in (*builtin_kinds(), *native_kinds())}
        self._wrappers = manager.informer(APP_WRAPPERS)
        self._pods = manager.informer(PODS)
        self._pods.add_index("appwrapper", lambda pod: map(str, _wrapper_key(pod)))
        self._recorder = manager.recorder.named("appwrapper")
        manager.add(self, watches=[Watch(APP_WRAPPERS), Watch(PODS, map=_wrapper_key)], workers=3)

    async def reconcile(self, key: Key) -> Result | None:
        found = self._wrappers.get(key)
        if found is None or not is_managed_here(found):
            return None
        wrapper = typed(found, APP_WRAPPERS.api_version, "AppWrapper")
        look = WrapperView(
            wrapper,
            self._pods.by_index("appwrapper", str(key)),
            await self._components(wrapper),
            self._clock.now(),
        )
        if is_deleting(wrapper):
            return await self._terminate(wrapper, look)
        if FINALIZER not in finalizers_of(wrapper):
            await self._client.update(APP_WRAPPERS, with_finalizer(wrapper, FINALIZER), manager=MANAGER)
            return None
        plan = plan_app_wrapper(look)
        if plan.deploy:
            plan = await self._deploy(look, plan)
        if plan.remove:
            await self._remove(look, plan.force)
        for kind, reason, message in plan.events:
            self._recorder.event(wrapper, kind, reason, message)
        if plan.status != status_of(wrapper):
            changed = with_status(wrapper, plan.status)
            await self._client.update(APP_WRAPPERS, changed, subresource="status", manager=MANAGER)
        if plan.expire:
            await self._client.delete(APP_WRAPPERS, key.name, key.namespace, propagation="Background")
        return Result(plan.wait_s)

    async def _terminate(self, wrapper: Obj, look: WrapperView) -> Result | None:
        if FINALIZER not in finalizers_of(wrapper):
            return None
        if look.components or look.pods:
            await self._remove(look, force=False)
            return Result(POLL_S / 10)
        await self._client.update(APP_WRAPPERS, without_finalizer(wrapper, FINALIZER), manager=MANAGER)
        return None

    async def _resource(self, template: Obj) -> Resource:
        """How to name a wrapped kind to the API."""
        group, _, version = str(template.get("apiVersion") or "").rpartition("/")
        kind = str(template.get("kind") or "")
        known = self._resources.get((group, kind))
        if known is not None:
            return known.at(version)
        definitions = await self._client.list(CUSTOM_RESOURCE_DEFINITIONS)
        for definition in definitions.items:
            spec = spec_of(definition)
            if spec.get("group") == group and spec["names"]["kind"] == kind:
                namespaced = spec.get("scope") == "Namespaced"
                return Resource(group, version, spec["names"]["plural"], kind, namespaced)
        raise NotFound(f'no matches for kind "{kind}" in version "{template.get("apiVersion")}"')

    async def _components(self, wrapper: Obj) -> dict[int, Obj]:
        """The deployed components by position."""
        found: dict[int, Obj] = {}
        for position, component in enumerate(spec_of(wrapper).get("components") or ()):
            template = component["template"]
            try:
                resource = await self._resource(template)
                held = await self._client.get(resource, name_of(template), namespace_of(wrapper))
            except NotFound:
                continue
            if is_owned_by(held, uid_of(wrapper)):
                found[position] = typed(held, resource.api_version, resource.kind)
        return found

    def _creator(self, wrapper: Obj) -> Client:
        """The API as the user who made the AppWrapper."""
        if self._act_as is None:
            return self._client
        user = creator_of(wrapper)
        if user is None:
            raise Forbidden("it is not known who created the AppWrapper; delete it and create it again")
        return self._act_as(user)

    async def _deploy(self, look: WrapperView, plan: WrapperPlan) -> WrapperPlan:
        for position in range(len(spec_of(look.app_wrapper).get("components") or ())):
            if position in look.components:
                continue
            body = built(look.app_wrapper, position)
            try:
                resource = await self._resource(body)
                await self._creator(look.app_wrapper).create(resource, body, manager=MANAGER)
            except ApiError as error:
                return after_failed_deployment(look, error.message)
        return plan

    async def _remove(self, look: WrapperView, force: bool) -> None:
        for position, component in enumerate(spec_of(look.app_wrapper).get("components") or ()):
            template = component["template"]
            held = look.components.get(position)
            if held is not None and is_deleting(held) and not force:
                continue
            try:
                resource = await self._resource(template)
                current = held or await self._client.get(resource, name_of(template), namespace_of(look.app_wrapper))
                if is_owned_by(current, uid_of(look.app_wrapper)):
                    await self._client.delete(
                        resource, name_of(template), namespace_of(look.app_wrapper), propagation="Background"
                    )
            except NotFound:
                continue
        if force:
            for pod in look.pods:
                try:
                    await self._client.delete(PODS, name_of(pod), namespace_of(pod), grace=0)
                except NotFound:
                    continue


def operators(context: OperatorContext) -> None:
    AppWrapperController(context.manager, context.act_as)
