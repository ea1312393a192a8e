"""Pods as real processes: what a person sees who runs one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.e2e.process_cluster import ProcessCluster, process_cluster

from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, PODS, SECRETS, SERVICES
from corral.kinds.kubernetes.pods.simulated import is_simulated

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ProcessCluster]:
    async with process_cluster(tmp_path / "state") as started:
        yield started


def statuses(pod: dict) -> list[dict]:
    return pod["status"].get("containerStatuses") or []


def terminated(pod: dict) -> dict:
    return pod["status"]["containerStatuses"][0]["state"]["terminated"]


def waiting_reason(pod: dict) -> str:
    return next((entry["state"].get("waiting", {}).get("reason", "") for entry in statuses(pod)), "")


async def test_pod_runs_and_succeeds(cluster: ProcessCluster) -> None:
    await cluster.run("hello", ["/bin/sh", "-c", "echo hello; echo oops >&2"])
    pod = await cluster.ended("hello")
    status = pod["status"]
    assert status["phase"] == "Succeeded"
    assert status["podIP"].startswith("127.77.")
    assert [entry["type"] for entry in status["conditions"]] == [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]
    assert [entry.get("reason") for entry in status["conditions"][1:4]] == ["PodCompleted"] * 3
    assert terminated(pod)["exitCode"] == 0
    assert terminated(pod)["reason"] == "Completed"
    assert sorted((await cluster.log("hello")).split()) == ["hello", "oops"]
    expected = ["Created", "Pulled", "Scheduled", "Started"]
    assert sorted(await cluster.events("hello", *expected)) == expected


async def test_exit_code_and_message_are_kept(cluster: ProcessCluster) -> None:
    await cluster.run("bad", ["sh", "-c", "echo why > /dev/termination-log; exit 7"])
    pod = await cluster.ended("bad")
    assert pod["status"]["phase"] == "Failed"
    assert (terminated(pod)["exitCode"], terminated(pod)["reason"], terminated(pod)["message"]) == (7, "Error", "why\n")


async def test_environment_and_volumes(cluster: ProcessCluster) -> None:
    await cluster.client.create(
        CONFIG_MAPS, {"metadata": {"name": "cm", "namespace": "default"}, "data": {"a": "1", "b": "two"}}
    )
    await cluster.client.create(
        SECRETS, {"metadata": {"name": "s", "namespace": "default"}, "data": {"password": "aHVudGVyMg=="}}
    )
    await cluster.run(
        "env",
        ["sh", "-c", "echo $A/$b/$WHO/$(GREETING)/$PW; cat /etc/conf/a /opt/secret/password; echo x > /scratch/f; cat /scratch/f; cat /etc/podinfo/labels"],
        labels={"app": "x"},
        env=[
            {"name": "A", "value": "first"},
            {"name": "GREETING", "value": "hi-$(A)"},
            {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "PW", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}},
        ],
        envFrom=[{"configMapRef": {"name": "cm"}}],
        volumeMounts=[
            {"name": "conf", "mountPath": "/etc/conf"},
            {"name": "secret", "mountPath": "/opt/secret", "readOnly": True},
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "info", "mountPath": "/etc/podinfo"},
        ],
        volumes=[
            {"name": "conf", "configMap": {"name": "cm"}},
            {"name": "secret", "secret": {"secretName": "s"}},
            {"name": "scratch", "emptyDir": {}},
            {"name": "info", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        ],
    )  # fmt: skip
    await cluster.ended("env")
    assert await cluster.log("env") == 'first/two/env/hi-first/hunter2\n1hunter2x\napp="x"'
    assert not Path("/scratch").exists()


async def test_pod_waits_for_a_config_map(cluster: ProcessCluster) -> None:
    await cluster.run("late", ["true"], envFrom=[{"configMapRef": {"name": "soon"}}])
    missing = {"reason": "CreateContainerConfigError", "message": 'configmap "soon" not found'}
    await cluster.until("late", lambda found: missing in [one["state"].get("waiting") for one in statuses(found)])
    await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "soon", "namespace": "default"}})
    assert (await cluster.ended("late"))["status"]["phase"] == "Succeeded"


async def test_init_containers_run_in_order_and_sidecar_is_stopped(cluster: ProcessCluster) -> None:
    share = [{"name": "share", "mountPath": "/share"}]
    await cluster.run(
        "inits",
        ["sh", "-c", "echo main >> /share/order; cat /share/order"],
        volumeMounts=share,
        volumes=[{"name": "share", "emptyDir": {}}],
        initContainers=[
            {"name": "one", "image": "busybox", "command": ["sh", "-c", "sleep 0.1; echo one >> /share/order"], "volumeMounts": share},
            {"name": "side", "image": "busybox", "command": ["sleep", "1000"], "restartPolicy": "Always"},
            {"name": "two", "image": "busybox", "command": ["sh", "-c", "echo two >> /share/order"], "volumeMounts": share},
        ],
    )  # fmt: skip
    pod = await cluster.ended("inits")
    assert pod["status"]["phase"] == "Succeeded"
    assert await cluster.log("inits") == "one\ntwo\nmain\n"
    states = [entry["state"]["terminated"]["exitCode"] for entry in pod["status"]["initContainerStatuses"]]
    assert states == [0, 143, 0]


async def test_a_sidecar_is_stopped_also_where_the_program_could_not_be_started(cluster: ProcessCluster) -> None:
    side = {"name": "side", "image": "busybox", "command": ["sleep", "1000"], "restartPolicy": "Always"}
    await cluster.run("unstartable", ["/no/such/program"], initContainers=[side])
    pod = await cluster.ended("unstartable")
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 143


async def test_restart_on_failure_with_back_off_and_previous_log(cluster: ProcessCluster) -> None:
    script = "if [ -e /share/x ]; then echo second; exit 3; fi; touch /share/x; echo first; exit 2"
    await cluster.run(
        "again",
        ["sh", "-c", script],
        restartPolicy="OnFailure",
        volumeMounts=[{"name": "share", "mountPath": "/share"}],
        volumes=[{"name": "share", "emptyDir": {}}],
    )
    pod = await cluster.until(
        "again",
        lambda found: (
            "waiting" in found["status"].get("containerStatuses", [{}])[0].get("state", {})
            and found["status"]["containerStatuses"][0]["restartCount"] == 1
        ),
    )
    container = pod["status"]["containerStatuses"][0]
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert container["lastState"]["terminated"]["exitCode"] == 3
    assert pod["status"]["phase"] == "Running"
    assert await cluster.log("again") == "second\n"
    assert await cluster.log("again", previous=True) == "first\n"
    assert "BackOff" in await cluster.events("again", "BackOff")


async def test_deletion_terminates_then_kills_and_removes(cluster: ProcessCluster) -> None:
    await cluster.run("polite", ["sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"])
    stubborn = ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"]
    await cluster.run("stubborn", stubborn, terminationGracePeriodSeconds=1)
    for name in ("polite", "stubborn"):
        await cluster.running(name)
        while "up" not in await cluster.log(name):  # noqa: ASYNC110  # nothing signals it
            await asyncio.sleep(0.02)
    seen: list[dict] = []

    version = (await cluster.client.list(PODS, "default")).resource_version

    async def watch() -> None:
        removed = 0
        async for event in cluster.client.watch(PODS, "default", resource_version=version):
            seen.append(event.obj)
            removed += event.type == "DELETED"
            if removed == 2:
                return

    watcher = asyncio.create_task(watch())
    for name in ("polite", "stubborn"):
        await cluster.client.delete(PODS, name, "default")
    await cluster.gone("polite")
    await cluster.gone("stubborn")
    async with asyncio.timeout(60):
        await watcher
    last = {obj["metadata"]["name"]: obj for obj in seen}
    assert last["polite"]["status"]["phase"] == "Succeeded"
    assert (last["stubborn"]["status"]["phase"], terminated(last["stubborn"])["exitCode"]) == ("Failed", 137)
    while cluster.runtime.known():  # noqa: ASYNC110  # the folders go last
        await asyncio.sleep(0.02)


async def test_deadline_and_memory_limit(cluster: ProcessCluster) -> None:
    await cluster.run("slow", ["sleep", "1000"], activeDeadlineSeconds=1, terminationGracePeriodSeconds=1)
    hungry = "x = bytearray(200 << 20); import time; time.sleep(300)"
    await cluster.run("hungry", ["python", "-c", hungry], image="python:3", resources={"limits": {"memory": "64Mi"}})
    slow = await cluster.ended("slow")
    assert (slow["status"]["phase"], slow["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    hungry_pod = await cluster.ended("hungry")
    assert (terminated(hungry_pod)["exitCode"], terminated(hungry_pod)["reason"]) == (137, "OOMKilled")


async def test_two_pods_find_each_other_by_name_and_talk(cluster: ProcessCluster) -> None:
    """Both listen on the same port of "their" machine, and each has an address of its own."""
    await cluster.client.create(
        SERVICES,
        {
            "metadata": {"name": "job-master-0", "namespace": "default"},
            "spec": {"clusterIP": "None", "selector": {"role": "master"}, "ports": [{"port": 23456}]},
        },
    )
    server = (
        "import socket\ns = socket.create_server(('0.0.0.0', 23456)); c, peer = s.accept()\n"
        "data = c.recv(100); print('got', data.decode()); c.sendall(data.upper()); c.close()"
    )
    client = (
        "import os, socket, time\ndeadline = time.time() + 100\n"
        "mine = socket.create_server(('0.0.0.0', 23456))\n"
        "while True:\n"
        "    try:\n        s = socket.create_connection((os.environ['MASTER_ADDR'], 23456)); break\n"
        "    except OSError:\n        assert time.time() < deadline; time.sleep(0.05)\n"
        "s.sendall(b'gradient'); print(s.recv(100).decode(), socket.gethostname())"
    )
    env = [{"name": "MASTER_ADDR", "value": "job-master-0"}]
    await cluster.run("worker", ["python", "-c", client], env=env, image="pytorch/pytorch")
    await cluster.run("master", ["python", "-c", server], env=env, image="pytorch/pytorch", labels={"role": "master"})
    assert (await cluster.ended("worker"))["status"]["phase"] == "Succeeded", await cluster.log("worker")
    assert (await cluster.ended("master"))["status"]["phase"] == "Succeeded"
    assert await cluster.log("worker") == "GRADIENT worker\n"
    assert await cluster.log("master") == "got gradient\n"


async def test_readiness_and_liveness_probes(cluster: ProcessCluster) -> None:
    probe = {"exec": {"command": ["test", "-e", "/container/ready"]}, "periodSeconds": 1}
    await cluster.run("probed", ["sleep", "1000"], readinessProbe=probe)
    pod = await cluster.running("probed")
    assert pod["status"]["containerStatuses"][0]["ready"] is False
    await cluster.touch("probed", "/container/ready")
    pod = await cluster.until("probed", lambda found: found["status"]["containerStatuses"][0]["ready"])
    assert {entry["type"]: entry["status"] for entry in pod["status"]["conditions"]}["Ready"] == "True"
    dead = {"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 1}
    await cluster.run(
        "dying", ["sleep", "1000"], livenessProbe=dead, restartPolicy="Always", terminationGracePeriodSeconds=1
    )
    pod = await cluster.until(
        "dying", lambda found: found["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) > 0
    )
    assert {"Unhealthy", "Killing"} <= set(await cluster.events("dying", "Unhealthy", "Killing"))


async def test_exec_gives_output_and_exit_code(cluster: ProcessCluster) -> None:
    await cluster.run("box", ["sleep", "1000"], env=[{"name": "COLOR", "value": "blue"}])
    pod = await cluster.running("box")
    command = ["sh", "-c", "echo $COLOR; cat; hostname >&2; exit 5"]
    session = await cluster.runtime.exec(pod, "", command, stdin=True, tty=False)
    await session.write(b"typed\n")
    await session.close_stdin()
    output = [entry async for entry in session.read()]
    assert b"".join(data for channel, data in output if channel == 1) == b"blue\ntyped\n"
    assert b"".join(data for channel, data in output if channel == 2) == b"box\n"
    assert await session.wait() == 5
    await session.kill()
    session = await cluster.runtime.exec(pod, "", ["sh", "-c", "test -t 1 && echo tty"], stdin=True, tty=True)
    output = [entry async for entry in session.read()]
    assert b"".join(data for _, data in output) == b"tty\r\n"
    await session.kill()


async def test_logs_follow_tail_and_timestamps(cluster: ProcessCluster) -> None:
    from corral.core.streams import LogOptions

    script = "for i in 1 2 3 4; do echo line $i; until [ -e /container/$i ]; do sleep 0.05; done; done"
    await cluster.run("talker", ["sh", "-c", script])
    pod = await cluster.running("talker")
    said = b""
    async for part in cluster.runtime.logs(pod, "", LogOptions(follow=True)):
        said += part
        if part.endswith(b"\n"):  # it goes on when its line has arrived
            await cluster.touch("talker", f"/container/{said.count(b'line')}")
    assert said == b"line 1\nline 2\nline 3\nline 4\n"
    assert await cluster.log("talker", tail_lines=2) == "line 3\nline 4\n"
    stamped = await cluster.log("talker", tail_lines=1, timestamps=True)
    assert stamped.split(" ", 1)[1] == "line 4\n"
    assert stamped[:2] == "20"


async def test_gpus_are_given_out_and_given_back(cluster: ProcessCluster) -> None:
    for name in ("a", "b"):
        await cluster.run(
            name,
            ["sh", "-c", "echo gpus=$CUDA_VISIBLE_DEVICES; sleep 1000"],
            resources={"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}},
        )
        await cluster.running(name)
    await cluster.run("none", ["sh", "-c", "echo gpus=$CUDA_VISIBLE_DEVICES"])
    await cluster.ended("none")
    logs = [await cluster.log(name) for name in ("a", "b", "none")]
    assert logs == ["gpus=0,1\n", "gpus=2,3\n", "gpus=\n"]
    await cluster.client.delete(PODS, "a", "default", grace=1)
    for name in ("c", "d"):  # one after the other: a pod that has ended holds nothing
        await cluster.run(
            name, ["sh", "-c", "echo gpus=$CUDA_VISIBLE_DEVICES"], resources={"limits": {"nvidia.com/gpu": "2"}}
        )
        await cluster.ended(name)
        assert await cluster.log(name) == "gpus=0,1\n"


async def test_an_image_without_command_or_entry_cannot_be_pulled(cluster: ProcessCluster) -> None:
    await cluster.run("mystery", [], image="registry.example/team/train:v1")
    pod = await cluster.until("mystery", lambda pod: waiting_reason(pod) not in ("", "ContainerCreating"))
    assert waiting_reason(pod) == "ErrImagePull"
    assert "give the container a command" in pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    assert pod["status"]["phase"] == "Pending"


@pytest.mark.parametrize("chosen", ["catalog", "annotation"])
async def test_a_container_that_pretends_by_choice_says_so_everywhere(chosen: str, tmp_path: Path) -> None:
    from dataclasses import replace

    from corral.node.images import Catalog

    catalog = replace(Catalog.load(), simulate_s=0.2, unknown="simulate" if chosen == "catalog" else "command")
    annotations = {"corral.dev/simulate": "true", "corral.dev/run-seconds": "0.2"} if chosen == "annotation" else {}
    async with process_cluster(tmp_path / "state", catalog=catalog) as cluster:
        await cluster.run("mystery", [], image="registry.example/team/train:v1", annotations=annotations)
        pod = await cluster.ended("mystery")
        assert pod["status"]["phase"] == "Succeeded"
        assert terminated(pod)["containerID"].startswith("simulated://")
        assert is_simulated(pod)
        assert (await cluster.log("mystery")).startswith("simulated for 0.2s: ")
        assert "Simulated" in await cluster.events("mystery", "Simulated")


async def test_program_that_does_not_exist_is_a_start_error(cluster: ProcessCluster) -> None:
    await cluster.run("ghost", ["no-such-program"])
    pod = await cluster.ended("ghost")
    assert (terminated(pod)["exitCode"], terminated(pod)["reason"]) == (128, "StartError")
    assert 'exec: "no-such-program": executable file not found in $PATH' in terminated(pod)["message"]


async def test_pods_survive_a_restart_of_the_control_plane(tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = ProcessCluster(state)
    await first.start()
    script = "echo start >> /data/runs; until [ -e /data/go ]; do sleep 0.05; done; echo done"
    quick = "until [ -e /data/quick ]; do sleep 0.05; done; touch /data/ended; exit 4"
    host = tmp_path / "data"
    host.mkdir()
    volumes = {
        "volumeMounts": [{"name": "d", "mountPath": "/data"}],
        "volumes": [{"name": "d", "hostPath": {"path": str(host)}}],
    }
    await first.run("survivor", ["sh", "-c", script], restartPolicy="OnFailure", **volumes)
    await first.run("quick", ["sh", "-c", quick], **volumes)
    await first.run("deleted", ["sleep", "1000"])
    for name in ("survivor", "quick", "deleted"):
        await first.running(name)
    await first.crash()
    (host / "quick").touch()
    while not (host / "ended").exists():  # noqa: ASYNC110  # it ends while nobody looks
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    async with process_cluster(state) as second:
        (host / "go").touch()
        await second.client.delete(PODS, "deleted", "default", grace=0)
        pod = await second.ended("survivor")
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
        assert (host / "runs").read_text() == "start\n", "it ran once"
        assert await second.log("survivor") == "done\n"
        assert terminated(await second.ended("quick"))["exitCode"] == 4
        await second.gone("deleted")
        for _ in range(5000):
            if "deleted" not in str(await second.connection_runs()) and len(second.runtime.known()) == 2:
                break
            await asyncio.sleep(0.02)
        assert len(second.runtime.known()) == 2


async def test_service_sends_connections_to_its_ready_pods(cluster: ProcessCluster) -> None:
    """Two replicas on one port behind a Service with a port of its own; the client knows only the name."""
    spec = {"selector": {"app": "web"}, "ports": [{"port": 9090, "targetPort": "http"}]}
    await cluster.client.create(SERVICES, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
    for name in ("web-a", "web-b"):
        await cluster.run(
            name,
            [],
            image="registry.k8s.io/e2e-test-images/agnhost:2.53",
            args=["netexec"],
            labels={"app": "web"},
            ports=[{"name": "http", "containerPort": 8080}],
            readinessProbe={"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 1},
        )
    for name in ("web-a", "web-b"):
        await cluster.until(name, lambda found: found["status"].get("containerStatuses", [{}])[0].get("ready", False))
    client = "import urllib.request as u; print(*sorted({u.urlopen('http://web.default.svc:9090/hostname').read().decode() for _ in range(4)}))"
    await cluster.run("client", ["python", "-c", client], image="python:3")
    await cluster.ended("client")
    assert await cluster.log("client") == "web-a web-b\n"


async def test_without_namespaces_paths_and_names_are_written_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The poorest machine: nothing can be mounted and no call can be watched."""
    monkeypatch.setenv("CORRAL_ISOLATION", "none")
    monkeypatch.setenv("CORRAL_SOCKETS", "shared")
    async with process_cluster(tmp_path / "state") as cluster:
        service = {"clusterIP": "None", "selector": {"role": "master"}, "ports": [{"port": 1}]}
        await cluster.client.create(
            SERVICES, {"metadata": {"name": "job-master-0", "namespace": "default"}, "spec": service}
        )
        await cluster.client.create(
            CONFIG_MAPS, {"metadata": {"name": "cm", "namespace": "default"}, "data": {"a": "from a file"}}
        )
        await cluster.run("master", ["sleep", "1000"], labels={"role": "master"})
        address = (await cluster.running("master"))["status"]["podIP"]
        await asyncio.sleep(2)  # nothing tells when everybody has heard of its address
        await cluster.run(
            "poor",
            ["sh", "-c", "cat /conf/a; echo; echo $MASTER_ADDR; echo why > /dev/termination-log; exit 3"],
            env=[{"name": "MASTER_ADDR", "value": "job-master-0"}],
            volumeMounts=[{"name": "conf", "mountPath": "/conf"}],
            volumes=[{"name": "conf", "configMap": {"name": "cm"}}],
        )
        pod = await cluster.ended("poor")
        assert await cluster.log("poor") == f"from a file\n{address}\n"
        assert (terminated(pod)["exitCode"], terminated(pod)["message"]) == (3, "why\n")
        session = await cluster.runtime.exec(
            await cluster.running("master"), "", ["echo", "hi"], stdin=False, tty=False
        )
        assert b"".join([data async for _, data in session.read()]) == b"hi\n"
        await session.kill()


