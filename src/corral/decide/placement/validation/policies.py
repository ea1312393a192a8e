"""What is wrong with a placement's policy: how clusters are picked, by which properties, and what is tolerated."""

from __future__ import annotations

from collections.abc import Sequence

from corral.core.meta import Obj, spec_of
from corral.core.names import check_label_value, check_qualified_name, check_subdomain
from corral.core.quantity import Quantity, QuantityError
from corral.core.selectors import SelectorError, from_label_selector
from corral.decide.placement.go_texts import go_labels, go_toleration
from corral.kinds.fleet.names import RESOURCE_PROPERTY

MAX_NAME = 63
_CAPACITY = ("allocatable", "available", "total")
_OPERATORS = ("Gt", "Ge", "Lt", "Le", "Eq", "Ne")


def check_labels(selector: Obj | None, parent: str) -> list[str]:
    try:
        from_label_selector(selector)
    except SelectorError as error:
        return [f"the labelSelector in {parent} {go_labels(selector)} is invalid: {error}"]
    return []


def type_changed(old: Obj, new: Obj) -> bool:
    """Whether an update changes how clusters are picked; no policy is PickAll."""
    before, after = ((spec_of(one).get("policy") or {}).get("placementType") or "PickAll" for one in (old, new))
    return before != after


def check_policy(policy: Obj, *, strict: bool = False) -> list[str]:
    match policy.get("placementType") or "PickAll":
        case "PickFixed":
            return _check_fixed(policy)
        case "PickN":
            return _check_n(policy, strict)
    return _check_all(policy, strict)


def _check_fixed(policy: Obj) -> list[str]:
    errors = []
    names = policy.get("clusterNames") or []
    if not names:
        errors.append("cluster names cannot be empty for policy type PickFixed")
    seen: set[str] = set()
    for name in names:
        if problems := check_subdomain(name):
            errors.append(f"PickFixed cluster name {name} is not a valid member name: {'; '.join(problems)}")
        if len(name) > MAX_NAME:
            errors.append(f"PickFixed cluster name {name} cannot have length exceeding {MAX_NAME}")
        if name in seen:
            errors.append("cluster names must be unique for policy type PickFixed")
            break
        seen.add(name)
    if policy.get("numberOfClusters") is not None:
        errors.append(_no_number("PickFixed"))
    if policy.get("affinity"):
        errors.append(
            "affinity must be nil for policy type PickFixed, only valid for PickAll/PickN placement policy types"
        )
    if policy.get("topologySpreadConstraints"):
        errors.append(_no_spread("PickFixed"))
    if policy.get("tolerations"):
        errors.append("tolerations needs to be empty for policy type PickFixed, only valid for PickAll/PickN")
    return errors


def _check_all(policy: Obj, strict: bool) -> list[str]:
    errors = []
    if policy.get("clusterNames"):
        errors.append(_no_names("PickAll"))
    if policy.get("numberOfClusters") is not None:
        errors.append(_no_number("PickAll"))
    affinity = (policy.get("affinity") or {}).get("clusterAffinity") or {}
    errors += _check_required(affinity, strict)
    if affinity.get("preferredDuringSchedulingIgnoredDuringExecution"):
        errors.append(
            "PreferredDuringSchedulingIgnoredDuringExecution will be ignored for placement policy type PickAll"
        )
    if policy.get("topologySpreadConstraints"):
        errors.append(_no_spread("PickAll"))
    return [*errors, *_check_tolerations(policy)]


def _check_n(policy: Obj, strict: bool) -> list[str]:
    errors = []
    if policy.get("clusterNames"):
        errors.append(_no_names("PickN"))
    if policy.get("numberOfClusters") is None:
        errors.append("number of cluster cannot be nil for policy type PickN")
    affinity = (policy.get("affinity") or {}).get("clusterAffinity") or {}
    errors += _check_required(affinity, strict)
    for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        errors += _check_preference(term.get("preference") or {}, strict)
    for constraint in policy.get("topologySpreadConstraints") or ():
        kind = constraint.get("whenUnsatisfiable") or "DoNotSchedule"
        if kind not in ("DoNotSchedule", "ScheduleAnyway"):
            errors.append(f"unknown unsatisfiable type {kind}")
    return [*errors, *_check_tolerations(policy)]


def _no_names(kind: str) -> str:
    return f"cluster names needs to be empty for policy type {kind}, only valid for PickFixed policy type"


