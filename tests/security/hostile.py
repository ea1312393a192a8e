"""Objects that are legal but for one value nobody should write, made from a seed: in the spec, in the status, in a label or annotation that
somebody reads. And a cluster that runs everything there is over them, with what went wrong in it."""

from __future__ import annotations

import copy
import json
import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from corral.client.kubeconfig import Access
from corral.client.protocol import Client
from corral.configuration.placement import PlacementSettings
from corral.controllers.placement import set_up_placement
from corral.core.errors import ApiError, ConnectionFailed
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.core.schema.structural import Schema, compile_resource, compile_schema
from corral.kinds.fleet import names as fleet_names
from corral.kinds.kueue import names as kueue_names
from corral.kinds.machinery import protobuf, tables
from corral.kinds.machinery.definition import KindDef
from corral.node.node import NodeSpec
from corral.runtime.controller import Manager
from corral.runtime.virtual import settle
from corral.simulate.cluster import SimulatedCluster

ROOT = Path(__file__).parents[2]
LEGAL = (*sorted((ROOT / "examples").glob("*.yaml")), ROOT / "tests" / "data" / "hostile" / "legal-objects.yaml")
TEXTS = (
    "", "\N{SUPERSCRIPT TWO}", "9" * 5000, str(2**63), "-1", "1e400", "1e-400", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00",
    "9999-12-31T23:59:59Z", "x" * 100_000, "\u0000", "2562047h", "nan", "inf", "*", "../..", "%s{}", "a,b=c", "true", "0", "1",
    "* * * * *", "0 0 31 2 *", "9999999Ei", "0-2147483647", "100%", "\N{SUPERSCRIPT TWO}%",
)  # fmt: skip
NUMBERS = (0, -1, 1, 100, 2**31 - 1, 2**63 - 1, -(2**63), 0.5, 1e308)
COUNTS = ("repl", "parallel", "completions", "size", "num", "count", "min", "max", "desired")
"""What makes as many objects as it says: a large number there is what its author asked for."""
NEST: Any = {}
for _ in range(60):
    NEST = {"a": NEST}
MARKS = sorted(
    value
    for module in (kueue_names, fleet_names)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str) and "/" in value
)


def legal_objects() -> dict[tuple[str, str], list[Obj]]:
    found: dict[tuple[str, str], list[Obj]] = {}
    for path in LEGAL:
        for obj in filter(None, yaml.safe_load_all(path.read_text())):
            found.setdefault((obj["apiVersion"].rpartition("/")[0], obj["kind"]), []).append(obj)
    return found


class Forge:
    """Makes one object after the other of some kinds; the same seed makes the same ones."""

    def __init__(self, kinds: Sequence[KindDef], seed: int) -> None:
        self._dice = random.Random(seed)
        self._legal = legal_objects()
        self._kinds = [kind for kind in kinds if (kind.group, kind.kind) in self._legal]
        self._schemas: dict[str, Schema] = {}

    def next(self, name: str) -> tuple[KindDef, Obj, Obj | None, str]:
        """A kind, an object of it, a status to give it, and where its fault is."""
        dice, kind = self._dice, self._dice.choice(self._kinds)
        obj = copy.deepcopy(dice.choice(self._legal[kind.group, kind.kind]))
        labels = dict(obj.get("metadata", {}).get("labels") or {})
        labels |= {"kueue.x-k8s.io/queue-name": "user-queue"} if dice.random() < 0.5 else {}
        metadata: Obj = {"name": name, "labels": labels, "annotations": {}}
        if kind.namespaced:
            metadata["namespace"] = "default"
        obj["metadata"] = metadata
        schema, where = self._schema(kind, obj), dice.random()
        if where < 0.2:
            mark = dice.choice(MARKS)
            metadata[dice.choice(("labels", "annotations"))][mark] = dice.choice([t for t in TEXTS if len(t) < 9000])
            return kind, obj, None, mark
        if where < 0.55 and "status" in schema.properties:
            inside: Obj = {"status": {}}
            path = self._spoil(inside, schema, "status")
            return kind, obj, inside["status"] if isinstance(inside["status"], dict) else {}, path
        fields = [f for f in schema.properties if f not in ("apiVersion", "kind", "metadata", "status")]
        return kind, obj, None, self._spoil(obj, schema, dice.choice(fields)) if fields else ""

    def _schema(self, kind: KindDef, obj: Obj) -> Schema:
        if obj["kind"] not in self._schemas:
            version = kind.version(obj["apiVersion"].rpartition("/")[2]) or kind.storage_version
            self._schemas[obj["kind"]] = (compile_schema if kind.builtin else compile_resource)(version.schema)
        return self._schemas[obj["kind"]]

    def _spoil(self, obj: Obj, schema: Schema, first: str) -> str:
        """Put something hostile at a place the schema knows below `first`; returns the place."""
        dice, node, path = self._dice, schema.properties[first], [first]
        at: Any = obj
        for _ in range(dice.choice((3, 6, 12))):
            below = self._below(at, path[-1], node)
            if below is None:
                break
            at, step, node = below
            path.append(step)
        at[path[-1]] = self._value(node, str(path[-1]))
        return ".".join(map(str, path))

    def _below(self, holder: Any, step: Any, node: Schema) -> tuple[Any, Any, Schema] | None:
        """Go down one step: the value there, the next step, and its schema."""
        if node.items is not None:
            if not isinstance(_held(holder, step), list) or not _held(holder, step):
                holder[step] = [_plain(node.items)]
            return holder[step], 0, node.items
        inner = node.properties or ({"a": node.additional} if node.additional is not None else {})
        if not inner:
            return None
        if not isinstance(_held(holder, step), dict):
            holder[step] = _plain(node)
        name = self._dice.choice(sorted(inner))
        return holder[step], name, inner[name]

    def _value(self, node: Schema, name: str) -> Any:
        dice = self._dice
        if node.raw.get("enum") and dice.random() < 0.7:
            return dice.choice(list(node.raw["enum"]))
        small = any(word in name.lower() for word in COUNTS)
        numbers = [number for number in NUMBERS if not small or number <= 1]
        if node.int_or_string:
            return dice.choice((*TEXTS, *numbers))
        if node.type == "boolean":
            return dice.random() < 0.5
        if node.type in ("integer", "number"):
            return dice.choice(numbers)
        return dice.choice(TEXTS if node.type == "string" else (*TEXTS, *numbers, None, [], {}, NEST))


