"""The command line over a fleet as a person types it: logs of every shape, a worker that hangs, lists in every format."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.started import PATIENCE_S, client, eventually, started

from corral import Client, CorralError
from corral.core.errors import ServiceUnavailable
from corral.core.meta import name_of, status_of
from corral.fleet.folder import FleetFolder
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import PODS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with started(tmp_path_factory.mktemp("fleet"), "--workers", "2", "--cpu", "4", "--memory", "8Gi") as state:
        yield state


def command(fleet: Path, *words: str) -> tuple[list[str], dict[str, str]]:
    environment = {**os.environ, "KUBECONFIG": str(fleet / "kubeconfig"), "CORRAL_HOME": str(fleet)}
    return [sys.executable, "-m", "corral", *words], environment


def typed(fleet: Path, *words: str, code: int | None = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
    line, environment = command(fleet, *words)
    done = subprocess.run(
        line, env=environment, input=stdin, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert code is None or done.returncode == code, f"{done.stdout}{done.stderr}"
    return done


def job(name: str, *scripts: str, cpu: str = "100m", queue: str = "user-queue") -> str:
    containers = [
        {
            "name": f"c{number}",
            "image": "python",
            "command": ["sh", "-c", script],
            "resources": {"requests": {"cpu": cpu}},
        }
        for number, script in enumerate(scripts)
    ]
    made: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue, "of": "test"}},
        "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": containers}}},
    }
    return json.dumps(made)


def test_logs_of_several_jobs_with_several_containers(fleet: Path) -> None:
    typed(fleet, "apply", "-f", "-", stdin=job("two", "echo first", "echo second"))
    typed(fleet, "apply", "-f", "-", stdin=job("one", "echo alone; echo again"))
    shown = typed(fleet, "logs", "-f", "job.batch/two", "job.batch/one")
    assert {line.partition(" | ")[2] for line in shown.stdout.splitlines()} == {"first", "alone", "again"}
    assert "# container c0 of c0, c1; -c names another" in shown.stderr


def test_following_a_waiting_job_says_what_it_waits_for_and_shows_it_from_its_start(fleet: Path) -> None:
    typed(fleet, "queue", "stop", "lq/user-queue", "--keep-already-running")
    typed(fleet, "apply", "-f", "-", stdin=job("late", "echo at last"))
    line, environment = command(fleet, "logs", "-f", "job/late")
    with subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        assert follower.stderr is not None
        assert "Job late: " in follower.stderr.readline()
        typed(fleet, "queue", "resume", "lq/user-queue")
        out, err = follower.communicate(timeout=PATIENCE_S)
    assert out == "at last\n"
    assert follower.returncode == 0, err


def troubled(name: str, pod: dict[str, Any]) -> str:
    """A job whose pods do not run: `pod` is a pod's spec, with what its only container has under `container`."""
    made = json.loads(job(name, "true"))
    made["spec"]["backoffLimit"] = 9
    spec = made["spec"]["template"]["spec"]
    spec["containers"][0] |= pod.get("container", {})
    spec |= {key: value for key, value in pod.items() if key != "container"}
    return json.dumps(made)


