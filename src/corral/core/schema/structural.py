"""Compiled schemas: an OpenAPI dictionary turned into nodes that walkers read without looking anything up twice.

`compile_schema` accepts what CustomResourceDefinitions contain and what Kubernetes publishes for its own kinds:
`$ref` into a table of definitions (or already resolved dictionaries that share and even contain each other),
`type` as a name or as a list with "null", and the `x-kubernetes-…` extensions. Every node answers the three questions
that the rest of core asks: what is below this field, how is it merged, and what must a value look like.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

RawSchema = Mapping[str, Any]
Merge = Literal["scalar", "atomic", "map", "set", "keyed", "any"]
"""How values merge: as a whole (scalar, atomic), by field (map), as a set, as a list keyed by fields, or as they look."""

Trait = Literal["default", "rules", "unique", "embedded", "transition"]

NO_DEFAULT: Final = object()
_PREFIX: Final = "x-kubernetes-"
# Kubernetes' published definitions omit the default of this key of port lists; apply needs it to find a port.
_KEY_DEFAULTS: Final = {"protocol": "TCP"}


class Schema:
    """One node of a compiled schema. Attributes are read-only after compilation."""

    __slots__ = (
        "additional",
        "combinators",
        "default",
        "embedded",
        "has_combinators",
        "hint",
        "int_or_string",
        "items",
        "key_defaults",
        "list_keys",
        "list_type",
        "memo",
        "merge",
        "name",
        "nullable",
        "patch_merge_key",
        "patch_strategies",
        "preserve",
        "properties",
        "raw",
        "reaches",
        "required",
        "rules",
        "type",
    )

    def __init__(self, raw: RawSchema, name: str = "") -> None:
        self.raw = raw
        self.name = name
        self.type, self.nullable = _type_of(raw)
        self.properties: dict[str, Schema] = {}
        self.additional: Schema | None = None
        self.items: Schema | None = None
        self.required: tuple[str, ...] = tuple(raw.get("required") or ())
        self.default: Any = raw.get("default", NO_DEFAULT)
        self.preserve = bool(raw.get(f"{_PREFIX}preserve-unknown-fields"))
        self.embedded = bool(raw.get(f"{_PREFIX}embedded-resource"))
        self.int_or_string = bool(raw.get(f"{_PREFIX}int-or-string")) or name.endswith(".intstr.IntOrString")
        self.hint = str(raw.get("x-corral-type") or "") or ("quantity" if name.endswith(".resource.Quantity") else "")
        self.rules: tuple[RawSchema, ...] = _rules_of(raw)
        self.patch_merge_key = str(raw.get(f"{_PREFIX}patch-merge-key") or "")
        self.patch_strategies = frozenset(str(raw.get(f"{_PREFIX}patch-strategy") or "").split(",")) - {""}
        self.list_type, self.list_keys = _list_type(raw, self.patch_merge_key, self.patch_strategies)
        self.key_defaults: dict[str, Any] = {}
        self.combinators: dict[str, list[Schema]] = {}
        self.has_combinators = False
        self.merge: Merge = "any"
        self.reaches: frozenset[Trait] = frozenset()
        """Which traits this node or anything below it has: walkers turn back where theirs is missing."""
        self.memo: dict[str, Any] = {}
        """What walkers have worked out about this node (validators, rule programs), by walker."""

    def field(self, name: str) -> Schema | None:
        """The schema of the member `name`, ANYTHING where unknown members are kept, None where there is none."""
        found = self.properties.get(name) or self.additional
        if found is None and (self.preserve or self.is_open):
            return ANYTHING
        return found

    @property
    def is_open(self) -> bool:
        """True when nothing is declared, so that any value may be here."""
        return not self.type and not self.properties and self.additional is None and self.items is None

    def children(self) -> Iterator[Schema]:
        """The nodes that describe members and elements, not the branches of anyOf and the like."""
        yield from self.properties.values()
        if self.additional is not None:
            yield self.additional
        if self.items is not None:
            yield self.items

    def __repr__(self) -> str:
        return f"<Schema {self.name or self.type or 'any'} {self.merge}>"


def compile_schema(raw: RawSchema, definitions: Mapping[str, RawSchema] | None = None) -> Schema:
    """The compiled form of `raw`; `$ref`s are looked up in `definitions` by their last path segment."""
    node = _Compiler(definitions or {}).node(raw)
    _spread_traits(node)
    return node


def compile_resource(raw: RawSchema, definitions: Mapping[str, RawSchema] | None = None) -> Schema:
    """The compiled schema of a whole custom object, which has apiVersion, kind and metadata even if `raw` has not.

    Of metadata `raw` can only restrict the names; everything else about metadata is the same for all kinds.
    """
    node = _Compiler(definitions or {}).node(raw)
    declared = (raw.get("properties") or {}).get("metadata") or {}
    limits = {
        name: rule for name, rule in (declared.get("properties") or {}).items() if name in ("name", "generateName")
    }
    metadata = OBJECT_META
    if limits:
        properties = {**OBJECT_META.raw["properties"]}
        for name, rule in limits.items():
            properties[name] = {**properties[name], **rule}
        metadata = compile_schema({**OBJECT_META.raw, "properties": properties})
    node.properties["metadata"] = metadata
    _add_object_fields(node)
    node.merge = _merge_of(node)
    _spread_traits(node)
    return node


def _type_of(raw: RawSchema) -> tuple[str, bool]:
    declared = raw.get("type") or ""
    nullable = bool(raw.get("nullable"))
    if isinstance(declared, str):
        return declared, nullable
    names = [name for name in declared if name != "null"]
    return (names[0] if len(names) == 1 else ""), nullable or "null" in declared


def _rules_of(raw: RawSchema) -> tuple[RawSchema, ...]:
    """The rules on a value, including those in the branches of allOf, which all apply too."""
    rules = list(raw.get(f"{_PREFIX}validations") or ())
    for branch in raw.get("allOf") or ():
        rules += branch.get(f"{_PREFIX}validations") or ()
    return tuple(rules)


def _list_type(raw: RawSchema, merge_key: str, strategies: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    declared = raw.get(f"{_PREFIX}list-type")
    if declared:
        return str(declared), tuple(raw.get(f"{_PREFIX}list-map-keys") or ())
    if "merge" in strategies:
        return ("map", (merge_key,)) if merge_key else ("set", ())
    return "atomic", ()


def _own_traits(node: Schema) -> set[Trait]:
    traits: set[Trait] = set()
    if node.default is not NO_DEFAULT:
        traits.add("default")
    if node.rules:
        traits.add("rules")
    if any("oldSelf" in str(rule.get("rule")) for rule in node.rules):
        traits.add("transition")
    if node.type == "array" and node.list_type in ("set", "map"):
        traits.add("unique")
    if node.embedded:
        traits.add("embedded")
    return traits


def _spread_traits(root: Schema) -> None:
    """Tell every node what lies below it; schemas may contain themselves, so repeat until nothing new is learnt."""
    nodes: dict[int, Schema] = {}
    pending = [root]
    while pending:
        node = pending.pop()
        if id(node) not in nodes:
            nodes[id(node)] = node
            pending.extend(node.children())
    found = {key: _own_traits(node) | node.reaches for key, node in nodes.items()}
    order = list(reversed(nodes))
    changed = True
    while changed:
        changed = False
        for key in order:
            traits = found[key]
            before = len(traits)
            for child in nodes[key].children():
                traits |= found[id(child)]
            changed = changed or len(traits) != before
    for key, node in nodes.items():
        node.reaches = frozenset(found[key])


class _Compiler:
    def __init__(self, definitions: Mapping[str, RawSchema]) -> None:
        self.definitions = definitions
        self.by_identity: dict[int, Schema] = {}
        self.by_name: dict[str, Schema] = {}

    def definition(self, name: str) -> Schema:
        known = self.by_name.get(name)
        if known is None:
            if name not in self.definitions:
                raise KeyError(f"no definition {name!r}")
            raw = self.definitions[name]
            known = self.by_name[name] = Schema(raw, name)
            self.by_identity[id(raw)] = known
            self.fill(known)
        return known

    def node(self, raw: RawSchema) -> Schema:
        known = self.by_identity.get(id(raw))
        if known is not None:
            return known
        reference, siblings = _reference(raw)
        if reference and not siblings:
            return self.definition(reference)
        name = reference or str(raw.get("x-corral-definition") or "")
        node = Schema({**self.definitions[reference], **siblings} if reference else raw, name)
        # Whoever asked keeps `raw` alive, so its identity stays unique for as long as this table is read.
        self.by_identity[id(raw)] = node
        self.fill(node)
        return node

    def fill(self, node: Schema) -> None:
        raw = node.raw
        for name, child in (raw.get("properties") or {}).items():
            node.properties[name] = self.node(child)
        additional = raw.get("additionalProperties")
        if isinstance(additional, Mapping):
            node.additional = self.node(additional)
        elif additional is True:
            node.additional = ANYTHING
        if isinstance(raw.get("items"), Mapping):
            node.items = self.node(raw["items"])
        self.fill_combinators(node)
        if node.items is not None:
            node.key_defaults = _key_defaults(node.list_keys, node.items)
        if node.embedded:
            _add_object_fields(node)
        node.merge = _merge_of(node)

    def fill_combinators(self, node: Schema) -> None:
        for word in ("allOf", "anyOf", "oneOf"):
            branches = node.raw.get(word)
            if branches:
                node.combinators[word] = [self.node(branch) for branch in branches]
        if isinstance(node.raw.get("not"), Mapping):
            node.combinators["not"] = [self.node(node.raw["not"])]
        node.has_combinators = bool(node.combinators)


def _reference(raw: RawSchema) -> tuple[str, dict[str, Any]]:
    """The definition `raw` points to, directly or through a lone allOf, and what it says beside that."""
    target = raw.get("$ref")
    branches = raw.get("allOf")
    word = "$ref"
    if target is None and isinstance(branches, list) and len(branches) == 1 and set(branches[0]) == {"$ref"}:
        target, word = branches[0]["$ref"], "allOf"
    if target is None:
        return "", {}
    siblings = {key: value for key, value in raw.items() if key not in (word, "description")}
    return str(target).rpartition("/")[2], siblings


def _key_defaults(keys: tuple[str, ...], items: Schema) -> dict[str, Any]:
    defaults = {}
    for key in keys:
        field = items.properties.get(key)
        default = field.default if field is not None else NO_DEFAULT
        if default is NO_DEFAULT:
            default = _KEY_DEFAULTS.get(key, NO_DEFAULT)
        if default is not NO_DEFAULT:
            defaults[key] = default
    return defaults


def _merge_of(node: Schema) -> Merge:
    raw = node.raw
    if node.int_or_string or node.hint == "quantity":
        return "scalar"
    if node.type == "array":
        kinds: dict[str, Merge] = {"set": "set", "map": "keyed"}
        return kinds.get(node.list_type, "atomic")
    if node.type == "object" or node.properties or node.additional is not None:
        if raw.get(f"{_PREFIX}map-type") == "atomic":
            return "atomic"
        if node.properties or node.additional is not None:
            return "map"
        return "any" if node.preserve else "atomic"
    if node.type:
        return "scalar"
    return "scalar" if node.has_combinators else "any"


def _add_object_fields(node: Schema) -> None:
    """What every embedded object has, whether or not its schema says so."""
    text = Schema({"type": "string"})
    text.merge = "scalar"
    node.properties.setdefault("apiVersion", text)
    node.properties.setdefault("kind", text)
    node.properties.setdefault("metadata", OBJECT_META)


ANYTHING: Final = Schema({f"{_PREFIX}preserve-unknown-fields": True})
"""The schema that allows and keeps everything."""

_STRINGS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
OBJECT_META: Final = compile_schema(
    {
        "type": "object",
        "properties": {
            **{
                name: {"type": "string"}
                for name in ("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion")
            },
            "generation": {"type": "integer", "format": "int64"},
            "creationTimestamp": {"type": "string", "format": "date-time", "nullable": True},
            "deletionTimestamp": {"type": "string", "format": "date-time", "nullable": True},
            "deletionGracePeriodSeconds": {"type": "integer", "format": "int64"},
            "labels": _STRINGS,
            "annotations": _STRINGS,
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "ownerReferences": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
                "items": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {
                        **{name: {"type": "string"} for name in ("apiVersion", "kind", "name", "uid")},
                        "controller": {"type": "boolean"},
                        "blockOwnerDeletion": {"type": "boolean"},
                    },
                },
            },
            "managedFields": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "properties": {
                        **{
                            name: {"type": "string"}
                            for name in ("manager", "operation", "apiVersion", "time", "fieldsType", "subresource")
                        },
                        "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    },
                },
            },
        },
    }
)
"""The metadata of every object, for schemas that leave it out."""