def _held(holder: Any, step: Any) -> Any:
    if isinstance(holder, list):
        return holder[step] if step < len(holder) else None
    return holder.get(step)


def _plain(node: Schema) -> Any:
    """Something the schema takes, with what it requires."""
    if node.properties:
        return {name: _plain(node.properties[name]) for name in node.required if name in node.properties}
    if node.items is not None:
        return []
    if node.raw.get("enum"):
        return node.raw["enum"][0]
    if node.hint == "quantity" or node.int_or_string:
        return "1"
    if node.raw.get("format") == "date-time":
        return "2026-01-01T00:00:00Z"
    return {"string": "x", "integer": 1, "number": 1, "boolean": True}.get(node.type, {})


@dataclass(slots=True)
class Trouble(logging.Handler):
    """What went wrong that should not, with what was being written at the time."""

    wrong: list[str] = field(default_factory=list)
    doing: str = ""

    def __post_init__(self) -> None:
        logging.Handler.__init__(self, logging.ERROR)

    def __hash__(self) -> int:
        return id(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            who = getattr(record, "controller", getattr(record, "resource", getattr(record, "task", "")))
            self.note(f"{record.getMessage()} [{who}]", record.exc_info[1])

    def note(self, what: str, error: BaseException) -> None:
        self.wrong.append(f"{what}: {type(error).__name__}: {str(error)[:200]} (while writing {self.doing})")


@contextmanager
def troubles() -> Iterator[Trouble]:
    """All that anybody reports as a failure of the program meanwhile."""
    log, trouble = logging.getLogger("corral"), Trouble()
    log.addHandler(trouble)
    try:
        yield trouble
    finally:
        log.removeHandler(trouble)


def _unreachable(access: Access) -> Client:
    raise ConnectionFailed("nobody is there")


def everything() -> SimulatedCluster:
    """A cluster that runs all there is: operators, queueing, dispatch, placement, a node."""

    def placement(manager: Manager) -> None:
        cluster.api.chain.plugins.extend(set_up_placement(manager, PlacementSettings(admit_workloads=True)))

    nodes = [NodeSpec("n1", {"cpu": "100", "memory": "640Gi", "pods": "110"})]
    cluster = SimulatedCluster("hostile", nodes=nodes, connect=_unreachable, extra=[placement])
    return cluster


async def write(cluster: SimulatedCluster, resource: Resource, obj: Obj, status: Obj | None) -> bool:
    """Whether the API takes an object; its status, too, where there is one."""
    try:
        made = await cluster.client.create(resource, obj)
        if status is not None:
            await settle([cluster.manager])
            now = await cluster.client.get(resource, made["metadata"]["name"], made["metadata"].get("namespace", ""))
            await cluster.client.update(resource, {**now, "status": status}, subresource="status")
    except ApiError as error:
        if error.code >= 500:
            raise
        return False
    return True


async def show(cluster: SimulatedCluster, kind: KindDef, trouble: Trouble) -> None:
    """List a kind as JSON, as a Table, in protobuf, and in its other versions."""
    version, now = kind.storage_version, cluster.clock.now()
    for obj in (await cluster.client.list(kind.resource(version.name))).items:
        try:
            tables.cells(kind, version, obj, now)
            tables.row_conditions(kind, obj)
            json.dumps(obj, allow_nan=False)
            if kind.builtin:
                protobuf.encode(obj)
            for other in kind.served_versions:
                kind.at_version(obj, other.name)
        except Exception as error:
            trouble.note(f"showing {kind.group_resource}", error)
