"""A RayCluster's pods, head service and status.

Where Ray is installed the pods really start it. Where stand-ins were chosen they hold, which is enough to queue, place,
suspend and count a cluster, and say so in an annotation. Where neither is so, nothing is started and the status says why.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from corral.core import conditions
from corral.core.meta import (
    Obj,
    annotations_of,
    generation_of,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    status_of,
)
from corral.core.quantity import Quantity
from corral.core.timestamps import format_time
from corral.decide.pods.facts import by_least_loss, is_ready, is_terminal, phase_of
from corral.jobs.ray.kind import CONTROLLER, worker_groups
from corral.kinds.kubernetes.pods.simulated import STAND_IN_ANNOTATION

PREFIX = "ray.io"
CLUSTER = f"{PREFIX}/cluster"
NODE_TYPE = f"{PREFIX}/node-type"
GROUP = f"{PREFIX}/group"
HEAD_GROUP = "headgroup"
KEEP_HEAD = f"{PREFIX}/disable-provisioned-head-restart"
"""Annotation of a cluster whose head is not made again when it ended: a job ran beside it."""
PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "metrics": 8080, "serve": 8000}
HOLD = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"

Event = tuple[str, str, str]
RAY_MISSING = "RayNotInstalled"
AT_ONCE = 500  # workers of a group created in one go; the rest follows when these are there


@dataclass(frozen=True, slots=True)
class RaySettings:
    """How the operator was started."""

    real: bool = False
    """Pods start Ray. Otherwise they stand in for it and hold, and entry points run by themselves."""
    missing: str = ""
    """Why nothing can be started: pods would be programs that need Ray, and it is not there. Empty where it is, or nobody minds."""


@dataclass(frozen=True, slots=True)
class RayPlan:
    """Everything one look decides about a RayCluster."""

    status: Obj
    create: tuple[Obj, ...] = ()
    delete: tuple[Obj, ...] = ()
    service: Obj | None = None
    events: tuple[Event, ...] = field(default=())


def is_managed_here(obj: Obj) -> bool:
    return spec_of(obj).get("managedBy") in (None, CONTROLLER)


def head_service_name(cluster: Obj) -> str:
    return f"{name_of(cluster)}-head-svc"


def head_address(cluster: Obj) -> str:
    return f"{head_service_name(cluster)}.{namespace_of(cluster)}.svc.cluster.local"


def plan_ray_cluster(cluster: Obj, pods: Sequence[Obj], now: float, settings: RaySettings) -> RayPlan:
    """The next step of a RayCluster with these pods."""
    if settings.missing and not spec_of(cluster).get("suspend"):
        return _refused(cluster, settings.missing, now)
    suspending = conditions.is_true(cluster, "RayClusterSuspending")
    if spec_of(cluster).get("suspend") or suspending:
        return _suspend(cluster, pods, now)
    status = _status(cluster, pods, now)
    status = _put(status, cluster, "RayClusterSuspending", False, "RayClusterSuspending", "", now)
    status = _put(status, cluster, "RayClusterSuspended", False, "RayClusterSuspended", "", now)
    create: list[Obj] = []
    keeps_head = annotations_of(cluster).get(KEEP_HEAD) == "true"
    ended = [pod for pod in pods if is_terminal(pod) and not is_deleting(pod)]
    delete = [pod for pod in ended if not (keeps_head and labels_of(pod).get(NODE_TYPE) == "head")]
    alive = [pod for pod in pods if not is_terminal(pod) and not is_deleting(pod)]
    heads = [pod for pod in pods if labels_of(pod).get(NODE_TYPE) == "head"]
    if not any(pod in alive for pod in heads) and not (keeps_head and heads):
        create.append(head_pod(cluster, settings))
    wanted = {name: (count, group) for name, count, group in worker_groups(spec_of(cluster))}
    for name, (count, group) in wanted.items():
        mine = [pod for pod in alive if labels_of(pod).get(GROUP) == name]
        doomed = set((group.get("scaleStrategy") or {}).get("workersToDelete") or ())
        chosen = [pod for pod in mine if name_of(pod) in doomed]
        rest = [pod for pod in mine if name_of(pod) not in doomed]
        delete += chosen + by_least_loss(rest)[: max(0, len(rest) - count)]
        create += [worker_pod(cluster, name, group, settings)] * min(max(0, count - len(rest)), AT_ONCE)
    known = {HEAD_GROUP, *wanted}
    delete += [pod for pod in alive if labels_of(pod).get(GROUP) not in known]
    return RayPlan(status, tuple(create), tuple(delete), head_service(cluster))


def _refused(cluster: Obj, why: str, now: float) -> RayPlan:
    """Nothing is started; the status says why, and an event, once."""
    status = {
        **_in_state(status_of(cluster), "failed", now),
        "reason": why,
        "observedGeneration": generation_of(cluster),
    }
    is_news = status_of(cluster).get("reason") != why
    return RayPlan(status, events=(("Warning", RAY_MISSING, why),) if is_news else ())


def _suspend(cluster: Obj, pods: Sequence[Obj], now: float) -> RayPlan:
    """All pods go together; once begun, suspension is carried to its end."""
    status = _status(cluster, pods, now)
    leaving = tuple(pod for pod in pods if not is_deleting(pod))
    if pods:
        status = _put(status, cluster, "RayClusterSuspending", True, "UserRequestedSuspend", "", now)
        return RayPlan(status, delete=leaving)
    status = _put(status, cluster, "RayClusterSuspending", False, "RayClusterSuspending", "", now)
    if spec_of(cluster).get("suspend"):
        status = _put(status, cluster, "RayClusterSuspended", True, "RayClusterSuspended", "", now)
        status = _put(status, cluster, "RayClusterProvisioned", False, "RayClusterSuspended", "", now)
        status = _in_state(status, "suspended", now)
    return RayPlan(status)


def _put(status: Obj, cluster: Obj, kind: str, value: bool, reason: str, message: str, now: float) -> Obj:
    entries = status.get("conditions") or []
    if not value and conditions.find(entries, kind) is None:
        return status
    entry = conditions.condition(kind, value, reason, message, generation_of(cluster))
    return {**status, "conditions": conditions.set_condition(entries, entry, format_time(now))}


def _in_state(status: Obj, state: str, now: float) -> Obj:
    if status.get("state") == state:
        return status
    times = {**(status.get("stateTransitionTimes") or {}), state: format_time(now)}
    return {**status, "state": state, "stateTransitionTimes": times, "lastUpdateTime": format_time(now)}


def _status(cluster: Obj, pods: Sequence[Obj], now: float) -> Obj:
    spec = spec_of(cluster)
    groups = list(worker_groups(spec))
    alive = [pod for pod in pods if not is_deleting(pod)]
    workers = [pod for pod in alive if labels_of(pod).get(NODE_TYPE) == "worker"]
    heads = [pod for pod in alive if labels_of(pod).get(NODE_TYPE) == "head"]
    desired = sum(count for _, count, _ in groups)
    status: Obj = {
        **status_of(cluster),
        "observedGeneration": generation_of(cluster),
        "desiredWorkerReplicas": desired,
        "readyWorkerReplicas": sum(map(is_ready, workers)),
        "availableWorkerReplicas": sum(phase_of(pod) == "Running" for pod in workers),
        "minWorkerReplicas": sum(int(g.get("minReplicas") or 0) * int(g.get("numOfHosts") or 1) for _, _, g in groups),
        "maxWorkerReplicas": min(
            sum(int(g.get("maxReplicas") or 0) * int(g.get("numOfHosts") or 1) for _, _, g in groups), 2**31 - 1
        ),
        **_desired(spec),
        "endpoints": {name: str(port) for name, port in PORTS.items()},
    }
    head = {"serviceName": head_service_name(cluster)}
    if heads:
        head["podName"] = name_of(heads[0])
        if status_of(heads[0]).get("podIP"):
            head["podIP"] = head["serviceIP"] = status_of(heads[0])["podIP"]
    status["head"] = head
    return _with_readiness(cluster, status, heads, workers, desired, now)


def _with_readiness(
    cluster: Obj, status: Obj, heads: Sequence[Obj], workers: Sequence[Obj], desired: int, now: float
) -> Obj:
    if any(is_ready(pod) for pod in heads):
        status = _put(status, cluster, "HeadPodReady", True, "HeadPodRunningAndReady", "", now)
    else:
        reason = "HeadPodNotFound" if not heads else "ContainersNotReady"
        entry = conditions.condition("HeadPodReady", False, reason, "", generation_of(cluster))
        entries = conditions.set_condition(status.get("conditions") or [], entry, format_time(now))
        status = {**status, "conditions": entries}
    ready = any(map(is_ready, heads)) and sum(map(is_ready, workers)) >= desired
    if ready:
        text = "All Ray Pods are ready for the first time"
        status = _put(status, cluster, "RayClusterProvisioned", True, "AllPodRunningAndReadyFirstTime", text, now)
        return _in_state(status, "ready", now)
    entries = status.get("conditions") or []
    provisioned = conditions.find(entries, "RayClusterProvisioned")
    if provisioned is None or provisioned.get("reason") == "RayClusterSuspended":
        text = "RayCluster Pods are being provisioned for first time"
        entry = conditions.condition(
            "RayClusterProvisioned", False, "RayClusterPodsProvisioning", text, generation_of(cluster)
        )
        status = {**status, "conditions": conditions.set_condition(entries, entry, format_time(now))}
    if status.get("state") == "suspended":
        status = {name: value for name, value in status.items() if name != "state"}
    return status


def _desired(spec: Obj) -> Obj:
    """What all pods ask for together."""
    names = {
        "cpu": "desiredCPU",
        "memory": "desiredMemory",
        "nvidia.com/gpu": "desiredGPU",
        "google.com/tpu": "desiredTPU",
    }
    totals = {name: Quantity.parse("0") for name in names}
    members = [(1, (spec.get("headGroupSpec") or {}))] + [(count, group) for _, count, group in worker_groups(spec)]
    for count, group in members:
        for container in ((group.get("template") or {}).get("spec") or {}).get("containers") or ():
            resources = container.get("resources") or {}
            amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
            for name in names:
                if name in amounts:
                    totals[name] = totals[name] + Quantity.parse(amounts[name]) * count
    return {names[name]: str(total) for name, total in totals.items()}


# Pods


def _labels(cluster: Obj, kind: str, group: str) -> dict[str, str]:
    return {
        f"{PREFIX}/is-ray-node": "yes",
        CLUSTER: name_of(cluster),
        NODE_TYPE: kind,
        GROUP: group,
        f"{PREFIX}/identifier": f"{name_of(cluster)}-{kind}",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }


def _start_command(cluster: Obj, kind: str, parameters: Mapping[str, str]) -> str:
    """The `ray start` of one node."""
    # Pods of one machine share its ports: each node listens on its own address, and ports nobody asks for are left
    # to Ray.
    defaults = {"block": "true", "node-ip-address": "$(POD_IP)", "dashboard-agent-listen-port": "0"}
    if kind == "head":
        defaults |= {"head": "", "dashboard-host": "$(POD_IP)", "port": str(PORTS["gcs-server"])}
    else:
        defaults |= {"address": f"{head_address(cluster)}:{PORTS['gcs-server']}"}
    merged = {**defaults, **parameters}
    words = ["ray", "start"]
    for name, value in merged.items():
        if value in ("", "true"):
            words.append(f"--{name}")
        elif value != "false":
            words.append(f"--{name}={value}")
    return " ".join(word if "$(" in word else shlex.quote(word) for word in words)


def _pod(cluster: Obj, kind: str, name: str, group: Obj, settings: RaySettings) -> Obj:
    template = group.get("template") or {}
    metadata, spec = template.get("metadata") or {}, dict(template.get("spec") or {})
    containers = [dict(container) for container in spec.get("containers") or ()]
    first = containers[0]
    first["env"] = _environment(cluster, kind, first.get("env") or ())
    command = _start_command(cluster, kind, group.get("rayStartParams") or {}) if settings.real else HOLD
    own = shlex.join([*(first.get("command") or ()), *(first.get("args") or ())])
    first["command"] = ["/bin/bash", "-c", "--"]
    first["args"] = [f"{own}; {command}" if own and settings.real else command]
    annotations = {**(metadata.get("annotations") or {}), **({} if settings.real else {STAND_IN_ANNOTATION: "ray"})}
    spec["containers"] = containers
    spec.setdefault("restartPolicy", "Always")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": name,
            "namespace": namespace_of(cluster),
            "labels": {**(metadata.get("labels") or {}), **_labels(cluster, kind, _group_name(kind, group))},
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [owner_ref(cluster)],
        },
        "spec": spec,
    }


def _environment(cluster: Obj, kind: str, own: Sequence[Obj]) -> list[Obj]:
    """What Ray reads, beside the container's `own` variables, which win."""
    address, port = head_address(cluster), PORTS["gcs-server"]
    values = {
        "RAY_CLUSTER_NAME": name_of(cluster),
        "RAY_PORT": str(port),
        "RAY_ADDRESS": "$(POD_IP):6379" if kind == "head" else f"{address}:{port}",
        "RAY_USAGE_STATS_ENABLED": "0",
        # A head and its workers start on one machine at once; Ray's own minute may not be enough.
        "RAY_raylet_start_wait_time_s": "300",
    }
    if kind == "worker":
        values |= {"FQ_RAY_IP": address, "RAY_IP": head_service_name(cluster)}
    held = {entry["name"] for entry in own}
    own_address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    added = ({"name": name, "value": value} for name, value in values.items() if name not in held)
    return [*own, own_address, *added]


