"""What a pod's security context promises is kept or refused, and nothing of a pod outlives it."""

from __future__ import annotations

import pwd
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.process_cluster import process_cluster

from corral.core.meta import Obj
from corral.kinds.kubernetes.core.kinds import PODS
from corral.node.environment import MissingError, NodeFacts, Sources
from corral.node.images import Catalog
from corral.node.process.compose import Setting, compose
from corral.node.process.folder import PodFolder
from corral.node.process.launch import Launch


def composed(tmp_path: Path, of_pod: Obj, of_container: Obj) -> Launch:
    container = {"name": "main", "image": "busybox", "command": ["true"], "securityContext": of_container}
    metadata = {"name": "p", "namespace": "ns", "uid": "u"}
    pod: Obj = {"metadata": metadata, "spec": {"containers": [container], "securityContext": of_pod}}
    facts = NodeFacts("127.64.0.10", "127.0.0.1", "node")
    setting = Setting(pod, PodFolder(tmp_path / "u"), Sources(), facts, {}, (), False, True, {})
    return compose(setting, container, 0, Catalog.load())[0]


@pytest.mark.parametrize("of_container", [{"runAsNonRoot": True}, {"runAsNonRoot": True, "runAsUser": 0}])
def test_a_container_that_must_not_be_root_is_not_started_as_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_container: dict[str, Any]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    for of_pod, own in ((of_container, {}), ({}, of_container)):
        with pytest.raises(MissingError, match=r'(runAsNonRoot|non-root policy).*pod: "p_ns\(u\)", container: main'):
            composed(tmp_path, of_pod, own)
    assert composed(tmp_path, {"runAsNonRoot": True}, {"runAsUser": 1234}).user == 1234


def test_a_user_without_a_group_does_not_get_the_group_of_root(tmp_path: Path) -> None:
    somebody = next(entry for entry in pwd.getpwall() if entry.pw_gid)
    assert composed(tmp_path, {"runAsUser": somebody.pw_uid}, {}).group == somebody.pw_gid
    assert composed(tmp_path, {"runAsUser": 54321}, {}).group == 54321
    assert composed(tmp_path, {"runAsUser": 54321, "runAsGroup": 7}, {}).group == 7
    assert composed(tmp_path, {}, {}).group is None


def running(word: str) -> list[str]:
    """The processes that have `word` in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and word.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            pass  # it has ended
    return found


@pytest.mark.e2e
@pytest.mark.timeout(300)
async def test_a_child_that_hides_from_its_container_ends_with_it(tmp_path: Path) -> None:
    """In a session of its own, without the environment that would mark it, while another pod goes on."""
    number = f"98{tmp_path.stat().st_ino}"
    async with process_cluster(tmp_path / "state") as cluster:
        await cluster.run("other", ["sleep", "1000"])
        await cluster.running("other")
        script = f"setsid env -i sleep {number} & until pgrep -f '^sleep {number}'; do :; done"
        await cluster.run("hiding", ["/bin/sh", "-c", script])
        await cluster.ended("hiding")
        await cluster.client.delete(PODS, "hiding", "default")
        await cluster.gone("hiding")
        assert running(f"sleep\0{number}") == []
        assert len(running("sleep\x001000")) >= 1
