"""Label and field selectors: the query language of lists and watches.

`parse_label_selector` reads the text form (`a=b,c in (d,e),!f,g>3`), `from_label_selector` the object form with
matchLabels and matchExpressions; both give a `Selector`. `parse_field_selector` reads `metadata.name=x,a!=b`.
Errors carry the words of a Kubernetes API server. Parsing is cached. A list asks a selector of every object, so what it costs to
ask must not grow with what somebody wrote into it: a few requirements are gone through, many are looked up by the object's labels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from corral.core import names
from corral.core.remembering import remembered
from corral.core.validation import go_json, go_quote

Operator = Literal["=", "==", "!=", "in", "notin", "exists", "!", ">", "<"]
Labels = Mapping[str, str]

_BINARY_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"
_TOKEN: Final = re.compile(r"[ \t\r\n]*(?:([=!(),<>]+)|([^=!(),<> \t\r\n]+))", re.ASCII)
_SYMBOL: Final = re.compile("==|!=|[=!(),<>]")
FEW: Final = 8
"""So many requirements, and values of one, are faster gone through than looked up."""
_OBJECT_OPERATORS: Final[dict[str, Operator]] = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


class SelectorError(ValueError):
    """The selector cannot be understood; the message is the one Kubernetes gives."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        match self.operator:
            case "=" | "==" | "in":
                return labels.get(self.key) in self.values
            case "!=" | "notin":
                return labels.get(self.key) not in self.values
            case "exists":
                return self.key in labels
            case "!":
                return self.key not in labels
            case _:
                return self._compares(labels.get(self.key))

    def _compares(self, label: str | None) -> bool:
        number = _integer(label or "")
        limit = _integer(self.values[0])
        if number is None or limit is None:
            return False
        return number > limit if self.operator == ">" else number < limit

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
            case _:
                return f"{self.key}{self.operator}{self.values[0]}"


class _Condition:
    """All that a selector demands of one label."""

    __slots__ = ("above", "allowed", "below", "excluded", "forbidden", "required")

    def __init__(self) -> None:
        self.required = self.forbidden = False
        self.allowed: frozenset[str] | None = None  # None: whatever is not excluded
        self.excluded: set[str] = set()
        self.above: int | None = None
        self.below: int | None = None

    def add(self, requirement: Requirement) -> None:
        match requirement.operator:
            case "=" | "==" | "in":
                values = frozenset(requirement.values)
                self.allowed = values if self.allowed is None else self.allowed & values
            case "!=" | "notin":
                self.excluded.update(requirement.values)
            case "!":
                self.forbidden = True
            case ">" | "<":
                self._bound(requirement.operator, _integer(requirement.values[0]))
        self.required = self.required or requirement.operator not in ("!=", "notin", "!")

    def _bound(self, operator: Operator, limit: int | None) -> None:
        if limit is None:  # compares with nothing
            self.allowed = frozenset()
        elif operator == ">":
            self.above = limit if self.above is None else max(self.above, limit)
        else:
            self.below = limit if self.below is None else min(self.below, limit)

    def holds(self, value: str) -> bool:
        if self.forbidden or value in self.excluded or (self.allowed is not None and value not in self.allowed):
            return False
        if self.above is None and self.below is None:
            return True
        number = _integer(value)
        return (
            number is not None
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )


class _Lookup:
    """Many requirements, by the label they are about: asking takes as long as the object has labels."""

    __slots__ = ("conditions", "required")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self.conditions: dict[str, _Condition] = {}
        for requirement in requirements:
            self.conditions.setdefault(requirement.key, _Condition()).add(requirement)
        self.required = tuple(key for key, condition in self.conditions.items() if condition.required)

    def matches(self, labels: Labels) -> bool:
        if len(self.required) > len(labels) or not all(key in labels for key in self.required):
            return False
        conditions = self.conditions
        return all(key not in conditions or conditions[key].holds(value) for key, value in labels.items())


@dataclass(frozen=True, slots=True)
class Selector:
    """A conjunction of requirements, or nothing at all."""

    requirements: tuple[Requirement, ...] = ()
    selects_nothing: bool = False
    _lookup: _Lookup | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        many = len(self.requirements) > FEW or any(len(entry.values) > FEW for entry in self.requirements)
        object.__setattr__(self, "_lookup", _Lookup(self.requirements) if many else None)

    def matches(self, labels: Labels | None) -> bool:
        """True when every requirement holds for `labels`."""
        if self.selects_nothing:
            return False
        labels = labels or {}
        if self._lookup is not None:
            return self._lookup.matches(labels)
        return all(requirement.matches(labels) for requirement in self.requirements)

    @property
    def is_everything(self) -> bool:
        return not self.requirements and not self.selects_nothing

    def exact(self, key: str) -> str | None:
        """The one value that `key` must have, if the selector demands one: lets an index answer."""
        for requirement in self.requirements:
            if requirement.key == key and requirement.operator in ("=", "==", "in") and len(requirement.values) == 1:
                return requirement.values[0]
        return None

    def __bool__(self) -> bool:
        return not self.is_everything

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(selects_nothing=True)


