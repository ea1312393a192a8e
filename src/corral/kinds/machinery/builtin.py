"""How Kubernetes' own kinds are declared: by the name of their OpenAPI definition, which also fixes their Go type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from corral.core.meta import Obj
from corral.kinds.machinery import schemas, tables
from corral.kinds.machinery.decoding import decoder_of
from corral.kinds.machinery.definition import Column, KindDef, ScalePaths, VersionDef
from corral.kinds.machinery.gotypes import go_type_of

PACKAGE = "io.k8s.api."


def version(
    definition: str,
    columns: Sequence[Column] = tables.DEFAULT_COLUMNS,
    *,
    status: bool = False,
    scale: ScalePaths | None = None,
    storage: bool | None = None,
) -> VersionDef:
    """A version of a built-in kind; `definition` is its OpenAPI name, with `io.k8s.api.` left out."""
    full = definition if definition.startswith("io.") else PACKAGE + definition
    return VersionDef(
        full.rsplit(".", 2)[1],
        schema=partial(schemas.kubernetes, full),
        columns=columns,
        status=status,
        scale=scale,
        storage=storage,
        definition=full,
    )


def kind(
    definition: str,
    plural: str,
    *,
    group: str = "",
    columns: Sequence[Column] = tables.DEFAULT_COLUMNS,
    status: bool = False,
    scale: ScalePaths | None = None,
    **more: Any,
) -> KindDef:
    """A built-in kind with one version. `more` goes to KindDef; the defaults are those most built-in kinds have."""
    options = {"has_generation": False, "allow_unconditional_update": True, **more}
    if status:
        options["prepare_create"] = _with_status(definition, more.get("prepare_create"))
    return KindDef(
        group=group,
        kind=definition.rpartition(".")[2],
        plural=plural,
        versions=(version(definition, columns, status=status, scale=scale),),
        builtin=True,
        **options,
    )


def _with_status(definition: str, prepare: Callable[[Obj], None] | None) -> Callable[[Obj], None]:
    """A create hook that gives a new object the empty status of its type before `prepare` runs."""
    go_type = go_type_of(definition if definition.startswith("io.") else PACKAGE + definition)

    def prepare_create(obj: Obj) -> None:
        if "status" not in obj:
            obj["status"] = decoder_of(go_type)(None, [])["status"]
        if prepare is not None:
            prepare(obj)

    return prepare_create
