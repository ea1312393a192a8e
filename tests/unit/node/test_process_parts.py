"""The small parts of the process runtime: addresses, devices, socket calls, orders, folders, volumes."""

from __future__ import annotations

import socket
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.node.environment import MissingError, NodeFacts, Sources
from corral.node.images import Catalog
from corral.node.process.allocation import Addresses, Exhausted
from corral.node.process.compose import Setting, compose, rewrite_paths
from corral.node.process.folder import Holding, PodFolder, RunId
from corral.node.process.launch import Launch
from corral.node.process.sockets import CallVerdict, PodPorts, judge
from corral.node.process.view import Mount, _entries
from corral.node.process.volumes import VolumeContext, container_mounts, prepare_volumes


def test_addresses_are_kept_given_back_and_reused_late() -> None:
    addresses = Addresses("127.64.0.0/28")
    first = addresses.take("a")
    assert first == "127.64.0.10"
    assert addresses.take("a") == first
    assert addresses.take("b") == "127.64.0.11"
    addresses.give_back("a")
    assert addresses.take("c") == "127.64.0.12"
    addresses.restore("d", "127.64.0.13")
    assert [addresses.take(name) for name in ("e", "f")] == ["127.64.0.14", "127.64.0.10"]
    with pytest.raises(Exhausted):
        addresses.take("g")


def v4(address: str, port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(address) + bytes(8)


def v6(address: str, port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", port, 0) + socket.inet_pton(socket.AF_INET6, address)


OWN, OWN6 = CallVerdict.RUN_ON_OWN_ADDRESS, CallVerdict.RUN_ON_OWN_ADDRESS_UNLESS_V6_ONLY


@pytest.mark.parametrize(
    ("data", "is_bind", "want"),
    [
        (v4("0.0.0.0", 80), True, OWN),
        (v4("127.0.0.1", 80), True, OWN),
        (v4("127.64.0.9", 80), True, CallVerdict.RUN),
        (v4("0.0.0.0", 0), True, CallVerdict.RUN),
        (v6("::", 80), True, OWN6),
        (v6("::1", 80), True, OWN6),
        (v4("127.0.0.1", 8080), False, OWN),
        (v4("127.0.0.1", 9999), False, CallVerdict.RUN),
        (v4("10.0.0.1", 8080), False, CallVerdict.RUN),
        (b"\x01\x00/run/socket", False, CallVerdict.RUN),
    ],
)
def test_socket_calls_of_a_pod(data: bytes, is_bind: bool, want: CallVerdict) -> None:
    pod = PodPorts("127.64.0.9")
    pod.ports.add(8080)
    assert judge(data, is_bind, pod) is want


def test_bound_ports_are_remembered() -> None:
    pod = PodPorts("127.64.0.9")
    judge(v4("0.0.0.0", 80), True, pod)
    judge(v4("127.64.0.9", 81), True, pod)
    judge(v4("127.1.2.3", 82), True, pod)
    assert pod.ports == {80, 81}


def test_orders_survive_the_way_over_the_socket() -> None:
    launch = Launch("u/c/0", ("a", "b"), {"X": "1"}, "/d", mounts=(Mount("/s", "/t", True),), memory=5)
    assert Launch.from_json(launch.to_json()) == launch


def test_run_ids() -> None:
    assert str(RunId("u", "c", 3)) == "u/c/3"
    assert RunId.parse("u/c/3") == RunId("u", "c", 3)
    assert RunId.parse("exec.1.2") is None


def test_folder_remembers_what_a_pod_holds(tmp_path: Path) -> None:
    folder = PodFolder(tmp_path / "uid")
    assert folder.load() is None
    holding = Holding("ns", "p", "node1", "127.64.0.1", ("GPU-a", "GPU-b"))
    folder.save(holding)
    assert folder.load() == holding
    for attempt in (0, 1, 10):
        folder.run("c", attempt).mkdir(parents=True)
    for attempt in (0, 10):
        (folder.run("c", attempt) / "launch.json").touch()
    assert folder.attempts("c") == [0, 10], "what was never ordered never ran"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("/data", "/real/d"),
        ("/data/x.csv", "/real/d/x.csv"),
        ("--in=/data/a --out=/out", "--in=/real/d/a --out=/real/o"),
        ("/database", "/database"),
        ("/mnt/data", "/mnt/data"),
        ("cat /data/sub/y", "cat /real/s/y"),
    ],
)
def test_paths_are_rewritten_without_namespaces(text: str, want: str) -> None:
    assert rewrite_paths(text, {"/data": "/real/d", "/data/sub": "/real/s", "/out": "/real/o"}) == want


def setting(tmp_path: Path, pod: dict[str, Any], *, isolating: bool = True) -> Setting:
    return Setting(
        pod,
        PodFolder(tmp_path / "u"),
        Sources(),
        NodeFacts("127.64.0.1", "127.0.0.1", "node1"),
        {"data": tmp_path / "data"},
        {"c": {"CUDA_VISIBLE_DEVICES": "1,2"}},
        isolating,
        {"job-master-0": "127.64.0.7"},
    )


CONTAINER = {
    "name": "c",
    "image": "busybox",
    "command": ["cat", "/data/in"],
    "env": [{"name": "MASTER_ADDR", "value": "job-master-0"}, {"name": "OUT", "value": "/data/out"}],
    "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    "resources": {"limits": {"memory": "64Mi"}},
}
POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"containers": [CONTAINER]}}