MOUNTED = {"volumeMounts": [{"name": "v", "mountPath": "/x"}]}
TROUBLES: list[tuple[dict[str, Any], str]] = [
    (
        {"container": MOUNTED, "volumes": [{"name": "v", "configMap": {"name": "no"}}]},
        'ContainerCreating: MountVolume.SetUp failed for volume "v" : configmap "no" not found',
    ),
    (
        {"container": MOUNTED, "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "no"}}]},
        'has no node: 0/1 nodes are available: persistentvolumeclaim "no" not found',
    ),
    ({"container": {"envFrom": [{"secretRef": {"name": "no"}}]}}, 'CreateContainerConfigError: secret "no" not found'),
    ({"container": {"image": "my/own:v1", "command": []}}, 'ErrImagePull: failed to pull image "my/own:v1"'),
    ({"container": {"command": ["sh", "-c", "exit 3"]}, "restartPolicy": "OnFailure"}, "CrashLoopBackOff: back-off"),
    ({"container": {"command": ["sh", "-c", "exit 4"]}}, "container c0: Error, exit code 4"),
    ({"nodeSelector": {"disk": "ssd"}}, "didn't match Pod's node affinity/selector"),
]


def is_in(words: str, file: Path) -> bool:
    text = file.read_text()
    assert words in text, f"{words!r} was never told, but: {text}"
    return True


@pytest.mark.parametrize("waits", ["logs -f", "wait"])
def test_what_keeps_the_pods_of_a_dispatched_job_from_running_is_told_once_while_it_is_waited_for(
    fleet: Path, tmp_path: Path, waits: str
) -> None:
    names = [f"{waits[:4]}-{number}" for number in range(len(TROUBLES))]
    typed(fleet, "apply", "-f", "-", stdin="\n---\n".join(map(troubled, names, (pod for pod, _ in TROUBLES))))
    line, environment = command(fleet, *waits.split(), *(f"job/{name}" for name in names))
    shown = tmp_path / "shown"
    with shown.open("w") as output, subprocess.Popen(line, env=environment, stderr=output) as follower:
        try:
            for _, told in TROUBLES:
                eventually(partial(is_in, told, shown))
        finally:
            follower.kill()
    assert [shown.read_text().count(told) for _, told in TROUBLES] == [1] * len(TROUBLES)
    typed(fleet, "delete", "job", *names)


def test_a_job_that_cannot_have_logs_is_an_error(fleet: Path) -> None:
    typed(fleet, "apply", "-f", "-", stdin=job("nowhere", "true", queue="nobody"))
    answer = typed(fleet, "logs", "job/nowhere", code=1)
    assert "has no pods yet; `corral explain` says why" in answer.stderr
    assert "no pods in namespace default have the labels a=b" in typed(fleet, "logs", "-l", "a=b", code=1).stderr
    assert "name a TARGET, for example job/train, or select pods with -l" in typed(fleet, "logs", code=2).stderr
    typed(fleet, "delete", "job/nowhere")


def test_lists_tell_failed_from_finished_in_every_format(fleet: Path) -> None:
    typed(fleet, "apply", "-f", "-", stdin=job("fails", "exit 3"))
    assert typed(fleet, "wait", "job/fails", code=1).stdout == "job.batch/fails failed\n"
    rows = typed(fleet, "workload", "list", "--for", "job/fails").stdout.splitlines()
    assert "FAILED" in rows[1]
    listed = json.loads(typed(fleet, "workload", "list", "-o", "json").stdout)
    assert listed["kind"] == "List"
    assert typed(fleet, "queue", "list", "-o", "name").stdout.splitlines() == [
        "clusterqueue.kueue.x-k8s.io/cluster-queue", "localqueue.kueue.x-k8s.io/user-queue"
    ]  # fmt: skip
    assert typed(fleet, "queue", "list", "-o", "name", "lq").stdout == "localqueue.kueue.x-k8s.io/user-queue\n"
    names = typed(fleet, "clusters", "list", "-o", "jsonpath={.items[*].metadata.name}").stdout
    assert names == "worker1 worker2\n"
    states = json.loads(typed(fleet, "status", "-o", "json").stdout)["items"]
    assert [one["state"] for one in states] == ["ready"] * 3
    explained = json.loads(typed(fleet, "explain", "job/fails", "-o", "json").stdout)
    assert explained["headline"].startswith("Job fails: Finished")
    assert explained["advice"]
    both = typed(fleet, "explain", "job.batch/fails", "localqueue/user-queue").stdout
    assert "Job fails: Finished" in both
    assert "LocalQueue user-queue" in both
    assert "there is no namespace nosuch" in typed(fleet, "workload", "list", "-n", "nosuch", code=1).stderr
    assert "No workloads found" in typed(fleet, "workload", "delete", "--all", "-n", "kube-system").stderr


def is_kept_by_the_manager(fleet: Path, name: str) -> bool:
    """Whether a job has ended and left its worker: what it wrote has come home then."""
    left = [
        name_of(each)
        for worker in ("corral-worker1", "corral-worker2")
        for each in client(fleet, worker).list(JOBS)["items"]
    ]
    ended = status_of(client(fleet).get(JOBS, name, "default")).get("completionTime")
    return bool(ended) and name not in left


def test_one_worker_that_hangs_holds_nothing_up(fleet: Path) -> None:
    typed(fleet, "apply", "-f", "-", stdin=job("over", "echo alone"))
    eventually(lambda: is_kept_by_the_manager(fleet, "over"))
    typed(fleet, "apply", "-f", "-", stdin=job("held", "echo here; sleep 600"))
    manager = client(fleet)

    def place() -> str:
        found = json.loads(typed(fleet, "workload", "list", "--for", "job/held", "-o", "json").stdout)["items"]
        active = status_of(manager.get(JOBS, "held", "default")).get("active")
        return str(status_of(found[0]).get("clusterName") or "") if found and active else ""

    worker = eventually(place)
    status = FleetFolder(fleet).read_status()
    assert status is not None
    pid = next(cluster.pid for cluster in status.clusters if cluster.name == worker)
    there = client(fleet, f"corral-{worker}").list(PODS, "default")["items"]
    running = [each for each in there if status_of(each).get("phase") == "Running"]
    unmeasured = "1 running pod is" if len(running) == 1 else f"{len(running)} running pods are"
    os.kill(pid, signal.SIGSTOP)
    try:
        told = typed(fleet, "status").stdout
        assert told.count("ready") == 2
        assert "not answering: " in told
        answer = typed(fleet, "logs", "job/held", code=1).stderr
        assert f"cluster {worker} does not answer: what runs there goes on" in answer
        assert "corral up" not in answer
        assert worker in typed(fleet, "clusters", "list").stdout
        assert "held" in typed(fleet, "explain", "job/held").stdout
        said = typed(fleet, "top", "pods").stderr
        assert f"{worker}: {unmeasured} not measured" in said
        assert f"{worker}: " in typed(fleet, "top").stderr
        assert "Now: it does not answer within 1 s" in typed(fleet, "clusters", "describe", worker).stdout
        (pod,) = typed(fleet, "get", "pods", "-l", "job-name=held", "-o", "name").stdout.split()
        silent = f"cluster {worker} does not answer"
        for code, words in (
            (1, ("logs", pod)),
            (1, ("exec", "job/held", "true")),
            (1, ("cp", "job/held:/etc/hostname", str(fleet / "copied"))),
            (1, ("top", "job/held")),
            (0, ("events", "job/held")),
            (0, ("simulate", "--live")),
        ):
            assert silent in typed(fleet, *words, code=code).stderr, words
        both = typed(fleet, "logs", "job/over", "job/held")
        assert "alone" in both.stdout
        assert silent in both.stderr
        assert f"cluster {worker} does not answer as it should" in typed(fleet, "doctor", code=1).stdout
        # A user who may not read the manager's credentials for its workers goes through the manager, which gives the worker up in time.
        lost = f"{silent}|cluster {worker}, which runs the pod, cannot be reached"
        with pytest.raises(ServiceUnavailable, match=lost):
            list(manager.lines(f"/api/v1/namespaces/default/pods/{pod.partition('/')[2]}/log"))
        with Client(kubeconfig=fleet / "kubeconfig") as python, pytest.raises(CorralError, match=lost):
            list(python.job("job/held").logs())
        for words in (
            ("get", "pods,jobs"),
            ("events",),
            ("describe", "job/held"),
            ("workload", "list"),
            ("queue", "list", "-A"),
        ):
            assert typed(fleet, *words).stdout, words
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "here" in typed(fleet, "logs", "job/held").stdout
    typed(fleet, "delete", "job/held")


@pytest.fixture(scope="module")
def running(fleet: Path) -> str:
    """A job that runs on a worker and has two containers."""
    typed(fleet, "apply", "-f", "-", stdin=job("inside", "echo first; sleep 3000", "sleep 3000"))
    manager = client(fleet)
    eventually(lambda: status_of(manager.get(JOBS, "inside", "default")).get("ready"))
    return "job/inside"


def test_when_what_waits_would_start_is_told_from_what_there_is_now(fleet: Path, running: str) -> None:
    (workload,) = json.loads(typed(fleet, "workload", "list", "--for", running, "-o", "json").stdout)["items"]
    typed(fleet, "apply", "-f", "-", stdin=job("waits-long", "sleep 1"))
    eventually(lambda: "Complete" in typed(fleet, "get", "job/waits-long").stdout)
    found = json.loads(typed(fleet, "simulate", "--live", "--assume", "2h", "-o", "json").stdout)["jobs"]
    known = {entry["name"]: entry for entry in found}
    assert known["inside"]["cluster"] == status_of(workload)["clusterName"]
    assert known["inside"]["admitted"] < 1
    assert 7000 < known["inside"]["ended"] <= 7205
    assert "waits-long" not in known, "it has ended"


def test_a_command_runs_in_a_job_on_its_worker_with_its_streams_and_exit_code(fleet: Path, running: str) -> None:
    said = typed(fleet, "exec", running, "--", "sh", "-c", "echo out; echo err >&2; exit 7", code=7)
    assert (said.stdout, said.stderr) == ("out\n", "err\n")
    assert typed(fleet, "exec", "-i", running, "cat", stdin="in and out\n").stdout == "in and out\n"
    many = "x" * 3_000_000
    assert typed(fleet, "exec", "-i", "-c", "c1", running, "cat", stdin=many).stdout == many
    assert "executable file not found" in typed(fleet, "exec", running, "no-such-program", code=1).stderr
    assert "has no container c7; there are c0, c1" in typed(fleet, "exec", "-c", "c7", running, "true", code=1).stderr
    assert (
        'jobs.batch "insid" not found; did you mean inside?' in typed(fleet, "exec", "job/insid", "ls", code=1).stderr
    )


def test_files_go_into_a_job_and_come_out_of_it(fleet: Path, running: str, tmp_path: Path) -> None:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "a file").write_bytes(bytes(range(256)) * 4000)
    typed(fleet, "cp", str(tmp_path / "data"), f"{running}:/container")
    typed(fleet, "cp", str(tmp_path / "data"), f"{running}:/container/other")
    found = typed(fleet, "exec", running, "--", "find", "/container", "-type", "f").stdout
    assert sorted(found.splitlines()) == ["/container/data/deep/a file", "/container/other/deep/a file"]
    typed(fleet, "cp", f"{running}:/container/other", str(tmp_path / "back"))
    typed(fleet, "cp", f"{running}:/container/other/deep/a file", str(tmp_path))
    sent = (tmp_path / "data" / "deep" / "a file").read_bytes()
    assert (tmp_path / "back" / "deep" / "a file").read_bytes() == sent
    assert (tmp_path / "a file").read_bytes() == sent
    assert "No such file" in typed(fleet, "cp", f"{running}:/container/nothing", str(tmp_path), code=1).stderr
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".corral")]
    assert "there is no folder" in typed(fleet, "cp", str(tmp_path / "data"), f"{running}:/none/", code=1).stderr
    assert "there is no nothing here" in typed(fleet, "cp", "nothing", f"{running}:/tmp", code=1).stderr
    assert "one of the two is in a container" in typed(fleet, "cp", "a", "b", code=2).stderr


