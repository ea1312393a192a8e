"""What is wrong with an override: what it selects, where it applies and what it changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from corral.core.meta import Obj, name_of, namespace_of, spec_of
from corral.decide.placement.go_texts import go_labels, go_selector

MAX_OVERRIDES = 100


def check_override(override: Obj, others: Iterable[Obj]) -> list[str]:
    """All that is wrong with an override, `others` being all of its kind that may select the same objects. While its own
    selectors are wrong, nothing else is looked at."""
    spec = spec_of(override)
    wide = "clusterResourceSelectors" in spec
    selectors = _selectors(override)
    rules = (spec.get("policy") or {}).get("overrideRules") or ()
    return _check_selectors(selectors, wide) or [
        *_check_taken(override, selectors, others, wide),
        *(error for rule in rules for error in _check_rule(rule)),
    ]


def _selectors(override: Obj) -> list[Obj]:
    spec = spec_of(override)
    return spec.get("clusterResourceSelectors") or spec.get("resourceSelectors") or []


def _identity(selector: Obj) -> tuple[str, ...]:
    return tuple(str(selector.get(part) or "") for part in ("group", "version", "kind", "name"))


def _check_selectors(selectors: Sequence[Obj], wide: bool) -> list[str]:
    errors: list[str] = []
    seen: set[tuple[str, ...]] = set()
    for selector in selectors:
        if selector.get("labelSelector") is not None:
            errors.append(f"label selector is not supported for resource selection {go_selector(selector)}")
        elif not selector.get("name"):
            errors.append(f"resource name is required for resource selection {_shown(selector, wide)}")
        elif _identity(selector) in seen:
            errors.append(f"resource selector {_shown(selector, wide)} already exists, and must be unique")
        else:
            seen.add(_identity(selector))
    return errors


def _check_taken(override: Obj, selectors: Sequence[Obj], others: Iterable[Obj], wide: bool) -> list[str]:
    """No object may be in two overrides."""
    taken = {
        _identity(selector): name_of(other)
        for other in others
        if name_of(other) != name_of(override) or namespace_of(other) != namespace_of(override)
        for selector in _selectors(other)
    }
    return [
        f"invalid resource selector {_shown(selector, wide)}: the resource has been selected by both"
        f" {name_of(override)} and {taken[_identity(selector)]}, which is not supported"
        for selector in selectors
        if _identity(selector) in taken
    ]


def _check_rule(rule: Obj) -> list[str]:
    terms = (rule.get("clusterSelector") or {}).get("clusterSelectorTerms") or ()
    errors = [
        f"invalid clusterSelector {_go_term(term)}: {problem}" for term in terms if (problem := _check_term(term))
    ]
    patches = rule.get("jsonPatchOverrides") or []
    if rule.get("overrideType") == "Delete":
        if patches:
            text = "JSONPatchOverrides cannot be set when the override type is Delete"
            errors.append(f"invalid JSONPatchOverrides: {text}")
        return errors
    if not patches:
        errors.append("invalid JSONPatchOverrides: JSONPatchOverrides cannot be empty")
    for patch in patches:
        errors += [f"invalid JSONPatchOverride {_go_patch(patch)}: {problem}" for problem in _check_patch(patch)]
    return errors


def _check_term(term: Obj) -> str:
    if term.get("propertySelector") or term.get("propertySorter"):
        return "only labelSelector is supported"
    return "labelSelector is required" if term.get("labelSelector") is None else ""


def _go_term(term: Obj) -> str:
    label = go_labels(term.get("labelSelector"))
    sorter = "<nil>" if not term.get("propertySorter") else "set"
    selector = "<nil>" if not term.get("propertySelector") else "set"
    return f"{{LabelSelector:{label} PropertySelector:{selector} PropertySorter:{sorter}}}"


def _go_patch(patch: Obj) -> str:
    value = json.dumps(patch["value"], separators=(",", ":")) if "value" in patch else ""
    return f"{{{patch.get('op')} {patch.get('path')} {{{value}}}}}"


def _check_patch(patch: Obj) -> list[str]:
    problems = [_check_path(str(patch.get("path") or ""))]
    if patch.get("op") == "remove" and patch.get("value") is not None:
        problems.append("remove operation cannot have value")
    return [problem for problem in problems if problem]


def _check_path(path: str) -> str:
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
    return ""


def _shown(selector: Obj, wide: bool) -> str:
    if wide:
        return go_selector(selector)
    named = {part: selector.get(part) or "" for part in ("group", "version", "kind", "name")}
    return "{" + " ".join(f"{part.capitalize()}:{text}" for part, text in named.items()) + "}"
