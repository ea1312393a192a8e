"""Containers of an engine: the same life as processes have, with images. Scripted engines everywhere, podman itself where it works."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.e2e import scripted_engine
from tests.e2e.process_cluster import ProcessCluster

from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, PODS
from corral.node.engine.client import PROGRAMS, Engine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

IMAGE = "localhost/tiny:1"
BUSYBOX = "/bin/busybox"
LIMITS = '"nofile=1000:1000", "nproc=1000:1000"'
"""Lower ones than podman's own, which not every machine lets it set."""


@pytest.fixture(params=[*PROGRAMS, "podman itself"])
def engine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    kind = request.param
    if kind in PROGRAMS:
        scripted_engine.install(tmp_path / "engine", PROGRAMS[kind], IMAGE)
        return Engine(kind, str(tmp_path / "engine" / PROGRAMS[kind]))
    return podman_itself(tmp_path / "podman", monkeypatch)


def podman_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """podman with a store of its own and an image of busybox, if both are here and it can run that."""
    program = shutil.which("podman")
    if program is None or not Path(BUSYBOX).exists():
        pytest.skip("podman or a static busybox is not installed")
    folder.mkdir()
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/store"\n'
    )
    runtime = shutil.which("runc") or "crun"
    (folder / "containers.conf").write_text(
        f'[containers]\ndefault_ulimits = [{LIMITS}]\n[engine]\ncgroup_manager = "cgroupfs"\nruntime = "{Path(runtime).name}"\n'
    )
    monkeypatch.setenv("CONTAINERS_CONF", str(folder / "containers.conf"))
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(folder / "storage.conf"))
    subprocess.run([program, "import", "-", IMAGE], input=_image(), check=False, capture_output=True, timeout=120)
    tried = subprocess.run([program, "run", "--rm", "--network", "host", "--pull", "never", IMAGE, "sh", "-c", "true"],
                           check=False, capture_output=True, text=True, timeout=120)  # fmt: skip
    if tried.returncode:
        pytest.skip(f"podman runs no containers here: {tried.stderr.strip()}")
    return Engine("podman", program)


def _image() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.add(BUSYBOX, "bin/busybox")
        for name in ("sh", "sleep", "cat", "echo", "env", "touch", "ls"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
        for name in ("etc", "tmp", "proc", "sys", "dev"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
    return made.getvalue()


@asynccontextmanager
async def cluster_of(state: Path, engine: Engine) -> AsyncIterator[ProcessCluster]:
    cluster = ProcessCluster(state, engine=engine)
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()
    assert await containers(engine) == [], "nothing is left behind"


async def containers(engine: Engine) -> list[str]:
    code, said = await engine.ask("ps", "--all", "--quiet", "--filter", "label=corral.dev/name=default/a")
    assert code == 0, said
    return said.split()


async def test_a_container_has_its_image_its_volumes_and_its_variables_and_ends_with_its_code(
    engine: Engine, tmp_path: Path
) -> None:
    async with cluster_of(tmp_path / "c", engine) as cluster:
        await cluster.client.create(
            CONFIG_MAPS, {"metadata": {"name": "words", "namespace": "default"}, "data": {"said": "from a volume\n"}}
        )
        script = "echo $WORD; echo $PATH_TO; cat /words/said; echo not well >&2; exit 3"
        await cluster.run(
            "a", ["sh", "-c", script], image=IMAGE, env=[{"name": "WORD", "value": "from outside"}, {"name": "PATH_TO", "value": "x y"}],
            volumes=[{"name": "w", "configMap": {"name": "words"}}], volumeMounts=[{"name": "w", "mountPath": "/words"}],
        )  # fmt: skip
        ended = await cluster.ended("a")
        (status,) = ended["status"]["containerStatuses"]
        assert status["state"]["terminated"]["exitCode"] == 3
        told = await cluster.log("a")
        assert "from outside\nx y\nfrom a volume\n" in told
        assert "not well\n" in told
        assert await containers(engine) == [], "a container that has ended is removed"


async def test_commands_run_in_it_it_outlives_the_control_plane_and_it_is_ended_with_its_pod(
    engine: Engine, tmp_path: Path
) -> None:
    async with cluster_of(tmp_path / "c", engine) as cluster:
        await cluster.run(
            "a", ["sh", "-c", "trap '' TERM; echo begun; sleep 3000"], image=IMAGE, terminationGracePeriodSeconds=1
        )
        pod = await cluster.running("a")
        session = await cluster.runtime.exec(pod, "", ["sh", "-c", "echo inside; exit 5"], stdin=False, tty=False)
        said = b"".join([data async for _, data in session.read()])
        assert (await session.wait(), said) == (5, b"inside\n")
        before = await containers(engine)
        assert len(before) == 1
        await cluster.crash()
        again = ProcessCluster(tmp_path / "c", engine=engine)
        await again.start()
        try:
            assert await containers(engine) == before
            found = await again.running("a")
            assert found["status"]["containerStatuses"][0]["restartCount"] == 0
            await again.client.delete(PODS, "a", "default")
            await again.gone("a")
        finally:
            await again.base.stop()
            await again.runtime.close()


@pytest.mark.parametrize(
    ("image", "policy", "reason", "says"),
    [
        ("localhost/nowhere:1", "IfNotPresent", "ErrImagePull", 'failed to pull image "localhost/nowhere:1": '),
        ("localhost/nowhere:1", "Never", "ErrImageNeverPull", "is not present with pull policy of Never"),
    ],
)
async def test_an_image_that_cannot_be_had_is_what_the_container_waits_for(
    engine: Engine, tmp_path: Path, image: str, policy: str, reason: str, says: str
) -> None:
    async with cluster_of(tmp_path / "c", engine) as cluster:
        container = {"name": "main", "image": image, "imagePullPolicy": policy}
        metadata = {"name": "a", "namespace": "default"}
        await cluster.client.create(
            PODS, {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}}
        )

        def waiting(pod: dict[str, object]) -> dict[str, str]:
            status = pod["status"]
            assert isinstance(status, dict)
            found = ((status.get("containerStatuses") or [{}])[0].get("state") or {}).get("waiting") or {}
            return dict(found)

        found = await cluster.until("a", lambda pod: waiting(pod).get("reason") == reason)
        assert says in waiting(found)["message"]


async def test_a_supervisor_that_is_killed_leaves_no_container(tmp_path: Path) -> None:
    scripted_engine.install(tmp_path / "engine", "docker", IMAGE)
    engine = Engine("docker", str(tmp_path / "engine" / "docker"))
    async with cluster_of(tmp_path / "c", engine) as cluster:
        await cluster.run("a", ["sleep", "3000"], image=IMAGE)
        await cluster.running("a")
        os.kill(int((tmp_path / "c" / "node" / "supervisor.pid").read_text()), 9)
        await cluster.ended("a")
