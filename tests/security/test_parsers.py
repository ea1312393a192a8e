"""What a parser does grows with what it is given: no text is short to write and long to read.

Work is counted in calls of Python and C functions, never in time: doubling the input about doubles the count at most.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.patch.json import json_patch
from corral.core.resource import Resource
from corral.core.selectors import SelectorError, parse_field_selector, parse_label_selector
from corral.server.content import bodies, yaml_documents
from corral.server.content.go_json_errors import syntax_error
from corral.server.content.representations import warning_headers

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


def calls(work: Callable[[], Any]) -> int:
    """How many functions `work` calls; what it says is nobody's business here."""
    counted = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    except ValueError:
        pass
    finally:
        sys.setprofile(None)
    return counted


def merge_keys(levels: int) -> bytes:
    lines = [b"a0: &a0 {k: 1, l: 2}\n"]
    lines += [b"a%d: &a%d\n  <<: [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, levels + 1)]
    return b"".join(lines)


def repeated_members(count: int) -> bytes:
    return b"{%b}" % b",".join(b'"k%d":1,"k%d":1' % (n, n) for n in range(count))


Growing = tuple[Callable[[int], Any], Callable[[Any], Any]]
GROWING: dict[str, Growing] = {
    "YAML, flat": (lambda n: b"- a\n" * n, bodies.decode_yaml),
    "YAML, merge keys": (lambda n: merge_keys(n // 200), bodies.decode_yaml),
    "YAML, base 60": (lambda n: b"a: " + b"1:" * n + b"1", bodies.decode_yaml),
    "YAML, aliases": (lambda n: b"a: &a 1\nb: [" + b"*a," * n + b"]", bodies.decode_yaml),
    "JSON, repeated members": (repeated_members, lambda body: bodies.duplicates(body, {})),
    "JSON, wrong at its end": (lambda n: b'{"a":[' + b"1," * n + b"}", bodies.decode_json),
    "JSON, wrong after many objects": (lambda n: b"[" + b'{"a":1},' * n + b"}", bodies.decode_json),
    "JSON, a string without end": (lambda n: b'"' + b"\\n" * n, bodies.decode_json),
    "JSON, no UTF-8": (lambda n: b'{"a":"' + b"\xff" * n + b'"}', bodies.decode_json),
    "label selector, brackets": (lambda n: "(" * n, parse_label_selector),
    "label selector, values": (lambda n: f"a in ({'b,' * n}c)", parse_label_selector),
    "field selector": (lambda n: "a=b," * n, parse_field_selector),
    "JSON patch": (
        lambda n: [{"op": "add", "path": f"/n{k}", "value": {}} for k in range(n)],
        lambda patch: json_patch({str(k): "v" for k in range(len(patch))}, patch),
    ),
}


@pytest.mark.parametrize("what", GROWING)
def test_twice_the_text_is_at_most_about_twice_the_work(what: str) -> None:
    make, read = GROWING[what]
    small, large = make(2000), make(4000)
    assert calls(lambda: read(large)) <= 2.5 * calls(lambda: read(small)) + 100


def test_a_few_hundred_bytes_of_merge_keys_are_read_or_refused_within_the_budget() -> None:
    for levels in range(1, 30):
        assert calls(lambda levels=levels: bodies.decode_yaml(merge_keys(levels))) < 30 * yaml_documents.MAX_NODES
    with pytest.raises(ValueError, match="excessive aliasing"):
        bodies.decode_yaml(merge_keys(30))


def test_merge_keys_mean_what_they_mean_in_yaml() -> None:
    text = b"base: &b {a: 1, c: 2}\nmore: &m {a: 9, d: 4}\nboth: {<<: [*b, *m], c: 3}\none: {<<: *m}\nlist: [<<]"
    assert bodies.decode_yaml(text) == {
        "base": {"a": 1, "c": 2},
        "more": {"a": 9, "d": 4},
        "both": {"a": 1, "c": 3, "d": 4},
        "one": {"a": 9, "d": 4},
        "list": ["<<"],
    }


def test_what_an_alias_repeats_is_not_one_object_in_two_places() -> None:
    value = bodies.decode_yaml(b"a: &a {x: 1}\nb: *a")
    value["a"]["x"] = 2
    assert value["b"] == {"x": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30", "1:30"), ("1:1:1.5", "1:1:1.5"), ("2026-01-01", "2026-01-01"), ("0o17", "0o17"), ("017", 15), ("0x1f", 31),
        ("1_000", 1000), ("1.5", 1.5), ("-.5", -0.5), ("yes", True), ("Off", False), ("~", None), ("'1'", "1"), ("!!str 1", "1"),
        ("!!int '7'", 7), ("18446744073709551615", 2**64 - 1), ("18446744073709551616", 2.0**64), ("1" * 200, float("1" * 200)),
        ("y", "y"), ("-", [None]), (".", "."), ("+", "+"),
    ],
)  # fmt: skip
def test_scalars_are_what_kubernetes_takes_them_for(text: str, value: object) -> None:
    assert bodies.decode_yaml(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        b"".join(b"%%TAG !a%d! x\n" % n for n in range(100)) + b"--- a", b"a: *b", b"!!python/object:x {}", b"!!set {a}",
        b"{[a]: 1}", b"a: 1\n---\nb: 2", b".inf", b"!!int x", b"- a\n" * 200_000, b"<<: 3",
    ],
)  # fmt: skip
def test_yaml_that_is_no_object_of_ours_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"yaml|json"):
        bodies.decode_yaml(text)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON_VALUES, st.integers(0, 60), st.binary(min_size=1, max_size=2))