def _group_name(kind: str, group: Obj) -> str:
    return HEAD_GROUP if kind == "head" else str(group.get("groupName"))


def head_pod(cluster: Obj, settings: RaySettings) -> Obj:
    group = spec_of(cluster).get("headGroupSpec") or {}
    pod = _pod(cluster, "head", f"{name_of(cluster)}-head-", group, settings)
    container = pod["spec"]["containers"][0]
    ports = container.get("ports") or []
    named = {port.get("name") for port in ports}
    own = [
        {"name": name, "containerPort": number, "protocol": "TCP"}
        for name, number in PORTS.items()
        if name not in named
    ]
    container["ports"] = [*ports, *own]
    if settings.real:
        # Jobs can be submitted once the dashboard answers.
        probe = {"tcpSocket": {"port": PORTS["dashboard"]}, "periodSeconds": 2, "failureThreshold": 60}
        container.setdefault("readinessProbe", probe)
    return pod


def worker_pod(cluster: Obj, name: str, group: Obj, settings: RaySettings) -> Obj:
    return _pod(cluster, "worker", f"{name_of(cluster)}-{name}-worker-", group, settings)


def head_service(cluster: Obj) -> Obj:
    """The service of the head; headless unless a type is asked for."""
    kind = (spec_of(cluster).get("headGroupSpec") or {}).get("serviceType")
    selector = {CLUSTER: name_of(cluster), NODE_TYPE: "head"}
    spec: Obj = {
        "selector": selector,
        "ports": [{"name": name, "port": number} for name, number in PORTS.items()],
        **({"type": kind} if kind else {"clusterIP": "None"}),
        "publishNotReadyAddresses": True,
    }
    annotations = spec_of(cluster).get("headServiceAnnotations")
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": head_service_name(cluster),
            "namespace": namespace_of(cluster),
            "labels": {
                CLUSTER: name_of(cluster),
                NODE_TYPE: "head",
                f"{PREFIX}/identifier": f"{name_of(cluster)}-head",
                "app.kubernetes.io/name": "kuberay",
                "app.kubernetes.io/created-by": "kuberay-operator",
            },
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [owner_ref(cluster)],
        },
        "spec": spec,
    }


def is_cluster_ready(cluster: Obj | None) -> bool:
    return cluster is not None and status_of(cluster).get("state") == "ready"
