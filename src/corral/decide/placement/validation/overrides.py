"""What is wrong with an override: what it selects, where it applies and what it changes."""

from __future__ import annotations

import json
from collections.abc import Iterable

from corral.core.meta import Obj, name_of, namespace_of, spec_of
from corral.decide.placement.go_texts import go_labels, go_selector

MAX_OVERRIDES = 100


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
    label = go_labels(term.get("labelSelector"))
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


def _shown(selector: Obj, wide: bool) -> str:
    if wide:
        return go_selector(selector)
    named = {part: selector.get(part) or "" for part in ("group", "version", "kind", "name")}
    return "{" + " ".join(f"{part.capitalize()}:{text}" for part, text in named.items()) + "}"
