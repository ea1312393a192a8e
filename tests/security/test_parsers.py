"""What a parser does grows with what it is given: no text is short to write and long to read.

Work is counted in calls of Python and C functions, never in time: doubling the input about doubles the count at most.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corral
from corral.core import yaml_documents
from corral.core.cel.compiler import compile_expression
from corral.core.cel.values import CelError
from corral.core.meta import Obj
from corral.core.patch import apply
from corral.core.patch.json import json_patch, merge_patch
from corral.core.patch.strategic import strategic_diff, strategic_merge
from corral.core.quantity import Quantity
from corral.core.resource import Resource
from corral.core.schema.structural import compile_schema
from corral.core.selectors import SelectorError, parse_field_selector, parse_label_selector
from corral.core.validation import repeats
from corral.kinds.kubernetes.pods.affinity_rules import check_spreading
from corral.kinds.machinery import protobuf
from corral.kinds.machinery.go_struct_text import MAX_COMPARED, diff
from corral.server.content import bodies
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


def steps(work: Callable[[], Any]) -> int:
    """How many instructions of Python `work` executes: loops within one function count, too."""
    counted = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal counted
        counted += event == "opcode"
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return trace

    sys.settrace(trace)
    try:
        work()
    except (ValueError, CelError):
        pass
    finally:
        sys.settrace(None)
    return counted


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


TEXT: dict[str, Any] = {"type": "string"}
NAMED = {
    "type": "array",
    "x-kubernetes-patch-strategy": "merge",
    "x-kubernetes-patch-merge-key": "name",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": TEXT, "value": TEXT}},
}
WORDS = {"type": "array", "items": TEXT, "x-kubernetes-patch-strategy": "merge", "x-kubernetes-list-type": "set"}
SHAPE = compile_schema({"type": "object", "properties": {"apiVersion": TEXT, "named": NAMED, "words": WORDS}})


def named(numbers: Iterable[int]) -> list[dict[str, str]]:
    return [{"name": f"n{number}", "value": "v"} for number in numbers]


def words(numbers: Iterable[int]) -> list[str]:
    return [f"w{number}" for number in numbers]


def owned(count: int) -> list[dict[str, Any]]:
    """Entries of many field managers, each with a field of its own."""
    return [
        {
            "manager": f"m{n}",
            "operation": operation,
            "apiVersion": "v1",
            "time": "t",
            "fieldsV1": {"f:data": {f"f:{n}": {}}},
        }
        for n in range(count)
        for operation in ("Update", "Apply")
    ]


def applied(count: int) -> Any:
    """Somebody applies nothing any more where there are many other managers."""
    mine = {
        "manager": "me",
        "operation": "Apply",
        "apiVersion": "v1",
        "time": "t",
        "fieldsV1": {"f:words": {'v:"w0"': {}}},
    }
    live = {"apiVersion": "v1", "metadata": {"managedFields": [mine, *owned(count)]}, "words": ["w0"]}
    return apply.apply(live, {"apiVersion": "v1", "named": named(range(1))}, SHAPE, manager="me", now="t", force=True)


def pod_spec(count: int, image: str) -> Obj:
    return {"containers": [{"name": f"c{n}", "image": f"{image}{n}"} for n in range(count)]}


ALIKE: dict[str, Callable[[int], Any]] = {
    "strategic merge, by name": lambda n: strategic_merge({"named": named(range(n))}, {"named": named(range(n - 1, -n, -1))}, SHAPE),
    "strategic merge, words": lambda n: strategic_merge({"words": words(range(n))}, {"words": words(range(n - 1, -n, -1))}, SHAPE),
    "strategic merge, deletions": lambda n: strategic_merge(
        {"named": named(range(n)), "words": words(range(n))},
        {
            "named": [{"$patch": "delete", "name": f"n{k}"} for k in range(0, 2 * n, 2)],
            "$deleteFromPrimitiveList/words": words(range(0, 2 * n, 2)),
        },
        SHAPE,
    ),
    "strategic merge, order": lambda n: strategic_merge(
        {"named": named(range(n)), "words": words(range(n))},
        {"$setElementOrder/named": named(reversed(range(2 * n))), "$setElementOrder/words": words(reversed(range(2 * n)))},
        SHAPE,
    ),
    "strategic merge, kept keys": lambda n: strategic_merge(
        {f"k{k}": 1 for k in range(n)}, {"$retainKeys": words(range(n)), **{f"w{k}": 1 for k in range(n)}}, SHAPE
    ),
    "three-way difference": lambda n: strategic_diff({"words": words(range(n))}, {"words": words(range(n, 2 * n))}, SHAPE),
    "apply, by name": lambda n: apply.merge_config({"named": named(range(n))}, {"named": named(reversed(range(n)))}, SHAPE),
    "apply, words": lambda n: apply.merge_config({"words": words(range(n))}, {"words": words(reversed(range(n)))}, SHAPE),
    "apply among many managers": applied,
    "managers that are put together": lambda n: apply._capped(owned(n)),
    "merge patch": lambda n: merge_patch({f"k{k}": {} for k in range(n)}, {f"k{k}": {"a": None} for k in range(n)}),
    "difference of refused pods": lambda n: diff("core.PodSpec", "core/v1.PodSpec", pod_spec(n, "a"), pod_spec(n, "b")),
    "spreading": lambda n: check_spreading([{"maxSkew": 1, "topologyKey": f"k{k}", "whenUnsatisfiable": "DoNotSchedule"} for k in range(n)], "x"),
    "repeated values": lambda n: repeats(words(range(n))),
    "quantity": lambda n: Quantity.parse("1" * n + "!"),
    "protobuf, many fields": lambda n: protobuf.decode(b"k8s\x00" + b"\x0a\x0f\x0a\x02v1\x12\x09ConfigMap" + b"\x12" + varint(4 * n) + b"\x0a\x02\x0a\x00" * n),
    "protobuf, numbers": lambda n: list(protobuf._parts(b"\x08\xff\x08" * n)),
    "protobuf, nested": lambda n: list(protobuf._parts(b"\x0a\x00" * n)),
    "CEL, a long text": lambda n: compile_expression("1 == 1" + " && 1 == 1" * (n // 4), {}),
    "CEL, a long list": lambda n: compile_expression(f"1 in [{','.join(map(str, range(n)))}]", {}),
    "CEL, an open bracket": lambda n: compile_expression("[" * n, {}),
    "CEL, an open string": lambda n: compile_expression("'" + "\\\\" * n, {}),
}  # fmt: skip


def varint(number: int) -> bytes:
    return bytes([number & 127 | 128, number >> 7 & 127 | 128, number >> 14])


@pytest.mark.parametrize("what", ALIKE)
def test_twice_as_many_elements_are_at_most_about_twice_the_instructions(what: str) -> None:
    """Also where nothing is called for each of them: a loop in a loop, a copy of all there is for every one."""
    work = ALIKE[what]
    steps(lambda: work(400))  # what is looked up once is not counted
    assert steps(lambda: work(400)) <= 2.7 * steps(lambda: work(200)) + 2000


def test_a_long_difference_of_a_refused_pod_is_cut() -> None:
    before, after = pod_spec(2000, "a"), pod_spec(2000, "b")
    shown = diff("core.PodSpec", "core/v1.PodSpec", after, before)
    assert shown.count("\n") < 3 * MAX_COMPARED
    assert shown.endswith(" more lines are not compared\n")
    after = pod_spec(2000, "a")
    after["containers"][1000]["image"] = "b"
    short = diff("core.PodSpec", "core/v1.PodSpec", after, before)
    assert '+   "Image": "b",' in short
    assert "not compared" not in short


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


def header_names(answer: bytes) -> list[bytes]:
    """The headers of an answer as a strict client reads them."""
    seen: list[bytes] = []
    httptools.HttpResponseParser(SimpleNamespace(on_header=lambda name, value: seen.append(name))).feed_data(answer)
    return seen


@given(st.text())
def test_a_warning_is_one_header_that_every_client_takes(text: str) -> None:
    for name, value in warning_headers([text, f'unknown field "spec.{text}"']):
        line = f"{name}: {value}\r\n".encode("latin-1", "replace")
        assert header_names(b"HTTP/1.1 200 OK\r\n" + line + b"Content-Length: 0\r\n\r\n") == [
            b"Warning",
            b"Content-Length",
        ]


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


def test_nobody_reads_texts_of_others_with_a_loader_that_descends_on_the_stack() -> None:
    own = {
        "core/yaml_documents.py",
        "core/yaml_lines.py",
        "cli/machine/examples.py",
    }  # what comes with Corral, or is only looked up
    sources = Path(corral.__file__).parent
    readers = {
        file.relative_to(sources).as_posix()
        for file in sources.rglob("*.py")
        if re.search(r"\byaml\.(safe_load|load|full_load|compose|unsafe_load)", file.read_text())
    }
    assert readers <= own, "read it with core/yaml_documents.py"
