"""node.k8s.io/v1: RuntimeClass."""

from __future__ import annotations

from corral.core.errors import Cause
from corral.core.meta import Obj
from corral.core.names import check_label
from corral.core.validation import check_metadata, check_metadata_update, immutable, invalid, required
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import Column
from corral.kinds.machinery.tables import AGE, NAME, text


def check_runtime_class(runtime_class: Obj) -> list[Cause]:
    handler = runtime_class.get("handler") or ""
    return [invalid("handler", handler, text) for text in check_label(handler)] if handler else [required("handler")]


def check_runtime_class_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata(new["metadata"], namespaced=False) + check_runtime_class(new)
    causes += check_metadata_update(new["metadata"], old["metadata"])
    return causes + immutable("handler", new.get("handler"), old.get("handler"))


RUNTIME_CLASS = kind(
    "node.v1.RuntimeClass",
    "runtimeclasses",
    group="node.k8s.io",
    namespaced=False,
    columns=(NAME, Column("Handler", cell=text(".handler")), AGE),
    allow_create_on_update=True,
    allow_unconditional_update=False,
    validate=check_runtime_class,
    validate_update=check_runtime_class_update,
)

KINDS = (RUNTIME_CLASS,)

RUNTIME_CLASSES = RUNTIME_CLASS.resource()