def from_labels(labels: Labels) -> Selector:
    """The selector that demands exactly these labels; the values are taken as valid."""
    return Selector(tuple(Requirement(key, "=", (labels[key],)) for key in sorted(labels)))


@remembered(4096)
def parse_label_selector(text: str) -> Selector:
    """The selector written in `text`; raises SelectorError."""
    requirements = _Parser(text).parse()
    return Selector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def from_label_selector(selector: Mapping[str, Any] | None) -> Selector:
    """The selector a LabelSelector object stands for: None selects nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    requirements = [_requirement(key, "=", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        operator = _OBJECT_OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            raise SelectorError(f"{go_quote(expression.get('operator', ''))} is not a valid label selector operator")
        requirements.append(_requirement(expression["key"], operator, tuple(expression.get("values") or ())))
    return Selector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def to_label_selector(selector: Selector) -> dict[str, Any]:
    """The LabelSelector object that stands for a selector made from one."""
    spoken = {
        "=": "In",
        "==": "In",
        "in": "In",
        "!=": "NotIn",
        "notin": "NotIn",
        "exists": "Exists",
        "!": "DoesNotExist",
    }
    if selector.selects_nothing:
        everything = {"key": "kubernetes.io/metadata.name", "operator": "Exists"}
        return {"matchExpressions": [everything, {**everything, "operator": "DoesNotExist"}]}
    return {
        "matchExpressions": [
            {
                "key": each.key,
                "operator": spoken[each.operator],
                **({"values": list(each.values)} if each.values else {}),
            }
            for each in selector.requirements
        ]
    }


def _integer(text: str) -> int | None:
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text, re.ASCII):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _check_key(key: str, path: str) -> list[str]:
    complaints = names.check_qualified_name(key)
    return [f"{path}: Invalid value: {go_quote(key)}: {'; '.join(complaints)}"] if complaints else []


def _requirement(key: str, operator: Operator, values: tuple[str, ...]) -> Requirement:
    """A requirement whose key and values were checked."""
    complaints = _check_key(key, "key") + _check_count(operator, values)
    for position, value in enumerate(values):
        found = names.check_label_value(value)
        if found:
            complaints.append(f"values[{position}][{key}]: Invalid value: {go_quote(value)}: {'; '.join(found)}")
    if complaints:
        raise SelectorError(complaints[0] if len(complaints) == 1 else f"[{', '.join(complaints)}]")
    return Requirement(key, operator, values)


def _check_count(operator: Operator, values: tuple[str, ...]) -> list[str]:
    match operator:
        case "in" | "notin" if not values:
            return ["values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"]
        case "exists" | "!" if values:
            shown = go_json(list(values))
            return [f"values: Invalid value: {shown}: values set must be empty for exists and does not exist"]
        case ">" | "<" if _integer(values[0]) is None:
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            return [f"values[0]: Invalid value: {go_quote(values[0])}: {detail}"]
    return []


class _Parser:
    """Reads one selector text; keywords are only special where an operator may stand."""

    def __init__(self, text: str) -> None:
        self.tokens = iter(_tokens(text))
        self.following = next(self.tokens)

    def peek(self) -> tuple[str, str]:
        return self.following

    def take(self) -> tuple[str, str]:
        taken = self.following
        self.following = next(self.tokens, taken)  # behind the end there is the end
        return taken

    def parse(self) -> Iterable[Requirement]:
        requirements: list[Requirement] = []
        while True:
            kind, literal = self.peek()
            if kind == "end":
                return requirements
            if kind not in ("word", "!"):
                raise SelectorError(f"found '{literal}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self.requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            kind, literal = self.take()
            if kind == "end":
                return requirements
            if kind != ",":
                raise SelectorError(f"found '{literal}', expected: ',' or 'end of string'")
            kind, literal = self.peek()
            if kind not in ("word", "!"):
                raise SelectorError(f"found '{literal}', expected: identifier after ','")

    def requirement(self) -> Requirement:
        kind, key = self.take()
        negated = kind == "!"
        if negated:
            kind, key = self.take()
        if kind != "word":
            raise SelectorError(f"found '{key}', expected: identifier")
        complaints = _check_key(key, "<nil>")
        if complaints:
            raise SelectorError(complaints[0])
        if negated:
            return _requirement(key, "!", ())
        if self.peek()[0] in ("end", ","):
            return _requirement(key, "exists", ())
        operator = self.operator()
        values = self.value_set() if operator in ("in", "notin") else (self.exact_value(),)
        return _requirement(key, operator, values)

    def operator(self) -> Operator:
        kind, literal = self.take()
        if (kind == "word" and literal in ("in", "notin")) or kind in ("=", "==", "!=", ">", "<"):
            return literal  # type: ignore[return-value]  # the test above leaves only operators
        raise SelectorError(f"found '{literal}', expected: {_BINARY_OPERATORS}")

    def exact_value(self) -> str:
        if self.peek()[0] in ("end", ","):
            return ""
        kind, literal = self.take()
        if kind != "word":
            raise SelectorError(f"found '{literal}', expected: identifier")
        return literal

    def value_set(self) -> tuple[str, ...]:
        kind, literal = self.take()
        if kind != "(":
            raise SelectorError(f"found '{literal}' expected: '('")
        kind, literal = self.peek()
        if kind == ")":
            self.take()
            return ("",)
        if kind not in ("word", ","):
            raise SelectorError(f"found '{literal}', expected: ',', ')' or identifier")
        values = self.value_list()
        self.take()
        return tuple(sorted(values))

    def value_list(self) -> set[str]:
        values: set[str] = set()
        while True:
            kind, literal = self.take()
            if kind == "word":
                values.add(literal)
                kind, literal = self.peek()
                if kind == ")":
                    return values
                if kind != ",":
                    raise SelectorError(f"found '{literal}', expected: ',' or ')'")
            elif kind == ",":
                if self._empty_value_follows(values):
                    return values
            else:
                raise SelectorError(f"found '{literal}', expected: ',', or identifier")

    def _empty_value_follows(self, values: set[str]) -> bool:
        """Account for the empty values around a comma; True when the list ends here."""
        if not values:
            values.add("")
        kind = self.peek()[0]
        if kind == ")":
            values.add("")
            return True
        if kind == ",":
            self.take()
            values.add("")
        return False


def _tokens(text: str) -> Iterable[tuple[str, str]]:
    position = 0
    while match := _TOKEN.match(text, position):
        position = match.end()
        if match[2] is not None:
            yield "word", match[2]
            continue
        for symbol in _SYMBOL.finditer(text, match.start(1), match.end(1)):
            yield symbol[0], symbol[0]
    yield "end", ""


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition on one field."""

    field: str
    negated: bool
    value: str

    def __str__(self) -> str:
        return f"{self.field}{'!=' if self.negated else '='}{_escape(self.value)}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A conjunction of equalities and inequalities on named fields."""

    requirements: tuple[FieldRequirement, ...] = ()
    fields: tuple[str, ...] = field(init=False, compare=False)
    """Those it is about, each once."""
    _tests: tuple[tuple[str, frozenset[str], frozenset[str]], ...] = field(init=False, repr=False, compare=False)
    """Of each field: the values it must have, all of them, and those it must not."""

    def __post_init__(self) -> None:
        wanted: dict[str, tuple[set[str], set[str]]] = {}
        for item in self.requirements:
            wanted.setdefault(item.field, (set(), set()))[item.negated].add(item.value)
        tests = tuple((name, frozenset(must), frozenset(must_not)) for name, (must, must_not) in wanted.items())
        object.__setattr__(self, "_tests", tests)
        object.__setattr__(self, "fields", tuple(wanted))

    def matches(self, read: Callable[[str], str]) -> bool:
        """True when every requirement holds; `read(field)` gives a field's value as text, "" when absent."""
        for name, must, must_not in self._tests:
            value = read(name)
            if value in must_not or (must and (len(must) > 1 or value not in must)):
                return False
        return True

    def exact(self, name: str) -> str | None:
        """The value `name` must have, if the selector demands one."""
        for requirement in self.requirements:
            if requirement.field == name and not requirement.negated:
                return requirement.value
        return None

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


