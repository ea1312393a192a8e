"""node.k8s.io/v1: RuntimeClass."""

from __future__ import annotations

from corral.kinds.builtin import kind
from corral.kinds.definition import Column
from corral.kinds.tables import AGE, NAME, text

RUNTIME_CLASS = kind(
    "node.v1.RuntimeClass",
    "runtimeclasses",
    group="node.k8s.io",
    namespaced=False,
    columns=(NAME, Column("Handler", cell=text(".handler")), AGE),
    allow_create_on_update=True,
    allow_unconditional_update=False,
)

KINDS = (RUNTIME_CLASS,)

RUNTIME_CLASSES = RUNTIME_CLASS.resource()