def _no_number(kind: str) -> str:
    return f"number of clusters must be nil for policy type {kind}, only valid for PickN placement policy type"


def _no_spread(kind: str) -> str:
    return f"topology spread constraints needs to be empty for policy type {kind}, only valid for PickN policy type"


def _check_required(affinity: Obj, strict: bool) -> list[str]:
    errors = []
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("clusterSelectorTerms") or ():
        errors += check_labels(term.get("labelSelector"), "cluster selector")
        if term.get("propertySorter"):
            errors.append("PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity")
        for expression in (term.get("propertySelector") or {}).get("matchExpressions") or ():
            name = str(expression.get("name", ""))
            errors += [f"invalid property name {name}: {text}" for text in _check_property(name, strict)]
            errors += _check_values(name, str(expression.get("operator", "")), expression.get("values") or [])
    return errors


def _check_preference(preference: Obj, strict: bool) -> list[str]:
    errors = check_labels(preference.get("labelSelector"), "preferred cluster selector")
    if preference.get("propertySelector"):
        errors.append("PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity")
    sorter = preference.get("propertySorter")
    if sorter:
        errors += _check_property(str(sorter.get("name", "")), strict)
        if sorter.get("sortOrder") not in ("Ascending", "Descending"):
            errors.append(f"invalid property sort order {sorter.get('sortOrder')}")
    return errors


def _check_property(name: str, strict: bool) -> list[str]:
    """What is wrong with the name of a property: a resource's, or segments between slashes."""
    if name.startswith(RESOURCE_PROPERTY):
        kind, dash, resource = name.removeprefix(RESOURCE_PROPERTY).partition("-")
        if not dash:
            form = "[PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]"
            return [f"invalid resource property name {name}, expected format is {form}"]
        if kind not in _CAPACITY:
            listed = " ".join(_CAPACITY)
            return [f"invalid capacity type in resource property name {name}, supported values are [{listed}]"]
        problems = check_qualified_name(name if strict else resource)
        return [f"property name {name} is not valid: {'; '.join(problems)}"] if problems else []
    first, *others = name.split("/")
    problems = check_qualified_name(first)
    if not others:
        return [f"property name {name} is not valid: {'; '.join(problems)}"] if problems else []
    if problems and (also := check_subdomain(first)):
        return [
            f"property name first segment {first} is not valid: it is neither a valid DNS subdomain"
            f" ({'; '.join(also)}) nor a valid qualified name ({'; '.join(problems)})"
        ]
    for segment in others:
        if problems := check_qualified_name(segment):
            return [f"property name segment {segment} is not valid: {'; '.join(problems)}"]
    return []


def _check_values(name: str, operator: str, values: Sequence[str]) -> list[str]:
    errors = []
    if operator in _OPERATORS and len(values) != 1:
        errors.append(
            f"invalid operator for property {name}: operator {operator} requires exactly one value, got {len(values)}"
        )
    for value in values:
        try:
            Quantity.parse(value)
        except QuantityError as error:
            text = f"value {value} is not a valid resource.Quantity: {error}"
            return [*errors, f"invalid values for property {name}: {text}"]
    return errors


def _check_tolerations(policy: Obj) -> list[str]:
    errors = []
    seen: list[Obj] = []
    for toleration in policy.get("tolerations") or ():
        shown = go_toleration(toleration)
        operator = toleration.get("operator") or "Equal"
        key, value = str(toleration.get("key") or ""), str(toleration.get("value") or "")
        errors += [f"invalid toleration key {shown}: {text}" for text in (check_qualified_name(key) if key else ())]
        if operator == "Exists" and toleration.get("value"):
            errors.append(f"invalid toleration {shown}: toleration value needs to be empty, when operator is Exists")
        if operator == "Equal" and not toleration.get("key"):
            errors.append(f"invalid toleration {shown}: toleration key cannot be empty, when operator is Equal")
        if operator == "Equal":
            errors += [f"invalid toleration value {shown}: {text}" for text in check_label_value(value)]
        if toleration in seen:
            errors.append(f"toleration {shown} already exists, tolerations must be unique")
        seen.append(toleration)
    return errors


def lost_tolerations(old: Obj, new: Obj) -> bool:
    """Whether an update changes or removes a toleration; only new ones may come."""
    before = (spec_of(old).get("policy") or {}).get("tolerations") or []
    after = (spec_of(new).get("policy") or {}).get("tolerations") or []
    return any(one not in after for one in before)