@remembered(4096)
def parse_field_selector(text: str) -> FieldSelector:
    """The field selector written in `text`; raises SelectorError."""
    requirements = []
    for part in sorted(_split_terms(text)):
        if not part:
            continue
        match = re.search("!=|==|=", part)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        requirements.append(FieldRequirement(part[: match.start()], match[0] == "!=", _unescape(part[match.end() :])))
    return FieldSelector(tuple(requirements))


def _split_terms(text: str) -> list[str]:
    """`text` cut at commas that are not escaped by a backslash."""
    return re.findall(r"(?:[^,\\]|\\.|\\$)+", text, re.DOTALL)


def _escape(value: str) -> str:
    return re.sub(r"([\\,=])", r"\\\1", value)


def _unescape(value: str) -> str:
    if not re.search(r"[\\,=]", value):
        return value
    parts = []
    for match in re.finditer(r"\\(.?)|(.)", value, re.DOTALL):
        if match[2] is not None:
            if match[2] in ",=":
                raise SelectorError(f"invalid field selector: unescaped character in value: {ord(match[2])}")
            parts.append(match[2])
        elif match[1] and match[1] in "\\,=":
            parts.append(match[1])
        else:
            raise SelectorError(f"invalid field selector: invalid escape sequence: {match[0]}")
    return "".join(parts)
