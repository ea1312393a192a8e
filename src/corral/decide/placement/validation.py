"""What a hub refuses at admission, beyond the schemas: upstream's webhook rules with their texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import Enum

from corral.core.meta import Obj, is_deleting, name_of, namespace_of, spec_of
from corral.core.names import check_label_value, check_qualified_name, check_subdomain
from corral.core.quantity import Quantity, QuantityError
from corral.core.selectors import SelectorError, from_label_selector
from corral.kinds.fleet.names import RESOURCE_PROPERTY

MAX_NAME = 63
MAX_OVERRIDES = 100
_CAPACITY = ("allocatable", "available", "total")
_OPERATORS = ("Gt", "Ge", "Lt", "Le", "Eq", "Ne")


class KindCheck(Enum):
    """Whether a placement may select a kind."""

    FIT = "fit"
    UNFIT = "unfit"
    UNKNOWN = "unknown"


def aggregate(errors: Sequence[str]) -> str:
    """Several errors as Go prints them; each text once."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


# Placements


def check_placement(placement: Obj, kinds: Sequence[KindCheck], *, strict: bool = False) -> list[str]:
    """What is wrong with a placement; `kinds` says for each of its selectors whether its kind can be selected.

    A resource of its own domain, such as nvidia.com/gpu, is a property here; `strict` refuses its second slash, as
    upstream does."""
    spec = spec_of(placement)
    errors: list[str] = []
    if len(name_of(placement)) > MAX_NAME:
        errors.append(f"the name field cannot have length exceeding {MAX_NAME}")
    for selector, check in zip(spec.get("resourceSelectors") or (), kinds, strict=True):
        errors += _check_selector(selector, check)
        if check is KindCheck.UNKNOWN:
            return errors  # nothing more can be said of it
    policy = check_policy(spec.get("policy") or {}, strict=strict)
    if policy:
        errors.append(f"the placement policy field is invalid: {aggregate(policy)}")
    strategy = check_strategy(spec.get("strategy") or {})
    if strategy:
        errors.append(f"the rollout Strategy field  is invalid: {aggregate(strategy)}")
    return errors


def _check_selector(selector: Obj, check: KindCheck) -> list[str]:
    errors = []
    labels = selector.get("labelSelector")
    if labels is not None:
        if selector.get("name"):
            shown = go_selector(selector)
            errors.append(f"the labelSelector and name fields are mutually exclusive in selector {shown}")
        errors += _check_labels(labels, "resource selector")
    group, version, kind = (str(selector.get(part) or "") for part in ("group", "version", "kind"))
    if check is KindCheck.UNKNOWN:
        api = f"{group}/{version}" if group else version
        errors.append(f'failed to get GVR of the selector: no matches for kind "{kind}" in version "{api}"')
    elif check is KindCheck.UNFIT:
        text = "the resource is not found in schema (please retry) or it is not a cluster scoped resource:"
        errors.append(f"{text} {group}/{version}, Kind={kind}")
    return errors


def _check_labels(selector: Obj | None, parent: str) -> list[str]:
    try:
        from_label_selector(selector)
    except SelectorError as error:
        return [f"the labelSelector in {parent} {_go_labels(selector)} is invalid: {error}"]
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
        errors.append(
            "number of clusters must be nil for policy type PickFixed, only valid for PickN placement policy type"
        )
    if policy.get("affinity"):
        errors.append(
            "affinity must be nil for policy type PickFixed, only valid for PickAll/PickN placement policy types"
        )
    if policy.get("topologySpreadConstraints"):
        errors.append(
            "topology spread constraints needs to be empty for policy type PickFixed, only valid for PickN policy type"
        )
    if policy.get("tolerations"):
        errors.append("tolerations needs to be empty for policy type PickFixed, only valid for PickAll/PickN")
    return errors


def _check_all(policy: Obj, strict: bool) -> list[str]:
    errors = []
    if policy.get("clusterNames"):
        errors.append("cluster names needs to be empty for policy type PickAll, only valid for PickFixed policy type")
    if policy.get("numberOfClusters") is not None:
        errors.append(
            "number of clusters must be nil for policy type PickAll, only valid for PickN placement policy type"
        )
    affinity = (policy.get("affinity") or {}).get("clusterAffinity") or {}
    errors += _check_required(affinity, strict)
    if affinity.get("preferredDuringSchedulingIgnoredDuringExecution"):
        errors.append(
            "PreferredDuringSchedulingIgnoredDuringExecution will be ignored for placement policy type PickAll"
        )
    if policy.get("topologySpreadConstraints"):
        errors.append(
            "topology spread constraints needs to be empty for policy type PickAll, only valid for PickN policy type"
        )
    return [*errors, *_check_tolerations(policy)]


def _check_n(policy: Obj, strict: bool) -> list[str]:
    errors = []
    if policy.get("clusterNames"):
        errors.append("cluster names needs to be empty for policy type PickN, only valid for PickFixed policy type")
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


