"""Values in messages, the way Go prints them."""

from __future__ import annotations

from collections.abc import Sequence

from corral.core.meta import Obj


def aggregate(errors: Sequence[str]) -> str:
    """Several errors as Go prints them; each text once."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def go_toleration(toleration: Obj) -> str:
    parts = [f"{part.capitalize()}:{toleration.get(part) or ''}" for part in ("key", "operator", "value", "effect")]
    return "{" + " ".join(parts) + "}"


def go_selector(selector: Obj) -> str:
    named = " ".join(f"{part.capitalize()}:{selector.get(part) or ''}" for part in ("group", "version", "kind", "name"))
    labels = go_labels(selector.get("labelSelector"))
    scope = selector.get("selectionScope") or "NamespaceWithResources"
    return f"{{{named} LabelSelector:{labels} SelectionScope:{scope}}}"


def go_labels(selector: Obj | None) -> str:
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
