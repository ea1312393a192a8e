"""Protobuf bodies that kubectl really sent, and round trips of stored objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corral.kinds.machinery import protobuf
from corral.kinds.machinery.decoding import decode

DATA = Path(__file__).parents[3] / "data"
BODIES = json.loads((DATA / "kinds" / "protobuf-bodies.json").read_text())
GOLDEN = json.loads((DATA / "kinds" / "jobs.json").read_text())


def body(name: str) -> dict[str, object]:
    return protobuf.decode(bytes.fromhex(BODIES[name]))


def kind_of(obj: dict[str, object]) -> str:
    return protobuf.go_type_for(str(obj["apiVersion"]), str(obj["kind"]))


def test_decode_reads_the_job_of_kubectl_create_job() -> None:
    job, _ = decode("batch/v1.Job", body("022-create-job-image-0"))
    assert job["metadata"] == {"name": "imgjob", "namespace": "tr"}
    spec = job["spec"]["template"]["spec"]
    assert spec["restartPolicy"] == "Never"
    assert spec["containers"] == [{"name": "imgjob", "image": "busybox", "command": ["echo", "hi"], "resources": {}}]


@pytest.mark.parametrize("name", sorted(BODIES))
def test_decode_and_encode_are_inverse_for_recorded_bodies(name: str) -> None:
    obj, _ = decode(kind_of(body(name)), body(name))
    assert decode(kind_of(obj), protobuf.decode(protobuf.encode(obj))) == (obj, [])


def test_encode_keeps_every_field_of_stored_objects() -> None:
    for scenario in GOLDEN.values():
        for obj in (*scenario["states"], *scenario["pod"], *scenario["events"]):
            go_type = protobuf.go_type_for(obj["apiVersion"], obj["kind"])
            assert decode(go_type, protobuf.decode(protobuf.encode(obj))) == (obj, [])


@pytest.mark.parametrize(
    "data",
    [b"", b"k8s", b"not protobuf", protobuf.MAGIC + b"\x0a\xff", protobuf.MAGIC + b"\x0a\x05\x0a\x03abc"],
)
def test_decode_refuses_what_it_cannot_read(data: bytes) -> None:
    with pytest.raises(protobuf.ProtobufError):
        protobuf.decode(data)


def test_decode_tells_kinds_of_reviews_and_options_apart() -> None:
    assert protobuf.go_type_for("v1", "DeleteOptions") == "meta/v1.DeleteOptions"
    assert protobuf.go_type_for("authorization.k8s.io/v1", "SelfSubjectAccessReview").startswith("authorization/v1.")
    review = body("054-auth-can-i-0")
    assert review["spec"] == {
        "resourceAttributes": {
            "namespace": "tr", "verb": "create", "group": "batch", "version": "", "resource": "jobs",
            "subresource": "", "name": "",
        }
    }  # fmt: skip
