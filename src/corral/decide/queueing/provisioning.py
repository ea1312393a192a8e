"""What provisioning wants: which request a workload needs for a check, and what an answer makes of the check.

Every attempt is a request of its own; its name says whose it is, for which check, and which attempt. Nothing here reads a
clock or talks to a server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha1
from typing import Any

from corral.core import conditions
from corral.core.backoff import doubled
from corral.core.meta import Obj, annotations_of, name_of, namespace_of, owner_ref, spec_of, status_of
from corral.kinds.kueue import names
from corral.kinds.kueue import provisioning as pr

NOT_ACTIVE = "the check is not active"
NOT_NEEDED = "the provisioning request is not needed"
DEFAULT_POD_SET = "main"
_HASH = 5
_PREFIX = 252 - _HASH
_MAX_ATTEMPT = 100
"""How many attempts are recognised in names that had to be cut off, where the number cannot be read."""


class InconsistentAssignments(Exception):
    """A pod set has no assignment although the workload holds quota."""


# Names


def request_name(workload: str, check: str, attempt: int) -> str:
    return _limited(f"{workload}-{check}-{attempt}")


def template_name(request: str, pod_set: str) -> str:
    """The PodTemplate a request shows for one of its pod sets."""
    return _limited(f"ppt-{request}-{pod_set}")


def _limited(name: str) -> str:
    if len(name) <= _PREFIX:
        return name
    return f"{name[:_PREFIX]}-{sha1(name.encode(), usedforsecurity=False).hexdigest()[:_HASH]}"


def attempt_of(request: str, workload: str, check: str) -> int | None:
    """Which attempt a request is, or None when it belongs to another workload or check."""
    prefix = f"{workload}-{check}-"
    if len(prefix) + len(str(_MAX_ATTEMPT)) > _PREFIX:
        return next((n for n in range(1, _MAX_ATTEMPT) if request == request_name(workload, check, n)), None)
    number = request.removeprefix(prefix)
    return int(number) if number != request and number.isdecimal() else None


def latest(requests: Iterable[Obj], workload: Obj, check: str, config: Obj) -> Obj | None:
    """The last attempt among `requests` that still asks for what `config` wants."""
    found: tuple[int, Obj] | None = None
    for request in requests:
        attempt = attempt_of(name_of(request), name_of(workload), check)
        if attempt is not None and _asks_for(request, workload, config) and (found is None or found[0] < attempt):
            found = attempt, request
    return found[1] if found else None


def _asks_for(request: Obj, workload: Obj, config: Obj) -> bool:
    """Whether class and parameters are still those of the configuration; a job's own parameters may stand in for them."""
    held, wanted, own = spec_of(request), spec_of(config), _own_parameters(workload)
    parameters = held.get("parameters") or {}
    return held.get("provisioningClassName") == wanted.get("provisioningClassName") and all(
        parameters.get(key) == value or (key in own and key in parameters)
        for key, value in (wanted.get("parameters") or {}).items()
    )


def _own_parameters(workload: Obj) -> dict[str, str]:
    prefix = names.PROVISIONING_ANNOTATION_PREFIX
    return {
        key.removeprefix(prefix): value for key, value in annotations_of(workload).items() if key.startswith(prefix)
    }


# What to ask for


@dataclass(frozen=True, slots=True)
class TemplatePods:
    """Pods that are asked for with one template."""

    pod_set: Obj
    assignment: Obj
    count: int
    members: tuple[str, ...]
    """Names of the pod sets that share the template."""

    @property
    def name(self) -> str:
        return self.members[0]