async def test_taking_a_cluster_down_stops_its_pods_and_the_next_start_runs_them_again(tmp_path: Path) -> None:
    first = ProcessCluster(tmp_path / "state")
    await first.start()
    program = "trap 'echo asked; exit 9' TERM; echo up; while :; do sleep 0.05; done"
    await first.run("polite", ["sh", "-c", program])
    await first.run("done", ["sh", "-c", "exit 7"])
    await first.ended("done")
    await first.running("polite")
    while "up" not in await first.log("polite"):  # noqa: ASYNC110  # nothing signals it
        await asyncio.sleep(0.02)
    await first.base.stop()
    await first.agent.close()
    async with process_cluster(tmp_path / "state") as second:
        assert terminated(await second.ended("done"))["exitCode"] == 7
        again = await second.until("polite", lambda pod: bool(pod["status"]["containerStatuses"][0]["ready"]))
        assert again["status"]["containerStatuses"][0]["restartCount"] == 0
        while (await second.log("polite")).split() != ["up", "asked", "up"]:  # noqa: ASYNC110  # nothing signals it
            await asyncio.sleep(0.02)


async def test_killed_supervisor_takes_its_containers_along_and_they_are_restarted(cluster: ProcessCluster) -> None:
    import os
    import signal

    escape = "setsid sleep 4321 & echo up; sleep 1000"
    await cluster.run("phoenix", ["sh", "-c", escape], restartPolicy="Always")
    await cluster.run("mortal", ["sleep", "1000"])
    for name in ("phoenix", "mortal"):
        await cluster.running(name)
    while "up" not in await cluster.log("phoenix"):  # noqa: ASYNC110  # nothing signals it
        await asyncio.sleep(0.02)
    state = cluster.runtime.settings.state
    os.kill(int((state / "supervisor.pid").read_text()), signal.SIGKILL)
    pod = await cluster.ended("mortal")
    assert terminated(pod)["exitCode"] == 137
    await cluster.until("phoenix", lambda found: found["status"]["containerStatuses"][0]["restartCount"] == 1)
    await cluster.client.delete(PODS, "phoenix", "default", grace=0)
    await cluster.gone("phoenix")
    for _ in range(1000):
        leaked = [entry for entry in Path("/proc").glob("[0-9]*/cmdline") if b"sleep\x004321" in _bytes(entry)]
        if not leaked:
            break
        await asyncio.sleep(0.05)
    assert leaked == []


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
