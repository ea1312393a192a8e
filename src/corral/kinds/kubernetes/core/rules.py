"""Defaults and rules of the smaller core/v1 kinds."""

from __future__ import annotations

import base64
import json

from corral.core import names
from corral.core.errors import Cause
from corral.core.meta import Obj, annotations_of, name_of, spec_of, status_of
from corral.core.quantity import Quantity
from corral.core.validation import (
    check_label_selector,
    check_metadata,
    check_metadata_update,
    duplicate,
    forbidden,
    immutable,
    invalid,
    not_supported,
    repeats,
    required,
    too_long,
)  # fmt: skip
from corral.kinds.kubernetes.networking.rules import check_cidr
from corral.kinds.kubernetes.pods.container_rules import check_amount
from corral.kinds.kubernetes.pods.defaults import default_template
from corral.kinds.kubernetes.pods.downward_rules import check_all
from corral.kinds.kubernetes.pods.rules import check_template
from corral.kinds.machinery import go_struct_text as internal

MAX_DATA = 1024 * 1024
_FROZEN = "field is immutable when `immutable` is set"
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


# ConfigMaps and Secrets


def _decoded_size(value: str | None) -> int:
    return len(value) * 3 // 4 - value[-2:].count("=") if value else 0


def check_config_map(config_map: Obj) -> list[Cause]:
    data, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    causes: list[Cause] = []
    for key in sorted(data):
        causes += check_all(f"data[{key}]", key, names.check_config_key(key))
        if key in binary:
            causes.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in sorted(binary):
        causes += check_all(f"binaryData[{key}]", key, names.check_config_key(key))
    size = sum(len(value.encode()) for value in data.values()) + sum(map(_decoded_size, binary.values()))
    return [*causes, too_long("[]", MAX_DATA)] if size > MAX_DATA else causes


def _check_frozen(new: Obj, old: Obj, fields: tuple[str, ...]) -> list[Cause]:
    if not old.get("immutable"):
        return []
    causes = [] if new.get("immutable") else [forbidden("immutable", _FROZEN)]
    return causes + [forbidden(field, _FROZEN) for field in fields if new.get(field) != old.get(field)]


def check_config_map_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    causes += _check_frozen(new, old, ("data", "binaryData"))
    return causes + check_metadata(new["metadata"], namespaced=True) + check_config_map(new)


def default_secret(secret: Obj) -> None:
    secret.setdefault("type", "Opaque")


def prepare_secret(secret: Obj) -> None:
    """Plain `stringData` becomes part of `data`; it is never stored."""
    plain = secret.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def prepare_secret_update(new: Obj, old: Obj) -> None:
    prepare_secret(new)


def check_secret(secret: Obj) -> list[Cause]:
    data = secret.get("data") or {}
    causes: list[Cause] = []
    for key in sorted(data):
        causes += check_all(f"data[{key}]", key, names.check_config_key(key))
    if sum(map(_decoded_size, data.values())) > MAX_DATA:
        causes.append(too_long("data", MAX_DATA))
    return causes + _check_secret_type(secret, data)


