"""storage.k8s.io/v1: storage classes and the CSI kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corral.core.errors import Cause
from corral.core.meta import Obj, annotations_of, name_of, spec_of
from corral.core.names import check_qualified_name
from corral.core.validation import (
    check_metadata,
    check_metadata_update,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
)  # fmt: skip
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import Cell, Column
from corral.kinds.machinery.tables import AGE, NAME, count, text

_OPTIONS: dict[str, Any] = {"group": "storage.k8s.io", "namespaced": False}
_DEFAULTS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _name(obj: Obj, now: float) -> Cell:
    is_default = any(annotations_of(obj).get(name) == "true" for name in _DEFAULTS)
    return f"{name_of(obj)} (default)" if is_default else name_of(obj)


def default_storage_class(storage_class: Obj) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def check_storage_class(storage_class: Obj) -> list[Cause]:
    provisioner = storage_class.get("provisioner") or ""
    checked = [invalid("provisioner", provisioner, text) for text in check_qualified_name(provisioner.lower())]
    causes: list[Cause] = checked if provisioner else [required("provisioner")]
    choices = {"reclaimPolicy": ("Delete", "Retain"), "volumeBindingMode": ("Immediate", "WaitForFirstConsumer")}
    for field, allowed in choices.items():
        value = storage_class.get(field)
        if value not in (None, "", *allowed):
            causes.append(not_supported(field, value, allowed))
    return causes


def check_storage_class_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata(new["metadata"], namespaced=False) + check_storage_class(new)
    causes += check_metadata_update(new["metadata"], old["metadata"])
    if new.get("parameters") != old.get("parameters"):
        causes.append(forbidden("parameters", "updates to parameters are forbidden."))
    if new.get("provisioner") != old.get("provisioner"):
        causes.append(forbidden("provisioner", "updates to provisioner are forbidden."))
    if new.get("reclaimPolicy") != old.get("reclaimPolicy"):
        causes.append(forbidden("reclaimPolicy", "updates to reclaimPolicy are forbidden."))
    modes = (new.get("volumeBindingMode"), old.get("volumeBindingMode"))
    return causes + immutable("volumeBindingMode", *modes)


def default_csi_driver(driver: Obj) -> None:
    spec = driver.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
        spec.setdefault(field, False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    spec.setdefault("volumeLifecycleModes", ["Persistent"])


def _flag(field: str, default: bool) -> Callable[[Obj, float], Cell]:
    return lambda obj, now: bool(spec_of(obj).get(field, default))


def _audiences(obj: Obj, now: float) -> Cell:
    requests = spec_of(obj).get("tokenRequests")
    return ",".join(each.get("audience") or "" for each in requests) if requests else "<unset>"


CSI_DRIVER = kind(
    "storage.v1.CSIDriver",
    "csidrivers",
    columns=(
        NAME,
        Column("AttachRequired", type="boolean", cell=_flag("attachRequired", True)),
        Column("PodInfoOnMount", type="boolean", cell=_flag("podInfoOnMount", False)),
        Column("StorageCapacity", type="boolean", cell=_flag("storageCapacity", False)),
        Column("TokenRequests", cell=_audiences),
        Column("RequiresRepublish", type="boolean", cell=_flag("requiresRepublish", False)),
        Column("Modes", cell=lambda obj, now: ",".join(spec_of(obj).get("volumeLifecycleModes") or ["<none>"])),
        AGE,
    ),
    allow_unconditional_update=False,
    default=default_csi_driver,
    **_OPTIONS,
)
CSI_NODE = kind(
    "storage.v1.CSINode",
    "csinodes",
    columns=(NAME, Column("Drivers", type="integer", cell=count(".spec.drivers")), AGE),
    allow_unconditional_update=False,
    **_OPTIONS,
)
CSI_STORAGE_CAPACITY = kind(
    "storage.v1.CSIStorageCapacity",
    "csistoragecapacities",
    group="storage.k8s.io",
    allow_unconditional_update=False,
)
STORAGE_CLASS = kind(
    "storage.v1.StorageClass",
    "storageclasses",
    short_names=("sc",),
    columns=(
        Column("Name", format="name", cell=_name),
        Column("Provisioner", cell=text(".provisioner")),
        Column("ReclaimPolicy", cell=text(".reclaimPolicy", "Delete")),
        Column("VolumeBindingMode", cell=text(".volumeBindingMode", "Immediate")),
        Column("AllowVolumeExpansion", cell=lambda obj, now: bool(obj.get("allowVolumeExpansion"))),
        AGE,
    ),
    default=default_storage_class,
    validate=check_storage_class,
    validate_update=check_storage_class_update,
    **_OPTIONS,
)
VOLUME_ATTACHMENT = kind(
    "storage.v1.VolumeAttachment",
    "volumeattachments",
    columns=(
        NAME,
        Column("Attacher", format="name", cell=text(".spec.attacher")),
        Column("PV", cell=text(".spec.source.persistentVolumeName")),
        Column("Node", cell=text(".spec.nodeName")),
        Column("Attached", type="boolean", cell=text(".status.attached", "")),
        AGE,
    ),
    status=True,
    allow_unconditional_update=False,
    **_OPTIONS,
)
VOLUME_ATTRIBUTES_CLASS = kind(
    "storage.v1.VolumeAttributesClass",
    "volumeattributesclasses",
    short_names=("vac",),
    columns=(NAME, Column("DriverName", cell=text(".driverName")), AGE),
    **_OPTIONS,
)

KINDS = (CSI_DRIVER, CSI_NODE, CSI_STORAGE_CAPACITY, STORAGE_CLASS, VOLUME_ATTACHMENT, VOLUME_ATTRIBUTES_CLASS)
