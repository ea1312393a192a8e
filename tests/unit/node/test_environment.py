"""Variables and command lines of containers."""

from __future__ import annotations

from typing import Any

import pytest

from corral.node.environment import MissingError, NodeFacts, Sources, command_line, container_environment, expand

FACTS = NodeFacts("127.64.0.1", "127.0.0.1", "node1", {"cpu": "8", "memory": "32Gi"}, "127.0.0.1", "6443")
POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "x"}, "annotations": {"k": 'a"b'}},
    "spec": {"serviceAccountName": "robot", "enableServiceLinks": False, "containers": []},
}
SOURCES = Sources(
    config_maps={"cm": {"data": {"a": "1", "b": "2"}}},
    secrets={"s": {"data": {"pw": "aHVudGVyMg=="}}},
    services=[
        {
            "metadata": {"name": "my-db", "namespace": "ns"},
            "spec": {"clusterIP": "10.0.0.9", "ports": [{"name": "sql", "port": 5432}]},
        }
    ],
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("$(A)-$(B)", "1-2"),
        ("$(MISSING)", "$(MISSING)"),
        ("$$(A)", "$(A)"),
        ("$A ${A} 100%", "$A ${A} 100%"),
        ("$", "$"),
    ],
)
def test_expand(text: str, want: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == want


def environment(pod: dict[str, Any] = POD, **container: Any) -> dict[str, str]:
    return container_environment(pod, {"name": "c", **container}, SOURCES, FACTS)


def from_field(path: str) -> dict[str, Any]:
    return {"name": "V", "valueFrom": {"fieldRef": {"fieldPath": path}}}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("metadata.labels['app']", "x"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations", 'k="a\\"b"'),
        ("spec.nodeName", "node1"),
        ("spec.serviceAccountName", "robot"),
        ("status.podIP", "127.64.0.1"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_downward_api(path: str, want: str) -> None:
    assert environment(env=[from_field(path)])["V"] == want


@pytest.mark.parametrize(
    ("resource", "divisor", "want"),
    [
        ("requests.cpu", None, "1"),
        ("requests.cpu", "1m", "250"),
        ("limits.memory", "1Mi", "512"),
        ("limits.cpu", None, "8"),
        ("requests.memory", None, "0"),
    ],
)
def test_resource_fields(resource: str, divisor: str | None, want: str) -> None:
    reference = {"resource": resource, **({"divisor": divisor} if divisor else {})}
    resources = {"requests": {"cpu": "250m"}, "limits": {"memory": "512Mi"}}
    found = environment(resources=resources, env=[{"name": "V", "valueFrom": {"resourceFieldRef": reference}}])
    assert found["V"] == want


def test_env_wins_over_env_from_and_sees_it() -> None:
    found = environment(
        envFrom=[{"configMapRef": {"name": "cm"}}, {"prefix": "S_", "secretRef": {"name": "s"}}],
        env=[
            {"name": "a", "value": "own"},
            {"name": "both", "value": "$(a)$(b)$(later)"},
            {"name": "later", "value": "x"},
        ],
    )
    assert (found["a"], found["S_pw"], found["both"]) == ("own", "hunter2", "own2$(later)")


def test_where_the_api_is() -> None:
    found = environment()
    assert (found["KUBERNETES_SERVICE_HOST"], found["KUBERNETES_SERVICE_PORT"]) == ("127.0.0.1", "6443")
    assert "MY_DB_SERVICE_HOST" not in found, "this pod does not want service links"


def test_service_links() -> None:
    found = environment({**POD, "spec": {"containers": []}})
    assert found["MY_DB_SERVICE_HOST"] == "10.0.0.9"
    assert found["MY_DB_SERVICE_PORT_SQL"] == "5432"
    assert found["MY_DB_PORT_5432_TCP_ADDR"] == "10.0.0.9"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "no", "key": "a"}}, 'configmap "no" not found'),
        ({"configMapKeyRef": {"name": "cm", "key": "z"}}, "couldn't find key z in ConfigMap ns/cm"),
        ({"secretKeyRef": {"name": "no", "key": "a"}}, 'secret "no" not found'),
    ],
)
def test_what_is_missing_is_said_in_the_kubelets_words(source: dict[str, Any], message: str) -> None:
    with pytest.raises(MissingError, match=message):
        environment(env=[{"name": "V", "valueFrom": source}])
    kind, reference = next(iter(source.items()))
    assert environment(env=[{"name": "V", "valueFrom": {kind: {**reference, "optional": True}}}])["V"] == ""


def test_command_line_is_expanded() -> None:
    container = {"command": ["echo", "$(A)"], "args": ["$(B)", "$$(A)"]}
    assert command_line(container, {"A": "1", "B": "2"}) == (["echo", "1"], ["2", "$(A)"])
