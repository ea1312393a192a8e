"""What a pod's security context promises is kept or refused, and nothing of a pod outlives it."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.process_cluster import ProcessCluster, process_cluster
from tests.waiting import eventually

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
    setting = Setting(pod, PodFolder(tmp_path / "u"), Sources(), facts, {}, {}, True, {})
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


def hidden(number: str) -> str:
    """A shell line that starts a family in a session of its own, without the environment that would mark it."""
    return f"setsid env -i sh -c 'sleep {number} & wait' & until pgrep -f '^sleep {number}'; do :; done"


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.parametrize("groups", [True, False], ids=["control groups", "none"])
async def test_a_family_that_hides_ends_with_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: bool
) -> None:
    """The child of a child, too: it becomes the supervisor's only when its parent has ended."""
    if not groups:
        monkeypatch.setenv("CORRAL_POD_PROCESSES", "0")
    number = f"97{tmp_path.stat().st_ino}"
    async with process_cluster(tmp_path / "state") as cluster:
        await cluster.run("other", ["sleep", "1000"])
        await cluster.running("other")
        await cluster.run("hiding", ["/bin/sh", "-c", hidden(number)])
        await cluster.ended("hiding")
        assert running(f"sleep\0{number}") == []


@pytest.mark.e2e
@pytest.mark.timeout(300)
async def test_nothing_of_a_pod_outlives_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    number = f"96{tmp_path.stat().st_ino}"
    async with process_cluster(tmp_path / "state") as cluster:
        await cluster.run("hiding", ["/bin/sh", "-c", f"{hidden(number)}; sleep 1000"])
        eventually_running = asyncio.to_thread(eventually, lambda: running(f"sleep\0{number}"))
        await cluster.running("hiding")
        await eventually_running
        os.kill(int((tmp_path / "state" / "node" / "supervisor.pid").read_text()), signal.SIGKILL)
        await cluster.ended("hiding")
        await asyncio.to_thread(eventually, lambda: not running(f"sleep\0{number}"))


@pytest.mark.e2e
@pytest.mark.timeout(300)
async def test_a_container_cannot_have_any_number_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRAL_POD_PROCESSES", "20")
    number = f"95{tmp_path.stat().st_ino}"
    async with process_cluster(tmp_path / "state") as cluster:
        await cluster.run("many", ["/bin/sh", "-c", f"for i in $(seq 60); do sleep {number} & done; sleep 1000"])
        assert (await cluster.ended("many"))["status"]["phase"] == "Failed"
        assert running(f"sleep\0{number}") == []


async def accepted(write: Any, most: int) -> tuple[int, asyncio.Future[None]]:
    """How many bytes are taken before a write has to wait, and that write."""
    taken = 0
    while True:
        task = asyncio.ensure_future(write(b"x" * 65536))
        for _ in range(3):
            await asyncio.sleep(0)
        if not task.done() or taken > most:
            return taken, task
        taken += 65536


@pytest.mark.e2e
@pytest.mark.timeout(300)
async def test_input_that_is_not_read_waits_with_its_sender(tmp_path: Path) -> None:
    async with process_cluster(tmp_path / "state") as cluster:
        await cluster.run("p", ["sleep", "1000"])
        session = await cluster.runtime.exec(await cluster.running("p"), "", ["sleep", "1000"], stdin=True, tty=False)
        taken, waiting = await accepted(session.write, 8 << 20)
        assert taken < 1 << 20
        assert not waiting.done()
        await session.kill()
        await waiting  # whoever leaves is not kept


@pytest.mark.e2e
@pytest.mark.timeout(300)
async def test_a_container_that_does_not_read_its_input_holds_up_nobody(tmp_path: Path) -> None:
    async with process_cluster(tmp_path / "state") as cluster:
        await cluster.client.create(PODS, with_stdin("deaf"))
        session = await cluster.runtime.attach(await cluster.running("deaf"), "", stdin=True, tty=False)
        writing = asyncio.ensure_future(session.write(b"x" * (1 << 20)))
        await cluster.run("other", ["true"])
        assert (await cluster.ended("other"))["status"]["phase"] == "Succeeded"
        assert not writing.done()
        await cluster.client.delete(PODS, "deaf", "default")
        await writing


