"""Folders that go with jobs are sent once, and nobody else's content passes for them."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.errors import AlreadyExists
from corral.core.meta import Obj, name_of
from corral.core.resource import Resource
from corral.submit.archive import PIECE, Archive
from corral.submit.errors import SubmitError
from corral.submit.submitting import send


class Cluster:
    """A client with nothing behind it but a dictionary."""

    def __init__(self) -> None:
        self.objects: dict[str, Obj] = {}

    def create(self, resource: Resource, obj: Obj) -> Obj:
        if name_of(obj) in self.objects:
            raise AlreadyExists("there")
        self.objects[name_of(obj)] = obj
        return obj

    def get(self, resource: Resource, name: str, namespace: str) -> Obj:
        return self.objects[name]

    def delete(self, resource: Resource, name: str, namespace: str) -> None:
        del self.objects[name]


ARCHIVE = Archive(bytes(range(256)) * (PIECE // 128), frozenset({"train.py"}))


def sent(cluster: Cluster) -> list[Obj]:
    return send(cluster, ARCHIVE, "default")  # type: ignore[arg-type]  # all it needs of a client


def test_a_folder_is_sent_once() -> None:
    cluster = Cluster()
    first = sent(cluster)
    assert len(first) == 2
    assert sent(cluster) == first
    assert len(cluster.objects) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"binaryData": {"part-001": "ZXZpbA=="}},
        {"binaryData": None},
        {"immutable": None},
        {"immutable": False},
        {"data": {"part-000a": "more"}},
        "one part more",
    ],
    ids=str,
)
def test_what_has_its_name_and_another_content_is_refused_and_nothing_is_left(change: Any) -> None:
    cluster = Cluster()
    _, last = ARCHIVE.config_maps("default")
    if change == "one part more":
        change = {"binaryData": {**last["binaryData"], "part-002": "ZXZpbA=="}}
    squatted = {key: value for key, value in {**last, **change}.items() if value is not None}
    cluster.objects[name_of(last)] = squatted
    with pytest.raises(SubmitError, match=f"ConfigMap {name_of(last)} in namespace default .* somebody else made it"):
        sent(cluster)
    assert cluster.objects == {name_of(last): squatted}
