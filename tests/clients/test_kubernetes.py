"""The official Python client: typed API, dynamic client, watches, apply from YAML, exec."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")
kubernetes = pytest.importorskip("kubernetes", reason="the kubernetes package is not installed")


@pytest.fixture
def api(kubeconfig: Path):  # type: ignore[no-untyped-def]
    client = kubernetes.config.new_client_from_config(str(kubeconfig))
    yield client
    client.close()


def _job(name: str) -> dict[str, object]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        },
    }


def test_typed_calls(api, namespace: str) -> None:  # type: ignore[no-untyped-def]
    batch = kubernetes.client.BatchV1Api(api)
    made = batch.create_namespaced_job(namespace, _job("j"))
    assert made.spec.suspend is True
    patched = batch.patch_namespaced_job("j", namespace, {"spec": {"suspend": False}})
    assert patched.spec.suspend is False
    assert [job.metadata.name for job in batch.list_namespaced_job(namespace).items] == ["j"]
    batch.patch_namespaced_job_status("j", namespace, {"status": {"active": 1}})
    assert batch.read_namespaced_job_status("j", namespace).status.active == 1
    batch.delete_namespaced_job("j", namespace, propagation_policy="Background")
    with pytest.raises(kubernetes.client.ApiException) as error:
        batch.read_namespaced_job("nope", namespace)
    assert error.value.status == 404


def test_replace_round_trips_models(api, namespace: str) -> None:  # type: ignore[no-untyped-def]
    core = kubernetes.client.CoreV1Api(api)
    body = kubernetes.client.V1ConfigMap(metadata=kubernetes.client.V1ObjectMeta(name="c"), data={"a": "b"})
    core.create_namespaced_config_map(namespace, body)
    found = core.read_namespaced_config_map("c", namespace)
    found.data["a"] = "c"
    assert core.replace_namespaced_config_map("c", namespace, found).data == {"a": "c"}


def test_every_listed_kind_deserialises(api, namespace: str) -> None:  # type: ignore[no-untyped-def]
    client = kubernetes.client
    assert client.VersionApi(api).get_code().minor == "34"
    assert client.CoreV1Api(api).list_namespace().items
    assert client.CoreV1Api(api).list_service_account_for_all_namespaces().items is not None
    assert client.RbacAuthorizationV1Api(api).list_cluster_role().items
    assert client.RbacAuthorizationV1Api(api).list_cluster_role_binding().items
    assert client.ApisApi(api).get_api_versions().groups
    assert client.ApiextensionsV1Api(api).list_custom_resource_definition().items is not None
    assert client.CoreV1Api(api).list_node().items == []


def test_watch_sees_changes(api, namespace: str) -> None:  # type: ignore[no-untyped-def]
    core = kubernetes.client.CoreV1Api(api)
    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "w"}})
    core.delete_namespaced_config_map("w", namespace)
    watch = kubernetes.watch.Watch()
    stream = watch.stream(core.list_namespaced_config_map, namespace, resource_version=version, timeout_seconds=2)
    events = [(event["type"], event["object"].metadata.name) for event in stream]
    assert [event for event in events if event[1] == "w"] == [("ADDED", "w"), ("DELETED", "w")]


def test_custom_objects_and_dynamic_client(api, namespace: str) -> None:  # type: ignore[no-untyped-def]
    custom = kubernetes.client.CustomObjectsApi(api)
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": f"f-{namespace}"}}
    made = custom.create_cluster_custom_object("kueue.x-k8s.io", "v1beta2", "resourceflavors", flavor)
    assert made["metadata"]["uid"]
    dynamic = kubernetes.dynamic.DynamicClient(api)
    maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}, "data": {"a": "b"}}
    assert maps.server_side_apply(body=body, namespace=namespace, field_manager="me").data.a == "b"
    assert maps.get(name="d", namespace=namespace).metadata.name == "d"
    maps.delete(name="d", namespace=namespace)


def test_create_from_yaml(api, namespace: str) -> None:  # type: ignore[no-untyped-def]
    objects = [_job("from-yaml")]
    kubernetes.utils.create_from_yaml(api, yaml_objects=objects, namespace=namespace)
    found = kubernetes.client.BatchV1Api(api).read_namespaced_job("from-yaml", namespace)
    assert found.metadata.name == "from-yaml"


def test_exec_and_logs(api, namespace: str) -> None:  # type: ignore[no-untyped-def]
    core = kubernetes.client.CoreV1Api(api)
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    core.create_namespaced_pod(namespace, {"metadata": {"name": "p"}, "spec": spec})
    assert core.read_namespaced_pod_log("p", namespace, tail_lines=1) == "line 5\n"
    stream = kubernetes.stream.stream(
        core.connect_get_namespaced_pod_exec,
        "p",
        namespace,
        command=["sh", "-c", "echo out; echo err >&2; exit 3"],
        stdout=True,
        stderr=True,
        stdin=False,
        tty=False,
        _preload_content=False,
    )
    stream.run_forever(timeout=120)
    assert (stream.read_stdout(), stream.read_stderr(), stream.returncode) == ("out\n", "err\n", 3)