def _check_secret_type(secret: Obj, data: dict[str, str]) -> list[Cause]:
    kind = secret.get("type") or ""
    account = "kubernetes.io/service-account.name"
    if kind == "kubernetes.io/service-account-token":
        return [] if annotations_of(secret).get(account) else [required(f"metadata.annotations[{account}]")]
    documents = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}
    if kind in documents:
        return _check_document(data, documents[kind])
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        return [required("data[username]"), required("data[password]")]
    if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        return [required("data[ssh-privatekey]")]
    if kind == "kubernetes.io/tls":
        return [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    return []


def _check_document(data: dict[str, str], key: str) -> list[Cause]:
    if key not in data:
        return [required(f"data[{key}]")]
    redacted = "<secret contents redacted>"
    content = base64.b64decode(data[key] or "").decode(errors="replace").strip()
    try:
        parsed = json.loads(content)
    except ValueError:
        first = content[:1]
        wrong = f"invalid character '{first}' looking for beginning of value"
        return [invalid(f"data[{key}]", redacted, wrong if first else "unexpected end of JSON input")]
    if not isinstance(parsed, dict):
        kind = {list: "array", str: "string", bool: "bool"}.get(type(parsed), "number")
        detail = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        return [invalid(f"data[{key}]", redacted, detail)]
    return []


def check_secret_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    causes += immutable("type", new.get("type") or "", old.get("type") or "")
    causes += _check_frozen(new, old, ("data",))
    return causes + check_metadata(new["metadata"], namespaced=True) + check_secret(new)


# Namespaces


def default_namespace(namespace: Obj) -> None:
    name = name_of(namespace)
    if name:
        metadata = namespace["metadata"]
        metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": name}


def prepare_namespace(namespace: Obj) -> None:
    """A new Namespace is active and holds the finalizer under which its content is removed."""
    default_namespace(namespace)
    spec = namespace.setdefault("spec", {})
    finalizers = spec.get("finalizers") or []
    spec["finalizers"] = finalizers if "kubernetes" in finalizers else [*finalizers, "kubernetes"]
    namespace["status"] = {"phase": "Active"}


def prepare_namespace_update(new: Obj, old: Obj) -> None:
    """Finalizers of the spec only change through the finalize subresource."""
    spec, finalizers = new.setdefault("spec", {}), spec_of(old).get("finalizers")
    if finalizers is not None:
        spec["finalizers"] = finalizers
    else:
        spec.pop("finalizers", None)


def check_namespace(namespace: Obj) -> list[Cause]:
    causes: list[Cause] = []
    for finalizer in spec_of(namespace).get("finalizers") or ():
        complaints = names.check_qualified_name(finalizer)
        causes += check_all("spec.finalizers", finalizer, complaints)
        if not complaints and "/" not in finalizer and finalizer not in ("kubernetes", "orphan", "foregroundDeletion"):
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(invalid("spec.finalizers", finalizer, detail))
    return causes


def check_namespace_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata(new["metadata"], namespaced=False, check_name=names.check_label) + check_namespace(new)
    return causes + check_metadata_update(new["metadata"], old["metadata"])


def check_namespace_status(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    phase = status_of(new).get("phase") or ""
    wanted = "Active" if new["metadata"].get("deletionTimestamp") is None else "Terminating"
    if phase != wanted:
        empty = "empty" if wanted == "Active" else "not empty"
        detail = f"may only be '{wanted}' if `deletionTimestamp` is {empty}"
        causes.append(invalid("status.Phase", phase, detail))
    return causes


# Nodes


def default_node(node: Obj) -> None:
    """`podCIDR` is the first of `podCIDRs`; allocatable defaults to capacity."""
    spec = node.get("spec") or {}
    if spec.get("podCIDR") and (spec.get("podCIDRs") or [""])[0] != spec["podCIDR"]:
        spec["podCIDRs"] = [spec["podCIDR"]]
    elif spec.get("podCIDRs"):
        spec["podCIDR"] = spec["podCIDRs"][0]
    default_node_status(node)


def default_node_status(node: Obj) -> None:
    status = node.get("status") or {}
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def _check_taints(node: Obj) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for position, taint in enumerate(spec_of(node).get("taints") or ()):
        where = f"metadata.taints[{position}]"
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        causes += check_all(f"{where}.key", key, names.check_qualified_name(key))
        complaints = names.check_label_value(taint.get("value") or "")
        if complaints:
            causes.append(invalid(f"{where}.value", taint.get("value"), ";".join(complaints)))
        effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
        if not effect:
            causes.append(required(f"{where}.effect"))
        elif effect not in effects:
            causes.append(not_supported(f"{where}.effect", effect, effects))
        if (key, effect) in seen:
            shown = internal.render("core.Taint", "core/v1.Taint", taint)
            detail = f"Duplicate value: {shown}: taints must be unique by key and effect pair"
            causes.append(Cause("FieldValueDuplicate", detail, where))
        seen.add((key, effect))
    return causes


def _check_node_amounts(node: Obj) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("capacity", "allocatable"):
        for name, amount in sorted((status_of(node).get(field) or {}).items()):
            causes += check_amount(name, amount, f"status.{field}.{name}")
    return causes


def check_node(node: Obj) -> list[Cause]:
    causes = _check_taints(node) + _check_node_amounts(node)
    networks = spec_of(node).get("podCIDRs") or []
    for position, network in enumerate(networks):
        causes += check_cidr(network, f"spec.podCIDRs[{position}]")
    if len(networks) > 2 or len({":" in network for network in networks}) < len(networks):
        causes.append(invalid("spec.podCIDRs", networks, "may specify no more than one CIDR for each IP family"))
    return causes


def check_node_update(new: Obj, old: Obj) -> list[Cause]:
    """The whole node is checked, and what may not change; both look at taints and amounts."""
    return check_metadata(new["metadata"], namespaced=False) + check_node(new) + check_node_status(new, old)


def check_node_status(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    causes += _check_node_amounts(new) + _check_taints(new)
    addresses = status_of(new).get("addresses") or []
    repeated = repeats((address.get("type"), address.get("address")) for address in addresses)
    for position, address in enumerate(addresses):
        if repeated[position]:
            shown = internal.convert("core.NodeAddress", "core/v1.NodeAddress", address)
            causes.append(duplicate(f"status.addresses[{position}]", shown))
    spec, before = spec_of(new), spec_of(old)
    for field, label in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
        if before.get(field) and before[field] != spec.get(field):
            detail = f'node updates may not change {label} except from "" to valid'
            causes.append(forbidden(f"spec.{field}", detail))
    return causes


# Volumes


def default_volume(volume: Obj) -> None:
    default_volume_status(volume)
    spec = volume.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")


def default_volume_status(volume: Obj) -> None:
    volume.setdefault("status", {}).setdefault("phase", "Pending")


def prepare_volume(volume: Obj) -> None:
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": volume["metadata"].get("creationTimestamp")}


def prepare_claim(claim: Obj) -> None:
    claim["status"] = {"phase": "Pending"}


def check_claim(claim: Obj) -> list[Cause]:
    return check_claim_spec(spec_of(claim), "spec")


def check_claim_spec(spec: Obj, path: str) -> list[Cause]:
    modes = spec.get("accessModes") or []
    causes: list[Cause] = []
    if not modes:
        causes.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    causes += check_label_selector(f"{path}.selector", spec.get("selector"))
    causes += [not_supported(f"{path}.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and len(set(modes) & set(_MODES)) > 1:
        causes.append(forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    where = f"{path}.resources[storage]"
    wanted = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if wanted is None:
        causes.append(required(where))
    elif Quantity.parse(wanted) <= Quantity.parse("0"):
        causes.append(invalid(where, wanted, "must be greater than zero"))
    storage_class = spec.get("storageClassName")
    if storage_class:
        causes += check_all(f"{path}.storageClassName", storage_class, names.check_subdomain(storage_class))
    if spec.get("volumeMode") not in (None, "Block", "Filesystem"):
        causes.append(not_supported(f"{path}.volumeMode", spec["volumeMode"], ("Block", "Filesystem")))
    return causes


def check_claim_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    causes += check_metadata(new["metadata"], namespaced=True) + check_claim(new)
    after, before = dict(spec_of(new)), dict(spec_of(old))
    if not before.get("volumeName") and "volumeName" in after:
        before["volumeName"] = after["volumeName"]
    if status_of(new).get("phase") == "Bound":
        for field in ("resources", "volumeAttributesClassName"):
            after.pop(field, None)
            if field in before:
                after[field] = before[field]
    if after != before:
        types = ("core.PersistentVolumeClaimSpec", "core/v1.PersistentVolumeClaimSpec")
        shown = internal.diff(*types, after, before)
        what = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        causes.append(forbidden("spec", f"{what}\n{shown}"))
    sizes = (_storage(spec_of(obj).get("resources")) for obj in (new, old))
    size, was = (Quantity.parse(size) for size in sizes)
    capacity = Quantity.parse((status_of(old).get("capacity") or {}).get("storage", "0"))
    if size < was and size <= capacity:
        where = "spec.resources.requests.storage"
        causes.append(forbidden(where, "field can not be less than status.capacity"))
    return causes + immutable("volumeMode", spec_of(new).get("volumeMode"), spec_of(old).get("volumeMode"))


def check_claim_status(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    for name, amount in sorted((status_of(new).get("capacity") or {}).items()):
        quantity = Quantity.parse(amount)
        if quantity < Quantity.parse("0"):
            where = f"status.capacity[{name}]"
            causes.append(
                Cause("FieldValueInvalid", f"Invalid value: {amount}: must be a valid resource quantity", where)
            )
    return causes


def _storage(resources: Obj | None) -> str:
    return str(((resources or {}).get("requests") or {}).get("storage", "0"))


# Templates and the rest


def default_pod_template(template: Obj) -> None:
    default_template(template.setdefault("template", {}))


def check_pod_template(template: Obj) -> list[Cause]:
    return check_template(template.get("template") or {}, "template")


def check_pod_template_update(new: Obj, old: Obj) -> list[Cause]:
    return check_metadata_update(new["metadata"], old["metadata"]) + check_pod_template(new)


def check_metadata_only_update(new: Obj, old: Obj) -> list[Cause]:
    """The rule of kinds whose updates are only checked for their metadata."""
    return check_metadata_update(new["metadata"], old["metadata"])


def check_service_account_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    return causes + check_metadata(new["metadata"], namespaced=True)
