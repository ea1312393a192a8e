"""`kubectl` against the manager reaches pods where they run: get, watch, logs, exec, attach and port-forward over HTTPS."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.started import PATIENCE_S, client, eventually, started

from corral.core.meta import Obj, labels_of, name_of, status_of
from corral.core.resource import Resource

_CACHED = Path("~/.cache/corral/kube/bin/kubectl").expanduser()
KUBECTL = shutil.which("kubectl") or (str(_CACHED) if _CACHED.exists() else "")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed; `make kube-tools` fetches it"),
]

JOBS = Resource("batch", "v1", "jobs", "Job")
PODS = Resource("", "v1", "pods", "Pod")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER = "corral.dev/cluster"
LISTEN = (
    "import http.server as h;"
    "h.SimpleHTTPRequestHandler.log_message = lambda *_: None;"
    "print('first line', flush=True);"
    "h.ThreadingHTTPServer(('0.0.0.0', 8080), h.SimpleHTTPRequestHandler).serve_forever()"
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with started(tmp_path_factory.mktemp("fleet"), "--workers", "2", "--cpu", "4") as state:
        yield state


def kubectl(state: Path, *arguments: str, check: bool = True, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [KUBECTL, "--kubeconfig", str(state / "kubeconfig"), "--context", "corral-manager", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S, input=stdin)
    assert not check or done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done


def job(name: str, command: list[str], *, cpu: str = "1", parallelism: int = 1) -> Obj:
    container = {"name": "main", "image": "python", "command": command, "resources": {"requests": {"cpu": cpu}}}
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "suspend": True,
            "parallelism": parallelism,
            "completions": parallelism,
            "template": {"spec": spec},
        },
    }


def running_pods(state: Path, name: str, count: int = 1) -> list[Obj]:
    selector = f"batch.kubernetes.io/job-name={name}"

    def found() -> list[Obj]:
        pods: list[Obj] = client(state).list(PODS, "default", labels=selector)["items"]
        return pods if [status_of(pod).get("phase") for pod in pods] == ["Running"] * count else []

    try:
        return list(eventually(found))
    except AssertionError:
        raise AssertionError([status_of(held) for held in client(state).list(WORKLOADS, "default")["items"]]) from None


@pytest.fixture(scope="module")
def server(fleet: Path) -> str:
    """A job that listens, on whichever worker took it; its pod's name."""
    client(fleet).create(JOBS, job("web", ["python", "-c", LISTEN]))
    (pod,) = running_pods(fleet, "web")
    eventually(lambda: kubectl(fleet, "logs", "job/web").stdout)
    return name_of(pod)


def test_the_manager_shows_the_pod_as_its_own_jobs(fleet: Path, server: str) -> None:
    own = client(fleet).get(JOBS, "web", "default")
    pod = client(fleet).get(PODS, server, "default")
    assert pod["metadata"]["ownerReferences"][0]["uid"] == own["metadata"]["uid"]
    assert labels_of(pod)["batch.kubernetes.io/controller-uid"] == own["metadata"]["uid"]
    assert labels_of(pod)[CLUSTER] in ("worker1", "worker2")
    shown = kubectl(fleet, "get", "pods", "-L", CLUSTER).stdout
    assert server in shown
    assert labels_of(pod)[CLUSTER] in shown


def test_nothing_of_it_is_stored_or_counted_on_the_manager(fleet: Path, server: str) -> None:
    refused = kubectl(fleet, "delete", "pod", server, check=False)
    assert "is only shown here; change its job instead" in refused.stderr
    assert "forbidden" in kubectl(fleet, "label", "pod", server, "a=b", check=False).stderr.lower()
    client(fleet).call("DELETE", PODS.path("default"))
    assert client(fleet).get(PODS, server, "default")["status"]["phase"] == "Running"


