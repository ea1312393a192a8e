"""storage.k8s.io/v1: storage classes and the CSI kinds."""

from __future__ import annotations

from typing import Any

from corral.core.meta import Obj, annotations_of, name_of
from corral.kinds.builtin import kind
from corral.kinds.definition import Cell, Column
from corral.kinds.tables import AGE, NAME, count, text

_OPTIONS: dict[str, Any] = {"group": "storage.k8s.io", "namespaced": False}
_DEFAULTS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _name(obj: Obj, now: float) -> Cell:
    is_default = any(annotations_of(obj).get(name) == "true" for name in _DEFAULTS)
    return f"{name_of(obj)} (default)" if is_default else name_of(obj)


CSI_DRIVER = kind("storage.v1.CSIDriver", "csidrivers", allow_unconditional_update=False, **_OPTIONS)
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

CSI_DRIVERS = CSI_DRIVER.resource()
CSI_NODES = CSI_NODE.resource()
CSI_STORAGE_CAPACITIES = CSI_STORAGE_CAPACITY.resource()
STORAGE_CLASSES = STORAGE_CLASS.resource()
VOLUME_ATTACHMENTS = VOLUME_ATTACHMENT.resource()
VOLUME_ATTRIBUTES_CLASSES = VOLUME_ATTRIBUTES_CLASS.resource()
