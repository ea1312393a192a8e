"""The Python API as a script or a notebook uses it: on a manager that dispatches, and on a cluster that runs jobs itself."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e import remote_functions
from tests.e2e.started import PATIENCE_S, client, eventually, started

import corral
from corral import AsyncClient, CorralError, JobFailedError, RemoteError
from corral.core.meta import name_of
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS

# Nothing is left open: what is told of when it is collected fails the test that is at work then.
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
]

SCRIPT = """import os, sys
print("ran", sys.argv[1:], os.environ.get("LR"), os.environ.get("CORRAL_INDEX"))
sys.exit(int(os.environ.get("CODE", "0")))
"""

STUCK = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"generateName": "stuck-", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "nodeSelector": {"disk": "ssd"},
                "containers": [{"name": "c", "image": "python", "command": ["true"]}],
            }
        }
    },
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with started(tmp_path_factory.mktemp("fleet"), "--workers", "1", "--cpu", "16", "--memory", "32Gi") as state:
        yield state


@pytest.fixture(params=["corral-manager", "corral-worker1"])
def cluster(fleet: Path, request: pytest.FixtureRequest) -> Iterator[corral.Client]:
    """A cluster that dispatches, and one that runs what it admits."""
    with corral.Client(request.param, kubeconfig=fleet / "kubeconfig") as found:
        yield found


@pytest.fixture
def manager(fleet: Path) -> Iterator[corral.Client]:
    with corral.Client("corral-manager", kubeconfig=fleet / "kubeconfig") as found:
        yield found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def test_a_script_is_submitted_followed_and_waited_for(cluster: corral.Client, project: Path) -> None:
    job = cluster.submit("train.py", "--lr", "1", env={"LR": "3e-4"}, workdir=project)
    assert "ran ['--lr', '1'] 3e-4 None" in list(job.logs(follow=True))
    assert job.wait(PATIENCE_S).phase == "succeeded"
    assert "ran ['--lr', '1'] 3e-4 None" in list(job.logs())
    assert "Succeeded" in str(job.explain())
    assert "<table>" in job._repr_html_()
    assert job.name in [row.name for row in cluster.jobs()]


def test_what_a_script_writes_is_brought_back_where_it_is_asked_for(cluster: corral.Client, project: Path) -> None:
    (project / "write.py").write_text("open('model.txt', 'w').write('learned')\nopen('scratch', 'w').write('x')\n")
    cluster.submit("write.py", fetch=["model.txt"], workdir=project).wait()
    assert (project / "model.txt").read_text() == "learned"
    assert not (project / "scratch").exists()


def test_a_job_that_fails_raises_and_can_be_run_again(manager: corral.Client, project: Path) -> None:
    job = manager.submit("train.py", env={"CODE": "7"}, workdir=project, name="fails")
    phases = [change.phase for change in job.changes()]
    assert phases[-1] == "failed"
    with pytest.raises(
        JobFailedError, match=r"job/fails failed with exit code 7; `corral explain job/fails` says more"
    ):
        job.wait(PATIENCE_S)
    assert job.wait(check=False).exit_code == 7
    again = job.retry()
    assert again.target == "job/fails-2"
    assert again.wait(PATIENCE_S, check=False).phase == "failed"
    job.delete()
    eventually(lambda: job.name not in [row.name for row in manager.jobs()])


def test_a_function_runs_there_and_its_result_is_here(cluster: corral.Client) -> None:
    call = cluster.submit(remote_functions.add, 1, 2)
    assert call.result(PATIENCE_S) == {"sum": 3, "in_job": True}
    assert list(call.logs()) == ["adding"]
    again = cluster.job(call.target)
    assert isinstance(again, corral.Call)
    assert again.result() == {"sum": 3, "in_job": True}


def test_what_a_function_raises_is_raised_here_with_where_it_was(cluster: corral.Client) -> None:
    call = cluster.submit(remote_functions.divide, 1, 0)
    with pytest.raises(ZeroDivisionError, match="division by zero") as raised:
        call.result(PATIENCE_S)
    assert isinstance(raised.value, RemoteError)
    assert "in divide" in raised.value.remote_traceback
    assert call.wait(check=False).phase == "failed"


@pytest.mark.parametrize("context", ["corral-manager", "corral-worker1"])
def test_a_decorated_function_runs_here_or_there(fleet: Path, context: str) -> None:
    with corral.Client(context, kubeconfig=fleet / "kubeconfig") as cluster:
        train = corral.job(cpus="500m", client=cluster)(remote_functions.scaled.__wrapped__)
        assert train(2) == 4
        assert train.remote(2, by=5).result(PATIENCE_S) == 10
        assert train.options(name=f"many-{context}").map([1, 2, 3], timeout=PATIENCE_S) == [2, 4, 6]


def test_results_that_are_not_plain_data_come_back_only_where_they_are_trusted(manager: corral.Client) -> None:
    with pytest.raises(CorralError, match=r'not plain data.*result="pickle"'):
        manager.submit(remote_functions.odd).result(PATIENCE_S)
    call = manager.submit(remote_functions.odd, result="pickle")
    assert call.result(PATIENCE_S) == {1, 2}
    careful = manager.job(call.target)
    assert isinstance(careful, corral.Call)
    with pytest.raises(CorralError, match="the job sent a pickle, which runs code when it is read"):
        careful.result()


def test_many_jobs_share_one_folder_which_goes_with_the_last_of_them(
    fleet: Path, manager: corral.Client, project: Path
) -> None:
    jobs = manager.submit_many("train.py", [["a", 1], "b"], workdir=project, name="sweep", cpus="100m")
    assert [job.name for job in jobs] == ["sweep-0", "sweep-1"]
    assert manager.wait(jobs, PATIENCE_S) == [True, True]
    assert [line for job in jobs for line in job.logs()] == ["ran ['a', '1'] None 0", "ran ['b'] None 1"]
    api = client(fleet)

    def carriers() -> list[str]:
        found = api.list(CONFIG_MAPS, "default", labels="corral.dev/batch=sweep")["items"]
        owned = [
            one
            for one in api.list(CONFIG_MAPS, "default")["items"]
            if any(owner["name"] == "corral-batch-sweep" for owner in one["metadata"].get("ownerReferences", ()))
        ]
        return [name_of(one) for one in (*found, *owned)]

    assert len(carriers()) == 2
    jobs[0].delete()
    jobs[1].delete()
    eventually(lambda: not carriers())


def test_what_cannot_be_submitted_says_so_in_the_words_of_the_command_line(
    manager: corral.Client, project: Path
) -> None:
    with pytest.raises(CorralError, match=r"there is no missing\.py in"):
        manager.submit("missing.py", workdir=project)
    with pytest.raises(CorralError, match="there is no queue nobody in namespace default; there are user-queue"):
        manager.submit("train.py", queue="nobody", workdir=project)
    with pytest.raises(CorralError, match=r"there is no option gpu; did you mean gpus\?"):
        manager.submit("train.py", gpu=1, workdir=project)  # type: ignore[call-overload]
    with pytest.raises(CorralError, match="workers is 0, and has to be a whole number"):
        manager.submit("train.py", workers=0, workdir=project)
    with pytest.raises(CorralError, match="is a program, a function or a manifest, and not None"):
        manager.submit(None, workdir=project)  # type: ignore[call-overload]
    with pytest.raises(corral.NotFoundError, match="there is no namespace nowhere; there are default"):
        manager.submit("train.py", namespace="nowhere", workdir=project)
    with pytest.raises(corral.NotFoundError, match='"nothing" not found'):
        manager.job("job/nothing")


@pytest.mark.parametrize("context", ["corral-manager", "corral-worker1"])
def test_what_keeps_a_job_from_running_is_warned_of_once_however_it_is_waited_for(fleet: Path, context: str) -> None:
    async def waited(warned: list[warnings.WarningMessage]) -> None:
        found = AsyncClient(context, kubeconfig=fleet / "kubeconfig")
        job = await found.submit(STUCK)
        waits = [job.wait(), found.wait([job]), anext(job.logs(follow=True))]
        ways = [asyncio.ensure_future(way) for way in waits]
        while len([one for one in warned if "has no node: 0/1 nodes are available" in str(one.message)]) < len(ways):
            assert not [way for way in ways if way.done()]
            await asyncio.sleep(0.1)
        assert {one.category for one in warned} == {corral.JobWarning}, [str(one.message) for one in warned]
        assert "no node" in (await job.status()).text
        await job.delete()
        assert len(await asyncio.gather(*ways, return_exceptions=True)) == len(ways)
        await found.close()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asyncio.run(asyncio.wait_for(waited(warned), PATIENCE_S))
    assert len([one for one in warned if "has no node" in str(one.message)]) == 3


def test_a_manifest_is_submitted_and_cancelled(manager: corral.Client) -> None:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "600"]}
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "sleeper-"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }
    job = manager.submit(manifest, queue="user-queue")
    assert job.name.startswith("sleeper-")
    with pytest.raises(corral.WaitTimeoutError, match=f"time ran out: {job.target} is not finished yet"):
        job.wait(0.01)
    assert job.cancel()
    eventually(lambda: "deactivated" in str(job.explain()).lower())
    job.delete()


def test_queues_and_clusters_are_tables(manager: corral.Client) -> None:
    (queue,) = manager.queues()
    assert (queue.name, queue.active) == ("user-queue", True)
    assert "user-queue" in repr(manager.queues())
    assert [(one.name, one.active) for one in manager.clusters()] == [("worker1", True)]


def test_the_client_works_where_a_loop_runs_already_and_there_is_one_for_loops(fleet: Path) -> None:
    async def notebook() -> None:
        with corral.Client("corral-manager", kubeconfig=fleet / "kubeconfig") as blocking:
            assert len(blocking.queues()) == 1
        async with AsyncClient("corral-manager", kubeconfig=fleet / "kubeconfig") as client:
            call = await client.submit(remote_functions.add, 2, 3)
            assert (await call.result(PATIENCE_S))["sum"] == 5
            async for row in client.changes():
                assert row.queue == "user-queue"
                break

    asyncio.run(notebook())
