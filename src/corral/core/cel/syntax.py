"""The grammar of CEL: text in, a tree of small tuples out.

Nodes are `(kind, …)`: lit, ident, select, index, call, list, map, unary, binary, and, or, cond. Macros are still calls
here; the compiler expands them, because only it knows the variables.
"""

from __future__ import annotations

import re
from typing import Any, Final

from corral.core.cel.values import CelError, UInt

Node = tuple[Any, ...]

_MAX_LENGTH: Final = 100_000
_MAX_DEPTH: Final = 120
_TOKEN: Final = re.compile(
    r"""
    (?P<space>(?:\s|//[^\n]*)+)
  | (?P<float>(?:\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?))
  | (?P<int>(?:0[xX][0-9a-fA-F]+|\d+)[uU]?)
  | (?P<string>(?:[rR][bB]?|[bB][rR]?)?(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|\"(?:\\.|[^\\\"\n])*\"|'(?:\\.|[^\\'\n])*'))
  | (?P<ident>[_a-zA-Z][_a-zA-Z0-9]*)
  | (?P<op>\.\?|\[\?|\{\?|&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}])
  | (?P<quoted>`[a-zA-Z0-9_.\-/ ]+`)
    """,
    re.VERBOSE,
)
_RAW_STRING: Final = re.compile(
    r"""(?P<prefix>[rR][bB]?|[bB][rR])(?P<body>\"\"\".*?\"\"\"|'''.*?'''|\"[^\"\n]*\"|'[^'\n]*')""", re.DOTALL
)
_RESERVED: Final = frozenset(
    {"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package", "namespace",
     "return", "var", "void", "while"}
)  # fmt: skip
_LITERALS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
_RELATIONS: Final = frozenset({"<", "<=", ">", ">=", "==", "!=", "in"})


def parse(text: str) -> Node:
    """The tree of `text`; raises CelError."""
    if len(text) > _MAX_LENGTH:
        raise CelError("the expression is too long")
    parser = _Parser(_tokens(text), text)
    node = parser.expression()
    parser.expect("end")
    return node


Token = tuple[str, str]


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        raw = _RAW_STRING.match(text, position)
        match = raw or _TOKEN.match(text, position)
        if match is None:
            raise CelError(f"Syntax error: token recognition error at: {text[position : position + 10]!r}")
        position = match.end()
        if raw is not None:
            tokens.append(("string", raw[0]))
        elif match.lastgroup == "op" and match[0] in ("[?", "{?"):
            tokens += [("op", match[0][0]), ("op", "?")]
        elif match.lastgroup != "space":
            tokens.append((str(match.lastgroup), match[0]))
    tokens.append(("end", "end"))
    return tokens