def _check_required(affinity: Obj, strict: bool) -> list[str]:
    errors = []
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("clusterSelectorTerms") or ():
        errors += _check_labels(term.get("labelSelector"), "cluster selector")
        if term.get("propertySorter"):
            errors.append("PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity")
        for expression in (term.get("propertySelector") or {}).get("matchExpressions") or ():
            name = str(expression.get("name", ""))
            errors += [f"invalid property name {name}: {text}" for text in _check_property(name, strict)]
            errors += _check_values(name, str(expression.get("operator", "")), expression.get("values") or [])
    return errors


def _check_preference(preference: Obj, strict: bool) -> list[str]:
    errors = _check_labels(preference.get("labelSelector"), "preferred cluster selector")
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


def go_toleration(toleration: Obj) -> str:
    parts = [f"{part.capitalize()}:{toleration.get(part) or ''}" for part in ("key", "operator", "value", "effect")]
    return "{" + " ".join(parts) + "}"


def lost_tolerations(old: Obj, new: Obj) -> bool:
    """Whether an update changes or removes a toleration; only new ones may come."""
    before = (spec_of(old).get("policy") or {}).get("tolerations") or []
    after = (spec_of(new).get("policy") or {}).get("tolerations") or []
    return any(one not in after for one in before)


def check_strategy(strategy: Obj) -> list[str]:
    errors = []
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") == "External" and rolling is not None:
        errors.append("rollingUpdateConifg is not valid for ExternalRollout strategy type")
    period = (rolling or {}).get("unavailablePeriodSeconds")
    if period is not None and period < 0:
        errors.append(f"unavailablePeriodSeconds must be greater than or equal to 0, got {period}")
    for part in ("maxUnavailable", "maxSurge"):
        value = (rolling or {}).get(part)
        if isinstance(value, int) and value < 0:
            errors.append(f"{part} must be greater than or equal to 0, got `{value}`")
    apply = strategy.get("applyStrategy") or {}
    if apply.get("serverSideApplyConfig") is not None and apply.get("type") != "ServerSideApply":
        errors.append("serverSideApplyConfig is only valid for ServerSideApply strategy type")
    return errors


# Overrides


def check_override(override: Obj, others: Iterable[Obj]) -> list[str]:
    """What is wrong with an override, `others` being all of its kind that may select the same objects."""
    spec = spec_of(override)
    wide = "clusterResourceSelectors" in spec
    selectors = spec.get("clusterResourceSelectors") or spec.get("resourceSelectors") or []
    for selector in selectors:
        if selector.get("labelSelector") is not None:
            return [f"label selector is not supported for resource selection {go_selector(selector)}"]
        if not selector.get("name"):
            return [f"resource name is required for resource selection {_shown(selector, wide)}"]
    for index, selector in enumerate(selectors):
        if _identity(selector) in map(_identity, selectors[:index]):
            return [f"resource selector {_shown(selector, wide)} already exists, and must be unique"]
    for other in others:
        if name_of(other) == name_of(override) and namespace_of(other) == namespace_of(override):
            continue
        taken = spec_of(other).get("clusterResourceSelectors") or spec_of(other).get("resourceSelectors") or []
        for selector in selectors:
            if _identity(selector) in map(_identity, taken):
                return [
                    f"invalid resource selector {_shown(selector, wide)}: the resource has been selected by both"
                    f" {name_of(override)} and {name_of(other)}, which is not supported"
                ]
    for rule in (spec.get("policy") or {}).get("overrideRules") or ():
        errors = _check_rule(rule)
        if errors:
            return errors
    return []


def _identity(selector: Obj) -> tuple[str, ...]:
    return tuple(str(selector.get(part) or "") for part in ("group", "version", "kind", "name"))


def _check_rule(rule: Obj) -> list[str]:
    for term in (rule.get("clusterSelector") or {}).get("clusterSelectorTerms") or ():
        if term.get("propertySelector") or term.get("propertySorter"):
            return [f"invalid clusterSelector {_go_term(term)}: only labelSelector is supported"]
        if term.get("labelSelector") is None:
            return [f"invalid clusterSelector {_go_term(term)}: labelSelector is required"]
    patches = rule.get("jsonPatchOverrides") or []
    if rule.get("overrideType") == "Delete":
        if patches:
            return ["invalid JSONPatchOverrides: JSONPatchOverrides cannot be set when the override type is Delete"]
        return []
    if not patches:
        return ["invalid JSONPatchOverrides: JSONPatchOverrides cannot be empty"]
    for patch in patches:
        if problem := _check_patch(patch):
            return [f"invalid JSONPatchOverride {_go_patch(patch)}: {problem}"]
    return []


def _go_term(term: Obj) -> str:
    label = _go_labels(term.get("labelSelector"))
    sorter = "<nil>" if not term.get("propertySorter") else "set"
    selector = "<nil>" if not term.get("propertySelector") else "set"
    return f"{{LabelSelector:{label} PropertySelector:{selector} PropertySorter:{sorter}}}"


def _go_patch(patch: Obj) -> str:
    value = json.dumps(patch["value"], separators=(",", ":")) if "value" in patch else ""
    return f"{{{patch.get('op')} {patch.get('path')} {{{value}}}}}"


