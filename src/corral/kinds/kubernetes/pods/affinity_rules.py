"""Rules for where a pod may run: selectors, affinity, tolerations, spreading, gates."""

from __future__ import annotations

from collections.abc import Iterable

from corral.core import names
from corral.core.errors import Cause
from corral.core.meta import Obj
from corral.core.validation import (
    check_label_selector,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)  # fmt: skip

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _qualified(path: str, name: str) -> list[Cause]:
    return [invalid(path, name, text) for text in names.check_qualified_name(name)]


def check_affinity(affinity: Obj | None, path: str) -> list[Cause]:
    """Node affinity, pod affinity and anti-affinity."""
    if not affinity:
        return []
    causes: list[Cause] = []
    if affinity.get("nodeAffinity") is not None:
        causes += _check_node_affinity(affinity["nodeAffinity"], f"{path}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        if affinity.get(kind) is not None:
            causes += _check_pod_affinity(affinity[kind], f"{path}.{kind}")
    return causes


def _check_node_affinity(affinity: Obj, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if affinity.get(_REQUIRED) is not None:
        causes += check_node_selector(affinity[_REQUIRED], f"{path}.{_REQUIRED}")
    for position, term in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{path}.{_PREFERRED}[{position}]"
        causes += _check_weight(term, where)
        causes += _check_term(term.get("preference") or {}, f"{where}.preference", values=False)
    return causes


def _check_weight(term: Obj, path: str) -> list[Cause]:
    weight = term.get("weight") or 0
    return [] if 0 < weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def check_node_selector(selector: Obj, path: str) -> list[Cause]:
    """A NodeSelector: one or more terms."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    return [
        cause
        for position, term in enumerate(terms)
        for cause in _check_term(term, f"{path}.nodeSelectorTerms[{position}]", values=True)
    ]


def _check_term(term: Obj, path: str, *, values: bool) -> list[Cause]:
    causes: list[Cause] = []
    for position, requirement in enumerate(term.get("matchExpressions") or ()):
        causes += _check_requirement(requirement, f"{path}.matchExpressions[{position}]", values=values)
    for position, requirement in enumerate(term.get("matchFields") or ()):
        causes += _check_field_requirement(requirement, f"{path}.matchFields[{position}]")
    return causes


def _check_requirement(requirement: Obj, path: str, *, values: bool) -> list[Cause]:
    operator, given = requirement.get("operator") or "", requirement.get("values") or []
    causes: list[Cause] = []
    if operator in ("In", "NotIn"):
        if not given:
            causes.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if given:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden(f"{path}.values", detail))
    elif operator in ("Gt", "Lt"):
        if len(given) != 1:
            causes.append(required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        causes.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    causes += _qualified(f"{path}.key", requirement.get("key") or "")
    for position, value in enumerate(given if values else ()):
        causes += [invalid(f"{path}.values[{position}]", value, text) for text in names.check_label_value(value)]
    return causes


def _check_field_requirement(requirement: Obj, path: str) -> list[Cause]:
    operator, given = requirement.get("operator") or "", requirement.get("values") or []
    causes: list[Cause] = []
    if operator not in ("In", "NotIn"):
        causes.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(given) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.append(required(f"{path}.values", detail))
    if requirement.get("key") != "metadata.name":
        causes.append(invalid(f"{path}.key", requirement.get("key") or "", "not a valid field selector key"))
    return causes


def _check_pod_affinity(affinity: Obj, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for position, term in enumerate(affinity.get(_REQUIRED) or ()):
        causes += _check_pod_term(term, f"{path}.{_REQUIRED}[{position}]")
    for position, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{path}.{_PREFERRED}[{position}]"
        causes += _check_weight(weighted, where)
        causes += _check_pod_term(weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")
    return causes


def _check_pod_term(term: Obj, path: str) -> list[Cause]:
    causes = check_label_selector(f"{path}.labelSelector", term.get("labelSelector"))
    causes += check_label_selector(f"{path}.namespaceSelector", term.get("namespaceSelector"))
    for namespace in term.get("namespaces") or ():
        causes += [invalid(f"{path}.namespace", namespace, text) for text in names.check_label(namespace)]
    key = term.get("topologyKey") or ""
    if not key:
        causes.append(required(f"{path}.topologyKey", "can not be empty"))
    return causes + _qualified(f"{path}.topologyKey", key)


def check_tolerations(tolerations: Iterable[Obj], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for position, toleration in enumerate(tolerations):
        causes += _check_toleration(toleration, f"{path}[{position}]")
    return causes


def _check_toleration(toleration: Obj, path: str) -> list[Cause]:
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    effect, value = toleration.get("effect") or "", toleration.get("value") or ""
    causes = _qualified(f"{path}.key", key) if key else []
    if not key and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.append(invalid(f"{path}.operator", operator, detail))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(invalid(f"{path}.effect", effect, detail))
    if operator in ("Equal", ""):
        complaints = names.check_label_value(value)
        if complaints:
            causes.append(invalid(f"{path}.operator", value, ";".join(complaints)))
    elif operator == "Exists":
        if value:
            causes.append(invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'"))
    else:
        causes.append(not_supported(f"{path}.operator", operator, ("Equal", "Exists")))
    if effect and effect not in _EFFECTS:
        causes.append(not_supported(f"{path}.effect", effect, _EFFECTS))
    return causes


def check_gates(gates: Iterable[Obj], path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for position, gate in enumerate(gates):
        name = gate.get("name") or ""
        causes += _qualified(f"{path}[{position}]", name)
        if name in seen:
            causes.append(duplicate(f"{path}[{position}]", name))
        seen.add(name)
    return causes


def check_spreading(constraints: list[Obj], path: str) -> list[Cause]:
    """Topology spread constraints."""
    causes: list[Cause] = []
    last = {(each.get("topologyKey"), each.get("whenUnsatisfiable")): at for at, each in enumerate(constraints)}
    for position, constraint in enumerate(constraints):
        where = f"{path}[{position}]"
        skew, key = constraint.get("maxSkew") or 0, constraint.get("topologyKey") or ""
        action = constraint.get("whenUnsatisfiable") or ""
        if skew <= 0:
            causes.append(invalid(f"{where}.maxSkew", skew, "must be greater than zero"))
        if not key:
            causes.append(required(f"{where}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            causes.append(not_supported(f"{where}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
        if last.get((key, action), position) > position:
            causes.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        causes += _check_spread_options(constraint, action, where)
        causes += check_label_selector(f"{where}.labelSelector", constraint.get("labelSelector"))
    return causes


def _check_spread_options(constraint: Obj, action: str, path: str) -> list[Cause]:
    causes: list[Cause] = []
    domains = constraint.get("minDomains")
    if domains is not None:
        if domains <= 0:
            causes.append(invalid(f"{path}.minDomains", domains, "must be greater than zero"))
        if action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            causes.append(invalid(f"{path}.minDomains", domains, detail))
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if constraint.get(field) not in (None, "Honor", "Ignore"):
            causes.append(not_supported(f"{path}.{field}", constraint[field], ("Honor", "Ignore")))
    return causes
