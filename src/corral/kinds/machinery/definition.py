"""What a kind is: declared once, read by the store, the server, the clients and the CRD generator.

A `KindDef` names a kind, its versions, their schemas and printed columns, and carries the rules a schema cannot say as
plain functions over JSON-shaped objects. Nothing here does I/O. A custom kind needs little more than its schema:

    from corral.kinds.machinery import schemas as s
    from corral.kinds.machinery.definition import Column, KindDef, VersionDef, age_column

    def _gadget_v1() -> s.Schema:
        spec = s.obj(
            {
                "size": s.integer(minimum=0, default=1),
                "color": s.string(enum=("red", "green")),
                "template": s.pod_template(),
                "tags": s.array(s.string(), list_type="set"),
            },
            required=("color",),
            rules=(s.rule("self.size <= 10", "size is at most 10"),),
        )
        return s.root(spec=spec, status=s.obj({"conditions": s.conditions()}))

    GADGET = KindDef(
        group="example.com",
        kind="Gadget",
        plural="gadgets",
        short_names=("gd",),
        versions=(
            VersionDef(
                "v1",
                schema=_gadget_v1,  # a function, so that start-up builds no schema nobody asked for
                status=True,
                columns=(Column("Color", path=".spec.color"), age_column()),
            ),
        ),
    )
    GADGETS = GADGET.resource()  # how clients and controllers name it
    KINDS = (GADGET,)  # what the registry reads

Hooks that receive a "private copy" may change it in place; every other argument is shared and must not be touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from corral.core.errors import Cause
from corral.core.meta import Obj, name_of, namespace_of
from corral.core.names import check_subdomain
from corral.core.resource import Resource

Schema = dict[str, Any]
Cell = Any

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
SUBRESOURCE_VERBS = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Column:
    """One printed column: either a JSON path into the object, or a function of the object and the time now."""

    name: str
    path: str = ""
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    cell: Callable[[Obj, float], Cell] | None = None


def age_column(description: str = "") -> Column:
    """The column most kinds end with."""
    return Column("Age", path=".metadata.creationTimestamp", type="date", description=description)


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a kind keeps its replica counts, as JSON paths; what the scale subresource reads and writes."""

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ""


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource other than status and scale, as discovery lists it."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


class VersionDef:
    """One version of a kind. `schema` may be a function, called once when the schema is first needed."""

    def __init__(
        self,
        name: str,
        schema: Schema | Callable[[], Schema],
        *,
        served: bool = True,
        storage: bool | None = None,
        status: bool = False,
        scale: ScalePaths | None = None,
        columns: Sequence[Column] = (),
        selectable: Sequence[str] = (),
        deprecated: bool = False,
        deprecation_warning: str = "",
        definition: str = "",
    ) -> None:
        self.name = name
        self._source = schema
        self.served = served
        self.storage = storage
        self.status = status
        self.scale = scale
        self.columns = tuple(columns)
        self.selectable = tuple(selectable)
        self.deprecated = deprecated
        self.deprecation_warning = deprecation_warning
        self.definition = definition
        """Name of the schema among OpenAPI definitions, for Kubernetes' own kinds; its Go type follows from it."""

    @property
    def schema(self) -> Schema:
        """The resolved structural schema: no `$ref`, sub-schemas may be shared."""
        if callable(self._source):
            self._source = self._source()
        return self._source

    def __repr__(self) -> str:
        return f"VersionDef({self.name!r})"


def _nothing(obj: Obj) -> None:
    """Default of hooks that change a private copy."""


def _nothing_from(new: Obj, old: Obj) -> None:
    """Default of hooks that change a private copy in the light of the stored object."""


def _valid(obj: Obj) -> list[Cause]:
    return []


def _valid_change(new: Obj, old: Obj) -> list[Cause]:
    return []


def _no_warnings(obj: Obj, old: Obj | None) -> list[str]:
    return []


