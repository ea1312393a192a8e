"""Reading values: from JSON to CEL, by field and by index.

A `Part` is a compiled piece of an expression; it knows the schema of its value where there is one, so that a field which
the schema calls a date-time is read as a timestamp. What is missing is an error, or an empty optional if asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from corral.core.cel import library, values
from corral.core.cel.values import NONE, CelError, Optional, UInt, no_overload, no_such_key, some
from corral.core.schema.structural import Schema

Frame = list[Any]
Run = Callable[[Frame], Any]


class Part(NamedTuple):
    """A compiled sub-expression: how to run it, and the schema of what it gives, if known."""

    run: Run
    schema: Schema | None = None


Converter = Callable[[Any], Any]


def converter_of(schema: Schema | None) -> Converter | None:
    """What turns a JSON value of `schema` into its CEL value; None when they are the same."""
    if schema is None:
        return None
    if schema.type == "number":
        return lambda value: float(value) if type(value) is int else value
    if schema.type == "integer":
        return lambda value: int(value) if type(value) is float and value.is_integer() else value
    if schema.type == "string":
        parse_text = _TEXT_FORMATS.get(str(schema.raw.get("format") or ""))
        if parse_text is not None:
            return lambda value: parse_text(value) if type(value) is str else value
    return None


_TEXT_FORMATS: Final[dict[str, Converter]] = {
    "date-time": values.parse_timestamp,
    "date": lambda text: values.parse_timestamp(f"{text}T00:00:00Z"),
    "duration": values.parse_duration,
    "byte": library.base64_decode,
}

_ESCAPES: Final = {"__dot__": ".", "__dash__": "-", "__slash__": "/", "__underscores__": "__"}
_KEYWORDS: Final = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
     "loop", "package", "namespace", "return", "var", "void", "while"}
)  # fmt: skip


def unescape_name(name: str) -> str:
    """The field an identifier stands for: names CEL cannot spell are escaped with double underscores."""
    if "__" not in name:
        return name
    if name.startswith("__") and name.endswith("__") and name[2:-2] in _KEYWORDS:
        return name[2:-2]
    result, position = "", 0
    while position < len(name):
        escape = next((mark for mark in _ESCAPES if name.startswith(mark, position)), None)
        result += _ESCAPES[escape] if escape else name[position]
        position += len(escape) if escape else 1
    return result


def reader(name: str, convert: Converter | None) -> Callable[[Any], Any]:
    """What `x.name` does to x."""

    def read(value: Any) -> Any:
        if type(value) is dict:
            try:
                found = value[name]
            except KeyError:
                raise no_such_key(name) from None
            return found if convert is None else convert(found)
        if type(value) is Optional:
            return try_index(value, name, convert)
        raise no_overload("select")

    return read


def optional_reader(name: str, convert: Converter | None) -> Callable[[Any], Any]:
    def read(value: Any) -> Optional:
        return try_index(value if type(value) is Optional else some(value), name, convert)

    return read


def try_index(container: Optional, key: Any, convert: Converter | None) -> Optional:
    if not container.present:
        return NONE
    inner = container.value
    if type(inner) is dict:
        if not values.contains(key, inner):
            return NONE
    elif type(inner) is list:
        if type(key) is not int or not 0 <= key < len(inner):
            return NONE
    else:
        raise no_overload("_[?_]")
    value = index_value(inner, key)
    return some(convert(value) if convert is not None else value)


def index_value(container: Any, key: Any) -> Any:
    """What `container[key]` gives."""
    if type(container) is list:
        if type(key) is float and key.is_integer():
            key = int(key)
        if type(key) not in (int, UInt):
            raise no_overload("_[_]")
        if not 0 <= key < len(container):
            raise CelError(f"index out of bounds: {key}")
        return container[key]
    if type(container) is dict:
        if not values.contains(key, container):
            raise no_such_key(key)
        return container[key]
    raise no_overload("_[_]")


def is_unordered(part: Part) -> bool:
    return part.schema is not None and part.schema.type == "array" and part.schema.merge in ("set", "keyed")


def is_text_literal(element: tuple[Any, bool]) -> bool:
    node, optional = element
    return not optional and node[0] == "lit" and type(node[1]) is str


def join_unordered(schema: Schema) -> Callable[[Any, Any], list[Any]]:
    """`+` on sets is their union; on keyed lists the right element wins."""

    def join(a: Any, b: Any) -> list[Any]:
        if type(a) is not list or type(b) is not list:
            raise no_overload("_+_")
        if schema.merge == "set":
            return a + [item for item in b if not values.contains(item, a)]

        def key(item: Any) -> Any:
            return [item.get(name) for name in schema.list_keys] if type(item) is dict else item

        replaced = [next((new for new in b if values.equals(key(new), key(item))), item) for item in a]
        return replaced + [new for new in b if not any(values.equals(key(new), key(item)) for item in a)]

    return join