def test_broken_json_is_told_apart_from_json_wherever_it_breaks(value: object, at: int, junk: bytes) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1 if at % 2 else None).encode("utf-8", "replace")
    broken = text[:at] + junk + text[at:]
    try:
        json.loads(broken.decode("utf-8", "replace"), parse_constant=lambda _: pytest.fail("not reached"))
        well_formed = True
    except (ValueError, pytest.fail.Exception):
        well_formed = False
    assert (syntax_error(broken) == "") is well_formed


@settings(max_examples=200)
@given(st.text(alphabet="ab:-[]{},&*<>!'\"|#%\n 1.", max_size=60))
def test_any_text_is_yaml_or_a_value_error(text: str) -> None:
    try:
        value = bodies.decode_yaml(text.encode())
    except ValueError:
        return
    json.dumps(value)


def test_bytes_that_are_no_utf8_are_replaced_and_duplicates_still_found() -> None:
    body = b'{"data":{"a\xff":"1","a\xff":"2"}}'
    value = bodies.decode_object(body, "application/json", CONFIG_MAPS)
    assert bodies.duplicates(body, value) == ["data.a\N{REPLACEMENT CHARACTER}"]


def test_duplicates_are_told_up_to_a_hundred_and_in_few_words() -> None:
    body = repeated_members(5000)
    assert len(bodies.duplicates(body, json.loads(body))) == bodies.MAX_DUPLICATES
    long = b'{"%b":{"a":1,"a":2}}' % (b"n" * 5000)
    assert len(bodies.duplicates(long, json.loads(long))[0]) < 300


def test_warnings_are_few_enough_for_every_client() -> None:
    assert len(warning_headers([f"w{n}" for n in range(5000)])) <= 50


@given(st.lists(st.sampled_from(["/a", "/b", "/a/x", "/b/x", "/l/0", "/l/-", "/l"]), max_size=8), st.data())
def test_a_patch_changes_nothing_but_its_own_copy(places: list[str], data: st.DataObject) -> None:
    document = {"a": {"x": {"y": 1}}, "b": {"x": [1]}, "l": [{"z": 1}, 2]}
    before = json.dumps(document)
    kinds = st.sampled_from(["add", "replace", "remove", "copy", "move"])
    patch = [
        {"op": data.draw(kinds), "path": place, "from": data.draw(st.sampled_from(["/a", "/b/x", "/l/0"])), "value": {"x": {}}}
        for place in places
    ]  # fmt: skip
    sent = json.dumps(patch)
    outcome = _patched(document, patch)
    assert outcome == _patched_one_by_one(document, patch)
    assert json.dumps(document) == before
    assert json.dumps(patch) == sent


def _patched(document: Any, patch: list[Any]) -> Any:
    try:
        return json_patch(document, patch)
    except ValueError as error:
        return str(error)


def _patched_one_by_one(document: Any, patch: list[Any]) -> Any:
    """The same with a document of its own for every operation."""
    try:
        for operation in patch:
            document = json_patch(json.loads(json.dumps(document)), json.loads(json.dumps([operation])))
        return document
    except ValueError as error:
        return str(error)


def test_selectors_say_what_is_wrong_without_reading_it_again_and_again() -> None:
    with pytest.raises(SelectorError, match=r"found '\('"):
        parse_label_selector("(" * 1000)