class _Parser:
    def __init__(self, tokens: list[Token], text: str) -> None:
        self.tokens = tokens
        self.text = text
        self.position = 0
        self.depth = 0

    def peek(self) -> str:
        kind, text = self.tokens[self.position]
        return text if kind in ("op", "end", "ident") else ""

    def take(self) -> Token:
        token = self.tokens[self.position]
        self.position += 1
        return token

    def accept(self, symbol: str) -> bool:
        kind, text = self.tokens[self.position]
        if text == symbol and kind in ("op", "ident", "end"):
            self.position += 1
            return True
        return False

    def expect(self, symbol: str) -> None:
        if not self.accept(symbol):
            found = self.tokens[self.position][1]
            raise CelError(f"Syntax error: mismatched input {found!r} expecting {symbol!r}")

    def expression(self) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise CelError("the expression is nested too deeply")
        node = self.either()
        if self.accept("?"):
            chosen = self.either()
            self.expect(":")
            node = ("cond", node, chosen, self.expression())
        self.depth -= 1
        return node

    def either(self) -> Node:
        node = self.both()
        while self.accept("||"):
            node = ("or", node, self.both())
        return node

    def both(self) -> Node:
        node = self.relation()
        while self.accept("&&"):
            node = ("and", node, self.relation())
        return node

    def relation(self) -> Node:
        node = self.sum()
        while self.peek() in _RELATIONS:
            operator = self.take()[1]
            node = ("binary", operator, node, self.sum())
        return node

    def sum(self) -> Node:
        node = self.product()
        while self.peek() in ("+", "-"):
            operator = self.take()[1]
            node = ("binary", operator, node, self.product())
        return node

    def product(self) -> Node:
        node = self.unary()
        while self.peek() in ("*", "/", "%"):
            operator = self.take()[1]
            node = ("binary", operator, node, self.unary())
        return node

    def unary(self) -> Node:
        operators = []
        while self.peek() in ("!", "-"):
            operators.append(self.take()[1])
            if len(operators) > _MAX_DEPTH:
                raise CelError("the expression is nested too deeply")
        kind, text = self.tokens[self.position]
        if operators and operators[-1] == "-" and kind in ("int", "float"):
            operators.pop()
            self.take()
            node = self.members(("lit", _number(f"-{text}", kind)))
        else:
            node = self.member()
        while operators:
            operator = operators.pop()
            if operators and operators[-1] == operator:
                operators.pop()  # twice is not at all, whatever the operand
            else:
                node = ("unary", operator, node)
        return node

    def member(self) -> Node:
        return self.members(self.primary())

    def members(self, node: Node) -> Node:
        while True:
            if self.accept(".?"):
                node = ("select", node, self.name(), True)
            elif self.accept("."):
                name = self.name()
                call = self.accept("(")
                node = ("call", name, node, self.arguments(")")) if call else ("select", node, name, False)
            elif self.accept("["):
                optional = self.accept("?")
                node = ("index", node, self.expression(), optional)
                self.expect("]")
            else:
                return node

    def name(self) -> str:
        kind, text = self.take()
        if kind == "quoted":
            return text[1:-1]
        if kind != "ident":
            raise CelError(f"Syntax error: no viable alternative at input {text!r}")
        return text

    def arguments(self, end: str) -> list[Node]:
        found: list[Node] = []
        while not self.accept(end):
            found.append(self.expression())
            if not self.accept(","):
                self.expect(end)
                break
        return found

    def primary(self) -> Node:
        kind, text = self.take()
        if kind == "op":
            return self.bracketed(text)
        if kind in ("int", "float"):
            return ("lit", _number(text, kind))
        if kind == "string":
            return ("lit", _string(text))
        if kind != "ident":
            raise CelError(f"Syntax error: mismatched input {text!r}")
        if text in _LITERALS:
            return ("lit", _LITERALS[text])
        if text in _RESERVED or text == "in":
            raise CelError(f"Syntax error: reserved identifier: {text}")
        if self.accept("("):
            return ("call", text, None, self.arguments(")"))
        return ("ident", text)

    def bracketed(self, symbol: str) -> Node:
        if symbol == "(":
            node = self.expression()
            self.expect(")")
            return node
        if symbol == "[":
            return self.list_literal()
        if symbol == "{":
            return self.map_literal()
        if symbol == "." and self.tokens[self.position][0] == "ident":
            return self.primary()
        raise CelError(f"Syntax error: mismatched input {symbol!r}")

    def list_literal(self) -> Node:
        elements: list[tuple[Node, bool]] = []
        while not self.accept("]"):
            optional = self.accept("?")
            elements.append((self.expression(), optional))
            if not self.accept(","):
                self.expect("]")
                break
        return ("list", elements)

    def map_literal(self) -> Node:
        entries: list[tuple[Node, Node, bool]] = []
        while not self.accept("}"):
            optional = self.accept("?")
            key = self.expression()
            self.expect(":")
            entries.append((key, self.expression(), optional))
            if not self.accept(","):
                self.expect("}")
                break
        return ("map", entries)


_MOST_DIGITS: Final = 100  # more than a number has, and fewer than Python refuses to read


def _number(text: str, kind: str) -> Any:
    if kind == "float":
        return float(text)
    unsigned = text[-1] in "uU"
    digits = text.rstrip("uU")
    if len(digits) > _MOST_DIGITS:
        raise CelError(f"invalid {'uint' if unsigned else 'int'} literal")
    value = int(digits, 16) if "x" in digits.lower() else int(digits)
    if unsigned:
        if not 0 <= value < 2**64:
            raise CelError("invalid uint literal")
        return UInt(value)
    if not -(2**63) <= value < 2**63:
        raise CelError("invalid int literal")
    return value


_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))",
    re.DOTALL,
)
_PLAIN_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _string(text: str) -> str | bytes:
    prefix = re.match("[rRbB]*", text)
    flags = prefix[0].lower() if prefix else ""
    body = text[len(flags) :]
    width = 3 if body[:3] in ('"""', "'''") else 1
    body = body[width:-width]
    if "b" not in flags:
        return body if "r" in flags else _ESCAPE.sub(_unescape, body)
    if "r" in flags:
        return body.encode()
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(body):
        octet = match[2] or match[3]
        code = int(octet, 16) if octet else int(match[6], 8) if match[6] else None
        parts += [body[end : match.start()].encode(), bytes([code]) if code is not None else _unescape(match).encode()]
        end = match.end()
    return b"".join([*parts, body[end:].encode()])


def _character(point: int, digits: str) -> str:
    """Texts have no halves of surrogate pairs, which nobody could write down again."""
    if point > 0x10FFFF or 0xD800 <= point < 0xE000:
        raise CelError(f"Syntax error: no character has the number {digits}")
    return chr(point)


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return _PLAIN_ESCAPES.get(match[1], match[1])
    digits = match[2] or match[3] or match[4] or match[5]
    if digits:
        return _character(int(digits, 16), digits)
    if match[6]:
        return chr(int(match[6], 8))
    raise CelError(f"Syntax error: invalid escape sequence \\{match[7]}")
