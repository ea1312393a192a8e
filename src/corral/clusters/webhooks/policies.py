"""ValidatingAdmissionPolicies: rules that a CEL expression can say, so that they hold while nobody answers the webhooks.

They let no queued job in that would start by itself, be it queued by its name or by the default queue of its namespace, and
none change hands. Everything else that is checked is refused by the webhooks, in upstream's words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corral.clusters.webhooks.configurations import LABELS, managed_namespaces
from corral.configuration.queueing import QueueingConfig
from corral.controllers.queueing.admission.lookups import DEFAULT_QUEUE
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.jobs.framework.adapter import SuspendableJob
from corral.jobs.framework.paths import Path
from corral.kinds.kueue import LOCAL_QUEUES, names

NAMES_A_QUEUE = " || ".join(
    f"(has(object.metadata.{field}) && '{names.QUEUE_NAME}' in object.metadata.{field})"
    for field in ("labels", "annotations")
)


def admission_policies(config: QueueingConfig) -> list[Obj]:
    """The policies and their bindings for the job kinds that are queued."""
    suspended: dict[Path, list[Resource]] = {}
    managed: dict[Path, list[Resource]] = {}
    adapters = config.job_adapters()
    owned = is_owned_by([adapter.resource for adapter in adapters])
    for adapter in adapters:
        if isinstance(adapter, SuspendableJob):
            suspended.setdefault(adapter.suspend_path, []).append(adapter.resource)
        if adapter.managed_by_path is not None:
            managed.setdefault(adapter.managed_by_path, []).append(adapter.resource)
    namespaces = managed_namespaces(config)
    policies = [_starts_suspended(path, found, owned) for path, found in suspended.items()]
    policies += [_keeps_its_manager(path, found) for path, found in managed.items()]
    bound = [each for policy in policies for each in (policy, _binding(policy, namespaces))]
    if config.gates["LocalQueueDefaulting"] and suspended:
        policy = _names_the_default_queue([found for each in suspended.values() for found in each], owned)
        bound += [policy, _binding(policy, namespaces, {"name": DEFAULT_QUEUE, "parameterNotFoundAction": "Allow"})]
    return bound


def _starts_suspended(path: Path, resources: Sequence[Resource], owned: str) -> Obj:
    field = dotted(path)
    return _policy(
        f"corral-queued-jobs-start-suspended-{_slug(path)}",
        _rule(resources, "CREATE"),
        f"!({NAMES_A_QUEUE}) || ({owned}) || ({is_set('object', path)} && object.{field})",
        f"{field} must be true in a new job that names a queue: queueing starts it. The mutating webhook sets it; "
        "it did not answer, or is not registered",
    )


def _names_the_default_queue(resources: Sequence[Resource], owned: str) -> Obj:
    """Jobs that name no queue pass when nobody answers; not so where there is a queue for them. The API server looks for it itself,
    and where it cannot, because the definition is gone, nothing is queued."""
    made = _policy(
        "corral-jobs-name-the-default-queue",
        _rule(resources, "CREATE"),
        f"({NAMES_A_QUEUE}) || ({owned})",
        f"a new job names a queue in a namespace with a LocalQueue {DEFAULT_QUEUE!r}. The mutating webhook names that one; "
        "it did not answer, or is not registered",
    )
    kind = {"apiVersion": LOCAL_QUEUES.api_version, "kind": LOCAL_QUEUES.kind}
    return {**made, "spec": {**made["spec"], "failurePolicy": "Ignore", "paramKind": kind}}


def is_owned_by(resources: Iterable[Resource]) -> str:
    """Says in CEL whether an object belongs to one of these kinds, which is queued in its place."""
    kinds = ", ".join(f"'{each.group}/{each.kind}'" for each in resources)
    owner = f"(owner.apiVersion.split('/')[0] + '/' + owner.kind) in [{kinds}]"
    return (
        "has(object.metadata.ownerReferences) && "
        f"object.metadata.ownerReferences.exists(owner, has(owner.controller) && owner.controller && {owner})"
    )


def _keeps_its_manager(path: Path, resources: Sequence[Resource]) -> Obj:
    field = dotted(path)
    new, old = is_set("object", path), is_set("oldObject", path)
    same = f"({new}) == ({old}) && (!({new}) || object.{field} == oldObject.{field})"
    return _policy(
        f"corral-queued-jobs-keep-managed-by-{_slug(path)}",
        _rule(resources, "UPDATE"),
        f"!({NAMES_A_QUEUE}) || ({same})",
        f"{field}: field is immutable",
    )


def is_set(variable: str, path: Path) -> str:
    """Says in CEL that every step of a path is there."""
    steps = [f"{variable}.{dotted(path[: length + 1])}" for length in range(len(path))]
    return " && ".join(f"has({step})" for step in steps)


def dotted(path: Path) -> str:
    return ".".join(str(step) for step in path)


def _slug(path: Path) -> str:
    return "-".join(str(step).lower() for step in path)


def _rule(resources: Iterable[Resource], operation: str) -> list[Obj]:
    return [
        {
            "apiGroups": [resource.group],
            "apiVersions": [resource.version],
            "operations": [operation],
            "resources": [resource.plural],
            "scope": "Namespaced",
        }
        for resource in resources
    ]


def _policy(name: str, rules: list[Obj], expression: str, message: str) -> Obj:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name, "labels": LABELS},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": rules},
            "validations": [{"expression": expression, "message": message, "reason": "Forbidden"}],
        },
    }


def _binding(policy: Obj, namespaces: Obj, parameter: Obj | None = None) -> Obj:
    name = policy["metadata"]["name"]
    referred: Obj = {} if parameter is None else {"paramRef": parameter}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name, "labels": LABELS},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            **referred,
            "matchResources": {"matchPolicy": "Equivalent", "namespaceSelector": namespaces},
        },
    }