def test_what_nodes_and_pods_use_is_measured_where_they_are(fleet: Path, running: str) -> None:
    nodes = typed(fleet, "top").stdout.splitlines()
    assert nodes[0].split() == ["NAME", "CLUSTER", "CPU", "CPU%", "MEMORY", "MEMORY%"]
    assert [line.split()[1] for line in nodes[1:]] == ["worker1", "worker2"]
    assert "CLUSTER" not in typed(fleet, "top", "nodes", "--context", "corral-worker1").stdout
    assert "inside-" in typed(fleet, "top", "pods", "-A").stdout
    named = typed(fleet, "top", running, "--containers", "-o", "custom-columns=POD:.metadata.name").stdout
    assert named.count("inside-") == 2
    assert "-A is about pods" in typed(fleet, "top", "-A", code=2).stderr


def test_events_of_a_job_are_those_of_its_workload_and_pods_too_wherever_they_are(fleet: Path, running: str) -> None:
    shown = typed(fleet, "events", running).stdout
    kinds = {word.partition("/")[0] for word in shown.split() if "inside" in word and "/" in word}
    assert {"job", "workload", "pod"} <= kinds
    assert shown.startswith("LAST SEEN ")
    assert shown.index("QuotaReserved") < shown.index("Started container c0"), "the latest comes last"
    assert "Started container c0" in shown
    assert "worker" in shown
    assert "There are no events of" not in shown
    assert "job/inside" in typed(fleet, "events", "--sort-by", "reason").stdout
    assert "No events found" in typed(fleet, "events", "-n", "kube-public").stderr


def test_a_doctor_finds_nothing_wrong_with_a_fleet_that_works_and_what_is_where_it_does_not(
    fleet: Path, tmp_path: Path
) -> None:
    well = typed(fleet, "doctor", "-v")
    for part in ("cluster manager is ready", "ClusterQueue cluster-queue is active", "worker worker1 is connected"):
        assert part in well.stdout
    assert "Nothing is wrong" in well.stdout
    findings = json.loads(typed(fleet, "doctor", "-o", "json").stdout)["items"]
    assert {one["part"] for one in findings} == {"machine", "installation", "fleet", "kubeconfig", "cluster"}
    typed(fleet, "queue", "create", "cq", "lame", "--nominal-quota", "no-such-flavor:cpu=1")
    eventually(lambda: "ClusterQueue lame is not active" in typed(fleet, "doctor", code=None).stdout)
    assert "-> `corral explain clusterqueue/lame`" in typed(fleet, "doctor", code=1).stdout
    typed(fleet, "queue", "delete", "cq/lame")