def test_logs_by_job_by_pod_and_by_label(fleet: Path, server: str) -> None:
    assert kubectl(fleet, "logs", "job/web").stdout == "first line\n"
    assert kubectl(fleet, "logs", server, "--tail", "1").stdout == "first line\n"
    assert kubectl(fleet, "logs", "-l", "batch.kubernetes.io/job-name=web").stdout == "first line\n"
    assert "container nobody is not valid" in kubectl(fleet, "logs", server, "-c", "nobody", check=False).stderr


def test_logs_are_followed_to_the_end_and_a_pod_is_waited_for(fleet: Path) -> None:
    script = "import time\nfor i in range(4):\n print('step', i, flush=True); time.sleep(0.5)"
    client(fleet).create(JOBS, job("steps", ["python", "-c", script]))
    said = eventually(
        lambda: kubectl(fleet, "logs", "-f", "job/steps", "--pod-running-timeout=120s", check=False).stdout
    )
    assert said == "step 0\nstep 1\nstep 2\nstep 3\n"


def test_logs_of_a_finished_job_are_still_there_when_its_pods_are_gone(fleet: Path) -> None:
    script = "import sys\nfor i in range(3): print('epoch', i, flush=True)\nprint('oops', file=sys.stderr)"
    client(fleet).create(JOBS, job("done", ["python", "-c", script]))
    eventually(lambda: is_complete(fleet, "done"))
    eventually(lambda: not worker_pods(fleet, "done"))
    (pod,) = client(fleet).list(PODS, "default", labels="batch.kubernetes.io/job-name=done")["items"]
    said = "epoch 0\nepoch 1\nepoch 2\noops\n"
    assert kubectl(fleet, "logs", "job/done").stdout == said
    assert kubectl(fleet, "logs", "-f", "job/done").stdout == said
    assert kubectl(fleet, "logs", name_of(pod), "--tail", "1").stdout == "oops\n"
    assert "Completed" in kubectl(fleet, "get", "pod", name_of(pod)).stdout
    for target in ("job/done", f"pod/{name_of(pod)}"):
        command = [sys.executable, "-m", "corral.cli.main", "logs", target, "--kubeconfig", str(fleet / "kubeconfig")]
        shown = subprocess.run([*command, "--context", "corral-manager"], capture_output=True, text=True, check=False)
        assert shown.stdout == said, shown.stderr
    refused = kubectl(fleet, "exec", name_of(pod), "--", "true", check=False).stderr
    assert "completed pod" in refused or "has ended and is gone" in refused
    kubectl(fleet, "delete", "job", "done")
    eventually(lambda: "not found" in kubectl(fleet, "logs", name_of(pod), check=False).stderr)


def is_complete(state: Path, name: str) -> bool:
    held = status_of(client(state).get(JOBS, name, "default")).get("conditions") or []
    return any((entry["type"], entry["status"]) == ("Complete", "True") for entry in held)


def worker_pods(state: Path, name: str) -> list[Obj]:
    """The pods of a job where they run."""
    selector = f"batch.kubernetes.io/job-name={name}"
    workers = ("corral-worker1", "corral-worker2")
    return [pod for worker in workers for pod in client(state, worker).list(PODS, "default", labels=selector)["items"]]


def test_exec_carries_streams_and_exit_codes(fleet: Path, server: str) -> None:
    assert kubectl(fleet, "exec", "job/web", "--", "sh", "-c", "echo out; echo err >&2").stdout == "out\n"
    assert kubectl(fleet, "exec", server, "--", "sh", "-c", "exit 7", check=False).returncode == 7
    echoed = kubectl(fleet, "exec", "-i", server, "--", "cat", stdin="over the manager\n")
    assert echoed.stdout == "over the manager\n"


