"""Printed columns of apps/v1 kinds."""

from __future__ import annotations

from corral.core.meta import Obj, controller_of, spec_of, status_of
from corral.kinds.machinery.definition import Cell, Column
from corral.kinds.machinery.tables import (  # fmt: skip
    AGE,
    NAME,
    NONE,
    container_images,
    container_names,
    format_labels,
    format_selector,
    number,
)


def _template(obj: Obj) -> Obj:
    return (spec_of(obj).get("template") or {}).get("spec") or {}


def _ready(obj: Obj, now: float) -> Cell:
    return f"{status_of(obj).get('readyReplicas') or 0}/{spec_of(obj).get('replicas') or 0}"


CONTAINERS = Column("Containers", priority=1, cell=lambda obj, now: container_names(_template(obj)))
IMAGES = Column("Images", priority=1, cell=lambda obj, now: container_images(_template(obj)))
SELECTOR = Column("Selector", priority=1, cell=lambda obj, now: format_selector(spec_of(obj).get("selector")))

DEPLOYMENT = (
    NAME,
    Column("Ready", cell=_ready),
    Column("Up-to-date", cell=number(".status.updatedReplicas")),
    Column("Available", cell=number(".status.availableReplicas")),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)
REPLICA_SET = (
    NAME,
    Column("Desired", type="integer", cell=number(".spec.replicas")),
    Column("Current", type="integer", cell=number(".status.replicas")),
    Column("Ready", type="integer", cell=number(".status.readyReplicas")),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)
STATEFUL_SET = (NAME, Column("Ready", cell=_ready), AGE, CONTAINERS, IMAGES)
DAEMON_SET = (
    NAME,
    Column("Desired", type="integer", cell=number(".status.desiredNumberScheduled")),
    Column("Current", type="integer", cell=number(".status.currentNumberScheduled")),
    Column("Ready", type="integer", cell=number(".status.numberReady")),
    Column("Up-to-date", type="integer", cell=number(".status.updatedNumberScheduled")),
    Column("Available", type="integer", cell=number(".status.numberAvailable")),
    Column("Node Selector", cell=lambda obj, now: format_labels(_template(obj).get("nodeSelector"))),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)


def _revision_controller(obj: Obj, now: float) -> Cell:
    owner = controller_of(obj)
    if owner is None:
        return NONE
    group = owner["apiVersion"].rpartition("/")[0]
    return f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}"


CONTROLLER_REVISION = (
    NAME,
    Column("Controller", cell=_revision_controller),
    Column("Revision", cell=number(".revision")),
    AGE,
)
