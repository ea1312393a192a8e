"""What a hub refuses at admission, beyond the schemas: upstream's webhook rules with their texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from corral.core.meta import Obj, name_of, namespace_of, spec_of
from corral.core.names import check_qualified_name, check_subdomain
from corral.core.quantity import Quantity, QuantityError
from corral.kinds.fleet.names import RESOURCE_PROPERTY

MAX_NAME = 63
MAX_OVERRIDES = 100
_CAPACITY = ("allocatable", "available", "total")


def aggregate(errors: Sequence[str]) -> str:
    """Several errors as Go prints them; each text once."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


# Placements


def check_placement(placement: Obj) -> list[str]:
    """What is wrong with a placement, apart from the kinds it selects."""
    spec = spec_of(placement)
    errors: list[str] = []
    if len(name_of(placement)) > MAX_NAME:
        errors.append("the name field cannot have length exceeding 63")
    for selector in spec.get("resourceSelectors") or ():
        if selector.get("name") and selector.get("labelSelector") is not None:
            shown = go_selector(selector)
            errors.append(f"the labelSelector and name fields are mutually exclusive in selector {shown}")
    policy = [f"the placement policy field is invalid: {text}" for text in check_policy(spec.get("policy") or {})]
    strategy = [
        f"the rollout Strategy field  is invalid: {text}" for text in check_strategy(spec.get("strategy") or {})
    ]
    return [*errors, *policy, *strategy]


def check_policy(policy: Obj) -> list[str]:
    match policy.get("placementType") or "PickAll":
        case "PickFixed":
            return _check_fixed(policy)
        case "PickN":
            return _check_n(policy)
    return _check_all(policy)


def _check_fixed(policy: Obj) -> list[str]:
    errors = []
    names = policy.get("clusterNames") or []
    if not names:
        errors.append("cluster names cannot be empty for policy type PickFixed")
    if len(set(names)) < len(names):
        errors.append("cluster names must be unique for policy type PickFixed")
    for name in names:
        for problem in check_subdomain(name):
            errors.append(f"PickFixed cluster name {name} is not a valid member name: {problem}")
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


def _check_all(policy: Obj) -> list[str]:
    errors = []
    if policy.get("clusterNames"):
        errors.append("cluster names needs to be empty for policy type PickAll, only valid for PickFixed policy type")
    if policy.get("numberOfClusters") is not None:
        errors.append(
            "number of clusters must be nil for policy type PickAll, only valid for PickN placement policy type"
        )
    affinity = (policy.get("affinity") or {}).get("clusterAffinity") or {}
    errors += _check_required(affinity)
    if affinity.get("preferredDuringSchedulingIgnoredDuringExecution"):
        errors.append(
            "PreferredDuringSchedulingIgnoredDuringExecution will be ignored for placement policy type PickAll"
        )
    if policy.get("topologySpreadConstraints"):
        errors.append(
            "topology spread constraints needs to be empty for policy type PickAll, only valid for PickN policy type"
        )
    return [*errors, *_check_tolerations(policy)]


def _check_n(policy: Obj) -> list[str]:
    errors = []
    if policy.get("clusterNames"):
        errors.append("cluster names needs to be empty for policy type PickN, only valid for PickFixed policy type")
    if policy.get("numberOfClusters") is None:
        errors.append("number of cluster cannot be nil for policy type PickN")
    affinity = (policy.get("affinity") or {}).get("clusterAffinity") or {}
    errors += _check_required(affinity)
    for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        errors += _check_preference(term.get("preference") or {})
    for constraint in policy.get("topologySpreadConstraints") or ():
        kind = constraint.get("whenUnsatisfiable") or "DoNotSchedule"
        if kind not in ("DoNotSchedule", "ScheduleAnyway"):
            errors.append(f"unknown unsatisfiable type {kind}")
    return [*errors, *_check_tolerations(policy)]


def _check_required(affinity: Obj) -> list[str]:
    errors = []
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("clusterSelectorTerms") or ():
        if term.get("propertySorter"):
            errors.append("PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity")
        for expression in (term.get("propertySelector") or {}).get("matchExpressions") or ():
            name = str(expression.get("name", ""))
            errors += _check_property(name)
            errors += _check_values(name, expression.get("values") or [])
    return errors


def _check_preference(preference: Obj) -> list[str]:
    errors = []
    if preference.get("propertySelector"):
        errors.append("PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity")
    sorter = preference.get("propertySorter")
    if sorter:
        errors += _check_property(str(sorter.get("name", "")))
        if sorter.get("sortOrder") not in ("Ascending", "Descending"):
            errors.append(f"invalid property sort order {sorter.get('sortOrder')}")
    return errors


def _check_property(name: str) -> list[str]:
    if name.startswith(RESOURCE_PROPERTY):
        kind, _, resource = name.removeprefix(RESOURCE_PROPERTY).partition("-")
        if kind not in _CAPACITY or not resource:
            listed = " ".join(_CAPACITY)
            return [
                f"invalid property name {name}: invalid capacity type in resource property name {name},"
                f" supported values are [{listed}]"
            ]
        # A resource of its own domain, such as nvidia.com/gpu, is a property here; upstream refuses the second slash.
        return [f"invalid property name {name}: {text}" for text in check_qualified_name(resource)]
    return [f"invalid property name {name}: {text}" for text in check_qualified_name(name)]


def _check_values(name: str, values: Sequence[str]) -> list[str]:
    if len(values) != 1:
        return [f"property selector operator requires exactly one value for property {name}, got {len(values)}"]
    try:
        Quantity.parse(values[0])
    except QuantityError as error:
        return [f"invalid values for property {name}: value {values[0]} is not a valid resource.Quantity: {error}"]
    return []


def _check_tolerations(policy: Obj) -> list[str]:
    errors = []
    seen: list[Obj] = []
    for toleration in policy.get("tolerations") or ():
        shown = go_toleration(toleration)
        operator = toleration.get("operator") or "Equal"
        if operator == "Exists" and toleration.get("value"):
            errors.append(f"invalid toleration {shown}: toleration value needs to be empty, when operator is Exists")
        if operator == "Equal" and not toleration.get("key"):
            errors.append(f"invalid toleration {shown}: toleration key cannot be empty, when operator is Equal")
        for part in ("key", "value"):
            problems = check_qualified_name(str(toleration[part])) if part == "key" and toleration.get(part) else []
            errors += [f"invalid toleration {shown}: {problem}" for problem in problems]
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
    if strategy.get("type") == "External":
        if rolling is not None:
            errors.append("rollingUpdateConifg is not valid for ExternalRollout strategy type")
    else:
        for part in ("maxUnavailable", "maxSurge"):
            value = (rolling or {}).get(part)
            if isinstance(value, int) and value < 0:
                errors.append(f"{part} must be greater than or equal to 0, got `{value}`")
        period = (rolling or {}).get("unavailablePeriodSeconds")
        if period is not None and period < 0:
            errors.append(f"unavailablePeriodSeconds must be greater than or equal to 0, got {period}")
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


def duplicate_taint(member: Obj) -> str:
    """The text about a taint that is there twice; empty when all differ."""
    seen: list[Obj] = []
    for taint in spec_of(member).get("taints") or ():
        if taint in seen:
            shown = f"{{Key:{taint.get('key', '')} Value:{taint.get('value', '')} Effect:{taint.get('effect', '')}}}"
            return f"taint {shown} already exists, taints must be unique"
        seen.append(taint)
    return ""


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
