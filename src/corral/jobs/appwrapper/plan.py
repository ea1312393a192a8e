"""An AppWrapper's life: deploy all of its components or none, watch their pods, try again, give up or succeed.

Empty -> Suspended -> Resuming -> Running -> Succeeded | Failed
Running -> Suspending -> Suspended            Running -> Resetting -> Resuming
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from corral.core import conditions
from corral.core.meta import (
    Obj,
    annotations_of,
    is_deleting,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    status_of,
)
from corral.core.timestamps import format_time, parse_duration, parse_time
from corral.core.whole_numbers import whole_number
from corral.decide.pods.facts import container_statuses, is_ready, phase_of
from corral.jobs.appwrapper.kind import CONTROLLER, LABEL, expected_pods, pod_sets_of

ANNOTATION = "workload.codeflare.dev.appwrapper/"
DEFAULTS_S = {
    "admissionGracePeriodDuration": 60.0,
    "warmupGracePeriodDuration": 300.0,
    "failureGracePeriodDuration": 60.0,
    "retryPausePeriodDuration": 90.0,
    "forcefulDeletionGracePeriodDuration": 600.0,
    "deletionOnFailureGracePeriodDuration": 0.0,
    "successTTLDuration": 7 * 24 * 3600.0,
}
MAX_PERIOD_S = 24 * 3600.0
RETRY_LIMIT = 3
POLL_S = 30.0

Event = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class WrapperView:
    """What a step is decided from."""

    app_wrapper: Obj
    pods: Sequence[Obj]
    components: Mapping[int, Obj]
    """The deployed objects by position among the components."""
    now: float


@dataclass(frozen=True, slots=True)
class WrapperPlan:
    """Everything one look decides."""

    status: Obj
    deploy: bool = False
    """Create every component; when one cannot be created, delete them all."""
    remove: bool = False
    """Delete every component."""
    force: bool = False
    """Pods that will not go are removed at once."""
    expire: bool = False
    wait_s: float | None = None
    events: tuple[Event, ...] = field(default=())


def is_managed_here(app_wrapper: Obj) -> bool:
    return spec_of(app_wrapper).get("managedBy") in (None, CONTROLLER)


def phase_name(app_wrapper: Obj) -> str:
    return str(status_of(app_wrapper).get("phase") or "")


def period(app_wrapper: Obj, name: str) -> float:
    """A grace period in seconds: the default, or the annotation of that name."""
    text = annotations_of(app_wrapper).get(ANNOTATION + name)
    if text:
        try:
            return min(
                max(0.0, parse_duration(text)), DEFAULTS_S[name] if name == "successTTLDuration" else MAX_PERIOD_S
            )
        except ValueError:
            return DEFAULTS_S[name]
    return DEFAULTS_S[name]


def retry_limit(app_wrapper: Obj) -> int:
    said = whole_number(annotations_of(app_wrapper).get(ANNOTATION + "retryLimit", ""))
    return RETRY_LIMIT if said is None else said


def _codes(app_wrapper: Obj, name: str) -> list[int]:
    text = annotations_of(app_wrapper).get(ANNOTATION + name, "")
    return [code for part in text.split(",") if (code := whole_number(part.strip())) is not None]


def plan_app_wrapper(look: WrapperView) -> WrapperPlan:
    """The next step of an AppWrapper."""
    phase, suspend = phase_name(look.app_wrapper), bool(spec_of(look.app_wrapper).get("suspend"))
    if phase == "":
        return WrapperPlan(_moved(look, "Suspended", ("QuotaReserved", False, "Suspended", "Suspend is true")))
    if phase == "Suspended":
        if suspend:
            return WrapperPlan(status_of(look.app_wrapper))
        return WrapperPlan(_moved(look, "Resuming", ("QuotaReserved", True, "Resumed", "Suspend is false")))
    if phase == "Resuming":
        if suspend:
            return WrapperPlan(_moved(look, "Suspending"))
        entry = ("ResourcesDeployed", True, "AppWrapperResourcesDeployed", "Resources deployed successfully")
        return WrapperPlan(_moved(look, "Running", entry), deploy=True, wait_s=POLL_S)
    if phase == "Running":
        return WrapperPlan(_moved(look, "Suspending")) if suspend else _watch(look)
    if phase in ("Suspending", "Resetting"):
        return _clear(look)
    return _after(look)


def _put(look: WrapperView, status: Obj, *entries: tuple[str, bool, str, str]) -> Obj:
    held: Sequence[Obj] = status.get("conditions") or []
    for kind, value, reason, text in entries:
        entry = conditions.condition(kind, value, reason, text)
        held = conditions.set_condition(held, entry, format_time(look.now))
    return {**status, "conditions": list(held)} if held else status


def _moved(look: WrapperView, phase: str, *entries: tuple[str, bool, str, str]) -> Obj:
    return _put(look, {**status_of(look.app_wrapper), "phase": phase}, *entries)


# Running


def _since(look: WrapperView, kind: str) -> float | None:
    """How long a condition has been true."""
    found = conditions.find(look.app_wrapper, kind)
    if found is None or found["status"] != "True":
        return None
    return look.now - parse_time(found["lastTransitionTime"])


def _watch(look: WrapperView) -> WrapperPlan:
    app_wrapper = look.app_wrapper
    alive = [pod for pod in look.pods if not is_deleting(pod)]
    phases = [phase_of(pod) for pod in alive]
    expected = expected_pods(app_wrapper)
    missing = len(spec_of(app_wrapper).get("components") or ()) - len(look.components)
    failed = [entry for entry in look.components.values() if has_failed(entry)]
    done = all(has_succeeded(entry) for entry in look.components.values()) and not missing
    if done or (phases.count("Succeeded") >= expected > 0 and not set(phases) - {"Succeeded"}):
        return WrapperPlan(
            _moved(
                look,
                "Succeeded",
                (
                    "QuotaReserved",
                    False,
                    "Succeeded",
                    f"{phases.count('Succeeded')} pods succeeded and no running pods",
                ),
                ("ResourcesDeployed", True, "Succeeded", "All components succeeded"),
            ),
            wait_s=period(app_wrapper, "successTTLDuration"),
        )
    if missing > 0:
        return _unhealthy(
            look, "MissingComponent", f"{missing} components are missing", grace="admissionGracePeriodDuration"
        )
    if failed:
        names = ", ".join(f"{entry.get('kind')} {name_of(entry)}" for entry in failed)
        return _unhealthy(look, "FailedComponent", f"Found failed components: {names}")
    broken = [pod for pod in alive if phase_of(pod) == "Failed"]
    if broken:
        return _failed_pods(look, broken)
    return _warming_up(look, alive, expected)


def _warming_up(look: WrapperView, alive: Sequence[Obj], expected: int) -> WrapperPlan:
    ready = sum(is_ready(pod) or phase_of(pod) == "Succeeded" for pod in alive)
    status = status_of(look.app_wrapper)
    if ready >= expected:
        text = f"{ready} pods ready; {expected} expected"
        status = _put(look, status, ("PodsReady", True, "SufficientPodsReady", text))
        status = _put(look, status, ("Unhealthy", False, "Healthy", "No problems detected"))
        return WrapperPlan(status, wait_s=POLL_S)
    text = f"{ready} pods ready; {expected} expected"
    status = _put(look, status, ("PodsReady", False, "InsufficientPodsReady", text))
    deployed = _since(look, "ResourcesDeployed") or 0.0
    started = len(alive) >= expected
    grace = period(look.app_wrapper, "warmupGracePeriodDuration" if started else "admissionGracePeriodDuration")
    if deployed < grace:
        return WrapperPlan(status, wait_s=min(POLL_S, grace - deployed))
    return _reset_or_fail(look, "InsufficientPodsReady", text)


def _failed_pods(look: WrapperView, broken: Sequence[Obj]) -> WrapperPlan:
    text = f"{len(broken)} failed pods"
    codes = [code for pod in broken for code in _exit_codes(pod)]
    terminal, retryable = _codes(look.app_wrapper, "terminalExitCodes"), _codes(look.app_wrapper, "retryableExitCodes")
    final = any(code in terminal for code in codes) or (
        bool(retryable) and any(code not in retryable for code in codes)
    )
    if final:
        return WrapperPlan(_failed(look, "FoundFailedPods", f"{text}; exit code is terminal"), remove=True)
    return _unhealthy(look, "FoundFailedPods", text)


def _exit_codes(pod: Obj) -> list[int]:
    ended = [(entry.get("state") or {}).get("terminated") or {} for entry in container_statuses(pod)]
    return [int(entry["exitCode"]) for entry in ended if entry.get("exitCode")]


def _unhealthy(look: WrapperView, reason: str, text: str, grace: str = "failureGracePeriodDuration") -> WrapperPlan:
    """A problem may go away by itself; after its grace period the AppWrapper is reset."""
    allowed = period(look.app_wrapper, grace)
    found = conditions.find(look.app_wrapper, "Unhealthy")
    since = _since(look, "Unhealthy") if found is not None and found.get("reason") == reason else 0.0
    status = _put(look, status_of(look.app_wrapper), ("Unhealthy", True, reason, text))
    if (since or 0.0) < allowed:
        return WrapperPlan(status, wait_s=allowed - (since or 0.0))
    return _reset_or_fail(look, reason, text)


def _reset_or_fail(look: WrapperView, reason: str, text: str) -> WrapperPlan:
    retries = int(status_of(look.app_wrapper).get("retries") or 0)
    if retries < retry_limit(look.app_wrapper):
        status = _moved(look, "Resetting", ("Unhealthy", True, reason, text), ("PodsReady", False, reason, text))
        event = ("Warning", reason, f"{text}; retrying")
        return WrapperPlan({**status, "retries": retries + 1}, remove=True, events=(event,))
    return WrapperPlan(
        _failed(look, reason, f"{text}; retry limit reached"), remove=True, events=(("Warning", reason, text),)
    )


def _failed(look: WrapperView, reason: str, text: str) -> Obj:
    return _moved(
        look,
        "Failed",
        ("Unhealthy", True, reason, text),
        ("QuotaReserved", False, reason, text),
        ("DeletingResources", True, "DeletionInitiated", "Resource deletion initiated"),
    )


def after_failed_deployment(look: WrapperView, message: str) -> WrapperPlan:
    """A component could not be created: what was created goes, and another try follows."""
    return _reset_or_fail(look, "CreateFailed", f"error creating components: {message}")


# Winding down


def _is_clear(look: WrapperView) -> bool:
    return not look.components and not look.pods


def _clear(look: WrapperView) -> WrapperPlan:
    app_wrapper = look.app_wrapper
    if not _is_clear(look):
        status = status_of(app_wrapper)
        if not conditions.is_true(app_wrapper, "DeletingResources"):
            entry = ("DeletingResources", True, "DeletionInitiated", "Resource deletion initiated")
            return WrapperPlan(_put(look, status, entry), remove=True, wait_s=POLL_S)
        waited = _since(look, "DeletingResources") or 0.0
        forced = waited >= period(app_wrapper, "forcefulDeletionGracePeriodDuration")
        return WrapperPlan(status, remove=True, force=forced, wait_s=POLL_S)
    gone = ("ResourcesDeployed", False, "Suspended", "Resources deleted")
    cleared = ("DeletingResources", False, "DeletionComplete", "Resources deleted")
    if phase_name(app_wrapper) == "Suspending" or spec_of(app_wrapper).get("suspend"):
        entries = (
            gone,
            cleared,
            ("QuotaReserved", False, "Suspended", "Suspend is true"),
            ("PodsReady", False, "Suspended", ""),
        )
        return WrapperPlan(_moved(look, "Suspended", *entries))
    found = conditions.find(app_wrapper, "Unhealthy")
    waited = look.now - parse_time(found["lastTransitionTime"]) if found else 0.0
    pause = period(app_wrapper, "retryPausePeriodDuration")
    if waited < pause:
        return WrapperPlan(_put(look, status_of(app_wrapper), gone, cleared), wait_s=pause - waited)
    return WrapperPlan(_moved(look, "Resuming", cleared))


def _after(look: WrapperView) -> WrapperPlan:
    """Finished: a failed one leaves nothing behind, a successful one goes after a while."""
    status = status_of(look.app_wrapper)
    if phase_name(look.app_wrapper) == "Failed":
        if _is_clear(look):
            cleared = ("DeletingResources", False, "DeletionComplete", "Resources deleted")
            gone = ("ResourcesDeployed", False, "DeletionComplete", "Resources deleted")
            return WrapperPlan(_put(look, status, cleared, gone))
        waited = _since(look, "DeletingResources") or 0.0
        forced = waited >= period(look.app_wrapper, "forcefulDeletionGracePeriodDuration")
        return WrapperPlan(status, remove=True, force=forced, wait_s=POLL_S)
    end = conditions.find(look.app_wrapper, "ResourcesDeployed")
    left = period(look.app_wrapper, "successTTLDuration")
    if end is not None:
        left -= look.now - parse_time(end["lastTransitionTime"])
    return WrapperPlan(status, expire=left <= 0, wait_s=left if left > 0 else None)


# Components


def has_succeeded(component: Obj) -> bool:
    """Whether a component says of itself that it is done."""
    if component.get("kind") == "RayJob":
        return status_of(component).get("jobStatus") == "SUCCEEDED"
    return any(conditions.is_true(component, kind) for kind in ("Complete", "Completed", "Succeeded"))


def has_failed(component: Obj) -> bool:
    if component.get("kind") == "RayJob":
        return status_of(component).get("jobDeploymentStatus") == "Failed"
    if component.get("kind") in ("Deployment", "StatefulSet", "Pod"):
        return False
    return conditions.is_true(component, "Failed")


def built(app_wrapper: Obj, position: int) -> Obj:
    """A component as it is created: owned, labelled down to its pods, with what a queue chose for each pod set."""
    component = spec_of(app_wrapper)["components"][position]
    template: Obj = component["template"]
    infos = component.get("podSetInfos") or []
    for index, pod_set in enumerate(pod_sets_of(component)):
        info = infos[index] if index < len(infos) else {}
        path = str(pod_set["path"]).removeprefix("template").removeprefix(".")
        steps = path.replace("[", ".").replace("]", "").split(".") if path else []
        template = _changed(template, steps, lambda pod, info=info: _injected(app_wrapper, pod, info))
    metadata = dict(template.get("metadata") or {})
    metadata["namespace"] = namespace_of(app_wrapper)
    metadata["labels"] = {**(metadata.get("labels") or {}), LABEL: name_of(app_wrapper)}
    metadata["ownerReferences"] = [owner_ref(app_wrapper)]
    return {**template, "metadata": metadata}


def _changed(value: Any, steps: Sequence[str], change: Any) -> Any:
    """`value` with the part at `steps` replaced; everything else is shared."""
    if not steps:
        return change(value)
    step, rest = steps[0], steps[1:]
    if isinstance(value, list):
        return [_changed(item, rest, change) if str(i) == step else item for i, item in enumerate(value)]
    return {**value, step: _changed(value[step], rest, change)}


def _injected(app_wrapper: Obj, pod: Obj, info: Obj) -> Obj:
    metadata, spec = dict(pod.get("metadata") or {}), dict(pod.get("spec") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **(info.get("labels") or {}), LABEL: name_of(app_wrapper)}
    if info.get("annotations"):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **info["annotations"]}
    if info.get("nodeSelector"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **info["nodeSelector"]}
    for name in ("tolerations", "schedulingGates"):
        if info.get(name):
            spec[name] = [*(spec.get(name) or ()), *info[name]]
    return {**pod, "metadata": metadata, "spec": spec}
