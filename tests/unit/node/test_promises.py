"""Every field by which a pod asks something of its machine has a row, and each row does what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.core.meta import Obj
from corral.node import promises
from corral.node.environment import MissingError
from corral.node.promises import Machine
from corral.server.content.openapi import Components

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "pods-as-processes.md"
CORE = "io.k8s.api.core.v1."

ROOT = Machine(0, 0, frozenset({0}), is_isolating=True, has_filters=True, sysctl={"a.b": "1\t2\n"}.get)
SOMEBODY = Machine(1000, 100, frozenset({100, 7}), is_isolating=False, has_filters=False, sysctl={}.get)
ISOLATED = Machine(1000, 100, frozenset({100, 7}), is_isolating=True, has_filters=True, sysctl={}.get)

NOT_PROMISES = {
    "PodSpec": {
        "activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy",
        "enableServiceLinks", "ephemeralContainers", "hostAliases", "hostname", "hostnameOverride", "imagePullSecrets",
        "initContainers", "nodeName", "nodeSelector", "overhead", "preemptionPolicy", "priority", "priorityClassName",
        "readinessGates", "resourceClaims", "restartPolicy", "schedulerName", "schedulingGates", "securityContext",
        "serviceAccount", "serviceAccountName", "setHostnameAsFQDN", "subdomain", "terminationGracePeriodSeconds",
        "tolerations", "topologySpreadConstraints", "volumes",
    },
    "Container": {
        "args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name", "ports",
        "readinessProbe", "resizePolicy", "restartPolicy", "restartPolicyRules", "securityContext", "startupProbe",
        "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "tty", "workingDir",
    },
    "VolumeMount": {"mountPath", "name", "readOnly", "subPath", "subPathExpr"},
}  # fmt: skip
"""What scheduling, the life of containers and their view are made from, not what they ask of the machine."""


def properties(name: str) -> set[str]:
    """The fields of a type in the OpenAPI document that is served."""
    components = Components()
    components.add(CORE + name)
    return set(components.found[CORE + name]["properties"])


def first_parts(*tables: tuple[promises.Promise, ...]) -> set[str]:
    return {promise.field.split(".")[0].removesuffix("[]") for table in tables for promise in table}


@pytest.mark.parametrize(
    ("kind", "tables"),
    [
        ("PodSecurityContext", (promises.POD_CONTEXT, promises.EITHER_CONTEXT)),
        ("SecurityContext", (promises.CONTAINER_CONTEXT, promises.EITHER_CONTEXT)),
        ("PodSpec", (promises.POD,)),
        ("Container", (promises.CONTAINER,)),
    ],
)
def test_every_field_of_the_schema_has_a_row_or_is_no_promise(kind: str, tables: Any) -> None:
    assert properties(kind) == first_parts(*tables) | NOT_PROMISES.get(kind, set())


def test_the_parts_of_capabilities_and_mounts_have_rows() -> None:
    rows = {promise.field for promise in (*promises.CONTAINER_CONTEXT, *promises.CONTAINER)}
    assert {f"capabilities.{name}" for name in properties("Capabilities")} <= rows
    mounts = properties("VolumeMount") - NOT_PROMISES["VolumeMount"]
    assert {f"volumeMounts[].{name}" for name in mounts} <= rows


def test_every_row_says_what_becomes_of_its_field() -> None:
    for promise in (
        *promises.POD, *promises.POD_CONTEXT, *promises.EITHER_CONTEXT, *promises.CONTAINER_CONTEXT, *promises.CONTAINER
    ):  # fmt: skip
        assert promise.kept or promise.true_already or promise.refused, promise.field
        assert bool(promise.refused) == (promise.broken is not promises._always_held), promise.field


def test_the_page_shows_the_table() -> None:
    assert promises.markdown() in PAGE.read_text()


def refused(
    machine: Machine, spec: Obj | None = None, context: Obj | None = None, of_container: Obj | None = None
) -> str:
    """The field that is refused first, or nothing."""
    container = {"name": "main", "securityContext": context or {}, **(of_container or {})}
    pod: Obj = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"containers": [container], **(spec or {})},
    }
    return next((name for name, _ in promises.broken(pod, container, machine)), "")


IN_CONTEXT: list[tuple[Obj, str, str]] = [
    # asked, refused as root, refused as somebody without namespaces
    ({"runAsUser": 1000}, "", ""),
    ({"runAsUser": 1001}, "", "runAsUser"),
    ({"runAsUser": 0}, "", "runAsUser"),
    ({"runAsGroup": 100}, "", ""),
    ({"runAsGroup": 7}, "", "runAsGroup"),
    ({"runAsNonRoot": True}, "runAsNonRoot", ""),
    ({"runAsNonRoot": True, "runAsUser": 0}, "runAsNonRoot", "runAsUser"),
    ({"runAsNonRoot": True, "runAsUser": 1000}, "", ""),
    ({"runAsNonRoot": False}, "", ""),
    ({"seccompProfile": {"type": "RuntimeDefault"}}, "", "seccompProfile"),
    ({"seccompProfile": {"type": "Unconfined"}}, "", ""),
    ({"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}}, "seccompProfile", "seccompProfile"),
    ({"appArmorProfile": {"type": "Unconfined"}}, "", ""),
    ({"appArmorProfile": {"type": "RuntimeDefault"}}, "appArmorProfile", "appArmorProfile"),
    ({"seLinuxOptions": {"level": "s0"}}, "seLinuxOptions", "seLinuxOptions"),
    ({"windowsOptions": {"hostProcess": True}}, "windowsOptions", "windowsOptions"),
    ({"unheardOf": 1}, "securityContext.unheardOf", "securityContext.unheardOf"),
]
IN_CONTAINER: list[tuple[Obj, str, str]] = [
    ({"privileged": True}, "", "privileged"),
    ({"privileged": False}, "", ""),
    ({"capabilities": {"add": ["IPC_LOCK"]}}, "", "capabilities.add"),
    ({"capabilities": {"drop": ["ALL"]}}, "", ""),
    ({"readOnlyRootFilesystem": True}, "", "readOnlyRootFilesystem"),
    ({"procMount": "Default"}, "procMount", "procMount"),
    ({"procMount": "Unmasked"}, "", ""),
    ({"allowPrivilegeEscalation": False}, "", ""),
]
IN_POD: list[tuple[Obj, str, str]] = [
    ({"hostNetwork": True, "hostPID": True, "hostIPC": True, "shareProcessNamespace": True, "hostUsers": True}, "", ""),
    ({"hostUsers": False}, "hostUsers", "hostUsers"),
    ({"os": {"name": "windows"}}, "os", "os"),
    ({"os": {"name": "linux"}}, "", ""),
    ({"runtimeClassName": "gvisor"}, "runtimeClassName", "runtimeClassName"),
    ({"resources": {"limits": {"memory": "1Gi"}}}, "resources", "resources"),
    ({"securityContext": {"supplementalGroups": [7]}}, "", ""),
    ({"securityContext": {"supplementalGroups": [7, 8]}}, "", "supplementalGroups"),
    ({"securityContext": {"supplementalGroupsPolicy": "Strict"}}, "", "supplementalGroupsPolicy"),
    ({"securityContext": {"supplementalGroupsPolicy": "Strict", "supplementalGroups": [7]}}, "", ""),
    ({"securityContext": {"fsGroup": 7, "fsGroupChangePolicy": "Always"}}, "", ""),
    ({"securityContext": {"fsGroup": 8}}, "", "fsGroup"),
    ({"securityContext": {"sysctls": [{"name": "a.b", "value": "1 2"}]}}, "", "sysctls"),
    ({"securityContext": {"sysctls": [{"name": "a.b", "value": "3"}]}}, "sysctls", "sysctls"),
    ({"securityContext": {"seLinuxChangePolicy": "Recursive"}}, "", ""),
]


@pytest.mark.parametrize(("asked", "as_root", "as_somebody"), IN_CONTEXT, ids=str)
def test_what_pod_and_container_may_both_ask(asked: Obj, as_root: str, as_somebody: str) -> None:
    for machine, expected in ((ROOT, as_root), (SOMEBODY, as_somebody)):
        assert refused(machine, {"securityContext": asked}) == expected
        assert refused(machine, context=asked) == expected


@pytest.mark.parametrize(("asked", "as_root", "as_somebody"), IN_CONTAINER, ids=str)
def test_what_a_container_may_ask(asked: Obj, as_root: str, as_somebody: str) -> None:
    assert (refused(ROOT, context=asked), refused(SOMEBODY, context=asked)) == (as_root, as_somebody)


@pytest.mark.parametrize(("asked", "as_root", "as_somebody"), IN_POD, ids=str)
def test_what_a_pod_may_ask(asked: Obj, as_root: str, as_somebody: str) -> None:
    assert (refused(ROOT, asked), refused(SOMEBODY, asked)) == (as_root, as_somebody)


def test_mounts_that_ask_for_more_than_a_bind_are_refused() -> None:
    assert refused(ROOT, of_container={"volumeMounts": [{"mountPropagation": "Bidirectional"}]})
    assert refused(ROOT, of_container={"volumeMounts": [{"recursiveReadOnly": "Enabled"}]})
    assert refused(ROOT, of_container={"volumeDevices": [{"name": "disk"}]})
    assert not refused(ROOT, of_container={"volumeMounts": [{"mountPropagation": "None"}]})


def test_a_container_takes_back_what_its_pod_asks_for() -> None:
    assert not refused(SOMEBODY, {"securityContext": {"runAsUser": 5}}, {"runAsUser": 1000})


def test_somebody_in_a_user_namespace_is_root_there() -> None:
    assert not refused(ISOLATED, context={"runAsUser": 0, "runAsGroup": 0})


def test_an_annotation_for_apparmor_is_a_promise_too() -> None:
    pod: Obj = {
        "metadata": {"name": "p", "annotations": {promises.APPARMOR_ANNOTATION + "main": "runtime/default"}},
        "spec": {},
    }
    with pytest.raises(MissingError, match="AppArmor"):
        promises.refuse_broken(pod, {"name": "main"}, ROOT)


def test_the_sentence_says_what_where_and_what_to_do() -> None:
    pod: Obj = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"hostUsers": False}}
    with pytest.raises(MissingError) as refusal:
        promises.refuse_broken(pod, {"name": "main"}, ROOT)
    assert str(refusal.value) == (
        "container has hostUsers, and pods have no user namespaces of their own: leave it out, or run the pod in a real "
        'cluster (pod: "p_ns(u)", container: main)'
    )