@dataclass(frozen=True, kw_only=True, eq=False)
class KindDef:
    """A kind of object, all versions of it. The first version is the preferred one; one of them is stored."""

    group: str
    kind: str
    plural: str
    versions: tuple[VersionDef, ...]
    singular: str = ""
    list_kind: str = ""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    description: str = ""
    descriptions: str = ""
    """Where the words of `kubectl explain` are, as `module:attribute`; see `describing`."""
    inert_fields: Mapping[str, str] = field(default_factory=dict)
    """Paths of fields that are taken, checked and kept, and change nothing, each with the reason; what is below one goes with it."""

    builtin: bool = False
    """True for Kubernetes' own kinds: typed decoding, strategic merge, no CRD."""

    has_generation: bool = True
    """Whether metadata.generation is maintained."""
    allow_unconditional_update: bool = False
    allow_create_on_update: bool = False
    default_propagation: Literal["Background", "Orphan", "Foreground"] = "Background"
    conversion: Obj | None = None
    """The `spec.conversion` stanza of a CRD with a webhook; None means rewriting apiVersion only."""
    since: int | None = None
    """For a kind that a third party defined: the last revision before this definition was served."""

    # Rules a schema cannot say. `validate*` come after metadata rules, in the order upstream reports them.
    default: Callable[[Obj], None] = _nothing
    """Fill in defaults on a private copy, in the requested version."""
    default_status: Callable[[Obj], None] = _nothing
    """What `default` does to the status, for writes to the status subresource; the rest is then as stored."""
    prepare_create: Callable[[Obj], None] = _nothing
    """Last changes to a private copy before validation on create; metadata.uid is already set."""
    prepare_update: Callable[[Obj, Obj], None] = _nothing_from
    """Last changes to the private copy `new` before validation on update."""
    prepare_status: Callable[[Obj, Obj], None] = _nothing_from
    """As `prepare_update`, for writes to the status subresource."""
    validate: Callable[[Obj], list[Cause]] = _valid
    validate_update: Callable[[Obj, Obj], list[Cause]] = _valid_change
    validate_status: Callable[[Obj, Obj], list[Cause]] = _valid_change
    warnings: Callable[[Obj, Obj | None], list[str]] = _no_warnings
    check_name: Callable[[str], list[str]] = check_subdomain
    """What is wrong with a name, in upstream's words."""
    convert: Callable[[Obj, str], Obj] | None = None
    """A new object in another version; None means that versions differ in apiVersion only."""
    fields: Mapping[str, Callable[[Obj], str]] = field(default_factory=dict)
    """Field selectors beyond metadata.name and metadata.namespace."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "singular", self.singular or self.kind.lower())
        object.__setattr__(self, "list_kind", self.list_kind or self.kind + "List")
        if not any(version.storage for version in self.versions) and self.versions:
            self.versions[0].storage = True

    @property
    def group_resource(self) -> str:
        """`jobs.batch`, `pods`: the name of the CRD and of the kind in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage_version(self) -> VersionDef:
        return next(version for version in self.versions if version.storage)

    @property
    def served_versions(self) -> tuple[VersionDef, ...]:
        return tuple(version for version in self.versions if version.served)

    def version(self, name: str) -> VersionDef | None:
        """The version called `name`, served or not."""
        return next((version for version in self.versions if version.name == name), None)

    def resource(self, version: str = "") -> Resource:
        """How clients name this kind; in the storage version unless told otherwise."""
        return Resource(self.group, version or self.storage_version.name, self.plural, self.kind, self.namespaced)

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version

    def at_version(self, obj: Obj, version: str) -> Obj:
        """`obj` in another version of this kind; `obj` itself when it is already in it."""
        wanted = self.api_version(version)
        if obj.get("apiVersion") == wanted:
            return obj
        if self.convert is not None:
            return self.convert(obj, version)
        return {**obj, "apiVersion": wanted}

    def field_value(self, obj: Obj, path: str) -> str | None:
        """The value a field selector compares with, or None when the kind has no such selector."""
        if path == "metadata.name":
            return name_of(obj)
        if path == "metadata.namespace" and self.namespaced:
            return namespace_of(obj)
        read = self.fields.get(path)
        return None if read is None else read(obj)

    def with_hooks_of(self, native: KindDef) -> KindDef:
        """This kind (read from a CRD) with the in-process rules of `native`, its declaration in Corral."""
        return replace(
            self,
            default=native.default,
            default_status=native.default_status,
            prepare_create=native.prepare_create,
            prepare_update=native.prepare_update,
            prepare_status=native.prepare_status,
            validate=native.validate,
            validate_update=native.validate_update,
            validate_status=native.validate_status,
            warnings=native.warnings,
            check_name=native.check_name,
            convert=native.convert,
            conversion=native.conversion,
            since=native.since,
            fields={**native.fields, **self.fields},
        )
