"""The words Go's JSON decoder uses for malformed input, because clients and people compare messages by letter.

Only asked when decoding has already failed. Runs of strings, numbers and words are skipped by patterns without a way back,
so that the work grows with the number of arrays and objects alone, and a text with very many of those is given up on.
"""

from __future__ import annotations

import re

_GAP = rb"[ \t\r\n]*+"
_STRING = rb'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_NUMBER = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
_SCALAR = rb"(?:" + _STRING + rb"|true|false|null|" + _NUMBER + rb"|\[" + _GAP + rb"\]|\{" + _GAP + rb"\})"
# All but the last of a container's members: a comma after each says that there is another.
_ITEMS = re.compile(rb"(?>" + _GAP + _SCALAR + _GAP + rb",(?=" + _GAP + rb"[^\]\}\s]))*+")
_MEMBERS = re.compile(rb"(?>" + _GAP + _STRING + _GAP + rb":" + _GAP + _SCALAR + _GAP + rb",(?=" + _GAP + rb'"))*+')
_TEXT = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_DIGITS = re.compile(rb"[0-9]*+")
_BLANK = re.compile(_GAP)
MAX_STEPS = 20_000
PIECE = 256 * 1024
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_ESCAPES = b'"\\/bfnrt'
_HEX = b"0123456789abcdefABCDEF"
MAX_DEPTH = 10_000


def read_float(text: str) -> float:
    """A number with a fraction or an exponent in an object without a Go type: Go writes whole ones without either."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


class _Syntax(Exception):
    pass


class _TooMuch(Exception):
    """The text has so many arrays and objects that the words are not worth the work."""


def _quote(byte: int) -> str:
    if byte == ord("'"):
        return r"'\''"
    if byte == ord('"'):
        return "'\"'"
    if byte < 0x20 or byte == 0x7F:
        names = {7: r"\a", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r"}
        return "'" + names.get(byte, f"\\x{byte:02x}") + "'"
    if 0x80 <= byte < 0xA1 or byte == 0xAD:
        return f"'\\u{byte:04x}'"
    return f"'{chr(byte)}'"


def _wrong(byte: int, context: str) -> _Syntax:
    return _Syntax(f"invalid character {_quote(byte)} {context}")


class _Scanner:
    """Walks the input until the first byte Go would refuse."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.steps = 0

    def peek(self) -> int:
        self.skip(_BLANK)
        if self.at >= len(self.data):
            raise _Syntax("unexpected end of JSON input")
        return self.data[self.at]

    def skip(self, pattern: re.Pattern[bytes]) -> None:
        """Go over what fits, in pieces: a single call would hold the interpreter. What a piece cuts is for the next one."""
        began = -1
        while began < self.at:
            began = self.at
            found = pattern.match(self.data, self.at, self.at + PIECE)
            assert found is not None  # each of them matches nothing, too
            self.at = found.end()
            if self.at - began < PIECE // 2:  # it ended before the piece did, or in a member as long as half of it
                return

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise _Syntax("unexpected end of JSON input")
        self.at += 1
        return self.data[self.at - 1]

    def byte_or_blank(self) -> int:
        """The next byte; Go reads a blank at the end, to see whether a word was complete."""
        return self.byte() if self.at < len(self.data) else ord(" ")

    def value(self) -> bytes:
        """Scan one scalar, or the opening of a container; returns the container's opening byte."""
        byte = self.peek()
        if byte in b"{[":
            self.at += 1
            return bytes((byte,))
        if byte == ord('"'):
            self.string()
        elif byte in _LITERALS:
            self.literal(_LITERALS[byte])
        elif byte in b"-0123456789":
            self.number()
        else:
            raise _wrong(byte, "looking for beginning of value")
        return b""

    def string(self) -> None:
        self.at += 1
        self.skip(_TEXT)
        while (byte := self.byte()) != ord('"'):
            if byte == ord("\\"):
                self.escape()
            elif byte < 0x20:
                raise _wrong(byte, "in string literal")

    def escape(self) -> None:
        byte = self.byte()
        if byte == ord("u"):
            for _ in range(4):
                if (digit := self.byte()) not in _HEX:
                    raise _wrong(digit, r"in \u hexadecimal character escape")
        elif byte not in _ESCAPES:
            raise _wrong(byte, "in string escape code")

    def literal(self, word: bytes) -> None:
        self.at += 1
        for position, expected in enumerate(word[1:], 1):
            if (byte := self.byte_or_blank()) != expected:
                raise _wrong(byte, f"in literal {word.decode()} (expecting {_quote(word[position])})")

    def number(self) -> None:
        byte = self.byte()
        if byte == ord("-") and (byte := self.byte()) not in b"0123456789":
            raise _wrong(byte, "in numeric literal")
        if byte != ord("0"):
            self.digits()
        if self.data[self.at : self.at + 1] == b".":
            self.at += 1
            if (byte := self.byte()) not in b"0123456789":
                raise _wrong(byte, "after decimal point in numeric literal")
            self.digits()
        if self.data[self.at : self.at + 1] in (b"e", b"E"):
            self.at += 1
            if (byte := self.byte()) in b"+-":
                byte = self.byte()
            if byte not in b"0123456789":
                raise _wrong(byte, "in exponent of numeric literal")
            self.digits()

    def digits(self) -> None:
        self.skip(_DIGITS)

    def document(self) -> None:
        stack: list[bytes] = []
        opened = self.value()
        while True:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise _TooMuch
            if opened:
                stack.append(opened)
                if len(stack) > MAX_DEPTH:
                    raise _Syntax("exceeded max depth")
                opened = self.first(stack)
                continue
            if not stack:
                break
            opened = self.following(stack)
        self.skip(_BLANK)
        if self.at < len(self.data):
            raise _wrong(self.data[self.at], "after top-level value")

    def first(self, stack: list[bytes]) -> bytes:
        """What follows an opening bracket."""
        self.skip(_ITEMS if stack[-1] == b"[" else _MEMBERS)
        byte = self.peek()
        if stack[-1] == b"[":
            if byte == ord("]"):
                return self.close(stack)
            return self.value()
        if byte == ord("}"):
            return self.close(stack)
        return self.member(byte)

    def member(self, byte: int) -> bytes:
        if byte != ord('"'):
            raise _wrong(byte, "looking for beginning of object key string")
        self.string()
        if (byte := self.peek()) != ord(":"):
            raise _wrong(byte, "after object key")
        self.at += 1
        return self.value()

    def following(self, stack: list[bytes]) -> bytes:
        """What follows a value inside a container."""
        byte = self.peek()
        closing, context = (b"]", "after array element") if stack[-1] == b"[" else (b"}", "after object key:value pair")
        if byte == closing[0]:
            return self.close(stack)
        if byte != ord(","):
            raise _wrong(byte, context)
        self.at += 1
        self.skip(_ITEMS if stack[-1] == b"[" else _MEMBERS)
        return self.value() if stack[-1] == b"[" else self.member(self.peek())

    def close(self, stack: list[bytes]) -> bytes:
        self.at += 1
        stack.pop()
        return b""


def syntax_error(data: bytes) -> str:
    """What Go says about `data`; empty when it is well-formed, or too long-winded to tell."""
    try:
        _Scanner(data).document()
    except _TooMuch:
        return ""
    except _Syntax as error:
        return str(error)
    return ""


def type_name(value: object) -> str:
    """What Go calls the JSON type of a decoded value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