def test_order_with_namespaces(tmp_path: Path) -> None:
    launch, note = compose(setting(tmp_path, POD), CONTAINER, 0, Catalog.load())
    assert (launch.argv, launch.cwd, launch.hostname, launch.memory, note) == (
        ("cat", "/data/in"),
        "/container",
        "p",
        64 << 20,
        "",
    )
    assert launch.env["MASTER_ADDR"] == "job-master-0"
    assert launch.env["CUDA_VISIBLE_DEVICES"] == "1,2"
    targets = {mount.target: mount.read_only for mount in launch.mounts}
    assert targets["/data"] is True
    assert {"/etc/hosts", "/dev/termination-log", "/container"} <= set(targets)


def test_order_without_namespaces_names_real_paths_and_addresses(tmp_path: Path) -> None:
    launch, _ = compose(setting(tmp_path, POD, isolating=False), CONTAINER, 0, Catalog.load())
    assert launch.argv == ("cat", f"{tmp_path}/data/in")
    assert (launch.env["MASTER_ADDR"], launch.env["OUT"]) == ("127.64.0.7", f"{tmp_path}/data/out")
    assert launch.cwd == f"{tmp_path}/u/containers/c/work"
    assert launch.mounts == ()


async def no_token(pod: object, projection: object) -> str:
    return "token"


def volumes(tmp_path: Path, *entries: dict[str, Any]) -> VolumeContext:
    pod = {**POD, "spec": {**POD["spec"], "volumes": list(entries)}}  # type: ignore[dict-item]
    sources = Sources(
        {"cm": {"data": {"a": "1", "b": "2"}, "binaryData": {"z": "AAE="}}}, {"s": {"data": {"k": "dg=="}}}
    )
    return VolumeContext(pod, tmp_path / "v", sources, NodeFacts("ip", "host", "node"), no_token, tmp_path / "claims")


async def test_projected_volume_collects_its_parts(tmp_path: Path) -> None:
    parts = [
        {"configMap": {"name": "cm", "items": [{"key": "a", "path": "conf/a"}]}},
        {"secret": {"name": "s"}},
        {"serviceAccountToken": {"path": "token"}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    places = await prepare_volumes(volumes(tmp_path, {"name": "all", "projected": {"sources": parts}}))
    found = {
        str(path.relative_to(places["all"])): path.read_text() for path in places["all"].rglob("*") if path.is_file()
    }
    assert found == {"conf/a": "1", "k": "v", "token": "token", "name": "p"}


async def test_volume_follows_its_source(tmp_path: Path) -> None:
    context = volumes(tmp_path, {"name": "c", "configMap": {"name": "cm"}})
    place = (await prepare_volumes(context))["c"]
    assert sorted(path.name for path in place.iterdir()) == ["a", "b", "z"]
    await prepare_volumes(replace(context, sources=Sources({"cm": {"data": {"a": "new"}}})))
    assert {path.name: path.read_text() for path in place.iterdir()} == {"a": "new"}


async def test_files_have_the_modes_they_ask_for(tmp_path: Path) -> None:
    items = [{"key": "a", "path": "a", "mode": 0o600}, {"key": "b", "path": "b"}]
    source = {"name": "cm", "defaultMode": 0o440, "items": items}
    place = (await prepare_volumes(volumes(tmp_path, {"name": "c", "configMap": source})))["c"]
    assert {path.name: path.stat().st_mode & 0o777 for path in place.iterdir()} == {"a": 0o600, "b": 0o440}


async def test_token_is_renewed_when_most_of_its_life_is_over(tmp_path: Path) -> None:
    part = {"serviceAccountToken": {"path": "token", "expirationSeconds": 1000}}
    context = volumes(tmp_path, {"name": "t", "projected": {"sources": [part]}})
    place = (await prepare_volumes(context))["t"] / "token"
    written = place.stat().st_mtime
    fresh = iter(["second", "third"])

    async def token(pod: object, projection: object) -> str:
        return next(fresh)

    await prepare_volumes(replace(context, token=token, now=written + 700))
    assert place.read_text() == "token"
    await prepare_volumes(replace(context, token=token, now=written + 900))
    assert place.read_text() == "second"


async def test_missing_volume_names_itself(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r'MountVolume\.SetUp failed for volume "c" : configmap "no" not found'):
        await prepare_volumes(volumes(tmp_path, {"name": "c", "configMap": {"name": "no"}}))
    await prepare_volumes(volumes(tmp_path, {"name": "c", "configMap": {"name": "no", "optional": True}}))


async def test_sub_paths_and_claims(tmp_path: Path) -> None:
    places = await prepare_volumes(volumes(tmp_path, {"name": "p", "persistentVolumeClaim": {"claimName": "disk"}}))
    container = {"volumeMounts": [{"name": "p", "mountPath": "/x/", "subPathExpr": "$(POD)/y"}]}
    mounts = container_mounts(container, places, {"POD": "p0"})
    assert mounts == (Mount(str(tmp_path / "claims/ns/disk"), "/x", below="p0/y"),)
    assert Path(mounts[0].path).is_dir()


def test_a_directory_that_may_not_be_read_has_nothing_to_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "seen").touch()
    assert _entries(str(tmp_path)) == ["seen"]

    def refuse(path: str) -> list[str]:
        raise PermissionError(path)

    monkeypatch.setattr("os.listdir", refuse)
    assert _entries(str(tmp_path)) == []