def _check_patch(patch: Obj) -> str:
    path = str(patch.get("path") or "")
    if not path:
        return "path cannot be empty"
    if not path.startswith("/"):
        return "path must start with /"
    parts = path.split("/")[1:]
    if parts[0] in ("kind", "apiVersion"):
        return "cannot override typeMeta fields"
    if parts[0] == "metadata":
        if len(parts) == 1:
            return "cannot override field metadata"
        if parts[1] not in ("annotations", "labels"):
            return "cannot override metadata fields except annotations and labels"
    if parts[0] == "status":
        return "cannot override status fields"
    if any(not part for part in parts):
        return "path cannot contain empty string"
    if patch.get("op") == "remove" and patch.get("value") is not None:
        return "remove operation cannot have value"
    return ""


# How Go prints selectors


def _shown(selector: Obj, wide: bool) -> str:
    if wide:
        return go_selector(selector)
    named = {part: selector.get(part) or "" for part in ("group", "version", "kind", "name")}
    return "{" + " ".join(f"{part.capitalize()}:{text}" for part, text in named.items()) + "}"


def go_selector(selector: Obj) -> str:
    named = " ".join(f"{part.capitalize()}:{selector.get(part) or ''}" for part in ("group", "version", "kind", "name"))
    labels = _go_labels(selector.get("labelSelector"))
    scope = selector.get("selectionScope") or "NamespaceWithResources"
    return f"{{{named} LabelSelector:{labels} SelectionScope:{scope}}}"


def _go_labels(selector: Obj | None) -> str:
    if selector is None:
        return "nil"
    pairs = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    labels = f"map[string]string{{{pairs}}}"
    rules = "".join(
        f"LabelSelectorRequirement{{Key:{one.get('key')},Operator:{one.get('operator')},"
        f"Values:[{' '.join(one.get('values') or ())}],}},"
        for one in selector.get("matchExpressions") or ()
    )
    return f"&LabelSelector{{MatchLabels:{labels},MatchExpressions:[]LabelSelectorRequirement{{{rules}}},}}"


def check_taints(member: Obj) -> list[str]:
    """What is wrong with the taints of a member."""
    errors: list[str] = []
    seen: list[Obj] = []
    for taint in spec_of(member).get("taints") or ():
        key, value = str(taint.get("key") or ""), str(taint.get("value") or "")
        shown = f"{{Key:{key} Value:{value} Effect:{taint.get('effect', '')}}}"
        errors += [f"invalid taint key {shown}: {text}" for text in check_qualified_name(key)]
        errors += [f"invalid taint value {shown}: {text}" for text in check_label_value(value)]
        if taint in seen:
            errors.append(f"taint {shown} already exists, taints must be unique")
        seen.append(taint)
    return errors


# Evictions and budgets


def check_evictable(placement: Obj) -> str:
    """Why nothing can be evicted from a placement; empty when it can."""
    if is_deleting(placement):
        return f"cluster resource placement {name_of(placement)} is being deleted"
    kind = (spec_of(placement).get("policy") or {}).get("placementType")
    return f"cluster resource placement policy type {kind} is not supported" if kind == "PickFixed" else ""


def check_budget(budget: Obj, placement: Obj) -> list[str]:
    """Limits of a budget that mean nothing for its placement: PickAll has no number they could be a part of."""
    if ((spec_of(placement).get("policy") or {}).get("placementType") or "PickAll") != "PickAll":
        return []
    start = "cluster resource placement policy type PickAll is not supported with"
    limits = spec_of(budget)
    errors = []
    if (most := limits.get("maxUnavailable")) is not None:
        errors.append(f"{start} any specified max unavailable {most}")
    if isinstance(least := limits.get("minAvailable"), str):
        errors.append(f"{start} min available as a percentage {least}")
    return errors


# Defaults


def with_defaults(placement: Obj) -> Obj:
    """A ClusterResourcePlacement with everything a user may leave out."""
    spec = dict(spec_of(placement))
    policy = dict(spec.get("policy") or {})
    policy.setdefault("placementType", "PickAll")
    if policy.get("topologySpreadConstraints"):
        policy["topologySpreadConstraints"] = [
            {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **one} for one in policy["topologySpreadConstraints"]
        ]
    if policy.get("tolerations"):
        policy["tolerations"] = [{"operator": "Equal", **one} for one in policy["tolerations"]]
    strategy = dict(spec.get("strategy") or {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        defaults: Obj = {"maxUnavailable": "25%", "maxSurge": "25%", "unavailablePeriodSeconds": 60}
        strategy["rollingUpdate"] = {**defaults, **(strategy.get("rollingUpdate") or {})}
    apply: Obj = {
        "comparisonOption": "PartialComparison",
        "type": "ClientSideApply",
        "whenToApply": "Always",
        "whenToTakeOver": "Always",
        **(strategy.get("applyStrategy") or {}),
    }
    if apply["type"] == "ServerSideApply":
        apply["serverSideApplyConfig"] = {"force": False, **(apply.get("serverSideApplyConfig") or {})}
    strategy["applyStrategy"] = apply
    spec.update(policy=policy, strategy=strategy)
    spec.setdefault("revisionHistoryLimit", 10)
    return placement if spec == spec_of(placement) else {**placement, "spec": spec}
