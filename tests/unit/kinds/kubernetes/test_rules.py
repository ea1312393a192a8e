"""Defaults and rules of the other built-in kinds, one line a rule."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.errors import Cause
from corral.jobs.framework.served_kinds import builtin_registry
from corral.kinds.machinery import jsonpath
from corral.kinds.machinery.decoding import decode
from corral.kinds.machinery.definition import KindDef
from corral.kinds.machinery.gotypes import go_type_of

REGISTRY = builtin_registry()


def make(api_version: str, kind: str, body: dict[str, Any], *, name: str = "x") -> tuple[KindDef, dict[str, Any]]:
    found = REGISTRY.find(api_version, kind)
    assert found is not None
    definition, version = found
    metadata = {"name": name, "namespace": "n", "uid": "f3766e39-510f-42d9-913b-aac1a3582f59"}
    sent = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}
    obj, unknown = decode(go_type_of(version.definition), sent)
    assert unknown == []
    definition.default(obj)
    obj.pop("status", None)
    definition.prepare_create(obj)
    return definition, dict(obj)


def causes(api_version: str, kind: str, body: dict[str, Any], *, name: str = "x") -> list[Cause]:
    definition, obj = make(api_version, kind, body, name=name)
    return definition.validate(obj)


TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTOR = {"matchLabels": {"a": "b"}}
PORT = {"port": 80}


def test_deployments_get_the_defaults_of_a_real_server() -> None:
    _, deployment = make("apps/v1", "Deployment", {"spec": {"selector": SELECTOR, "template": TEMPLATE}})
    spec = deployment["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert deployment["status"] == {}


def test_services_get_an_address_ports_and_families() -> None:
    _, service = make("v1", "Service", {"spec": {"type": "NodePort", "ports": [PORT], "selector": {"a": "b"}}})
    spec = service["spec"]
    assert spec["clusterIP"].startswith("10.")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert 30000 <= spec["ports"][0]["nodePort"] < 32768
    assert spec["ports"][0]["targetPort"] == 80
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"], spec["sessionAffinity"]) == (["IPv4"], "SingleStack", "None")
    assert service["status"] == {"loadBalancer": {}}


def test_headless_services_stay_headless() -> None:
    definition, service = make("v1", "Service", {"spec": {"clusterIP": "None", "selector": {"a": "b"}}})
    assert service["spec"]["clusterIPs"] == ["None"]
    assert definition.validate(service) == []


def test_service_addresses_survive_an_update_that_leaves_them_out() -> None:
    definition, old = make("v1", "Service", {"spec": {"ports": [PORT]}})
    _, new = make("v1", "Service", {"spec": {"ports": [PORT, {"port": 81, "name": "b"}]}})
    for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        del new["spec"][field]
    definition.prepare_update(new, old)
    assert new["spec"]["clusterIP"] == old["spec"]["clusterIP"]


def test_plain_secret_data_is_encoded_and_not_stored() -> None:
    _, secret = make("v1", "Secret", {"stringData": {"a": "b"}, "data": {"c": "ZA=="}})
    assert secret["data"] == {"c": "ZA==", "a": "Yg=="}
    assert "stringData" not in secret
    assert secret["type"] == "Opaque"


def test_namespaces_are_labelled_active_and_held() -> None:
    _, namespace = make("v1", "Namespace", {}, name="team")
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert namespace["spec"] == {"finalizers": ["kubernetes"]}
    assert namespace["status"] == {"phase": "Active"}


def test_crds_get_names_and_remember_what_they_store() -> None:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "widgets", "kind": "Widget"}
    body = {"spec": {"group": "a.b", "names": names, "scope": "Namespaced", "versions": [version]}}
    definition, crd = make("apiextensions.k8s.io/v1", "CustomResourceDefinition", body, name="widgets.a.b")
    assert crd["spec"]["names"] == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
    }
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert crd["status"]["storedVersions"] == ["v1"]
    assert definition.validate(crd) == []


IMMUTABLE = "field is immutable when `immutable` is set"


@pytest.mark.parametrize(
    ("api_version", "kind", "body", "want"),
    [
        pytest.param(
            "apps/v1",
            "Deployment",
            {"spec": {"template": TEMPLATE}},
            [
                ("spec.selector", "Required value"),
                (
                    "spec.template.metadata.labels",
                    'Invalid value: {"a":"b"}: `selector` does not match template `labels`',
                ),
            ],
            id="deployment without selector",
        ),
        pytest.param(
            "apps/v1",
            "Deployment",
            {"spec": {"selector": SELECTOR, "template": TEMPLATE, "strategy": {"type": "Yolo"}}},
            [
                (
                    "spec.strategy",
                    'Unsupported value: {"Type":"Yolo","RollingUpdate":null}: supported values: "Recreate", '
                    '"RollingUpdate"',
                )
            ],
            id="deployment with unknown strategy",
        ),
        pytest.param(
            "apps/v1",
            "StatefulSet",
            {"spec": {"selector": SELECTOR, "template": TEMPLATE, "podManagementPolicy": "Chaos"}},
            [("spec.podManagementPolicy", "Invalid value: \"Chaos\": must be 'OrderedReady' or 'Parallel'")],
            id="stateful set with unknown policy",
        ),
        pytest.param("v1", "Service", {"spec": {}}, [("spec.ports", "Required value")], id="service without ports"),
        pytest.param(
            "v1",
            "Service",
            {"spec": {"ports": [PORT, PORT]}},
            [
                ("spec.ports[0].name", "Required value"),
                ("spec.ports[1].name", "Required value"),
                (
                    "spec.ports[1]",
                    'Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,'
                    '"NodePort":0}',
                ),
            ],
            id="service with a port twice",
        ),
        pytest.param(
            "v1",
            "ConfigMap",
            {"data": {"bad key": "v"}},
            [
                (
                    "data[bad key]",
                    "Invalid value: \"bad key\": a valid config key must consist of alphanumeric characters, '-', '_' "
                    "or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
                    "'[-._a-zA-Z0-9]+')",
                )
            ],
            id="config map key",
        ),
        pytest.param(
            "v1",
            "ConfigMap",
            {"data": {"k": "x" * 1048577}},
            [("[]", "Too long: may not be more than 1048576 bytes")],
            id="config map too large",
        ),
        pytest.param(
            "v1",
            "Secret",
            {"type": "kubernetes.io/tls", "data": {}},
            [("data[tls.crt]", "Required value"), ("data[tls.key]", "Required value")],
            id="tls secret without its files",
        ),
        pytest.param(
            "rbac.authorization.k8s.io/v1",
            "Role",
            {"rules": [{"verbs": [], "nonResourceURLs": ["/x"]}]},
            [
                ("rules[0].verbs", "Required value: verbs must contain at least one value"),
                (
                    "rules[0].nonResourceURLs",
                    'Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
                ),
            ],
            id="role over urls",
        ),
        pytest.param(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            {"roleRef": {"kind": "Thing", "name": "r"}, "subjects": [{"kind": "Robot", "name": "x"}]},
            [
                ("roleRef.kind", 'Unsupported value: "Thing": supported values: "Role", "ClusterRole"'),
                ("subjects[0].kind", 'Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"'),
            ],
            id="binding of unknown things",
        ),
        pytest.param(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            {"value": 1000000001},
            [("value", "Forbidden: maximum allowed value of a user defined priority is 1000000000")],
            id="priority too high",
        ),
        pytest.param(
            "coordination.k8s.io/v1",
            "Lease",
            {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}},
            [
                ("spec.leaseDurationSeconds", "Invalid value: 0: must be greater than 0"),
                ("spec.leaseTransitions", "Invalid value: -1: must be greater than or equal to 0"),
            ],
            id="lease numbers",
        ),
        pytest.param(
            "policy/v1",
            "PodDisruptionBudget",
            {"spec": {"maxUnavailable": "x%"}},
            [
                (
                    "spec.maxUnavailable",
                    "Invalid value: \"x%\": a valid percent string must be a numeric string followed by an ending '%' "
                    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                )
            ],
            id="budget percent",
        ),
        pytest.param(
            "v1",
            "Event",
            {"involvedObject": {"namespace": "other"}},
            [("involvedObject.namespace", 'Invalid value: "other": does not match event.namespace')],
            id="event about another namespace",
        ),
        pytest.param(
            "v1",
            "PersistentVolumeClaim",
            {"spec": {}},
            [
                ("spec.accessModes", "Required value: at least 1 access mode is required"),
                ("spec.resources[storage]", "Required value"),
            ],
            id="claim of nothing",
        ),
        pytest.param(
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            {"webhooks": [{"name": "w", "clientConfig": {}}]},
            [
                (
                    "webhooks[0].name",
                    'Invalid value: "w": should be a domain with at least three segments separated by dots',
                ),
                ("webhooks[0].sideEffects", "Required value: must specify one of None, NoneOnDryRun"),
                ("webhooks[0].clientConfig", "Required value: exactly one of url or service is required"),
                ("webhooks[0].admissionReviewVersions", "Required value: must specify one of v1, v1beta1"),
            ],
            id="webhook without anything",
        ),
        pytest.param(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {
                "spec": {
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                    "minReplicas": 3,
                    "maxReplicas": 2,
                }
            },
            [("spec.maxReplicas", "Invalid value: 2: must be greater than or equal to `minReplicas`")],
            id="autoscaler bounds",
        ),
    ],
)
def test_objects_are_refused_in_upstreams_words(
    api_version: str, kind: str, body: dict[str, Any], want: list[tuple[str, str]]
) -> None:
    assert [(cause.field, cause.message) for cause in causes(api_version, kind, body)] == want


def test_immutable_config_maps_stay_as_they_are() -> None:
    definition, old = make("v1", "ConfigMap", {"data": {"a": "1"}, "immutable": True})
    new = {**old, "data": {"a": "2"}}
    assert [(cause.field, cause.message) for cause in definition.validate_update(new, old)] == [
        ("data", f"Forbidden: {IMMUTABLE}")
    ]


def test_autoscalers_convert_between_versions_without_loss() -> None:
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3}
    definition, v2 = make("autoscaling/v2", "HorizontalPodAutoscaler", {"spec": spec})
    v1 = definition.at_version(v2, "v1")
    assert v1["spec"]["targetCPUUtilizationPercentage"] == 80
    assert definition.at_version(v1, "v2")["spec"] == v2["spec"]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        (".metadata.labels['a.b/c']", ["x"]),
        (r".metadata.labels.a\.b/c", ["x"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[*].type", ["Ready", "Done"]),
        (".status.conditions[-1].type", ["Done"]),
        (".status.conditions[-1:].type", ["Done"]),
        (".status.conditions[0:1].type", ["Ready"]),
        (".spec[-1:].type", []),
        (".missing.path", []),
        ("{.spec.size}", [3]),
    ],
)
def test_json_paths_find_values(path: str, found: list[Any]) -> None:
    obj = {
        "spec": {"size": 3},
        "metadata": {"labels": {"a.b/c": "x"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Done", "status": "False"}]},
    }
    assert jsonpath.find(path, obj) == found
