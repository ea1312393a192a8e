"""Go's words for bad JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.server.content.go_json_errors import syntax_error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"nulx", "invalid character 'x' in literal null (expecting 'l')"),
        (b'"a\nb"', "invalid character '\\n' in string literal"),
        (b"{}}", "invalid character '}' after top-level value"),
        (b"\x81", "invalid character '\\u0081' looking for beginning of value"),
        (b"-x", "invalid character 'x' in numeric literal"),
    ],
)
def test_syntax_errors_are_in_gos_words(text: bytes, said: str) -> None:
    assert syntax_error(text) == said


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_well_formed_json_has_no_syntax_error(value: object) -> None:
    assert syntax_error(json.dumps(value).encode()) == ""


@given(st.binary(max_size=40))
def test_syntax_errors_are_found_exactly_when_decoding_fails(data: bytes) -> None:
    try:
        json.loads(data.decode("utf-8", "replace"), parse_constant=lambda _: pytest.fail("not JSON"))
        broken = False
    except (ValueError, pytest.fail.Exception):
        broken = True
    assert bool(syntax_error(data.decode("utf-8", "replace").encode())) == broken
