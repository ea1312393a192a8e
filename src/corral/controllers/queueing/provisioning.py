"""The admission check that asks a cluster autoscaler for room: one ProvisioningRequest for each attempt of a workload.

Two controllers. `ProvisioningChecks` says whether checks of this kind are usable, and starts the other one when it meets
the first of them, so that clusters without autoscaling watch nothing. `ProvisioningController` makes requests and their
pod templates for workloads that hold quota, turns the autoscaler's answers into check states, and cleans up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corral.controllers.queueing.context import FIELD_MANAGER, QueueingContext
from corral.core import conditions
from corral.core.errors import AlreadyExists, ApiError, NotFound
from corral.core.meta import (
    Key,
    Obj,
    controller_of,
    generation_of,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    owner_ref,
    owner_references_of,
    spec_of,
    status_of,
    uid_of,
    with_metadata,
    with_status,
)
from corral.decide.queueing import provisioning as decide
from corral.kinds.kubernetes.core.kinds import POD_TEMPLATES
from corral.kinds.kueue import ADMISSION_CHECKS, PROVISIONING_REQUEST_CONFIGS, WORKLOADS, names
from corral.kinds.kueue.provisioning import PROVISIONING_REQUESTS
from corral.runtime.controller import Result, Watch
from corral.workload import statuses
from corral.workload import workload as wl
from corral.workload.podset_info import FlavorGone, flavor_info
from corral.workload.podsets import ConflictingUpdate, PodSetInfo, injected

MANAGER = names.PROVISIONING_CONTROLLER
BY_CONFIG = "provisioningConfig"
BY_WORKLOAD = "workload"
BY_CHECK_STATE = "checkState"
SYNC_S = 1.0


class CannotCreate(Exception):
    """An object of an attempt could not be made; the text says which and why."""


class ProvisioningChecks:
    """Writes the Active condition of checks that provision."""

    name = "provisioning_admissioncheck"

    def __init__(self, context: QueueingContext) -> None:
        self.context = context
        self.checks = context.caches.checks
        self._started = False
        self.configs = context.manager.informer(PROVISIONING_REQUEST_CONFIGS)
        self.checks.add_index(BY_CONFIG, _config_index)
        context.manager.add(
            self, watches=[Watch(ADMISSION_CHECKS), Watch(PROVISIONING_REQUEST_CONFIGS, map=self._checks_of_config)]
        )

    def _checks_of_config(self, config: Obj) -> Iterable[Key]:
        return [key_of(check) for check in self.checks.by_index(BY_CONFIG, name_of(config))]

    async def reconcile(self, key: Key) -> None:
        check = self.checks.get(key)
        if check is None or not _is_ours(check):
            return
        if not self._started:
            self._started = True
            ProvisioningController(self.context)
        problem = decide.parameters_problem(check)
        if not problem and self.configs.get(Key("", _config_name(check))) is None:
            problem = f'ProvisioningRequestConfig.kueue.x-k8s.io "{_config_name(check)}" not found'
        reason, message = ("BadParametersRef", problem) if problem else ("Active", "The admission check is active")
        entry = conditions.condition(names.ACTIVE, not problem, reason, message, generation_of(check))
        held = status_of(check).get("conditions") or []
        updated = conditions.set_condition(held, entry, self.context.now())
        if updated != held:
            patch = {"status": {"conditions": updated}}
            await self.context.client.patch(
                ADMISSION_CHECKS, key.name, "", patch, subresource="status", manager=FIELD_MANAGER
            )


class ProvisioningController:
    """Keeps requests and check states of workloads in line with each other."""

    name = "provisioning_workload"

    def __init__(self, context: QueueingContext) -> None:
        self.context = context
        self.workloads = context.caches.workloads
        self.checks = context.caches.checks
        self.recorder = context.recorder.named("kueue-provisioning-request-controller")
        self.requests = context.manager.informer(PROVISIONING_REQUESTS)
        self.configs = context.manager.informer(PROVISIONING_REQUEST_CONFIGS)
        self.requests.add_index(BY_WORKLOAD, lambda request: map(str, _workload_of(request)))
        self.workloads.add_index(BY_CHECK_STATE, _check_names)
        context.manager.add(
            self,
            watches=[
                Watch(WORKLOADS, when=self._workload_changed),
                Watch(PROVISIONING_REQUESTS, map=_workload_of),
                Watch(ADMISSION_CHECKS, map=self._workloads_of_check),
                Watch(PROVISIONING_REQUEST_CONFIGS, map=self._workloads_of_config),
            ],
            workers=4,
        )

    def _workload_changed(self, old: Obj | None, new: Obj | None) -> bool:
        """Whether a workload has a check of ours, or requests that may have to go."""
        for workload in (new, old):
            if workload is not None and any(self._ours(workload)):
                return True
        return new is not None and bool(self._requests_of(new))

    def _ours(self, workload: Obj) -> Iterable[Obj]:
        """Those states of a workload's checks that are ours to write."""
        for state in wl.check_states_of(workload):
            check = self.checks.get(Key("", str(state["name"])))
            if check is not None and _is_ours(check):
                yield state

    def _requests_of(self, workload: Obj) -> list[Obj]:
        return self.requests.by_index(BY_WORKLOAD, str(key_of(workload)))

    def _workloads_of_check(self, check: Obj) -> Iterable[Key]:
        if not _is_ours(check):
            return ()
        return [key_of(workload) for workload in self.workloads.by_index(BY_CHECK_STATE, name_of(check))]

    def _workloads_of_config(self, config: Obj) -> Iterable[Key]:
        checks = self.checks.by_index(BY_CONFIG, name_of(config))
        return [key for check in checks for key in self._workloads_of_check(check)]

    async def reconcile(self, key: Key) -> Result | None:
        if not self.requests.has_synced:
            return Result(requeue_after=SYNC_S)
        workload = self.workloads.get(key)
        if workload is None or is_deleting(workload):
            return None
        finished, evicted = wl.is_finished(workload), wl.is_evicted(workload)
        if finished or (evicted and self.context.config.gates["CleanupProvisioningRequestsOnEviction"]):
            await self._delete(self._requests_of(workload))
            return None
        if evicted or not wl.has_quota(workload):
            return None
        current = {str(state["name"]): self._current(workload, state) for state in self._ours(workload)}
        workload = await self._write_states(workload, current)
        kept = {uid_of(request) for _, request in current.values() if request is not None}
        await self._delete([request for request in self._requests_of(workload) if uid_of(request) not in kept])
        for state in self._ours(workload):
            config, request = current[str(state["name"])]
            if config is not None:
                await self._provide(workload, state, config, request)
        return None

    def _current(self, workload: Obj, state: Obj) -> tuple[Obj | None, Obj | None]:
        """The configuration of a check, if it is usable, and the last request made for it, if one is needed."""
        check = self.checks.get(Key("", str(state["name"])))
        if check is None or decide.parameters_problem(check):
            return None, None
        config = self.configs.get(Key("", _config_name(check)))
        if config is None or not decide.shares(workload, config):
            return config, None
        return config, decide.latest(self._requests_of(workload), workload, str(state["name"]), config)

    # Check states

    async def _write_states(self, workload: Obj, current: dict[str, tuple[Obj | None, Obj | None]]) -> Obj:
        now, messages = self.context.now(), []
        states = []
        for state in wl.check_states_of(workload):
            new = state
            if state["name"] in current:
                new = self._judge(workload, state, *current[state["name"]])
            if new.get("state") != state.get("state"):
                new = {**new, "lastTransitionTime": now}
                messages.append(_described(state, new))
            states.append(new)
        if states == wl.check_states_of(workload):
            return workload
        changed = with_status(workload, {**status_of(workload), "admissionChecks": states})
        mine = [state for state in states if state["name"] in current]
        written = await self.context.write_part(changed, MANAGER, {"admissionChecks": mine})
        for message in messages:
            self.recorder.event(workload, "Normal", "AdmissionCheckUpdated", message)
        return written

    def _judge(self, workload: Obj, state: Obj, config: Obj | None, request: Obj | None) -> Obj:
        if config is None:
            if wl.is_admitted(workload):
                return state  # what was provided stays provided
            return {**state, "state": names.PENDING, "message": decide.NOT_ACTIVE}
        wanted = decide.shares(workload, config)
        if not wanted:
            if state.get("state") == names.READY:
                return state
            new = {**state, "state": names.READY, "message": decide.NOT_NEEDED}
            return {field: value for field, value in new.items() if field != "podSetUpdates"}
        if request is None:
            return state
        new = decide.judged(state, workload, request, config, wanted)
        return {**new, "message": wl.truncated(new["message"])} if new.get("message") else new

    # Requests

    async def _provide(self, workload: Obj, state: Obj, config: Obj, request: Obj | None) -> None:
        """Start the attempt that is due, and hand its templates over to its request."""
        wanted = decide.shares(workload, config)
        if not wanted or state.get("state") == names.READY:
            return
        attempt = decide.next_attempt(workload, str(state["name"]), state, request)
        if attempt is not None:
            new = decide.new_request(workload, str(state["name"]), attempt, config, wanted)
            try:
                request = await self._create(workload, new, wanted)
            except CannotCreate as error:
                await self._report_failure(workload, state, str(error))
                raise
            self.recorder.event(
                workload,
                "Normal",
                "ProvisioningRequestCreated",
                f'Created ProvisioningRequest: "{name_of(request)}"',
            )
        if request is not None:
            await self._adopt_templates(workload, request, wanted)

    async def _create(self, workload: Obj, request: Obj, wanted: Sequence[decide.TemplatePods]) -> Obj:
        """Templates first: an autoscaler must find them when it sees the request."""
        for share in wanted:
            name = decide.template_name(name_of(request), share.name)
            try:
                await self.context.client.create(
                    POD_TEMPLATES, self._template(workload, name, share), manager=FIELD_MANAGER
                )
            except AlreadyExists:
                pass
            except (ApiError, FlavorGone, ConflictingUpdate) as error:
                raise CannotCreate(f'Error creating PodTemplate "{name}": {error}') from error
        try:
            return await self.context.client.create(PROVISIONING_REQUESTS, request, manager=FIELD_MANAGER)
        except AlreadyExists as error:
            held = self.requests.get(key_of(request))
            if held is None or (controller_of(held) or {}).get("uid") == uid_of(workload):
                raise  # ours, and not seen yet
            raise CannotCreate(f'Error creating ProvisioningRequest "{name_of(request)}": {error}') from error
        except ApiError as error:
            raise CannotCreate(f'Error creating ProvisioningRequest "{name_of(request)}": {error}') from error

    def _template(self, workload: Obj, name: str, share: decide.TemplatePods) -> Obj:
        """The pods as they will run: with what their flavors add, and requests where only limits were given."""
        info = PodSetInfo(name=share.name)
        for flavor in dict.fromkeys((share.assignment.get("flavors") or {}).values()):
            added = flavor_info(share.name, flavor, lambda name: self.context.caches.flavors.get(Key("", name)))
            info = info.merged(added)
        template = injected(share.pod_set.get("template") or {}, info)
        return {
            "metadata": decide.metadata_for(workload, name),
            "template": {**template, "spec": decide.with_requests(spec_of(template))},
        }

    async def _adopt_templates(self, workload: Obj, request: Obj, wanted: Sequence[decide.TemplatePods]) -> None:
        """Templates belong to their request as soon as there is one, and go with it."""
        by_name = {decide.template_name(name_of(request), share.name): share for share in wanted}
        for entry in spec_of(request).get("podSets") or ():
            name = entry["podTemplateRef"]["name"]
            try:
                template = await self.context.client.get(POD_TEMPLATES, name, namespace_of(request))
            except NotFound:
                if name in by_name:
                    lost = self._template(workload, name, by_name[name])
                    adopted = with_metadata(lost, ownerReferences=[owner_ref(request)])
                    await self.context.client.create(POD_TEMPLATES, adopted, manager=FIELD_MANAGER)
                continue
            if (controller_of(template) or {}).get("uid") == uid_of(request):
                continue
            others = [owner for owner in owner_references_of(template) if not owner.get("controller")]
            adopted = with_metadata(template, ownerReferences=[*others, owner_ref(request)])
            await self.context.client.update(POD_TEMPLATES, adopted, manager=FIELD_MANAGER)

    async def _report_failure(self, workload: Obj, state: Obj, message: str) -> None:
        self.recorder.event(workload, "Warning", "FailedCreate", message)
        message = wl.truncated(message)
        if state.get("message") == message:
            return
        states = [
            {**entry, "message": message} if entry["name"] == state["name"] else entry
            for entry in wl.check_states_of(workload)
        ]
        changed = with_status(workload, {**status_of(workload), "admissionChecks": states})
        await self.context.write_part(changed, MANAGER, statuses.check_part(changed, state["name"]))

    async def _delete(self, requests: Iterable[Obj]) -> None:
        for request in requests:
            if is_deleting(request):
                continue
            try:
                await self.context.client.delete(
                    PROVISIONING_REQUESTS, name_of(request), namespace_of(request), uid=uid_of(request)
                )
            except NotFound:
                pass


def _is_ours(check: Obj) -> bool:
    return spec_of(check).get("controllerName") == names.PROVISIONING_CONTROLLER


def _config_name(check: Obj) -> str:
    return str((spec_of(check).get("parameters") or {}).get("name") or "")


def _config_index(check: Obj) -> Iterable[str]:
    return (_config_name(check),) if _is_ours(check) and not decide.parameters_problem(check) else ()


def _workload_of(request: Obj) -> Iterable[Key]:
    owner = controller_of(request)
    return (Key(namespace_of(request), owner["name"]),) if owner and owner.get("kind") == "Workload" else ()


def _check_names(workload: Obj) -> Iterable[str]:
    return [str(state["name"]) for state in wl.check_states_of(workload)]


def _described(old: Obj, new: Obj) -> str:
    text = f"Admission check {new['name']} updated state from {old.get('state')} to {new.get('state')}"
    return f"{text} with message: {new['message']}" if new.get("message") else text
