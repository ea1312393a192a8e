"""From the tree of an expression to nested closures.

Every closure takes the frame, a flat list: slot 0 is what is left of the budget (`cost.py`), then come the variables the
program was compiled for, then one slot per macro variable. Where a schema is known for a value, it follows selections,
so that date-times arrive as timestamps and lists that are sets compare as sets; elsewhere values are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, Final

from corral.core.cel import library, values
from corral.core.cel.access import (
    Converter,
    Frame,
    Part,
    Run,
    converter_of,
    index_value,
    is_text_literal,
    is_unordered,
    join_unordered,
    optional_reader,
    reader,
    try_index,
    unescape_name,
)
from corral.core.cel.cost import BUDGET, PER_CALL, CostExceeded, ObjectBudget, call_price, spend, weight
from corral.core.cel.macros import MACROS, variable_name
from corral.core.cel.syntax import Node, parse
from corral.core.cel.values import CelError, Optional, UInt, no_overload, some
from corral.core.regex import RegexError, search
from corral.core.schema.structural import Schema


class Program:
    """A compiled expression."""

    __slots__ = ("_convert", "_run", "_temporaries", "source", "variables")

    def __init__(
        self, source: str, run: Run, size: int, variables: frozenset[str], convert: Sequence[Converter | None]
    ):
        self.source = source
        self.variables = variables
        """The variables the expression mentions."""
        self._run = run
        self._temporaries = [None] * size
        self._convert = [(slot, found) for slot, found in enumerate(convert, 1) if found is not None]

    def evaluate(self, *arguments: Any, budget: ObjectBudget | None = None) -> Any:
        """The value of the expression for the variables, in the order they were declared; raises CelError. What it costs
        is taken from `budget`, if one is given."""
        if budget is None:
            return self._evaluate([BUDGET, *arguments, *self._temporaries])
        granted = min(BUDGET, budget.left)
        frame = [granted, *arguments, *self._temporaries]
        try:
            return self._evaluate(frame)
        finally:
            budget.left -= granted - frame[0] + PER_CALL

    def _evaluate(self, frame: Frame) -> Any:
        for slot, convert in self._convert:
            frame[slot] = convert(frame[slot])
        try:
            return self._run(frame)
        except RecursionError:
            raise CelError("the value is nested too deeply") from None
        except CelError:
            raise
        except (TypeError, AttributeError):
            # Whatever a function failed to check: a bad rule must not become a bad server.
            raise no_overload() from None
        except (ValueError, ArithmeticError):
            raise CelError("a value is out of range") from None


def compile_expression(text: str, variables: Mapping[str, Schema | None]) -> Program:
    """The program for `text`, which may mention `variables`; raises CelError."""
    try:
        tree = parse(text)
        compiler = Compiler(variables)
        part = compiler.compile(tree)
    except RecursionError:
        raise CelError("the expression is nested too deeply") from None
    convert = [converter_of(schema) for schema in variables.values()]
    return Program(text, part.run, compiler.temporaries, frozenset(compiler.mentioned), convert)


_SIZED: Final = frozenset({str, bytes, list, dict})
_CHEAP: Final = frozenset({"size"})
_BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": values.add, "-": values.subtract, "*": values.multiply, "/": values.divide, "%": values.modulo,
    "<": values.less, "<=": values.less_or_equal, ">": values.greater, ">=": values.greater_or_equal,
    "==": values.equals, "in": values.contains,
}  # fmt: skip


class Compiler:
    def __init__(self, variables: Mapping[str, Schema | None]) -> None:
        self.scope: dict[str, tuple[int, Schema | None]] = {
            name: (slot, schema) for slot, (name, schema) in enumerate(variables.items(), start=1)
        }
        self.declared = len(variables)
        self.temporaries = 0
        self.mentioned: set[str] = set()

    def compile(self, node: Node) -> Part:
        part: Part = getattr(self, f"_{node[0]}")(*node[1:])
        return part

    def run(self, node: Node) -> Run:
        return self.compile(node).run

    def bind(self, name: str, schema: Schema | None) -> int:
        """Declare a macro variable; the caller restores `scope`."""
        self.temporaries += 1
        slot = self.declared + self.temporaries
        self.scope = {**self.scope, name: (slot, schema)}
        return slot

    # literals and names

    def _lit(self, value: Any) -> Part:
        return Part(lambda frame: value)

    def _ident(self, name: str) -> Part:
        found = self.scope.get(name)
        if found is not None:
            slot, schema = found
            if slot <= self.declared:
                self.mentioned.add(name)
            return Part(lambda frame: frame[slot], schema)
        if name in values.TYPES:
            return self._lit(values.TYPES[name])
        raise CelError(f"undeclared reference to '{name}' (in container '')")

    def _list(self, elements: list[tuple[Node, bool]]) -> Part:
        parts = [(self.run(element), optional) for element, optional in elements]
        if not any(optional for _, optional in parts):
            runs = [run for run, _ in parts]
            return Part(lambda frame: [run(frame) for run in runs])

        def run_list(frame: Frame) -> list[Any]:
            result = []
            for run, optional in parts:
                value = run(frame)
                if not optional:
                    result.append(value)
                elif value.present:
                    result.append(value.value)
            return result

        return Part(run_list)

    def _map(self, entries: list[tuple[Node, Node, bool]]) -> Part:
        parts = [(self.run(key), self.run(value), optional) for key, value, optional in entries]

        def run_map(frame: Frame) -> dict[Any, Any]:
            result: dict[Any, Any] = {}
            for key, value, optional in parts:
                name, item = key(frame), value(frame)
                if type(name) not in (str, int, bool, UInt):
                    raise CelError("unsupported key type")
                if name in result:
                    raise CelError(f"Failed with repeated key: {name}")
                if not optional:
                    result[name] = item
                elif item.present:
                    result[name] = item.value
            return result

        return Part(run_map)

    # selection

    def _select(self, operand: Node, name: str, optional: bool) -> Part:
        part = self.compile(operand)
        name = unescape_name(name)
        schema = part.schema.field(name) if part.schema is not None else None
        convert = converter_of(schema)
        read = optional_reader(name, convert) if optional else reader(name, convert)
        run = part.run
        return Part(lambda frame: read(run(frame)), schema)

    def _index(self, operand: Node, index: Node, optional: bool) -> Part:
        part, key = self.compile(operand), self.run(index)
        schema = None
        if part.schema is not None:
            schema = part.schema.items or part.schema.additional
            if index[0] == "lit" and type(index[1]) is str and part.schema.properties:
                schema = part.schema.field(index[1])
        convert = converter_of(schema)
        run = part.run

        def run_index(frame: Frame) -> Any:
            container = run(frame)
            if type(container) is Optional:
                return try_index(container, key(frame), convert)
            if optional:
                return try_index(some(container), key(frame), convert)
            value = index_value(container, key(frame))
            return convert(value) if convert is not None else value

        return Part(run_index, schema)

    # operators

    def _unary(self, operator: str, operand: Node) -> Part:
        run = self.run(operand)
        if operator == "-":
            return Part(lambda frame: values.negate(run(frame)))

        def run_not(frame: Frame) -> bool:
            value = run(frame)
            if value is True:
                return False
            if value is False:
                return True
            raise no_overload("!_")

        return Part(run_not)

    def _binary(self, operator: str, left: Node, right: Node) -> Part:
        a, b = self.compile(left), self.compile(right)
        run_a, run_b = a.run, b.run
        if operator in ("==", "!="):
            same = values.equals_unordered if is_unordered(a) or is_unordered(b) else values.equals
            compare = _charged(same, run_a, run_b)
            return Part(compare if operator == "==" else lambda frame: not compare(frame))
        if operator == "in" and right[0] == "list" and all(is_text_literal(element) for element in right[1]):
            choices = frozenset(element[0][1] for element in right[1])

            def run_in(frame: Frame) -> bool:
                value = run_a(frame)
                return type(value) is str and value in choices

            return Part(run_in)
        if operator == "+" and a.schema is not None and is_unordered(a):
            join, schema = join_unordered(a.schema), a.schema
            return Part(_charged(join, run_a, run_b), schema)
        return Part(_charged(_BINARY[operator], run_a, run_b))

    def _and(self, left: Node, right: Node) -> Part:
        return Part(_short_circuit(self.run(left), self.run(right), stop=False))

    def _or(self, left: Node, right: Node) -> Part:
        return Part(_short_circuit(self.run(left), self.run(right), stop=True))

    def _cond(self, test: Node, chosen: Node, other: Node) -> Part:
        run, a, b = self.run(test), self.compile(chosen), self.compile(other)
        run_a, run_b = a.run, b.run

        def run_cond(frame: Frame) -> Any:
            value = run(frame)
            if value is True:
                return run_a(frame)
            if value is False:
                return run_b(frame)
            raise no_overload("_?_:_")

        return Part(run_cond, a.schema if a.schema is b.schema else None)

    # calls

    def _call(self, name: str, target: Node | None, arguments: list[Node]) -> Part:
        if target is None:
            if name == "has" and len(arguments) == 1:
                return self._has(arguments[0])
            return self._function(name, arguments)
        if target[0] == "ident" and target[1] not in self.scope:
            if target[1] == "cel" and name == "bind" and len(arguments) == 3:
                return self._cel_bind(*arguments)
            if f"{target[1]}.{name}" in library.FUNCTIONS:
                return self._function(f"{target[1]}.{name}", arguments)
        macro = MACROS.get((name, len(arguments)))
        if macro is not None and arguments[0][0] == "ident":
            return macro(self, target, arguments)
        return self._method(name, target, arguments)

    def _function(self, name: str, arguments: list[Node]) -> Part:
        function = library.FUNCTIONS.get(name)
        if function is None:
            raise CelError(f"undeclared reference to '{name}' (in container '')")
        return Part(_invoke(function, name, [self.run(argument) for argument in arguments]))

    def _method(self, name: str, target: Node, arguments: list[Node]) -> Part:
        receiver = self.compile(target)
        if name in ("orValue", "or") and len(arguments) == 1:
            return self._or_else(name, receiver, self.compile(arguments[0]))
        if name == "matches" and len(arguments) == 1 and arguments[0][0] == "lit":
            return Part(_matcher(receiver.run, arguments[0][1]))
        method = library.METHODS.get(name)
        if method is None:
            raise CelError(f"undeclared reference to '{name}' (in container '')")
        run = _invoke(method, name, [receiver.run, *map(self.run, arguments)])
        return Part(run, receiver.schema if name == "value" else None)

    def _or_else(self, name: str, receiver: Part, other: Part) -> Part:
        run, alternative = receiver.run, other.run
        unwrap = name == "orValue"

        def run_or(frame: Frame) -> Any:
            value = run(frame)
            if type(value) is not Optional:
                raise no_overload(name)
            if value.present:
                return value.value if unwrap else value
            return alternative(frame)

        return Part(run_or, receiver.schema)

    def _has(self, node: Node) -> Part:
        if node[0] != "select":
            raise CelError("invalid argument to has() macro")
        run, name = self.run(node[1]), unescape_name(node[2])

        def run_has(frame: Frame) -> bool:
            value = run(frame)
            if type(value) is Optional:
                value = value.value if value.present else {}
            if type(value) is not dict:
                raise no_overload("has")
            return name in value

        return Part(run_has)

    def _cel_bind(self, variable: Node, value: Node, body: Node) -> Part:
        bound = self.compile(value)
        outer = self.scope
        slot = self.bind(variable_name(variable), bound.schema)
        inner = self.compile(body)
        self.scope = outer
        run_value, run_body = bound.run, inner.run

        def run_bind(frame: Frame) -> Any:
            frame[slot] = run_value(frame)
            return run_body(frame)

        return Part(run_bind, inner.schema)


def _short_circuit(left: Run, right: Run, *, stop: bool) -> Run:
    """`&&` stops at False, `||` at True; an error on one side is forgiven when the other side decides."""

    def run(frame: Frame) -> Any:
        try:
            first = left(frame)
        except CostExceeded:
            raise
        except CelError as error:
            try:
                second = right(frame)
            except CelError:
                raise error from None
            if second is stop:
                return stop
            raise
        if first is stop:
            return stop
        second = right(frame)
        if second is stop:
            return stop
        if type(first) is bool and type(second) is bool:
            return second
        raise no_overload("_||_" if stop else "_&&_")

    return run


def _invoke(function: Callable[..., Any], name: str, runs: list[Run]) -> Run:
    """A call with a number of arguments the function can take."""
    try:
        signature(function).bind(*runs)
    except TypeError:
        raise CelError(f"found no matching overload for '{name}'") from None
    if len(runs) == 1 and name in _CHEAP:
        only = runs[0]
        return lambda frame: function(only(frame))

    def run_call(frame: Frame) -> Any:
        arguments = [run(frame) for run in runs]
        price = call_price(name, arguments)
        if price:
            spend(frame, price)
        return function(*arguments)

    return run_call


def _charged(apply: Callable[[Any, Any], Any], run_a: Run, run_b: Run) -> Run:
    """An operator on two values, at the price of looking at both: sums of texts and lists copy them."""

    def run(frame: Frame) -> Any:
        a, b = run_a(frame), run_b(frame)
        if type(a) in _SIZED or type(b) in _SIZED:
            spend(frame, weight(a) + weight(b))
        return apply(a, b)

    return run


def _matcher(run: Run, pattern: Any) -> Run:
    """`matches` with a constant pattern, checked when the rule is compiled."""
    if type(pattern) is not str:
        raise no_overload("matches")
    try:
        search(pattern, "")
    except RegexError as error:
        raise CelError(str(error)) from None

    def run_matches(frame: Frame) -> bool:
        text = run(frame)
        if type(text) is not str:
            raise no_overload("matches")
        spend(frame, weight(text))
        return search(pattern, text)

    return run_matches
