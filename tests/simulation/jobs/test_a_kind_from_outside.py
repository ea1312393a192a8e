"""A kind of job that somebody else's package brings goes the same way as Corral's own: queued, dispatched, run, shown."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from tests.conformance.served_cli import Run, serve, until
from tests.dispatching import run_on_fleet

from corral.clusters.embedded_api import EmbeddedApi
from corral.clusters.operators import set_up_operators
from corral.core import conditions
from corral.core.meta import Obj, name_of, spec_of, status_of
from corral.core.resource import Resource
from corral.jobs.framework import registry
from corral.jobs.framework.roles import user_rules, worker_rules
from corral.jobs.framework.served_kinds import native_kinds
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS, names
from corral.simulate.fleet import SimulatedFleet
from corral.testing.cluster import VirtualCluster

PACKAGE = Path(__file__).parents[2] / "data" / "outside_package"
SWEEPS = Resource("sweeps.example.com", "v1", "sweeps", "Sweep")
FRAMEWORK = "sweeps.example.com/sweep"


ABSTRACT = """
from corral.jobs.framework.job_kind import JobKind
JOB_KIND = JobKind(name="half", adapters={"half": "corral.jobs.framework.adapter:SuspendableJob"})
"""


def forget() -> None:
    """What the package left behind in this process."""
    for module in [name for name in sys.modules if name.partition(".")[0] in ("sweeps", "broken_sweeps")]:
        del sys.modules[module]
    registry.reset()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package is on the path, with the entry point its installer wrote down."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    forget()
    yield
    monkeypatch.undo()
    forget()


def sweep(name: str = "lr", trials: int = 2, cpu: str = "1") -> Obj:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": "30"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {names.QUEUE_NAME: "user-queue"}},
        "spec": {"trials": trials, "template": template},
    }


def test_the_kind_is_small() -> None:
    lines = [line for path in (PACKAGE / "sweeps").glob("*.py") for line in path.read_text().splitlines()]
    assert len(lines) <= 150


def test_the_documentation_shows_it_as_it_is() -> None:
    page = (PACKAGE.parents[2] / "docs" / "how-to" / "add-a-job-kind.md").read_text()
    shown = re.findall(r"```py\n(.*?)```", page, flags=re.DOTALL)
    assert shown == [(PACKAGE / "sweeps" / name).read_text() for name in ("__init__.py", "kind.py", "adapter.py")]


@pytest.mark.usefixtures("installed")
def test_it_is_known_everywhere_from_the_one_value_it_declares() -> None:
    assert FRAMEWORK in registry.shipped_frameworks()
    assert FRAMEWORK in registry.known_frameworks()
    assert "sweeps.sweeps.example.com" in [kind.group_resource for kind in native_kinds()]
    assert registry.adapter_for(SWEEPS) is registry.adapter(FRAMEWORK)
    for rules in (worker_rules(), user_rules()):
        assert any(rule["apiGroups"] == [SWEEPS.group] and SWEEPS.plural in rule["resources"] for rule in rules)


@pytest.mark.usefixtures("installed")
def test_it_is_queued_dispatched_run_mirrored_and_finished() -> None:
    async def script(fleet: SimulatedFleet) -> None:
        manager = fleet.manager.client
        made = await manager.create(SWEEPS, sweep())
        assert spec_of(made)["suspend"]
        assert spec_of(made)["managedBy"] == names.MULTIKUEUE_CONTROLLER
        await asyncio.sleep(10)
        (workload,) = (await manager.list(WORKLOADS)).items
        assert [(one["name"], one["count"]) for one in spec_of(workload)["podSets"]] == [("trials", 2)]
        worker = fleet.workers[status_of(workload)["clusterName"]]
        pods = (await worker.client.list(PODS, "default")).items
        assert sorted(name_of(pod) for pod in pods) == ["lr-0", "lr-1"]
        assert status_of(await manager.get(SWEEPS, "lr", "default"))["active"] == 2
        await asyncio.sleep(60)
        ended = await manager.get(SWEEPS, "lr", "default")
        assert conditions.is_true(ended, "Complete")
        (workload,) = (await manager.list(WORKLOADS)).items
        finished = conditions.find(workload, "Finished")
        assert finished is not None
        assert finished["message"] == "2 trials succeeded"
        for cluster in fleet.workers.values():
            assert not (await cluster.client.list(SWEEPS)).items

    run_on_fleet(script, {"integrations": {"frameworks": ["batch/job", FRAMEWORK]}})


@pytest.mark.usefixtures("installed")
async def test_the_command_line_lists_and_explains_it(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        flavor = {"name": "default-flavor", "resources": [{"name": "cpu", "nominalQuota": "1"}]}
        group = {"coveredResources": ["cpu"], "flavors": [flavor]}
        spec: Obj = {"namespaceSelector": {}, "resourceGroups": [group]}
        await embedded.client.create(RESOURCE_FLAVORS, {"metadata": {"name": "default-flavor"}, "spec": {}})
        await embedded.client.create(CLUSTER_QUEUES, {"metadata": {"name": "cluster-queue"}, "spec": spec})
        queue = {"metadata": {"name": "user-queue", "namespace": "default"}, "spec": {"clusterQueue": "cluster-queue"}}
        await embedded.client.create(LOCAL_QUEUES, queue)
        await embedded.client.create(SWEEPS, sweep(cpu="4"))

        async def listed() -> bool:
            return "sweep" in await run("workload", "list")

        await until(listed)
        shown = await run("workload", "list", "--for", "sweep/lr")
        assert shown.splitlines()[1].split()[1:3] == ["sweep", "lr"]
        told = await run("explain", "sweep/lr")
        assert "Sweep lr" in told
        assert "cpu" in told

    await serve(tmp_path, scenario)


@pytest.mark.usefixtures("installed")
def test_kubectl_explains_it_in_its_own_words() -> None:
    from corral.kinds.machinery.crd import crd_manifest

    (kind,) = [kind for kind in native_kinds() if kind.kind == "Sweep"]
    schema = crd_manifest(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["description"] == "One program, tried with many parameters."
    assert "each a name with a number" in schema["properties"]["spec"]["properties"]["trials"]["description"]


@pytest.mark.parametrize(
    ("entry_point", "said"),
    [
        ("broken = broken_sweeps.fails:JOB_KIND", "ZeroDivisionError"),
        ("broken = missing_sweeps:JOB_KIND", "ModuleNotFoundError"),
        ("broken = broken_sweeps.abstract:JOB_KIND", "abstract"),
        ("broken = json:dumps", "not a JobKind"),
        ("broken = corral.jobs.jobset:JOB_KIND", "jobset.x-k8s.io/jobset"),
    ],
)
def test_a_broken_package_is_named_and_left_out(
    entry_point: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "broken_sweeps").mkdir()
    (tmp_path / "broken_sweeps" / "__init__.py").write_text("")
    (tmp_path / "broken_sweeps" / "fails.py").write_text("JOB_KIND = 1 / 0\n")
    (tmp_path / "broken_sweeps" / "abstract.py").write_text(ABSTRACT)
    shutil.copytree(PACKAGE / "sweeps-1.0.dist-info", tmp_path / "broken-1.0.dist-info")
    (tmp_path / "broken-1.0.dist-info" / "entry_points.txt").write_text(f"[corral.jobs]\n{entry_point}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(PACKAGE))
    forget()
    try:
        with caplog.at_level(logging.WARNING):
            assert "sweep" in [kind.name for kind in registry.job_kinds()], (
                "one broken package does not take others along"
            )
    finally:
        monkeypatch.undo()
        forget()
    (record,) = [one for one in caplog.records if one.name == registry.__name__]
    assert record.__dict__["entry_point"] == entry_point
    assert said in record.__dict__["error"]


async def test_an_operator_that_cannot_be_loaded_does_not_keep_a_cluster_from_starting(
    installed: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "sweeps.operator", None)
    async with VirtualCluster([set_up_operators]) as cluster:
        made = await cluster.client.create(SWEEPS, sweep())
        assert spec_of(made)["trials"] == 2
    (record,) = [one for one in caplog.records if one.levelname == "WARNING"]
    assert record.__dict__["job_kind"] == "sweep"
    assert "sweeps.operator" in record.__dict__["error"]


def test_without_the_package_nothing_is_left_of_it() -> None:
    assert not metadata.entry_points(group="corral.jobs")
    assert FRAMEWORK not in registry.known_frameworks()