def test_port_forward_reaches_the_pod(fleet: Path, server: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [KUBECTL, "--kubeconfig", str(fleet / "kubeconfig"), "--context", "corral-manager"]
    forward = subprocess.Popen(
        [*command, "port-forward", server, f"{port}:8080"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert forward.stdout is not None
        assert "Forwarding from" in forward.stdout.readline()
        with socket.create_connection(("127.0.0.1", port), timeout=60) as link:
            link.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert link.recv(15).startswith(b"HTTP/1.0 200 OK")
    finally:
        forward.terminate()
        forward.wait(60)


def test_jobs_on_several_workers_are_reached_each_on_its_own(fleet: Path, server: str) -> None:
    for name in ("left", "right"):
        client(fleet).create(JOBS, job(name, ["python", "-c", LISTEN.replace("8080", "0")], cpu="3"))
    clusters = {labels_of(running_pods(fleet, name)[0])[CLUSTER] for name in ("left", "right")}
    assert clusters == {"worker1", "worker2"}
    for name in ("left", "right"):
        assert eventually(lambda name=name: kubectl(fleet, "logs", f"job/{name}").stdout) == "first line\n"
        assert kubectl(fleet, "exec", f"job/{name}", "--", "echo", "here").stdout == "here\n"
        kubectl(fleet, "delete", "job", name)


def test_a_watch_shows_pods_come_and_go(fleet: Path, server: str) -> None:
    command = [KUBECTL, "--kubeconfig", str(fleet / "kubeconfig"), "--context", "corral-manager"]
    watch = subprocess.Popen(
        [*command, "get", "pods", "-w", "--output-watch-events"], stdout=subprocess.PIPE, text=True
    )
    assert watch.stdout is not None
    seen: list[str] = []

    def read_until(event: str, pod: str) -> None:
        while not seen or seen[-1].split()[:1] != [event] or pod not in seen[-1]:
            line = watch.stdout.readline() if watch.stdout is not None else ""
            assert line, seen
            seen.append(line)

    try:
        read_until("ADDED", server)
        until_told = "import os, time\nwhile not os.path.exists('/container/go'): time.sleep(0.1)"
        client(fleet).create(JOBS, job("brief", ["python", "-c", until_told]))
        (pod,) = running_pods(fleet, "brief")
        kubectl(fleet, "exec", name_of(pod), "--", "touch", "/container/go")
        eventually(lambda: is_complete(fleet, "brief"))
        kubectl(fleet, "delete", "job", "brief")
        read_until("DELETED", "brief-")
    finally:
        watch.terminate()
        watch.wait(60)
    lines = [line for line in seen if "brief-" in line]
    assert lines[0].startswith("ADDED")
    assert any("Running" in line for line in lines)


def test_plain_pods_are_reached_through_their_own_object(fleet: Path) -> None:
    container = {"name": "main", "image": "python", "command": ["python", "-c", LISTEN.replace("8080", "0")]}
    container["resources"] = {"requests": {"cpu": "1"}}
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    body = {
        "metadata": {"name": "alone", "namespace": "default", "labels": labels},
        "spec": {"containers": [container]},
    }
    client(fleet).create(PODS, body)
    eventually(lambda: status_of(client(fleet).get(PODS, "alone", "default")).get("phase") == "Running")
    assert "nodeName" not in client(fleet).get(PODS, "alone", "default")["spec"]
    assert len([name for name in kubectl(fleet, "get", "pods", "-o", "name").stdout.split() if "alone" in name]) == 1
    assert eventually(lambda: kubectl(fleet, "logs", "alone", check=False).stdout) == "first line\n"
    assert kubectl(fleet, "exec", "alone", "--", "echo", "here").stdout == "here\n"
    kubectl(fleet, "delete", "pod", "alone", "--wait=false")


def test_pods_of_a_stateful_set_are_shown_as_they_run(fleet: Path) -> None:
    container = {"name": "main", "image": "python", "command": ["python", "-c", LISTEN.replace("8080", "0")]}
    container["resources"] = {"requests": {"cpu": "500m"}}
    labels = {"app": "member"}
    template = {"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}
    metadata = {"name": "member", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}}
    spec = {"replicas": 2, "serviceName": "member", "selector": {"matchLabels": labels}, "template": template}
    client(fleet).create(STATEFUL_SETS, {"metadata": metadata, "spec": spec})
    kubectl(fleet, "wait", "--for=create", "pod/member-1", "--timeout=150s")
    kubectl(fleet, "wait", "--for=condition=Ready", "pod", "-l", "app=member", "--timeout=150s")

    def shown(selector: str) -> list[list[str]]:
        lines = kubectl(fleet, "get", "pods", "-l", selector, "-L", CLUSTER, "--no-headers").stdout.splitlines()
        columns = [line.split() for line in lines]
        return [[*line[:4], line[-1]] for line in columns]  # without the age

    both = shown(f"app=member,{CLUSTER}")
    assert [line[:3] for line in both] == [["member-0", "1/1", "Running"], ["member-1", "1/1", "Running"]]
    assert {line[-1] for line in both} <= {"worker1", "worker2"}
    assert shown("app=member") == both[:1], "the manager has made only the first, which waits for ever to be ready here"
    assert client(fleet).get(PODS, "member-0", "default")["spec"]["schedulingGates"], "it is the manager's own pod"
    kubectl(fleet, "delete", "statefulset", "member")


def test_rights_on_the_manager_are_the_rights_on_the_pod(fleet: Path, server: str) -> None:
    admin = client(fleet)
    for name, resources in (("reader", ["pods"]), ("watcher", ["pods", "pods/log"])):
        admin.create(SERVICE_ACCOUNTS, {"metadata": {"name": name, "namespace": "default"}})
        rule = {"apiGroups": [""], "resources": resources, "verbs": ["get", "list"]}
        admin.create(ROLES, {"metadata": {"name": name, "namespace": "default"}, "rules": [rule]})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        binding = {"metadata": {"name": name, "namespace": "default"}, "roleRef": reference, "subjects": [subject]}
        admin.create(ROLE_BINDINGS, binding)

    def asked(who: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return kubectl(fleet, f"--as=system:serviceaccount:default:{who}", *arguments, check=False)

    assert asked("nobody", "get", "pod", server).returncode != 0
    eventually(lambda: server in asked("reader", "get", "pods").stdout)
    assert "cannot get resource" in asked("reader", "logs", server).stderr
    assert eventually(lambda: asked("watcher", "logs", server).stdout) == "first line\n"
    assert "pods/exec" in asked("watcher", "exec", server, "--", "echo", "here").stderr


def test_other_pods_of_a_worker_are_neither_shown_nor_reached(fleet: Path, server: str) -> None:
    cluster = labels_of(client(fleet).get(PODS, server, "default"))[CLUSTER]
    worker = client(fleet, f"corral-{cluster}")
    spec = {"containers": [{"name": "main", "image": "busybox", "command": ["sh", "-c", "echo secret; sleep 600"]}]}
    worker.create(PODS, {"metadata": {"name": "private", "namespace": "default"}, "spec": spec})
    eventually(lambda: status_of(worker.get(PODS, "private", "default")).get("phase") == "Running")
    assert "not found" in kubectl(fleet, "logs", "private", check=False).stderr
    assert "not found" in kubectl(fleet, "exec", "private", "--", "true", check=False).stderr
    assert "private" not in kubectl(fleet, "get", "pods").stdout
    worker.delete(PODS, "private", "default")


def test_top_measures_pods_where_they_run_and_says_that_there_are_no_nodes(fleet: Path) -> None:
    busy = "import time\nuntil = time.time() + 600\nwhile time.time() < until: sum(range(1000))"
    client(fleet).create(JOBS, job("busy", [sys.executable, "-c", busy], cpu="100m"))
    (pod,) = running_pods(fleet, "busy")

    def measured() -> list[str]:
        lines = kubectl(fleet, "top", "pods", "--no-headers", check=False).stdout.splitlines()
        return [line for line in lines if line.split()[0] == name_of(pod) and not line.split()[1].startswith("0m")]

    assert eventually(measured)
    refused = kubectl(fleet, "top", "nodes", check=False)
    assert "this cluster has no nodes; ask the clusters that run its jobs" in refused.stderr
    client(fleet).delete(JOBS, "busy", "default", propagation="Background")