def shares(workload: Obj, config: Obj) -> list[TemplatePods]:
    """What a request has to cover: pod sets that use a managed resource and have pods, merged as the policy says."""
    spec = spec_of(config)
    managed, policy = frozenset(spec.get("managedResources") or ()), str(spec.get("podSetMergePolicy") or "")
    admission = status_of(workload).get("admission") or {}
    assignments = {entry.get("name", DEFAULT_POD_SET): entry for entry in admission.get("podSetAssignments") or ()}
    found: list[TemplatePods] = []
    for pod_set in spec_of(workload).get("podSets") or ():
        name, count = str(pod_set.get("name", DEFAULT_POD_SET)), int(pod_set.get("count", 1))
        if count <= 0 or (managed and not _uses(_pod_spec(pod_set), managed)):
            continue
        assignment = assignments.get(name)
        if assignment is None:
            raise InconsistentAssignments(f'inconsistent podSet assignments: missing assignment for PodSet "{name}"')
        count = int(assignment["count"]) if assignment.get("count") is not None else count
        if count > 0:
            _add(found, TemplatePods(pod_set, assignment, count, (name,)), policy)
    return found


def _add(found: list[TemplatePods], new: TemplatePods, policy: str) -> None:
    for index, held in enumerate(found):
        if _alike(held.pod_set, new.pod_set, policy):
            found[index] = replace(held, count=held.count + new.count, members=(*held.members, *new.members))
            return
    found.append(new)


def _pod_spec(pod_set: Obj) -> Obj:
    return spec_of(pod_set.get("template") or {})


def _uses(spec: Obj, managed: frozenset[str]) -> bool:
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return any(
        resource in managed
        for container in containers
        for amounts in ((container.get("resources") or {}).get(kind) or {} for kind in ("requests", "limits"))
        for resource in amounts
    )


def _alike(first: Obj, second: Obj, policy: str) -> bool:
    if policy == "IdenticalPodTemplates":
        return bool(first.get("template") == second.get("template"))
    if policy == "IdenticalWorkloadSchedulingRequirements":
        return _scheduling(_pod_spec(first)) == _scheduling(_pod_spec(second))
    return False


def _scheduling(spec: Obj) -> list[Any]:
    """What of a pod decides where it can run."""
    requests = [
        [(container.get("resources") or {}).get("requests") or {} for container in spec.get(field) or ()]
        for field in ("containers", "initContainers")
    ]
    fields = ("resources", "nodeSelector", "tolerations", "affinity", "resourceClaims")
    return [*requests, *(spec.get(field) or None for field in fields)]


def metadata_for(workload: Obj, name: str) -> Obj:
    """The metadata of something made for a workload: marked as ours, and gone with it."""
    return {
        "name": name,
        "namespace": namespace_of(workload),
        "labels": {names.MANAGED: "true"},
        "ownerReferences": [owner_ref(workload)],
    }


def new_request(workload: Obj, check: str, attempt: int, config: Obj, wanted: Sequence[TemplatePods]) -> Obj:
    """The request to create."""
    name, spec = request_name(name_of(workload), check, attempt), spec_of(config)
    return {
        "metadata": metadata_for(workload, name),
        "spec": {
            "provisioningClassName": spec["provisioningClassName"],
            "parameters": {**(spec.get("parameters") or {}), **_own_parameters(workload)},
            "podSets": [
                {"podTemplateRef": {"name": template_name(name, share.name)}, "count": share.count} for share in wanted
            ],
        },
    }


def next_attempt(workload: Obj, check: str, state: Obj, request: Obj | None) -> int | None:
    """The attempt to start now, or None when there is nothing to start."""
    if state.get("state") in (names.READY, names.REJECTED):
        return None
    if request is None:
        # The requests of earlier attempts may be gone; the check remembers how many there were.
        return int(state.get("retryCount") or 0) + 1
    expired = conditions.is_true(request, pr.BOOKING_EXPIRED) and not conditions.is_true(workload, names.ADMITTED)
    if (conditions.is_true(request, pr.FAILED) or expired) and state.get("state") == names.PENDING:
        return (attempt_of(name_of(request), name_of(workload), check) or 0) + 1
    return None


def with_requests(spec: Obj) -> Obj:
    """A pod spec in which limits stand in for missing requests, as a scheduler would read it."""
    result = dict(spec)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            result[field] = [_with_requests(container) for container in spec[field]]
    return _with_requests(result)


def _with_requests(part: Obj) -> Obj:
    resources = part.get("resources") or {}
    if not resources.get("limits"):
        return part
    requests = {**resources["limits"], **(resources.get("requests") or {})}
    return {**part, "resources": {**resources, "requests": requests}}


