"""kubectl, unmodified, against a real server process: every verb people use, with what a real server makes it print."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.waiting import eventually

Kubectl = Callable[..., subprocess.CompletedProcess[str]]

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {app: train}}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: busybox, command: [sh, -c, "echo hi"]}]
"""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.clients.example}
spec:
  group: clients.example
  names: {plural: gadgets, kind: Gadget, shortNames: [gd]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What is wanted.
            properties: {size: {type: integer, description: How big it is.}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


def test_version_names_a_kubernetes_release(kubectl: Kubectl) -> None:
    assert "Server Version: v1.34" in kubectl("version").stdout


def test_api_resources_lists_builtin_and_custom_kinds(kubectl: Kubectl) -> None:
    listed = kubectl("api-resources").stdout
    assert "deployments" in listed
    assert "clusterqueues" in listed
    assert "batch/v1" in kubectl("api-versions").stdout


def test_explain_describes_fields(kubectl: Kubectl) -> None:
    assert "GROUP:      batch" in kubectl("explain", "job.spec.suspend").stdout
    assert "containers" in kubectl("explain", "pod.spec").stdout


def test_explain_describes_shipped_kinds(kubectl: Kubectl) -> None:
    queue = " ".join(kubectl("explain", "clusterqueue.spec").stdout.split())
    assert "The group of queues this one lends unused quota to and borrows from." in queue
    assert "A training run" in kubectl("explain", "trainjob").stdout
    assert "Which clusters get the resources" in kubectl("explain", "crp.spec").stdout


def test_apply_creates_then_changes_then_agrees(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=JOB).stdout == "job.batch/train created\n"
    assert kubectl("apply", "-f", "-", stdin=JOB).stdout == "job.batch/train unchanged\n"
    changed = JOB.replace("suspend: true", "suspend: true\n  parallelism: 2")
    assert "+  parallelism: 2" in kubectl("diff", "-f", "-", stdin=changed, code=1).stdout
    assert kubectl("apply", "-f", "-", stdin=changed).stdout == "job.batch/train configured\n"
    assert kubectl("get", "job", "train", "-o", "jsonpath={.spec.parallelism}").stdout == "2"


def test_apply_refuses_unknown_fields(kubectl: Kubectl) -> None:
    said = kubectl("apply", "-f", "-", stdin=JOB.replace("suspend", "suspended"), code=1).stderr
    assert 'unknown field "spec.suspended"' in said


def test_server_side_apply_reports_conflicts(kubectl: Kubectl) -> None:
    first = kubectl("apply", "--server-side", "-f", "-", stdin=JOB)
    assert first.stdout == "job.batch/train serverside-applied\n"
    other = JOB.replace("suspend: true", "suspend: false")
    said = kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=other, code=1).stderr
    assert 'conflict with "kubectl": .spec.suspend' in said
    kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", stdin=other)


def test_create_of_typed_kinds_sends_protobuf(kubectl: Kubectl) -> None:
    for arguments in (
        ("configmap", "c", "--from-literal=a=b"),
        ("secret", "generic", "s", "--from-literal=a=b"),
        ("serviceaccount", "bot"),
        ("deployment", "web", "--image=nginx"),
        ("job", "j", "--image=busybox", "--", "true"),
        ("cronjob", "cj", "--image=busybox", "--schedule=* * * * *", "--", "true"),
        ("role", "r", "--verb=get", "--resource=pods"),
        ("rolebinding", "rb", "--role=r", "--user=alice"),
        ("quota", "q", "--hard=pods=10"),
        ("service", "clusterip", "web", "--tcp=80:8080"),
        ("poddisruptionbudget", "pdb", "--selector=app=web", "--min-available=1"),
    ):
        assert "created" in kubectl("create", *arguments).stdout


def test_get_in_every_output(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=JOB)
    assert kubectl("get", "jobs").stdout.split("\n")[0].split() == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]
    assert "IMAGES" in kubectl("get", "jobs", "-o", "wide").stdout
    assert json.loads(kubectl("get", "jobs", "-o", "json").stdout)["items"][0]["kind"] == "Job"
    assert yaml.safe_load(kubectl("get", "job", "train", "-o", "yaml").stdout)["spec"]["suspend"] is True
    assert kubectl("get", "jobs", "-o", "name").stdout == "job.batch/train\n"
    columns = kubectl("get", "jobs", "-o", "custom-columns=N:.metadata.name,S:.spec.suspend").stdout
    assert columns.split() == ["N", "S", "train", "true"]
    assert "train" in kubectl("get", "jobs", "-l", "app=train").stdout
    assert "No resources found" in kubectl("get", "jobs", "-l", "app=other").stderr
    assert 'jobs.batch "nope" not found' in kubectl("get", "job", "nope", code=1).stderr


def test_describe_shows_events(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=JOB)
    described = kubectl("describe", "job", "train").stdout
    assert "Suspend:          true" in described


