"""Pods: defaults, rules, what may change, and what is printed."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import Cause
from corral.kinds.kubernetes.core.kinds import POD
from corral.kinds.kubernetes.pods.defaults import image_tag
from corral.kinds.kubernetes.pods.initial_status import qos_class
from corral.kinds.machinery.decoding import decode
from corral.kinds.machinery.tables import cells

DATA = Path(__file__).parents[4] / "data"
JOBS = json.loads((DATA / "kinds" / "jobs.json").read_text())
ERRORS = {case["id"]: case for case in json.loads((DATA / "kube-errors.json").read_text())["cases"]}
NOW = 1_800_000_000.0


def pod(spec: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    body = {"containers": [{"name": "c", "image": "i", **container}], **(spec or {})}
    obj, unknown = decode("core/v1.Pod", {"metadata": {"name": "p", "namespace": "n"}, "spec": body})
    assert unknown == []
    POD.default(obj)
    return dict(obj)


def complaints(obj: dict[str, Any]) -> list[tuple[str, str]]:
    return [(cause.field, cause.message) for cause in POD.validate(obj)]


def test_a_plain_pod_is_fine() -> None:
    assert complaints(pod()) == []


def test_defaults_do_not_change_recorded_pods() -> None:
    for scenario in JOBS.values():
        for recorded in scenario["pod"]:
            again = copy.deepcopy(recorded)
            POD.default(again)
            assert again == recorded
            assert POD.validate(again) == []


def test_limits_become_requests_of_a_pod() -> None:
    resources = pod(resources={"limits": {"cpu": "1"}})["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("i", "latest"),
        ("i:latest", "latest"),
        ("i:1", "1"),
        ("host:5000/i", "latest"),
        ("host:5000/i:2", "2"),
        ("i@sha256:" + "a" * 64, ""),
        ("i:3@sha256:" + "a" * 64, "3"),
    ],
)
def test_image_tag_decides_the_pull_policy(image: str, tag: str) -> None:
    assert image_tag(image) == tag


CONTAINER = "spec.containers[0]"


@pytest.mark.parametrize(
    ("container", "cause"),
    [
        pytest.param({"name": "Bad"}, (f"{CONTAINER}.name", "a lowercase RFC 1123 label"), id="name"),
        pytest.param({"image": ""}, (f"{CONTAINER}.image", "Required value"), id="image"),
        pytest.param(
            {"imagePullPolicy": "Now"}, (f"{CONTAINER}.imagePullPolicy", 'Unsupported value: "Now"'), id="pull"
        ),
        pytest.param(
            {"ports": [{"containerPort": 70000}]},
            (f"{CONTAINER}.ports[0].containerPort", "Invalid value: 70000: must be between 1 and 65535, inclusive"),
            id="port",
        ),
        pytest.param(
            {"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
            (f"{CONTAINER}.ports[1].name", 'Duplicate value: "a"'),
            id="port names",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
            (f"{CONTAINER}.resources.requests", 'Invalid value: "2": must be less than or equal to cpu limit of 1'),
            id="request over limit",
        ),
        pytest.param(
            {"resources": {"requests": {"nvidia.com/gpu": "1"}}},
            (f"{CONTAINER}.resources.limits", "Required value: Limit must be set for non overcommitable resources"),
            id="extended resource without limit",
        ),
        pytest.param(
            {"resources": {"limits": {"gold": "1"}}},
            (
                f"{CONTAINER}.resources.limits[gold]",
                'Invalid value: "gold": must be a standard resource type or fully qualified',
            ),
            id="unknown resource",
        ),
        pytest.param(
            {"resources": {"limits": {"memory": "-1"}}},
            (f"{CONTAINER}.resources.limits[memory]", 'Invalid value: "-1": must be greater than or equal to 0'),
            id="negative amount",
        ),
        pytest.param(
            {"env": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
            (f"{CONTAINER}.env[0].valueFrom", 'Invalid value: "": may not be specified when `value` is not empty'),
            id="value twice",
        ),
        pytest.param(
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.bogus"}}}]},
            (
                f"{CONTAINER}.env[0].valueFrom.fieldRef.fieldPath",
                'Invalid value: "spec.bogus": error converting fieldPath: field label not supported: spec.bogus',
            ),
            id="field that is not offered",
        ),
        pytest.param(
            {"volumeMounts": [{"name": "nope", "mountPath": "/x"}]},
            (f"{CONTAINER}.volumeMounts[0].name", 'Not found: "nope"'),
            id="mount of nothing",
        ),
        pytest.param(
            {"livenessProbe": {"exec": {"command": ["true"]}, "successThreshold": 2}},
            (f"{CONTAINER}.livenessProbe.successThreshold", "Invalid value: 2: must be 1"),
            id="liveness threshold",
        ),
        pytest.param(
            {"livenessProbe": {"periodSeconds": 1}},
            (f"{CONTAINER}.livenessProbe", "Required value: must specify a handler type"),
            id="probe of nothing",
        ),
    ],
)
def test_containers_are_refused_in_upstreams_words(container: dict[str, Any], cause: tuple[str, str]) -> None:
    field, words = cause
    assert any(found == field and words in message for found, message in complaints(pod(**container)))


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        pytest.param({"restartPolicy": "Maybe"}, ("spec.restartPolicy", 'Unsupported value: "Maybe"'), id="restart"),
        pytest.param({"dnsPolicy": "None"}, ("spec.dnsConfig", "Required value: must provide `dnsConfig`"), id="dns"),
        pytest.param(
            {"volumes": [{"name": "v"}, {"name": "v"}]}, ("spec.volumes[1].name", 'Duplicate value: "v"'), id="volumes"
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
            ("spec.volumes[0].hostPath", "Forbidden: may not specify more than 1 volume type"),
            id="two sources",
        ),
        pytest.param(
            {"tolerations": [{"operator": "Equal"}]},
            ("spec.tolerations[0].operator", "operator must be Exists when `key` is empty"),
            id="toleration of nothing",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
            ("spec.schedulingGates[1]", 'Duplicate value: "a"'),
            id="gates",
        ),
        pytest.param(
            {"initContainers": [{"name": "c", "image": "i"}]},
            ("spec.initContainers[0].name", 'Duplicate value: "c"'),
            id="init container named like another",
        ),
        pytest.param(
            {"activeDeadlineSeconds": 0},
            ("spec.activeDeadlineSeconds", "Invalid value: 0: must be between 1 and 2147483647, inclusive"),
            id="deadline",
        ),
        pytest.param(
            {"nodeName": "n1", "schedulingGates": [{"name": "a"}]},
            ("spec.nodeName", "Forbidden: cannot be set until all schedulingGates have been cleared"),
            id="bound and gated",
        ),
    ],
)
def test_pod_specs_are_refused_in_upstreams_words(spec: dict[str, Any], cause: tuple[str, str]) -> None:
    field, words = cause
    assert any(found == field and words in message for found, message in complaints(pod(spec)))


def updated(change: dict[str, Any], spec: dict[str, Any] | None = None) -> list[Cause]:
    old = pod(spec)
    new = {**old, "spec": {**old["spec"], **change}}
    return POD.validate_update(new, old)


def test_images_and_tolerations_of_a_pod_may_change() -> None:
    containers = [{**pod()["spec"]["containers"][0], "image": "other"}]
    assert updated({"containers": containers}) == []
    assert updated({"tolerations": [{"key": "k", "operator": "Exists"}]}) == []


def test_other_changes_of_a_pod_are_refused_with_a_diff() -> None:
    recorded = JOBS["plain"]["pod"][0]
    new = {**recorded, "spec": {**recorded["spec"], "nodeName": "x"}}
    (cause,) = POD.validate_update(new, recorded)
    assert cause._asdict() == {**ERRORS["pod-immutable"]["body"]["details"]["causes"][0]}


def test_gated_pods_may_be_narrowed_to_nodes_but_not_widened() -> None:
    gated = {"schedulingGates": [{"name": "a"}], "nodeSelector": {"x": "1"}}
    assert updated({"nodeSelector": {"x": "1", "y": "2"}}, gated) == []
    assert updated({"schedulingGates": []}, gated) == []
    assert [cause.field for cause in updated({"nodeSelector": {"x": "2"}}, gated)] == ["spec.nodeSelector"]
    assert [cause.field for cause in updated({"schedulingGates": [{"name": "b"}]}, gated)] == [
        "spec.schedulingGates[0].name"
    ]


def test_pod_addresses_must_be_addresses() -> None:
    old = pod()
    new = {**old, "status": {"podIP": "nope"}}
    POD.default(new)
    (cause,) = POD.validate_status(new, old)
    assert cause._asdict() == ERRORS["pod-status-bad"]["body"]["details"]["causes"][0]


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
        ([{"limits": {"nvidia.com/gpu": "1"}}], "BestEffort"),
    ],
)
def test_qos_class_follows_requests_and_limits(resources: list[dict[str, Any]], qos: str) -> None:
    assert qos_class({"containers": [{"resources": each} for each in resources]}) == qos


def printed(status: dict[str, Any], spec: dict[str, Any] | None = None, **metadata: Any) -> list[Any]:
    obj = pod(spec)
    obj["metadata"] |= {"creationTimestamp": "2027-01-15T07:00:00Z", **metadata}
    return cells(POD, POD.storage_version, {**obj, "status": status}, NOW)


@pytest.mark.parametrize(
    ("status", "row"),
    [
        pytest.param({"phase": "Pending"}, ["p", "0/1", "Pending", "0"], id="pending"),
        pytest.param(
            {"phase": "Running", "containerStatuses": [{"name": "c", "ready": True, "state": {"running": {}}}]},
            ["p", "1/1", "Running", "0"],
            id="running",
        ),
        pytest.param(
            {
                "phase": "Running",
                "containerStatuses": [
                    {
                        "name": "c",
                        "restartCount": 3,
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {"terminated": {"finishedAt": "2027-01-15T07:55:00Z"}},
                    }
                ],
            },
            ["p", "0/1", "CrashLoopBackOff", "3 (5m ago)"],
            id="crashing",
        ),
        pytest.param(
            {
                "phase": "Succeeded",
                "containerStatuses": [{"name": "c", "state": {"terminated": {"reason": "Completed"}}}],
            },
            ["p", "0/1", "Completed", "0"],
            id="completed",
        ),
        pytest.param(
            {"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 3}}}]},
            ["p", "0/1", "ExitCode:3", "0"],
            id="failed without reason",
        ),
        pytest.param(
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            ["p", "0/1", "SchedulingGated", "0"],
            id="gated",
        ),
    ],
)
def test_printed_status_is_kubectls(status: dict[str, Any], row: list[Any]) -> None:
    assert printed(status)[:4] == row


def test_printed_status_of_a_deleted_pod_is_terminating() -> None:
    assert printed({"phase": "Running"}, deletionTimestamp="2027-01-15T07:59:00Z")[2] == "Terminating"