# What an answer means


def judged(state: Obj, workload: Obj, request: Obj, config: Obj, wanted: Sequence[TemplatePods]) -> Obj:
    """The state of a check in the light of its request; `state` itself when that says nothing new."""
    if conditions.is_true(request, pr.FAILED):
        return _retried(state, workload, request, config, pr.FAILED, "failure")
    if conditions.is_true(request, pr.CAPACITY_REVOKED):
        # The nodes are gone: pods made anew would wait for ever.
        if spec_of(workload).get("active") is False:
            return state
        return {**state, "state": names.REJECTED, "message": _message(request, pr.CAPACITY_REVOKED)}
    if conditions.is_true(request, pr.BOOKING_EXPIRED):
        if conditions.is_true(workload, names.ADMITTED):
            return state
        return _retried(state, workload, request, config, pr.BOOKING_EXPIRED, "booking expired")
    if conditions.is_true(request, pr.PROVISIONED):
        if state.get("state") == names.READY:
            return state
        updates = pod_set_updates(request, config, wanted)
        message = _message(request, pr.PROVISIONED)
        return {**state, "state": names.READY, "message": message, "podSetUpdates": updates}
    if conditions.is_true(request, pr.ACCEPTED) and conditions.find(request, pr.PROVISIONED) is None:
        return state
    # An autoscaler tells by the message of a false Provisioned how long it will take.
    message = _message(request, pr.PROVISIONED) if conditions.is_true(request, pr.ACCEPTED) else ""
    return {**state, "state": names.PENDING, "message": message}


def _message(request: Obj, kind: str) -> str:
    return str((conditions.find(request, kind) or {}).get("message", ""))


def _retried(state: Obj, workload: Obj, request: Obj, config: Obj, kind: str, after: str) -> Obj:
    """Another attempt after a growing delay, or the end of all attempts."""
    strategy: Mapping[str, int] = spec_of(config).get("retryStrategy") or {}
    limit, base = int(strategy.get("backoffLimitCount", 3)), int(strategy.get("backoffBaseSeconds", 60))
    attempt = attempt_of(name_of(request), name_of(workload), str(state["name"])) or 1
    message = _message(request, kind)
    if attempt > limit:
        return {**state, "state": names.REJECTED, "message": message}
    explained = {**state, "message": f"Retrying after {after}: {message}"}
    retries = int(state.get("retryCount") or 0)
    if attempt <= retries:
        return explained  # that attempt has been counted already
    delay = int(doubled(base, retries, int(strategy.get("backoffMaxSeconds", 1800))))
    return {**explained, "state": names.RETRY, "requeueAfterSeconds": delay}


def pod_set_updates(request: Obj, config: Obj, wanted: Sequence[TemplatePods]) -> list[Obj]:
    """What pods need to use what was provisioned for them, for every pod set the request covers."""
    details = status_of(request).get("provisioningClassDetails") or {}
    updates = spec_of(config).get("podSetUpdates") or {}
    selector = {
        entry["key"]: details[entry["valueFromProvisioningClassDetail"]]
        for entry in updates.get("nodeSelector") or ()
        if entry["valueFromProvisioningClassDetail"] in details
    }
    annotations = {pr.CONSUME: name_of(request), pr.CLASS_NAME: spec_of(request)["provisioningClassName"]}
    more = {"nodeSelector": selector} if selector else {}
    return [{"name": name, "annotations": annotations, **more} for share in wanted for name in share.members]


def parameters_problem(check: Obj) -> str:
    """Why the parameters of a check cannot lead to a configuration, or empty."""
    parameters = spec_of(check).get("parameters")
    if not parameters:
        return "missing parameters reference"
    group, kind, name = (str(parameters.get(field) or "") for field in ("apiGroup", "kind", "name"))
    if not name:
        return "empty name: bad parameters reference"
    if group != names.GROUP:
        return f'wrong group "{group}", expecting "{names.GROUP}": bad parameters reference'
    if kind != "ProvisioningRequestConfig":
        return f'wrong kind "{kind}", expecting "ProvisioningRequestConfig": bad parameters reference'
    return ""