def test_edit_patch_label_annotate(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    kubectl("label", "configmap", "c", "x=y")
    kubectl("annotate", "configmap", "c", "n=m")
    kubectl("patch", "configmap", "c", "--type=merge", "-p", '{"data":{"k":"v"}}')
    kubectl("patch", "configmap", "c", "--type=json", "-p", '[{"op":"replace","path":"/data/a","value":"z"}]')
    found = json.loads(kubectl("get", "configmap", "c", "-o", "json").stdout)
    assert found["data"] == {"a": "z", "k": "v"}
    assert found["metadata"]["labels"] == {"x": "y"}
    assert found["metadata"]["annotations"] == {"n": "m"}


def test_scale_and_rollout(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx")
    assert kubectl("scale", "deployment", "web", "--replicas=3").stdout == "deployment.apps/web scaled\n"
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}").stdout == "3"
    assert "restarted" in kubectl("rollout", "restart", "deployment/web").stdout
    assert "paused" in kubectl("rollout", "pause", "deployment/web").stdout
    assert "image updated" in kubectl("set", "image", "deployment/web", "nginx=nginx:2").stdout


def test_replace_and_edit(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    text = kubectl("get", "configmap", "c", "-o", "json").stdout
    changed = json.loads(text)
    changed["data"]["a"] = "c"
    assert kubectl("replace", "-f", "-", stdin=json.dumps(changed)).stdout == "configmap/c replaced\n"
    said = kubectl("replace", "-f", "-", stdin=text, code=1).stderr
    assert "the object has been modified" in said


def test_edit_opens_and_saves(kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl("create", "configmap", "c", "--from-literal=a=before")
    monkeypatch.setenv("KUBE_EDITOR", "sed -i s/before/after/")
    assert kubectl("edit", "configmap", "c").stdout == "configmap/c edited\n"
    assert kubectl("get", "configmap", "c", "-o", "jsonpath={.data.a}").stdout == "after"


def test_run_expose_autoscale_and_nodes(kubectl: Kubectl, namespace: str) -> None:
    assert kubectl("run", "one", "--image=nginx", "--port=80").stdout == "pod/one created\n"
    assert kubectl("expose", "pod", "one", "--port=80").stdout == "service/one exposed\n"
    kubectl("create", "deployment", "web", "--image=nginx")
    assert "autoscaled" in kubectl("autoscale", "deployment", "web", "--min=1", "--max=3").stdout
    node = json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n-{namespace}"}})
    kubectl("apply", "-f", "-", stdin=node)
    assert "cordoned" in kubectl("cordon", f"n-{namespace}").stdout
    assert "tainted" in kubectl("taint", "node", f"n-{namespace}", "k=v:NoSchedule").stdout
    assert "SchedulingDisabled" in kubectl("get", "node", f"n-{namespace}").stdout
    assert "uncordoned" in kubectl("uncordon", f"n-{namespace}").stdout
    assert "Unschedulable" in kubectl("describe", "node", f"n-{namespace}").stdout
    kubectl("delete", "node", f"n-{namespace}")


def test_delete_waits_until_gone(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    assert kubectl("delete", "configmap", "c").stdout.startswith('configmap "c" deleted')
    kubectl("create", "configmap", "c1")
    kubectl("create", "configmap", "c2")
    kubectl("delete", "configmap", "c1", "c2")
    assert "not found" in kubectl("get", "configmap", "c1", code=1).stderr


def test_wait_for_condition_and_deletion(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx")
    condition = '{"status":{"conditions":[{"type":"Available","status":"True"}]}}'

    def watches() -> list[str]:
        """How many watches of deployments the server has begun."""
        counters = kubectl("get", "--raw", "/metrics").stdout.splitlines()
        return [line for line in counters if 'resource="deployments"' in line and 'verb="WATCH"' in line]

    before = watches()

    def become_available() -> None:
        eventually(lambda: watches() != before, what="a watch by kubectl wait")
        kubectl("patch", "deployment", "web", "--subresource=status", "--type=merge", "-p", condition)

    thread = threading.Thread(target=become_available)
    thread.start()
    assert "condition met" in kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=120s").stdout
    thread.join()


def test_get_watch_prints_changes(kubectl: Kubectl, kubeconfig: Path, namespace: str) -> None:
    kubectl("create", "configmap", "c")
    command = ["kubectl", f"--kubeconfig={kubeconfig}", "-n", namespace, "get", "configmap", "c", "-w", "--no-headers"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        try:
            seen = watching.stdout.readline()
            while not seen.startswith("c "):
                seen = watching.stdout.readline()
            kubectl("patch", "configmap", "c", "--type=merge", "-p", '{"data":{"a":"b"}}')
            assert watching.stdout.readline().split()[:2] == ["c", "1"]
        finally:
            watching.kill()


def test_auth_questions(kubectl: Kubectl, namespace: str) -> None:
    assert kubectl("auth", "can-i", "create", "pods").stdout == "yes\n"
    assert kubectl("auth", "can-i", "create", "pods", "--as=bob", code=1).stdout == "no\n"
    assert "kubernetes-admin" in kubectl("auth", "whoami").stdout
    assert "selfsubjectaccessreviews" in kubectl("auth", "can-i", "--list", "--as=bob").stdout
    said = kubectl("get", "pods", "--as=bob", code=1).stderr
    assert f'User "bob" cannot list resource "pods" in API group "" in the namespace "{namespace}"' in said
    kubectl("create", "rolebinding", "bob", "--clusterrole=view", "--user=bob")
    assert kubectl("auth", "can-i", "get", "pods", "--as=bob").stdout == "yes\n"
    assert kubectl("auth", "can-i", "get", "secrets", "--as=bob", code=1).stdout == "no\n"


def test_service_account_tokens_work_and_are_limited(kubectl: Kubectl, kubeconfig: Path, namespace: str) -> None:
    kubectl("create", "serviceaccount", "bot")
    token = kubectl("create", "token", "bot", "--duration=1h").stdout.strip()
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    other = kubeconfig.with_name(f"bot-{namespace}")
    other.write_text(yaml.safe_dump(config))
    whoami = kubectl("--kubeconfig", str(other), "auth", "whoami").stdout
    assert f"system:serviceaccount:{namespace}:bot" in whoami
    assert "forbidden" in kubectl("--kubeconfig", str(other), "get", "secrets", code=1).stderr


def test_custom_kinds_are_served_at_once(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=CRD)
    kubectl("wait", "--for=condition=Established", "crd/gadgets.clients.example", "--timeout=120s")
    gadget = "apiVersion: clients.example/v1\nkind: Gadget\nmetadata: {name: g}\nspec: {size: 3}\n"
    assert kubectl("apply", "-f", "-", stdin=gadget).stdout == "gadget.clients.example/g created\n"
    assert kubectl("get", "gadgets", "--no-headers").stdout.split() == ["g", "3"]
    assert "How big it is." in kubectl("explain", "gadget.spec.size").stdout
    assert kubectl("apply", "-f", "-", stdin=gadget.replace("3", "4")).stdout.endswith("configured\n")
    kubectl("patch", "gadget", "g", "--subresource=status", "--type=merge", "-p", '{"status":{"done":true}}')
    assert kubectl("get", "gadget", "g", "-o", "jsonpath={.status.done}").stdout == "true"
    kubectl("delete", "gadget", "g")


def test_namespace_deletion_removes_content(kubectl: Kubectl, namespace: str) -> None:
    kubectl("create", "namespace", f"{namespace}-x")
    kubectl("create", "configmap", "c", "-n", f"{namespace}-x")
    kubectl("delete", "namespace", f"{namespace}-x", "--timeout=120s")
    assert "not found" in kubectl("get", "namespace", f"{namespace}-x", code=1).stderr


@pytest.fixture
def pod(kubectl: Kubectl) -> str:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    }
    kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    kubectl("patch", "pod", "p", "--subresource=status", "--type=merge", "-p", json.dumps(running))
    return "p"


def test_logs(kubectl: Kubectl, pod: str) -> None:
    assert kubectl("logs", pod, "--tail=2").stdout == "line 4\nline 5\n"
    assert kubectl("logs", pod, "-f").stdout.endswith("line 5\nthe end\n")
    said = kubectl("logs", pod, "--previous", code=1).stderr
    assert 'previous terminated container "c" in pod "p" not found' in said


@pytest.mark.parametrize("transport", ["websocket", "spdy"])
def test_exec_carries_streams_and_exit_codes(
    kubectl: Kubectl, pod: str, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "true" if transport == "websocket" else "false")
    done = kubectl("exec", pod, "--", "sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")
    assert "exit code 7" in kubectl("exec", pod, "--", "sh", "-c", "exit 7", code=7).stderr
    assert kubectl("exec", "-i", pod, "--", "cat", stdin="hello\n").stdout == "hello\n"
    large = kubectl("exec", pod, "--", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x").stdout
    assert len(large) == 3_000_000


def test_attach(kubectl: Kubectl, pod: str) -> None:
    assert "attached" in kubectl("attach", pod).stdout


@pytest.mark.parametrize("transport", ["websocket", "spdy"])
def test_port_forward(
    kubectl: Kubectl, kubeconfig: Path, namespace: str, pod: str, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", "true" if transport == "websocket" else "false")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def echo() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"you said " + connection.recv(100))

        thread = threading.Thread(target=echo, daemon=True)
        thread.start()
        target = listener.getsockname()[1]
        command = ["kubectl", f"--kubeconfig={kubeconfig}", "-n", namespace, "port-forward", f"pod/{pod}", f":{target}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forwarding:
            assert forwarding.stdout is not None
            try:
                line = forwarding.stdout.readline()
                port = int(line.split("->")[0].rpartition(":")[2])
                with socket.create_connection(("127.0.0.1", port)) as connection:
                    connection.sendall(b"hello")
                    assert connection.recv(100) == b"you said hello"
            finally:
                forwarding.kill()
        thread.join(5)
