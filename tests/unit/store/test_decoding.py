"""Decoding what is stored: the same values as ever, equal parts once, and a bounded memory of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from corral.store import decoding
from corral.store.decoding import Decoding


def workload(name: str, **spec: Any) -> bytes:
    """A stored Workload; they differ in name, and in what `spec` says."""
    fields = {"f:spec": {".": {}, "f:queueName": {}, 'k:{"name":"main"}': {}}}
    entry = {"manager": "m", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": fields, "more": [1]}
    metadata = {"name": name, "generation": 1, "labels": {"a": name}, "managedFields": [entry, {"manager": "other"}]}
    return msgspec.json.encode(
        {"apiVersion": "v1", "kind": "W", "metadata": metadata, "spec": {"queueName": "lq", "podSets": [{}]} | spec}
    )


@pytest.mark.parametrize(
    "raw",
    [
        workload("a"),
        workload("a", number=1.5, text='"\\ä', none=None, deep=[[{"x": []}]]),
        b"{}",
        b'{"metadata":{}}',
        b'{"metadata":{"managedFields":[]},"status":null,"number":9007199254740993}',
    ],
)
def test_an_object_is_what_its_bytes_say_however_often_its_parts_were_seen(raw: bytes) -> None:
    decode = Decoding().decode
    for _ in range(3):
        assert msgspec.json.encode(decode(raw)) == raw


def test_equal_specs_and_equal_ownership_are_one_value_from_the_third_object_on() -> None:
    decode = Decoding().decode
    first, second, third = (decode(workload(name)) for name in "abc")
    assert third["spec"] is second["spec"] == first["spec"]
    assert _fields(third) is _fields(second)
    assert third["metadata"]["labels"] == {"a": "c"}, "what is the object's own stays its own"


def test_what_was_seen_once_is_not_kept_and_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MOST_REMEMBERED", 8)
    monkeypatch.setattr(decoding, "MOST_SEEN", 64)
    decoder = Decoding()
    for number in range(100):
        decoder.decode(workload(f"w{number}", number=number))
        assert len(decoder._seen) <= 64
    assert all(b"number" not in content for content in decoder._known)
    for number in range(100):
        for _ in range(2):
            decoder.decode(workload("w", number=number))
        assert len(decoder._known) <= 8


def _fields(obj: dict[str, Any]) -> Any:
    return obj["metadata"]["managedFields"][0]["fieldsV1"]
