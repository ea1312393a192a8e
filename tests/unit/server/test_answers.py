"""Answers of the API that a real server was seen to give: eviction, quotas of storage, definitions, reviews."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from corral.clusters.embedded_api import EmbeddedApi
from corral.core.admission import AdmissionRequest
from corral.core.meta import Obj

PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


class Api:
    def __init__(self, cluster: EmbeddedApi, session: aiohttp.ClientSession) -> None:
        self._cluster, self._session = cluster, session

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        sent = {"Authorization": f"Bearer {self._cluster.server.admin_token}", **headers}
        async with self._session.request(method, self._cluster.server.url + path, json=body, headers=sent) as answer:
            return answer.status, await answer.json(content_type=None)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    cluster = EmbeddedApi(None)
    await cluster.start()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        yield Api(cluster, session)
    await cluster.stop()


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def test_an_eviction_must_name_its_pod_and_be_one(api: Api) -> None:
    await api.ask("POST", PODS, pod("p"))
    status, answer = await api.ask("POST", f"{PODS}/p/eviction", {"metadata": {"name": "q"}})
    assert (status, answer["message"]) == (400, "name in URL does not match name in Eviction object")
    status, answer = await api.ask("POST", f"{PODS}/p/eviction", {"apiVersion": "v1", "kind": "Pod"})
    assert (status, answer["message"]) == (
        400,
        'Pod in version "v1" cannot be handled as a Eviction: converting (v1.Pod) to (policy.Eviction): unknown conversion',
    )
    assert (await api.ask("GET", f"{PODS}/p"))[0] == 200


async def test_ephemeral_containers_may_only_be_added(api: Api) -> None:
    await api.ask("POST", PODS, pod("p"))
    kind = {"Content-Type": "application/strategic-merge-patch+json"}
    path = f"{PODS}/p/ephemeralcontainers"
    added = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}}
    assert (await api.ask("PATCH", path, added, **kind))[0] == 200
    changed = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "other"}]}}
    status, answer = await api.ask("PATCH", path, changed, **kind)
    assert status == 422
    assert 'existing ephemeral containers "debug" may not be changed' in answer["message"]
    taken = {"spec": {"ephemeralContainers": [{"name": "c", "image": "x"}]}}
    status, answer = await api.ask("PATCH", path, taken, **kind)
    assert (status, answer["details"]["causes"][0]["field"]) == (422, "spec.ephemeralContainers[0].name")


async def test_duplicate_fields_are_found_in_objects_that_leave_out_what_they_are(api: Api) -> None:
    body = '{"metadata":{"name":"x","name":"y"},"data":{"a":"1","a":"2"}}'
    url = "/api/v1/namespaces/default/configmaps?fieldValidation=Strict"
    sent = {"Authorization": f"Bearer {api._cluster.server.admin_token}", "Content-Type": "application/json"}
    async with api._session.post(api._cluster.server.url + url, data=body, headers=sent) as answer:
        said = await answer.json()
    assert said["message"].endswith('strict decoding error: duplicate field "metadata.name", duplicate field "data.a"')


async def test_a_quota_counts_what_claims_and_services_ask_for(api: Api) -> None:
    hard = {"requests.storage": "3Gi", "gold.storageclass.storage.k8s.io/requests.storage": "2Gi"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {**hard, "services.nodeports": "1"}}}
    assert (await api.ask("POST", "/api/v1/namespaces/default/resourcequotas", quota))[0] == 201

    async def claim(name: str, size: str, kind: str = "") -> int:
        spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        body = {"metadata": {"name": name}, "spec": {**spec, **({"storageClassName": kind} if kind else {})}}
        return (await api.ask("POST", "/api/v1/namespaces/default/persistentvolumeclaims", body))[0]

    assert await claim("a", "2Gi", "gold") == 201
    assert await claim("b", "1Gi", "gold") == 403
    assert await claim("c", "2Gi") == 403
    assert await claim("d", "1Gi") == 201
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    service = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}}
    assert (await api.ask("POST", "/api/v1/namespaces/default/services", service))[0] == 403


async def test_a_review_says_which_binding_allows(api: Api) -> None:
    group = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    await api.ask("POST", f"{group}/roles", {"metadata": {"name": "r"}, "rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    subject = {"kind": "ServiceAccount", "name": "sa", "namespace": "default"}
    binding = {"metadata": {"name": "rb"}, "roleRef": reference, "subjects": [subject]}
    await api.ask("POST", f"{group}/rolebindings", binding)
    asked = {"verb": "get", "resource": "pods", "namespace": "default"}
    spec = {"user": "system:serviceaccount:default:sa", "resourceAttributes": asked}
    _, answer = await api.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    assert answer["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "rb/default" of Role "r" to ServiceAccount "sa/default"',
    }


async def test_tables_carry_what_was_asked_for(api: Api) -> None:
    await api.ask("POST", PODS, pod("p"))
    _, none = await api.ask("GET", f"{PODS}/p?includeObject=None", Accept=TABLE)
    assert none["rows"][0]["object"] is None
    status, wrong = await api.ask("GET", f"{PODS}/p?includeObject=Some", Accept=TABLE)
    assert status == 400
    assert "must be 'Metadata', 'Object', 'None', or empty" in wrong["message"]


async def test_the_old_watch_path_of_one_object_watches(api: Api) -> None:
    await api.ask("POST", PODS, pod("p"))
    status, event = await api.ask("GET", "/api/v1/watch/namespaces/default/pods/p?timeoutSeconds=1")
    assert (status, event["type"], event["object"]["metadata"]["name"]) == (200, "ADDED", "p")


async def test_volumes_and_registrations_are_checked(api: Api) -> None:
    status, answer = await api.ask("POST", "/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": {}})
    fields = [cause["field"] for cause in answer["details"]["causes"]]
    assert (status, fields) == (422, ["spec.accessModes", "spec.capacity", "spec.capacity", "spec"])
    spec = {"group": "g.example.com", "version": "v1", "groupPriorityMinimum": 0, "versionPriority": 5}
    registration = {"metadata": {"name": "x"}, "spec": spec}
    status, answer = await api.ask("POST", "/apis/apiregistration.k8s.io/v1/apiservices", registration)
    fields = [cause["field"] for cause in answer["details"]["causes"]]
    assert (status, fields) == (422, ["metadata.name", "spec.groupPriorityMinimum"])


async def test_reviews_and_posts_of_wrong_types_are_the_callers_fault(api: Api) -> None:
    await api.ask("POST", PODS, pod("p"))
    for path, body in (
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {"user": "u", "resourceAttributes": 1}}),
        ("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": True}),
        ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": -1}}),
        (f"{PODS}/p/eviction", {"metadata": ["a"]}),
        (f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": "n"}),
    ):
        status, answer = await api.ask("POST", path, body)
        assert (status, answer["reason"]) == (400, "BadRequest"), path
        assert "cannot be handled as a" in answer["message"]


async def test_a_head_of_a_watch_has_no_body(api: Api) -> None:
    for _ in range(3):  # on one connection: what follows a body that should not be there could not be read
        sent = {"Authorization": f"Bearer {api._cluster.server.admin_token}"}
        async with api._session.head(api._cluster.server.url + f"{PODS}?watch=1", headers=sent) as answer:
            assert answer.status == 200
    assert (await api.ask("GET", PODS))[0] == 200


async def test_numbers_have_to_fit_what_they_stand_for(api: Api) -> None:
    group = {
        "groupName": "g",
        "rayStartParams": {},
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
    }
    for replicas, code in ((3, 201), (3.0, 201), (2**31, 422), (10**20, 422), (1.5, 422), (1e308, 422)):
        spec = {"headGroupSpec": {k: group[k] for k in ("rayStartParams", "template")}}
        body = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": "r"},
            "spec": {**spec, "workerGroupSpecs": [{**group, "replicas": replicas}]},
        }
        status, answer = await api.ask("POST", "/apis/ray.io/v1/namespaces/default/rayclusters?dryRun=All", body)
        assert status == code, (replicas, answer)
        if code == 201:
            assert str(answer["spec"]["workerGroupSpecs"][0]["replicas"]) == "3"
        else:
            assert "must be of type integer with format int32 in spec.workerGroupSpecs[0].replicas" in answer["message"]


async def test_shipped_kinds_of_wrong_shapes_are_refused_by_their_schema(api: Api) -> None:
    for job, field in (
        (5, "spec.replicatedJobs[0]"),
        ({"name": "a", "template": []}, "spec.replicatedJobs[0].template"),
    ):
        body = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "j"},
            "spec": {"replicatedJobs": [job]},
        }
        status, answer = await api.ask("POST", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets", body)
        assert (status, field in answer["message"]) == (422, True), answer


class Clumsy:
    """A plug-in that believes in what it has not checked."""

    name = "Clumsy"

    def handles(self, request: AdmissionRequest) -> bool:
        return request.resource.plural in ("cohorts", "appwrappers")

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        assert request.obj is not None
        _ = request.obj["spec"]["parentName"].lower() if request.resource.plural == "cohorts" else ""
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        assert request.obj is not None
        if request.resource.plural == "appwrappers":
            _ = request.obj["spec"]["components"][0]["template"]["spec"]["replicas"] + 1


async def test_a_plugin_that_stumbles_over_a_bad_object_leaves_the_answer_to_validation() -> None:
    cluster = EmbeddedApi(None, plugins=[Clumsy()])
    await cluster.start()
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
            api = Api(cluster, session)
            cohort = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": "c"}}
            path = "/apis/kueue.x-k8s.io/v1beta2/cohorts"
            status, answer = await api.ask("POST", path, {**cohort, "spec": {"parentName": 5}})
            assert (status, "spec.parentName in body must be of type string" in answer["message"]) == (422, True)
            template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"replicas": "many"}}
            wrapper = {
                "apiVersion": "workload.codeflare.dev/v1beta2",
                "kind": "AppWrapper",
                "metadata": {"name": "w"},
                "spec": {"components": [{"template": template}]},
            }
            path = "/apis/workload.codeflare.dev/v1beta2/namespaces/default/appwrappers"
            status, answer = await api.ask("POST", path, wrapper)
            assert (status, answer["reason"]) == (400, "BadRequest")
            assert answer["message"].endswith("admission could not make sense of it")
    finally:
        await cluster.stop()
