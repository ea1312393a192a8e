"""Reviews in, answers out: patches, refusals without the words a server puts before them, converted objects."""

from __future__ import annotations

import base64

import msgspec
import pytest

from corral.clusters.webhooks.reviews import AdmissionReviews, ConversionReviews, admission_request
from corral.core.admission import AdmissionRequest
from corral.core.errors import BadRequest, Forbidden
from corral.core.meta import Obj
from corral.kinds.kueue import CLUSTER_QUEUE
from corral.server.admission.chain import Chain


class Suspends:
    """Suspends everything, warns, and refuses what is called bad."""

    name = "Suspends"

    def handles(self, request: AdmissionRequest) -> bool:
        return request.kind == ("batch", "Job") and request.user.name == "alice"

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        request.warn("it waits")
        return {**(request.obj or {}), "spec": {"suspend": True}}

    async def validate(self, request: AdmissionRequest) -> None:
        if request.name == "bad":
            raise Forbidden('admission webhook "vjob.kb.io" denied the request: spec: Forbidden: bad')


def review(name: str = "good", user: str = "alice", spec: Obj | None = None) -> Obj:
    request = {
        "uid": "1-2",
        "kind": {"group": "batch", "version": "v1", "kind": "Job"},
        "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
        "name": name,
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": user, "groups": ["a"]},
        "object": {"metadata": {"name": name}, "spec": spec or {}},
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


REVIEWS = AdmissionReviews(lambda: Chain([Suspends()]))


async def test_a_changed_object_is_answered_as_a_patch() -> None:
    answer = (await REVIEWS.mutate(review()))["response"]
    assert (answer["uid"], answer["allowed"], answer["warnings"]) == ("1-2", True, ["it waits"])
    assert msgspec.json.decode(base64.b64decode(answer["patch"])) == [
        {"op": "add", "path": "/spec/suspend", "value": True}
    ]


async def test_what_is_as_it_should_be_needs_no_patch() -> None:
    assert "patch" not in (await REVIEWS.mutate(review(spec={"suspend": True})))["response"]
    assert (await REVIEWS.mutate(review(user="bob")))["response"] == {"uid": "1-2", "allowed": True}


async def test_a_refusal_says_what_is_wrong_and_leaves_the_introduction_to_the_server() -> None:
    answer = (await REVIEWS.validate(review("bad")))["response"]
    assert answer["allowed"] is False
    assert answer["status"]["message"] == "spec: Forbidden: bad"
    assert (answer["status"]["code"], answer["status"]["reason"]) == (403, "Forbidden")


@pytest.mark.parametrize(
    "wrong", [{}, {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}, {"request": 1}]
)
async def test_what_is_no_review_is_refused(wrong: Obj) -> None:
    with pytest.raises(BadRequest):
        await REVIEWS.mutate(wrong)


def conversion(objects: list[Obj], version: str) -> Obj:
    asked = {"uid": "3", "desiredAPIVersion": version, "objects": objects}
    reviews = ConversionReviews({("kueue.x-k8s.io", "ClusterQueue"): CLUSTER_QUEUE})
    made = reviews.convert({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "request": asked})
    response: Obj = made["response"]
    return response


OLD: Obj = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "ClusterQueue",
    "metadata": {"name": "q"},
    "spec": {"cohort": "team", "admissionChecks": ["check"]},
}


def test_objects_are_converted_as_an_embedded_cluster_does() -> None:
    answer = conversion([OLD], "kueue.x-k8s.io/v1beta2")
    assert answer["result"] == {"status": "Success"}
    (made,) = answer["convertedObjects"]
    assert made["spec"] == {"cohortName": "team", "admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]}}
    assert made["metadata"] == OLD["metadata"]


@pytest.mark.parametrize("wanted", ["kueue.x-k8s.io/v9", "example.com/v1"])
def test_a_version_nobody_knows_fails_with_a_sentence(wanted: str) -> None:
    answer = conversion([OLD], wanted)
    assert answer["result"]["status"] == "Failure"
    assert wanted in answer["result"]["message"]
    assert "convertedObjects" not in answer


def test_a_request_keeps_who_asked() -> None:
    request = admission_request(review()["request"], [].append)
    assert (request.user.name, request.user.groups) == ("alice", ("a",))
    assert request.resource.namespaced
