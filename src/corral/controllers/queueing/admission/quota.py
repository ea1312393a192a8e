"""Rules of ClusterQueues and Cohorts beyond their schemas: quotas, resource groups, weights, check references."""

from __future__ import annotations

from collections.abc import Iterable

from corral.core.errors import Cause
from corral.core.meta import Obj, spec_of
from corral.core.names import check_qualified_name
from corral.core.quantity import Quantity
from corral.core.validation import check_label_selector, child, duplicate, forbidden, index, invalid, not_supported

IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"
MAX_TOTAL = 256
MAX_COMBINATIONS = 512
MAX_CONCURRENT_FLAVORS = 16
SMALLEST_WEIGHT = Quantity.parse("1e-9")


def validate_cluster_queue(queue: Obj) -> list[Cause]:
    """What is wrong with a new ClusterQueue."""
    return [*_cluster_queue_spec(queue), *_on_flavors(queue)]


def validate_cluster_queue_update(new: Obj, old: Obj, *, strict_on_flavors: bool) -> list[Cause]:
    """What is wrong with a changed ClusterQueue; references that were wrong before may stay unless `strict_on_flavors`."""
    causes = _cluster_queue_spec(new)
    tolerated = {} if strict_on_flavors or _flavors(new) != _flavors(old) else _on_flavors_by_check(old)
    causes += _on_flavors(new, tolerated)
    policy = spec_of(new).get("concurrentAdmissionPolicy")
    if policy != spec_of(old).get("concurrentAdmissionPolicy"):
        causes.append(invalid("spec.concurrentAdmissionPolicy", policy, IMMUTABLE))
    return causes


def validate_cohort(cohort: Obj) -> list[Cause]:
    spec = spec_of(cohort)
    return [
        *_fair_sharing(spec),
        *_resource_groups(spec, has_parent=bool(spec.get("parentName")), parent="parent"),
    ]


def _cluster_queue_spec(queue: Obj) -> list[Cause]:
    spec = spec_of(queue)
    groups = "spec.resourceGroups"
    return [
        *_resource_groups(spec, has_parent=bool(spec.get("cohortName")), parent="cohort"),
        *check_label_selector("spec.namespaceSelector", spec.get("namespaceSelector")),
        *_totals(spec, groups),
        *_fair_sharing(spec),
        *_concurrent_admission(spec),
    ]


def _flavors(queue: Obj) -> list[str]:
    groups = spec_of(queue).get("resourceGroups") or []
    return [flavor["name"] for group in groups for flavor in group["flavors"]]


def _on_flavors_by_check(queue: Obj) -> dict[str, set[str]]:
    rules = (spec_of(queue).get("admissionChecksStrategy") or {}).get("admissionChecks") or []
    return {rule["name"]: set(rule.get("onFlavors") or ()) for rule in rules}


def _on_flavors(queue: Obj, tolerated: dict[str, set[str]] | None = None) -> list[Cause]:
    known = _flavors(queue)
    causes = []
    rules = (spec_of(queue).get("admissionChecksStrategy") or {}).get("admissionChecks") or []
    for position, rule in enumerate(rules):
        path = child(index("spec.admissionChecksStrategy.admissionChecks", position), "onFlavors")
        before = (tolerated or {}).get(rule["name"], set())
        for place, flavor in enumerate(rule.get("onFlavors") or []):
            if flavor not in known and flavor not in before:
                causes.append(not_supported(index(path, place), flavor, sorted(known)))
    return causes


def _totals(spec: Obj, path: str) -> list[Cause]:
    groups = spec.get("resourceGroups") or []
    causes = []
    flavors = sum(len(group["flavors"]) for group in groups)
    covered = sum(len(group["coveredResources"]) for group in groups)
    if flavors > MAX_TOTAL:
        text = f"total number of flavors across all resourceGroups must be ≤ {MAX_TOTAL}, got {flavors}"
        causes.append(invalid(path, flavors, text))
    if covered > MAX_TOTAL:
        text = f"total number of covered resources across all resourceGroups must be ≤ {MAX_TOTAL}, got {covered}"
        causes.append(invalid(path, covered, text))
    for position, group in enumerate(groups):
        count = len(group["flavors"]) * len(group["coveredResources"])
        if count > MAX_COMBINATIONS:
            text = (
                f"number of flavor-resource combinations in a resourceGroup must be ≤ {MAX_COMBINATIONS}, got {count}"
            )
            causes.append(invalid(index(path, position), count, text))
    return causes


