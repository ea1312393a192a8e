"""A kopf operator, unmodified, that reconciles a custom resource for real: CRD, finalizer, patches, events, deletion."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.waiting import eventually

pytest.importorskip("kopf", reason="kopf is not installed")

Kubectl = Callable[..., subprocess.CompletedProcess[str]]

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: copies.kopf.example}
spec:
  group: kopf.example
  names: {plural: copies, kind: Copy}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {text: {type: string}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
OPERATOR = """
import kopf
import kubernetes


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = True


@kopf.on.create("kopf.example", "v1", "copies")
@kopf.on.update("kopf.example", "v1", "copies")
def copy(spec, name, namespace, body, **_):
    kopf.info(body, reason="Copying", message="copying the text")
    body = {"metadata": {"name": name}, "data": {"text": spec["text"]}}
    kopf.adopt(body)
    core = kubernetes.client.CoreV1Api()
    try:
        core.create_namespaced_config_map(namespace, body)
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise
        core.patch_namespaced_config_map(name, namespace, {"data": body["data"]})
    return {"copied": spec["text"]}


@kopf.on.delete("kopf.example", "v1", "copies")
def forget(name, namespace, **_):
    kubernetes.client.CoreV1Api().delete_namespaced_config_map(name, namespace)
"""


def _until(check: Callable[[], bool], what: str) -> None:
    eventually(check, what=what)


def test_operator_reconciles(kubectl: Kubectl, kubeconfig: Path, namespace: str, tmp_path: Path) -> None:
    kubectl("apply", "-f", "-", stdin=CRD)
    kubectl("wait", "--for=condition=Established", "crd/copies.kopf.example", "--timeout=120s")
    (tmp_path / "operator.py").write_text(OPERATOR)
    command = [
        sys.executable,
        "-m",
        "kopf",
        "run",
        "--namespace",
        namespace,
        "--standalone",
        str(tmp_path / "operator.py"),
    ]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, env=environment, stderr=log) as operator:
        try:
            copy = "apiVersion: kopf.example/v1\nkind: Copy\nmetadata: {name: one}\nspec: {text: hello}\n"
            kubectl("apply", "-f", "-", stdin=copy)

            def text() -> str:
                return kubectl(
                    "get", "configmaps", "-o", "jsonpath={.items[?(@.metadata.name=='one')].data.text}"
                ).stdout

            _until(lambda: text() == "hello", "the copy")
            kubectl("apply", "-f", "-", stdin=copy.replace("hello", "world"))
            _until(lambda: text() == "world", "the update")
            status = "jsonpath={.status.copy.copied}"
            _until(lambda: kubectl("get", "copy", "one", "-o", status).stdout == "world", "the status")
            assert "kopf" in kubectl("get", "copy", "one", "-o", "jsonpath={.metadata.finalizers}").stdout
            kubectl("delete", "copy", "one", "--timeout=120s")
            assert text() == ""
            messages = ("get", "events", "-o", "jsonpath={.items[*].message}")
            _until(lambda: "copying the text" in kubectl(*messages).stdout, "the event")
        finally:
            operator.terminate()
            operator.wait(120)
