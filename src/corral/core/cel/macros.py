"""Macros: loops over lists and maps, and what can be done with an optional."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from corral.core.cel import library, values
from corral.core.cel.access import Converter, Frame, Part, Run, converter_of
from corral.core.cel.cost import CostExceeded, spend
from corral.core.cel.syntax import Node
from corral.core.cel.values import NONE, CelError, Optional, no_overload, some
from corral.core.schema.structural import Schema

if TYPE_CHECKING:
    from corral.core.cel.compiler import Compiler


class Loop:
    """Puts each element of a list, or key of a map, into the frame in turn."""

    __slots__ = ("convert", "run", "slots")

    def __init__(self, run: Run, slots: list[int], convert: Converter | None) -> None:
        self.run = run
        self.slots = slots
        self.convert = convert

    def start(self, frame: Frame) -> list[Any]:
        """What to iterate over: elements or keys, or pairs for two variables."""
        source = self.run(frame)
        kind = type(source)
        if kind is not list and kind is not dict:
            raise no_overload("comprehension")
        spend(frame, len(source))
        if len(self.slots) == 2:
            pairs = list(enumerate(source) if kind is list else source.items())
            return [(key, self.convert(value)) for key, value in pairs] if self.convert is not None else pairs
        if kind is dict:
            return list(source)
        return [self.convert(item) for item in source] if self.convert is not None else list(source)

    def put(self, frame: Frame, item: Any) -> None:
        if len(self.slots) == 2:
            frame[self.slots[0]], frame[self.slots[1]] = item
        else:
            frame[self.slots[0]] = item


def variable_name(node: Node) -> str:
    if node[0] != "ident":
        raise CelError("argument must be a simple name")
    return str(node[1])


def _element_schema(schema: Schema | None) -> Schema | None:
    if schema is None or schema.type != "array":
        return None
    return schema.items


def _loop(compiler: Compiler, target: Node, names: list[Node], bodies: list[Node]) -> tuple[Loop, list[Part], Part]:
    """The iteration over `target` with its variables bound, the bodies compiled in that scope, and the target."""
    source = compiler.compile(target)
    outer = compiler.scope
    element = _element_schema(source.schema)
    if len(names) == 1:
        slots = [compiler.bind(variable_name(names[0]), element)]
    else:
        slots = [compiler.bind(variable_name(names[0]), None), compiler.bind(variable_name(names[1]), element)]
    parts = [compiler.compile(body) for body in bodies]
    compiler.scope = outer
    return Loop(source.run, slots, converter_of(element)), parts, source


def _quantifier(compiler: Compiler, target: Node, arguments: list[Node], *, stop: bool) -> Part:
    """`all` stops at the first False, `exists` at the first True; errors count only if nothing stopped it."""
    loop, (body,), _ = _loop(compiler, target, arguments[:-1], arguments[-1:])
    test, put = body.run, loop.put

    def run(frame: Frame) -> Any:
        error: CelError | None = None
        for item in loop.start(frame):
            put(frame, item)
            try:
                found = test(frame)
            except CostExceeded:
                raise
            except CelError as problem:
                error = problem
                continue
            if found is stop:
                return stop
            if type(found) is not bool:
                error = no_overload("bool")
        if error is not None:
            raise error
        return not stop

    return Part(run)


def _all(compiler: Compiler, target: Node, arguments: list[Node]) -> Part:
    return _quantifier(compiler, target, arguments, stop=False)


def _exists(compiler: Compiler, target: Node, arguments: list[Node]) -> Part:
    return _quantifier(compiler, target, arguments, stop=True)


def _exists_one(compiler: Compiler, target: Node, arguments: list[Node]) -> Part:
    loop, (body,), _ = _loop(compiler, target, arguments[:-1], arguments[-1:])
    kept = _filtered(loop, body.run)
    return Part(lambda frame: len(kept(frame)) == 1)


def _filtered(loop: Loop, test: Run) -> Callable[[Frame], list[Any]]:
    def run(frame: Frame) -> list[Any]:
        result = []
        for item in loop.start(frame):
            loop.put(frame, item)
            found = test(frame)
            if found is True:
                result.append(item)
            elif found is not False:
                raise no_overload("bool")
        return result

    return run


def _filter(compiler: Compiler, target: Node, arguments: list[Node]) -> Part:
    loop, (body,), source = _loop(compiler, target, arguments[:1], arguments[1:])
    return Part(_filtered(loop, body.run), source.schema if loop.convert is None else None)


def _map(compiler: Compiler, target: Node, arguments: list[Node]) -> Part:
    loop, parts, _ = _loop(compiler, target, arguments[:1], arguments[1:])
    return Part(_mapped(loop, parts))


def _transform_list(compiler: Compiler, target: Node, arguments: list[Node]) -> Part:
    loop, parts, _ = _loop(compiler, target, arguments[:2], arguments[2:])
    return Part(_mapped(loop, parts))


def _mapped(loop: Loop, parts: list[Part]) -> Run:
    """One result per element; with two parts the first decides which elements count."""
    transform = parts[-1].run
    if len(parts) == 2:
        kept = _filtered(loop, parts[0].run)

        def run_some(frame: Frame) -> list[Any]:
            result = []
            for item in kept(frame):
                loop.put(frame, item)
                result.append(transform(frame))
            return result

        return run_some

    def run_all(frame: Frame) -> list[Any]:
        result = []
        for item in loop.start(frame):
            loop.put(frame, item)
            result.append(transform(frame))
        return result

    return run_all


def _transform_map(compiler: Compiler, target: Node, arguments: list[Node]) -> Part:
    loop, parts, _ = _loop(compiler, target, arguments[:2], arguments[2:])
    transform = parts[-1].run
    kept = _filtered(loop, parts[0].run) if len(parts) == 2 else loop.start

    def run(frame: Frame) -> dict[Any, Any]:
        result = {}
        for item in kept(frame):
            loop.put(frame, item)
            result[item[0]] = transform(frame)
        return result

    return Part(run)


def _sort_by(compiler: Compiler, target: Node, arguments: list[Node]) -> Part:
    loop, (body,), _ = _loop(compiler, target, arguments[:1], arguments[1:])
    key_of = body.run

    def run(frame: Frame) -> list[Any]:
        keyed = []
        for position, item in enumerate(loop.start(frame)):
            loop.put(frame, item)
            keyed.append((key_of(frame), position, item))
        order = library.sort([key for key, _, _ in keyed])
        rest = list(keyed)
        result = []
        for key in order:
            at = next(position for position, entry in enumerate(rest) if values.equals(entry[0], key))
            result.append(rest.pop(at)[2])
        return result

    return Part(run)


def _opt_map(compiler: Compiler, target: Node, arguments: list[Node], *, flat: bool = False) -> Part:
    source = compiler.compile(target)
    outer = compiler.scope
    slot = compiler.bind(variable_name(arguments[0]), source.schema)
    body = compiler.compile(arguments[1])
    compiler.scope = outer
    run_source, run_body = source.run, body.run

    def run(frame: Frame) -> Optional:
        value = run_source(frame)
        if type(value) is not Optional:
            raise no_overload("optMap")
        if not value.present:
            return NONE
        frame[slot] = value.value
        result = run_body(frame)
        if not flat:
            return some(result)
        if type(result) is not Optional:
            raise no_overload("optFlatMap")
        return result

    return Part(run, body.schema)


def _opt_flat_map(compiler: Compiler, target: Node, arguments: list[Node]) -> Part:
    return _opt_map(compiler, target, arguments, flat=True)


Macro = Callable[["Compiler", Node, list[Node]], Part]
MACROS: Final[dict[tuple[str, int], Macro]] = {
    ("all", 2): _all,
    ("all", 3): _all,
    ("exists", 2): _exists,
    ("exists", 3): _exists,
    ("exists_one", 2): _exists_one,
    ("existsOne", 2): _exists_one,
    ("existsOne", 3): _exists_one,
    ("filter", 2): _filter,
    ("map", 2): _map,
    ("map", 3): _map,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_flat_map,
}