def _fair_sharing(spec: Obj) -> list[Cause]:
    weight = (spec.get("fairSharing") or {}).get("weight")
    if weight is None:
        return []
    amount = Quantity.parse(weight)
    path = "spec.fairSharing.weight"
    if amount.nanos < 0:
        return [invalid(path, str(amount), NEGATIVE)]
    if amount.nanos and amount <= SMALLEST_WEIGHT:
        return [invalid(path, str(amount), "When not 0, value must be greater than 10^-9")]
    return []


def _resource_groups(spec: Obj, *, has_parent: bool, parent: str) -> list[Cause]:
    causes: list[Cause] = []
    seen_resources: set[str] = set()
    seen_flavors: set[str] = set()
    for position, group in enumerate(spec.get("resourceGroups") or []):
        path = index("spec.resourceGroups", position)
        for place, name in enumerate(group["coveredResources"]):
            where = index(child(path, "coveredResources"), place)
            causes += [invalid(where, name, text) for text in check_qualified_name(name)]
            if name in seen_resources:
                causes.append(duplicate(where, name))
            seen_resources.add(name)
        for place, flavor in enumerate(group["flavors"]):
            where = index(child(path, "flavors"), place)
            causes += _flavor_quotas(flavor, group["coveredResources"], where, has_parent, parent)
            if flavor["name"] in seen_flavors:
                causes.append(duplicate(child(where, "name"), flavor["name"]))
            seen_flavors.add(flavor["name"])
    return causes


def _flavor_quotas(flavor: Obj, covered: Iterable[str], path: str, has_parent: bool, parent: str) -> list[Cause]:
    causes: list[Cause] = []
    for place, (quota, expected) in enumerate(zip(flavor["resources"], covered, strict=False)):
        where = index(child(path, "resources"), place)
        if quota["name"] != expected:
            causes.append(invalid(child(where, "name"), quota["name"], "must match the name in coveredResources"))
        nominal = Quantity.parse(quota["nominalQuota"])
        causes += _not_negative(child(where, "nominalQuota"), nominal)
        for limit in ("borrowingLimit", "lendingLimit"):
            if quota.get(limit) is None:
                continue
            amount = Quantity.parse(quota[limit])
            causes += _not_negative(child(where, limit), amount)
            if not has_parent:
                causes.append(invalid(child(where, limit), str(amount), f"must be nil when {parent} is empty"))
            if limit == "lendingLimit" and parent == "cohort" and amount > nominal:
                text = "must be less than or equal to the nominalQuota"
                causes.append(invalid(child(where, limit), str(amount), text))
    return causes


def _not_negative(path: str, amount: Quantity) -> list[Cause]:
    return [invalid(path, str(amount), NEGATIVE)] if amount.nanos < 0 else []


def _concurrent_admission(spec: Obj) -> list[Cause]:
    policy = spec.get("concurrentAdmissionPolicy")
    if policy is None:
        return []
    causes: list[Cause] = []
    groups = spec.get("resourceGroups") or []
    if len(groups) != 1:
        text = "must have exactly one resource group when concurrentAdmissionPolicy is set"
        causes.append(invalid("spec.resourceGroups", len(groups), text))
    elif len(groups[0]["flavors"]) > MAX_CONCURRENT_FLAVORS:
        text = f"must have at most {MAX_CONCURRENT_FLAVORS} flavors when concurrentAdmissionPolicy is set"
        causes.append(invalid("spec.resourceGroups[0].flavors", len(groups[0]["flavors"]), text))
    causes += _migration(policy.get("migration") or {}, groups)
    if spec.get("queueingStrategy") not in (None, "BestEffortFIFO"):
        text = "must be BestEffortFIFO when concurrentAdmissionPolicy is set"
        causes.append(invalid("spec.queueingStrategy", spec["queueingStrategy"], text))
    return causes


def _migration(migration: Obj, groups: list[Obj]) -> list[Cause]:
    constraints = migration.get("constraints")
    if constraints is None:
        return []
    path = "spec.concurrentAdmissionPolicy.migration.constraints"
    mode = migration.get("mode", "")
    if mode not in ("", "TryPreferredFlavors"):
        text = f'may only be set when migration.mode is "TryPreferredFlavors" (got "{mode}")'
        return [forbidden(path, text)]
    last = constraints.get("lastAcceptableFlavorName")
    allowed = [flavor["name"] for group in groups for flavor in group["flavors"]]
    if last is not None and last not in allowed:
        text = f"must be one of the flavors defined in the ClusterQueue: [{' '.join(allowed)}]"
        return [invalid(child(path, "lastAcceptableFlavorName"), last, text)]
    return []