def with_stdin(name: str) -> Obj:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "1000"], "stdin": True}
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def said(cluster: ProcessCluster, name: str, script: str, security: Obj, **spec: Any) -> list[str]:
    """What a script prints in a container with this security context."""
    container = {"name": "main", "image": "busybox", "command": ["/bin/sh", "-c", script], "securityContext": security}
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in spec.get("volumes", ())]
    container["volumeMounts"] = mounts
    body = {"containers": [container], "restartPolicy": "Never", **spec}
    await cluster.client.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": body})
    await cluster.ended(name)
    return (await cluster.log(name)).split()


TRY = "for d in {}; do touch $d/x 2>/dev/null && echo $d || echo no; done"


@pytest.mark.e2e
@pytest.mark.timeout(300)
async def test_what_a_security_context_takes_away_is_gone(tmp_path: Path) -> None:
    async with process_cluster(tmp_path / "state") as cluster:
        if not await cluster.runtime.connection.is_isolating():
            pytest.skip("no mount namespaces on this machine")
        fixed = {"readOnlyRootFilesystem": True}
        own = [{"name": "own", "emptyDir": {}}]
        assert await said(cluster, "fixed", TRY.format("/tmp /var/tmp /container /own"), fixed, volumes=own) == [
            "no", "no", "no", "/own",
        ]  # fmt: skip
        less = {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False}
        status = await said(cluster, "less", "grep -E 'CapBnd|CapEff|NoNewPrivs' /proc/self/status", less)
        assert [int(word, 16) for word in status[1::2]] == [0, 0, 1]
        given = [
            {"name": "given", "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}}
        ]
        assert await said(cluster, "given", f"cat /given/n; echo; {TRY.format('/given')}", {}, volumes=given) == [
            "given", "no",
        ]  # fmt: skip


@pytest.mark.e2e
@pytest.mark.timeout(300)
async def test_a_promise_that_cannot_be_kept_leaves_the_pod_waiting_with_a_sentence(tmp_path: Path) -> None:
    async with process_cluster(tmp_path / "state") as cluster:
        await cluster.run("apart", ["true"], hostUsers=False)

        def refused(pod: Obj) -> bool:
            entries = pod["status"].get("containerStatuses") or ()
            return any(
                "user namespaces" in (entry["state"].get("waiting") or {}).get("message", "") for entry in entries
            )

        found = await cluster.until("apart", refused)
        assert found["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError"
        assert "Failed" in await cluster.events("apart", "Failed")


@pytest.mark.e2e
@pytest.mark.timeout(300)
async def test_what_a_security_context_gives_is_there(tmp_path: Path) -> None:
    async with process_cluster(tmp_path / "state") as cluster:
        filtered = {"seccompProfile": {"type": "RuntimeDefault"}}
        script = "unshare -m true 2>/dev/null && echo allowed || echo refused; true && echo lives"
        assert await said(cluster, "filtered", script, filtered) == ["refused", "lives"]
        if os.geteuid() != 0:
            pytest.skip("groups are root's to give")
        own = [{"name": "own", "emptyDir": {}}]
        context = {"runAsUser": 4242, "runAsGroup": 4243, "fsGroup": 4244, "supplementalGroupsPolicy": "Strict"}
        script = "id -G; touch /own/x && stat -c %g /own/x"
        printed = await said(cluster, "owner", script, {}, volumes=own, securityContext=context)
        assert printed == ["4243", "4244", "4244"]


@pytest.mark.e2e
@pytest.mark.timeout(300)
async def test_a_pod_that_writes_more_than_it_may_is_evicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corral.node.process.runtime.WEIGH_S", 0.1)
    async with process_cluster(tmp_path / "state") as cluster:
        resources = {"limits": {"ephemeral-storage": "1Mi"}, "requests": {"ephemeral-storage": "0"}}
        command = ["/bin/sh", "-c", "head -c 3000000 /dev/zero > /container/large; sleep 1000"]
        container = {"name": "main", "image": "busybox", "command": command, "resources": resources}
        spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
        await cluster.client.create(PODS, {"metadata": {"name": "large", "namespace": "default"}, "spec": spec})
        status = (await cluster.ended("large"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
        assert "exceeded its local ephemeral storage limit" in status["message"]
        assert "Evicted" in await cluster.events("large", "Evicted")
