"""No name that a pod chooses leads out of its volume: not by `..`, not as an absolute path, not through a link."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import BadRequest
from corral.core.meta import Obj
from corral.kinds.kubernetes.pods.volume_rules import check_volumes
from corral.node.environment import MissingError, NodeFacts, Sources
from corral.node.exec import TcpPort
from corral.node.process.folder import Holding, PodFolder
from corral.node.process.paths import OutsideError, child, open_entry, read_below, resolve_below, write_below
from corral.node.process.streams import ProcessStreams
from corral.node.process.volumes import VolumeContext, container_mounts, prepare_volumes
from corral.node.services import ServiceProxy

WAYS_OUT = ["../x", "../../../../x", "a/../../x", "/abs", "..", "a/..", "./../x"]


async def no_token(pod: Obj, projection: Obj) -> str:
    return "token"


def volumes(tmp_path: Path, *entries: dict[str, Any]) -> VolumeContext:
    pod = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"volumes": list(entries)}}
    sources = Sources({"cm": {"data": {"a": "1"}}}, {"s": {"data": {"k": "dg=="}}})
    state = tmp_path / "state"
    return VolumeContext(pod, state / "v", sources, NodeFacts("ip", "host", "node"), no_token, state / "claims")


def outside(tmp_path: Path) -> list[str]:
    """What there is beside the folder of the node."""
    return sorted(path.name for path in tmp_path.iterdir() if path.name != "state")


@pytest.mark.parametrize("path", WAYS_OUT)
@pytest.mark.parametrize("kind", ["token", "configMap", "secret", "downwardAPI", "projected configMap"])
async def test_no_projected_path_leaves_its_volume(tmp_path: Path, path: str, kind: str) -> None:
    item = {"path": path, "key": "a"}
    field = {"path": path, "fieldRef": {"fieldPath": "metadata.name"}}
    volume: dict[str, Any] = {
        "token": {"projected": {"sources": [{"serviceAccountToken": {"path": path}}]}},
        "configMap": {"configMap": {"name": "cm", "items": [item]}},
        "secret": {"secret": {"secretName": "s", "items": [{"path": path, "key": "k"}]}},
        "downwardAPI": {"downwardAPI": {"items": [field]}},
        "projected configMap": {"projected": {"sources": [{"configMap": {"name": "cm", "items": [item]}}]}},
    }[kind]
    with pytest.raises(MissingError, match=r'MountVolume\.SetUp failed for volume "v" : .*(leave the volume|relative)'):
        await prepare_volumes(volumes(tmp_path, {"name": "v", **volume}))
    assert outside(tmp_path) == []


@pytest.mark.parametrize("key", ["../x", "/abs", ".."])
async def test_no_key_of_a_config_map_leaves_its_volume(tmp_path: Path, key: str) -> None:
    context = replace(
        volumes(tmp_path, {"name": "v", "configMap": {"name": "cm"}}), sources=Sources({"cm": {"data": {key: "1"}}})
    )
    with pytest.raises(MissingError):
        await prepare_volumes(context)
    assert outside(tmp_path) == []


@pytest.mark.parametrize("name", ["../../../claim", "/abs/claim", "a/b", "..", ".", "A_b"])
async def test_a_claim_is_a_name_and_no_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(MissingError, match=r"persistentvolumeclaim .* not found"):
        await prepare_volumes(volumes(tmp_path, {"name": "v", "persistentVolumeClaim": {"claimName": name}}))
    assert outside(tmp_path) == []


@pytest.mark.parametrize("path", WAYS_OUT)
async def test_no_expanded_sub_path_leaves_its_volume(tmp_path: Path, path: str) -> None:
    places = await prepare_volumes(volumes(tmp_path, {"name": "v", "emptyDir": {}}))
    container = {"volumeMounts": [{"name": "v", "mountPath": "/m", "subPathExpr": "$(X)"}]}
    with pytest.raises(MissingError, match='failed to prepare subPath for volumeMount "v"'):
        container_mounts(container, places, {"X": path})
    assert outside(tmp_path) == []


async def test_a_link_in_a_volume_is_no_sub_path_out_of_it(tmp_path: Path) -> None:
    places = await prepare_volumes(volumes(tmp_path, {"name": "v", "emptyDir": {}}))
    (places["v"] / "out").symlink_to("/etc")
    (places["v"] / "up").symlink_to("../..")
    (places["v"] / "inner").mkdir()
    (places["v"] / "alias").symlink_to("inner")
    for sub in ("out", "out/ssl", "up", "up/claims"):
        with pytest.raises(MissingError, match="leaves the volume"):
            container_mounts({"volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": sub}]}, places, {})
    (mount,) = container_mounts({"volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": "alias"}]}, places, {})
    assert (mount.source, mount.below) == (str(places["v"]), "inner")


def test_a_link_put_there_after_the_check_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    parts = resolve_below(tmp_path, "inner/sub")
    (tmp_path / "inner").rmdir()
    (tmp_path / "inner").symlink_to("/etc")
    with pytest.raises(OutsideError), open_entry(tmp_path, parts):
        pass
    (tmp_path / "last").symlink_to("/etc")
    with pytest.raises(OutsideError), open_entry(tmp_path, ("last",)):
        pass


async def test_refreshing_a_volume_neither_reads_nor_writes_through_links_of_the_pod(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "folder"
    secret.write_text("of the machine")
    folder.mkdir()
    parts = [
        {"serviceAccountToken": {"path": "token"}},
        {"configMap": {"name": "cm", "items": [{"key": "a", "path": "d/a"}]}},
    ]
    context = volumes(tmp_path, {"name": "v", "projected": {"sources": parts}})
    place = (await prepare_volumes(context))["v"]
    (place / "token").unlink()
    (place / "token").symlink_to(secret)
    (place / "token.part").symlink_to(secret)
    await prepare_volumes(replace(context, now=secret.stat().st_mtime))
    assert (place / "token").read_text() == "token"
    assert secret.read_text() == "of the machine"
    (place / "d" / "a").unlink()
    (place / "d").rmdir()
    (place / "d").symlink_to(folder)
    with pytest.raises(MissingError, match="is not a folder of the volume"):
        await prepare_volumes(context)
    assert list(folder.iterdir()) == []


def test_one_name_is_one_name(tmp_path: Path) -> None:
    for name in ("", ".", "..", "a/b", "/a", "a/", "a\0b"):
        with pytest.raises(OutsideError):
            child(tmp_path, name)
    assert child(tmp_path, "a") == tmp_path / "a"


def test_files_below_a_folder_are_read_and_written(tmp_path: Path) -> None:
    write_below(tmp_path, "a/b", b"x", 0o640)
    found = read_below(tmp_path, "a/b")
    assert found is not None
    assert found[0] == b"x"
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o640
    os.mkfifo(tmp_path / "pipe")
    assert read_below(tmp_path, "pipe") is None


@pytest.mark.parametrize(
    ("path", "detail"),
    [("../x", "must not contain '..'"), ("/x", "must be a relative path"), ("..data", "must not start with '..'")],
)
def test_the_api_refuses_a_token_outside_of_its_volume(path: str, detail: str) -> None:
    token = {"path": path, "expirationSeconds": 3600}
    _, causes = check_volumes(
        [{"name": "v", "projected": {"sources": [{"serviceAccountToken": token}]}}], "spec.volumes"
    )
    field = "spec.volumes[0].projected.sources[0].serviceAccountToken.path"
    assert [(cause.field, cause.message) for cause in causes] == [(field, f'Invalid value: "{path}": {detail}')]


async def test_ports_are_forwarded_to_the_address_the_node_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    async def connect(address: str, port: int) -> TcpPort:
        asked.append((address, port))
        raise OSError

    monkeypatch.setattr(TcpPort, "connect", connect)
    monkeypatch.setattr(ProcessStreams, "__abstractmethods__", frozenset())
    streams = ProcessStreams()  # type: ignore[abstract]
    monkeypatch.setattr(streams, "folder", lambda uid: PodFolder(tmp_path / uid))
    pod = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "status": {"podIP": "127.0.0.1"}}
    with pytest.raises(BadRequest, match="has no address yet"):
        await streams.port_forward(pod, 22)
    streams.folder("u").save(Holding("ns", "p", "node", "127.64.0.10"))
    with pytest.raises(Exception, match="error forwarding port 22"):
        await streams.port_forward(pod, 22)
    assert asked == [("127.64.0.10", 22)]


@pytest.mark.parametrize(
    ("address", "is_own"), [("127.64.0.10", True), ("127.0.0.1", False), ("10.0.0.8", False), ("example.com", False)]
)
def test_a_service_sends_nobody_to_an_address_no_pod_can_have(address: str, is_own: bool) -> None:
    pod = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"containers": []},
        "status": {"podIP": address, "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    proxy = ServiceProxy("127.64.128.0/17", None, lambda service: [pod], lambda service: [], lambda: None)
    service = {"metadata": {"name": "s", "namespace": "ns"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}}
    assert proxy.endpoints(service, {"port": 80}) == ([(address, 80)] if is_own else [])
