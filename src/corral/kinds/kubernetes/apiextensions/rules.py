"""Defaults and rules of CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any

from corral.core import conditions, names
from corral.core.errors import Cause
from corral.core.meta import Obj, labels_of, name_of, spec_of, status_of
from corral.core.regex import RegexError, search
from corral.core.validation import (
    check_metadata_update,
    forbidden,
    immutable,
    invalid,
    not_supported,
    repeats,
    required,
)  # fmt: skip
from corral.kinds.kubernetes.admissionregistration.rules import check_client_config
from corral.kinds.machinery import go_struct_text as internal

_COLUMN_TYPES = "boolean,date,integer,number,string"
_FORMATS = "byte,date,date-time,double,float,int32,int64,password"
_TYPES = frozenset({"array", "boolean", "integer", "number", "object", "string"})
_FORBIDDEN = ("$ref", "definitions", "dependencies", "deprecated", "discriminator", "id", "patternProperties", "readOnly",
              "writeOnly", "xml")  # fmt: skip

SHIPPED = "corral.dev/shipped-with"
"""Label of the definitions of kinds that Corral serves itself: the release whose own declaration the first one repeated."""


def default_crd(crd: Obj) -> None:
    spec = crd.setdefault("spec", {})
    given = spec.setdefault("names", {})
    if not given.get("singular"):
        given["singular"] = (given.get("kind") or "").lower()
    if not given.get("listKind") and given.get("kind"):
        given["listKind"] = given["kind"] + "List"
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    if spec.get("preserveUnknownFields") is False:
        del spec["preserveUnknownFields"]


def prepare_crd(crd: Obj) -> None:
    """A new CRD serves nothing yet; its storage version is the only one stored."""
    stored = [version["name"] for version in spec_of(crd).get("versions") or () if version.get("storage")]
    crd["status"] = {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": stored[:1],
    }


def prepare_crd_update(new: Obj, old: Obj) -> None:
    """A new storage version joins those that objects may still be stored in.

    What Corral serves itself it also stores in its own version, whatever the definition says: there only the version named
    now is stored, so that any release of the definition can take the place of any other. The label that says so stays.
    """
    status = {**status_of(old)}
    shipped = labels_of(old).get(SHIPPED)
    if shipped is not None:
        new["metadata"] = {**new["metadata"], "labels": {**labels_of(new), SHIPPED: shipped}}
    stored = [] if shipped is not None else list(status.get("storedVersions") or ())
    for version in spec_of(new).get("versions") or ():
        if version.get("storage") and version["name"] not in stored:
            stored.append(version["name"])
    if status:
        new["status"] = {**status, "storedVersions": stored}


def crd_name_errors(crd: Obj) -> list[Cause]:
    """The name of a CRD is made of its plural and its group."""
    spec = spec_of(crd)
    wanted = f"{(spec.get('names') or {}).get('plural') or ''}.{spec.get('group') or ''}"
    if name_of(crd) == wanted or not name_of(crd):
        return []
    return [invalid("metadata.name", name_of(crd), 'must be spec.names.plural+"."+spec.group')]


def check_crd(crd: Obj) -> list[Cause]:
    causes = crd_name_errors(crd) + _check_spec(spec_of(crd))
    if not status_of(crd).get("storedVersions") and "status" in crd:
        causes.append(invalid("status.storedVersions", None, "must have at least one stored version"))
    return causes


def check_crd_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    spec, before = spec_of(new), spec_of(old)
    causes += _check_spec(spec)
    if conditions.is_true(old, "Established"):
        causes += immutable("spec.scope", spec.get("scope"), before.get("scope"))
        kinds = ((spec.get("names") or {}).get("kind"), (before.get("names") or {}).get("kind"))
        causes += immutable("spec.names.kind", *kinds)
    causes += immutable("spec.group", spec.get("group"), before.get("group"))
    plurals = ((spec.get("names") or {}).get("plural"), (before.get("names") or {}).get("plural"))
    causes += immutable("spec.names.plural", *plurals)
    known = {version.get("name") for version in spec.get("versions") or ()}
    for position, stored in enumerate(status_of(new).get("storedVersions") or ()):
        if stored not in known:
            detail = f"missing from spec.versions; {stored} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {stored} and removes {stored} from status.storedVersions"
            causes.append(invalid(f"status.storedVersions[{position}]", stored, detail))
    return causes


def check_crd_status(new: Obj, old: Obj) -> list[Cause]:
    return check_metadata_update(new["metadata"], old["metadata"])


def _joined(path: str, value: Any, complaints: list[str]) -> list[Cause]:
    return [invalid(path, value, ",".join(complaints))] if complaints else []


def _check_spec(spec: Obj) -> list[Cause]:
    group, versions = spec.get("group") or "", spec.get("versions") or []
    causes: list[Cause] = []
    if not group:
        causes.append(required("spec.group"))
    elif names.check_subdomain(group):
        causes += _joined("spec.group", group, names.check_subdomain(group))
    elif "." not in group:
        causes.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    scope = spec.get("scope") or ""
    if not scope:
        causes.append(required("spec.scope"))
    elif scope not in ("Cluster", "Namespaced"):
        causes.append(not_supported("spec.scope", scope, ("Cluster", "Namespaced")))
    for position, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            causes.append(required(f"spec.versions[{position}].schema.openAPIV3Schema"))
    for position, version in enumerate(versions):
        causes += _check_version(version, f"spec.versions[{position}]", single=len(versions) == 1)
    causes += _check_version_set(versions)
    given = spec.get("names") or {}
    causes += [required(f"spec.names.{f}") for f in ("plural", "singular", "kind", "listKind") if not given.get(f)]
    causes += _check_names(given, "spec.names")
    return causes + _check_conversion(spec.get("conversion"), "spec.conversion")


def _check_version_set(versions: list[Obj]) -> list[Cause]:
    causes: list[Cause] = []
    seen = [version.get("name") for version in versions]
    if len(set(seen)) != len(seen):
        causes.append(_about_versions(versions, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        causes.append(_about_versions(versions, "must have exactly one version marked as storage version"))
    return causes


def _about_versions(versions: list[Obj], detail: str) -> Cause:
    types = (
        "[]apiextensions.CustomResourceDefinitionVersion",
        "[]apiextensions/v1.CustomResourceDefinitionVersion",
    )
    # What a single version says of itself is moved to the top of the definition before it is checked.
    moved = (
        {"schema", "subresources", "additionalPrinterColumns", "selectableFields"} if len(versions) == 1 else {"schema"}
    )
    shown = [{name: value for name, value in version.items() if name not in moved} for version in versions]
    return internal.invalid("spec.versions", *types, shown, detail)


def _check_version(version: Obj, path: str, *, single: bool) -> list[Cause]:
    name = version.get("name") or ""
    causes = _joined(f"{path}.name", name, names.check_label_1035(name))
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None:
        where = "spec.validation.openAPIV3Schema" if single else f"{path}.schema.openAPIV3Schema"
        causes += check_structural(schema, where)
    where = "spec" if single else path
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        causes += _check_scale(scale, f"{where}.subresources.scale")
    for position, column in enumerate(version.get("additionalPrinterColumns") or ()):
        causes += _check_column(column, f"{where}.additionalPrinterColumns[{position}]")
    return causes


def _check_scale(scale: Obj, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for field, prefix in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        value = scale.get(field) or ""
        if not value:
            causes.append(required(f"{path}.{field}"))
        elif not value.startswith("."):
            causes.append(invalid(f"{path}.{field}", value, "must be a simple json path starting with ."))
        elif not value.startswith(prefix + "."):
            causes.append(invalid(f"{path}.{field}", value, f"should be a json path under {prefix}"))
    selector = scale.get("labelSelectorPath")
    if selector and not selector.startswith((".spec.", ".status.")):
        detail = "should be a json path under either .spec or .status"
        causes.append(invalid(f"{path}.labelSelectorPath", selector, detail))
    return causes


def _check_column(column: Obj, path: str) -> list[Cause]:
    kind, form, source = column.get("type") or "", column.get("format") or "", column.get("jsonPath") or ""
    causes: list[Cause] = [] if column.get("name") else [required(f"{path}.name")]
    if not kind:
        causes.append(required(f"{path}.type", f"must be one of {_COLUMN_TYPES}"))
    elif kind not in _COLUMN_TYPES.split(","):
        causes.append(invalid(f"{path}.type", kind, f"must be one of {_COLUMN_TYPES}"))
    if form and form not in _FORMATS.split(","):
        causes.append(invalid(f"{path}.format", form, f"must be one of {_FORMATS}"))
    if not source:
        causes.append(required(f"{path}.JSONPath"))
    elif not source.startswith("."):
        causes.append(invalid(f"{path}.JSONPath", source, "must be a simple json path starting with ."))
    return causes


def _check_names(given: Obj, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("plural", "singular"):
        if given.get(field):
            causes += _joined(f"{path}.{field}", given[field], names.check_label_1035(given[field]))
    for field in ("kind", "listKind"):
        complaints = names.check_label_1035((given.get(field) or "x").lower())
        if complaints:
            detail = "may have mixed case, but should otherwise match: " + ",".join(complaints)
            causes.append(invalid(f"{path}.{field}", given[field], detail))
    for position, short in enumerate(given.get("shortNames") or ()):
        causes += _joined(f"{path}.shortNames[{position}]", short, names.check_label_1035(short))
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        causes.append(invalid(f"{path}.listKind", given["listKind"], "kind and listKind may not be the same"))
    for position, category in enumerate(given.get("categories") or ()):
        causes += _joined(f"{path}.categories[{position}]", category, names.check_label_1035(category))
    return causes


def _check_conversion(conversion: Obj | None, path: str) -> list[Cause]:
    if conversion is None:
        return []
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook")
    if not strategy:
        return [required(f"{path}.strategy")]
    if strategy not in ("None", "Webhook"):
        return [not_supported(f"{path}.strategy", strategy, ("None", "Webhook"))]
    if strategy == "None":
        if webhook is None:
            return []
        detail = "should not be set when strategy is not set to Webhook"
        given = (("webhookClientConfig", "clientConfig"), ("conversionReviewVersions", "conversionReviewVersions"))
        return [forbidden(f"{path}.{shown}", detail) for shown, field in given if webhook.get(field)]
    config = (webhook or {}).get("clientConfig")
    where = f"{path}.webhookClientConfig"
    causes = (
        [required(where, "required when strategy is set to Webhook")]
        if config is None
        else check_client_config(config, where)
    )
    return causes + _check_review_versions((webhook or {}).get("conversionReviewVersions"), path)


def _check_review_versions(versions: list[str] | None, path: str) -> list[Cause]:
    path = f"{path}.conversionReviewVersions"
    if not versions:
        return [required(path)]
    causes: list[Cause] = []
    repeated = repeats(versions)
    for position, version in enumerate(versions):
        if repeated[position]:
            causes.append(invalid(f"{path}[{position}]", version, "duplicate version"))
        else:
            causes += [invalid(f"{path}[{position}]", version, why) for why in names.check_label_1035(version)]
    if not {"v1", "v1beta1"}.intersection(versions):
        causes.append(invalid(path, versions, "must include at least one of v1, v1beta1"))
    return causes


# Structural schemas


def check_structural(schema: Obj, path: str) -> list[Cause]:
    """What keeps a schema from being structural, the shape CRDs require."""
    causes: list[Cause] = []
    kind = schema.get("type") or ""
    if not kind and not schema.get("x-kubernetes-preserve-unknown-fields"):
        causes.append(required(f"{path}.type", "must not be empty at the root"))
    elif kind and kind != "object":
        causes.append(invalid(f"{path}.type", kind, "must be object at the root"))
    if schema.get("nullable"):
        causes.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    return causes + _check_node(schema, path, place="root")


_MISSING = {
    "field": "must not be empty for specified object fields",
    "item": "must not be empty for specified array items",
}


def _check_node(schema: Obj, path: str, *, place: str) -> list[Cause]:
    causes: list[Cause] = []
    kind = schema.get("type") or ""
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if place in _MISSING and not kind and not free:
        causes.append(required(f"{path}.type", _MISSING[place]))
    if kind and kind not in _TYPES:
        causes.append(not_supported(f"{path}.type", kind, sorted(_TYPES)))
    if kind == "array" and schema.get("items") is None:
        causes.append(required(f"{path}.items", "must be specified"))
    causes += [forbidden(f"{path}.{field}", f"{field} is not supported") for field in _FORBIDDEN if schema.get(field)]
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.append(forbidden(f"{path}.uniqueItems", detail))
    if schema.get("additionalProperties") not in (None, True) and schema.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        causes.append(forbidden(f"{path}.additionalProperties", detail))
    causes += _check_pattern(schema, path) + _check_extensions(schema, path)
    return causes + _check_children(schema, path)


def _check_pattern(schema: Obj, path: str) -> list[Cause]:
    pattern = schema.get("pattern")
    if not pattern:
        return []
    try:
        search(pattern, "")
    except RegexError as error:
        return [invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}")]
    return []


def _check_extensions(schema: Obj, path: str) -> list[Cause]:
    causes: list[Cause] = []
    kind, lists = schema.get("type") or "", schema.get("x-kubernetes-list-type")
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        where = f"{path}.x-kubernetes-preserve-unknown-fields"
        causes.append(invalid(where, False, "must be true or undefined"))
    if schema.get("x-kubernetes-map-type") is not None and kind != "object":
        detail = "must be object if x-kubernetes-map-type is specified"
        causes.append(invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail))
    if lists is None:
        return causes
    if kind != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        causes.append(invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail))
    keys = schema.get("x-kubernetes-list-map-keys") or []
    where = f"{path}.x-kubernetes-list-map-keys"
    if lists not in ("atomic", "map", "set"):
        causes.append(not_supported(f"{path}.x-kubernetes-list-type", lists, ("atomic", "set", "map")))
    if lists == "map" and not keys:
        causes.append(required(where, "must not be empty if x-kubernetes-list-type is map"))
    if lists != "map" and keys:
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        causes.append(invalid(f"{path}.x-kubernetes-list-type", lists, detail))
    known = (schema.get("items") or {}).get("properties") or {}
    for position, key in enumerate(keys):
        if lists == "map" and key not in known:
            detail = "entries must all be names of item properties"
            causes.append(invalid(f"{where}[{position}]", key, detail))
    return causes


def _check_children(schema: Obj, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for name, child in (schema.get("properties") or {}).items():
        causes += _check_node(child, f"{path}.properties[{name}]", place="field")
    if isinstance(schema.get("items"), dict):
        causes += _check_node(schema["items"], f"{path}.items", place="item")
    elif isinstance(schema.get("items"), list):
        causes.append(forbidden(f"{path}.items", "items must be a schema object and not an array"))
    if isinstance(schema.get("additionalProperties"), dict):
        causes += _check_node(schema["additionalProperties"], f"{path}.additionalProperties", place="field")
    return causes
