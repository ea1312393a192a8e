"""What is typed to an engine for a container."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.core.meta import Obj
from corral.node.engine import compose as room
from corral.node.engine.client import Engine
from corral.node.environment import MissingError, NodeFacts, Sources
from corral.node.process.compose import Setting
from corral.node.process.folder import PodFolder
from corral.node.process.launch import Launch

OWNER = "0123abcd"


def launch(
    tmp_path: Path, kind: str = "podman", devices: dict[str, str] | None = None, pod: Obj | None = None, **fields: Any
) -> Launch:
    container: Obj = {"name": "main", "image": "team/train:v1", **fields}
    spec = {"restartPolicy": "Never", "containers": [container], **(pod or {})}
    body: Obj = {"metadata": {"name": "p", "namespace": "default", "uid": "u1"}, "spec": spec}
    facts = NodeFacts("127.64.0.5", "127.0.0.1", "node1", {}, "", "")
    setting = Setting(body, PodFolder(tmp_path / "u1"), Sources(), facts, {}, {"main": devices or {}}, False, {})
    return room.compose_container(Engine(kind, f"/usr/bin/{kind}"), OWNER, setting, container, 0)


def after(made: Launch, option: str) -> list[str]:
    return [made.argv[index + 1] for index, word in enumerate(made.argv) if word == option]


@pytest.mark.parametrize(
    ("fields", "entry", "rest"),
    [
        ({}, [], ["team/train:v1"]),
        ({"args": ["--lr", "1"]}, [], ["team/train:v1", "--lr", "1"]),
        ({"command": ["python", "t.py"], "args": ["$(LR)"], "env": [{"name": "LR", "value": "3"}]}, ["python"], ["team/train:v1", "t.py", "3"]),
    ],
)  # fmt: skip
def test_command_and_args_stand_for_entry_point_and_command(
    tmp_path: Path, fields: Obj, entry: list[str], rest: list[str]
) -> None:
    made = launch(tmp_path, **fields)
    assert after(made, "--entrypoint") == entry
    assert list(made.argv[-len(rest) :]) == rest


def test_values_of_variables_are_not_in_the_list_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    env = [{"name": "TOKEN", "value": "secret"}, {"name": "HOME", "value": "/root"}]
    made = launch(tmp_path, env=env)
    assert "TOKEN" in after(made, "--env")
    assert made.env["TOKEN"] == "secret"
    assert made.env["HOME"] == "/home/me", "the client's own"
    assert "HOME=/root" in after(made, "--env")
    assert not any("secret" in word for word in made.argv)


def test_limits_and_security_are_handed_on(tmp_path: Path) -> None:
    security = {
        "runAsUser": 1000, "runAsGroup": 100, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["CAP_NET_BIND_SERVICE"]},
    }  # fmt: skip
    made = launch(
        tmp_path,
        resources={"limits": {"memory": "1Gi", "cpu": "500m"}},
        securityContext=security,
        pod={"hostPID": True},
    )
    assert after(made, "--memory") == after(made, "--memory-swap") == [str(2**30)]
    assert after(made, "--cpus") == ["0.5"]
    assert after(made, "--user") == ["1000:100"]
    assert (after(made, "--cap-drop"), after(made, "--cap-add")) == (["ALL"], ["NET_BIND_SERVICE"])
    assert after(made, "--security-opt") == ["label=disable", "no-new-privileges"]
    assert "--read-only" in made.argv
    assert after(made, "--pid") == ["host"]


@pytest.mark.parametrize(
    ("kind", "option", "words"),
    [
        ("podman", "--device", ["nvidia.com/gpu=2", "nvidia.com/gpu=3"]),
        ("docker", "--gpus", ['"device=2,3"']),
        ("containerd", "--gpus", ["device=2,3"]),
    ],
)
def test_devices_are_given_and_not_numbered_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, option: str, words: list[str]
) -> None:
    seen = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "2,3", "NVIDIA_VISIBLE_DEVICES": "2,3"}
    pretended = launch(tmp_path, kind, seen)
    assert after(pretended, option) == [], "a device that is only pretended cannot be given"
    assert pretended.env["CUDA_VISIBLE_DEVICES"] == "2,3"
    (tmp_path / "nvidiactl").touch()
    monkeypatch.setattr(room, "DEVICES", tmp_path)
    made = launch(tmp_path, kind, seen)
    assert after(made, option) == words
    assert "CUDA_VISIBLE_DEVICES" not in made.env, "what is in the container is numbered from 0 there"


def test_what_an_engine_cannot_keep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="shareProcessNamespace"):
        launch(tmp_path, pod={"shareProcessNamespace": True})
