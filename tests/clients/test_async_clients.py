"""Asynchronous clients of the registry, unmodified: kubernetes_asyncio, kr8s and lightkube."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Let go of what the libraries leave open, here and not in the middle of somebody else's test."""
    yield
    gc.collect()


SPEC = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}


async def test_kubernetes_asyncio(kubeconfig: Path, namespace: str) -> None:
    library = pytest.importorskip("kubernetes_asyncio", reason="kubernetes_asyncio is not installed")
    api = await library.config.new_client_from_config(str(kubeconfig))
    async with api:
        core = library.client.CoreV1Api(api)
        await core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        assert (await core.read_namespaced_config_map("a", namespace)).data == {"k": "v"}
        watch = library.watch.Watch()
        seen = []
        async for event in watch.stream(core.list_namespaced_config_map, namespace, timeout_seconds=1):
            seen.append(event["object"].metadata.name)
        assert "a" in seen
        custom = library.client.CustomObjectsApi(api)
        with pytest.raises(library.client.ApiException) as error:
            await custom.patch_cluster_custom_object("kueue.x-k8s.io", "v1beta2", "resourceflavors", "x", {"a": 1})
        assert error.value.status == 400


async def test_kr8s(kubeconfig: Path, namespace: str) -> None:
    kr8s = pytest.importorskip("kr8s", reason="kr8s is not installed")
    from kr8s.asyncio.objects import ConfigMap, Pod

    api = await kr8s.asyncio.api(kubeconfig=str(kubeconfig), namespace=namespace)
    made = await ConfigMap({"metadata": {"name": "a", "namespace": namespace}, "data": {"k": "v"}}, api=api)
    await made.create()
    await made.patch({"data": {"k": "w"}})
    assert "a" in [each.name async for each in api.get("configmaps", namespace=namespace)]
    await made.refresh()
    assert made.raw["data"]["k"] == "w"
    await made.label({"x": "y"})
    assert made.labels["x"] == "y"
    pod = await Pod({"metadata": {"name": "p", "namespace": namespace}, "spec": SPEC}, api=api)
    await pod.create()
    assert [line async for line in pod.logs(tail_lines=2)] == ["line 4", "line 5"]
    assert await api.whoami() == "kubernetes-admin"
    await made.delete()
    assert not await made.exists()
    await api._session.aclose()
    await asyncio.sleep(0.05)  # for its sockets to close


async def test_lightkube(kubeconfig: Path, namespace: str) -> None:
    lightkube = pytest.importorskip("lightkube", reason="lightkube is not installed")
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.apps_v1 import Deployment
    from lightkube.resources.core_v1 import ConfigMap, Pod

    config = lightkube.KubeConfig.from_file(str(kubeconfig))
    client = lightkube.AsyncClient(config=config, namespace=namespace, field_manager="light")
    await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace=namespace), data={"k": "v"}))
    assert (await client.get(ConfigMap, "a")).data == {"k": "v"}
    assert "a" in [each.metadata.name async for each in client.list(ConfigMap)]
    patched = await client.patch(ConfigMap, "a", {"data": {"z": "1"}})
    assert patched.data == {"k": "v", "z": "1"}
    applied = ConfigMap(
        apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name="b", namespace=namespace), data={"x": "1"}
    )
    assert (await client.apply(applied, force=True)).data == {"x": "1"}
    with pytest.raises(lightkube.ApiError) as error:
        await client.get(ConfigMap, "nope")
    assert error.value.status.message == 'configmaps "nope" not found'

    async def first_event() -> str:
        async for kind, obj in client.watch(ConfigMap, fields={"metadata.name": "a"}):
            return f"{kind} {obj.metadata.name}"
        return ""

    assert await asyncio.wait_for(first_event(), 120) == "ADDED a"
    await client.delete(ConfigMap, "a")
    await client.deletecollection(ConfigMap)
    assert [each async for each in client.list(Deployment)] == []
    assert [each async for each in client.list(Pod)] == []
    await client.close()
