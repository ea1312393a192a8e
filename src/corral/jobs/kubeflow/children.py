"""What a training job is made of: a pod and a headless service for every replica, and the group that starts them together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from corral.core.meta import Obj, annotations_of, name_of, namespace_of, owner_ref
from corral.jobs.framework import gang
from corral.jobs.kubeflow.environment import environment, replica_name, replicas_of, with_environment
from corral.jobs.kubeflow.kind import JAX, MPI, PADDLE, PYTORCH, Framework, replica_specs_of, run_policy_of
from corral.jobs.kubeflow.status import JOB_ROLE, REPLICA_INDEX, index_of, type_labels
from corral.jobs.kubeflow.view import Settings, TrainingView

INIT_SCRIPT = "err=1;for i in $(seq 100); do if nslookup {master}; then err=0 && break; fi;echo waiting for master; sleep 2; done; exit $err"


def is_surplus(framework: Framework, specs: Mapping[str, Obj], kind: str, child: Obj) -> bool:
    index = index_of(child)
    return index is not None and index >= replicas_of(framework, kind, specs[kind])


def missing_services(look: TrainingView, held: Mapping[str, Sequence[Obj]]) -> Iterator[Obj]:
    if look.framework is MPI:
        return  # its launcher reaches workers by exec, not by name
    for kind, replica in look.specs.items():
        there = {index_of(service) for service in held[kind]}
        for index in range(replicas_of(look.framework, kind, replica)):
            if index not in there:
                yield build_service(look.framework, look.job, kind, index)


def _has_role(framework: Framework, specs: Mapping[str, Obj], kind: str, index: int) -> bool:
    """Whether a replica is the one that speaks for the job."""
    if framework is JAX:
        return index == 0
    if framework is MPI:
        return kind == "Launcher"
    if kind in ("Master", "Chief"):
        return True
    if framework is PADDLE or "Master" in specs or "Chief" in specs:
        return False
    return kind == "Worker" and index == 0


def child_labels(framework: Framework, job: Obj, specs: Mapping[str, Obj], kind: str, index: int) -> dict[str, str]:
    labels = {**type_labels(framework, job, kind), REPLICA_INDEX: str(index)}
    if _has_role(framework, specs, kind, index):
        labels[JOB_ROLE] = "master"
    return labels


def _with_port(framework: Framework, containers: Sequence[Obj]) -> list[Obj]:
    """The main container listens on the framework's port unless it names its own."""
    result = []
    for container in containers:
        ports = container.get("ports") or []
        if container.get("name") == framework.container and not any(
            port.get("name") == framework.port_name for port in ports
        ):
            own = {"containerPort": framework.port, "name": framework.port_name, "protocol": "TCP"}
            container = {**container, "ports": [*ports, own]}
        result.append(container)
    return result


def build_pod(look: TrainingView, kind: str, index: int) -> Obj:
    """One replica's pod, with its name, labels, environment and restart policy."""
    framework, job, specs, settings = look.framework, look.job, look.specs, look.settings
    replica = specs[kind]
    template = replica.get("template") or {}
    metadata, spec = template.get("metadata") or {}, dict(template.get("spec") or {})
    env = environment(framework, job, specs, kind, index, settings.domain)
    containers = _with_port(framework, spec.get("containers") or [])
    spec["containers"] = with_environment(framework, containers, env)
    policy = replica.get("restartPolicy") or framework.restart_policy
    spec["restartPolicy"] = "Never" if policy == "ExitCode" else policy
    if settings.init_container and framework is PYTORCH and kind == "Worker" and "Master" in specs:
        spec["initContainers"] = [*(spec.get("initContainers") or ()), _init_container(job, settings)]
    labels = {**(metadata.get("labels") or {}), **child_labels(framework, job, specs, kind, index)}
    body: Obj = {
        "name": replica_name(job, kind, index),
        "namespace": namespace_of(job),
        "labels": labels,
        "ownerReferences": [owner_ref(job)],
    }
    if metadata.get("annotations"):
        body["annotations"] = metadata["annotations"]
    pod: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": body, "spec": spec}
    if not settings.gang_scheduler:
        return pod
    return gang.marked(pod, settings.gang_scheduler, name_of(job), kind.lower())


def build_group(look: TrainingView, priority_of: gang.PriorityOf) -> Obj:
    """The PodGroup that lets all replicas start together."""
    members = [
        gang.Member(replica.get("template") or {}, replicas_of(look.framework, kind, replica))
        for kind, replica in look.specs.items()
    ]
    policy = run_policy_of(look.job).get("schedulingPolicy") or {}
    body = gang.job_group(look.job, policy, members, look.settings.gang_scheduler, priority_of, default_queue="default")
    if annotations_of(look.job):
        body["metadata"]["annotations"] = annotations_of(look.job)
    return body


def _init_container(job: Obj, settings: Settings) -> Obj:
    script = INIT_SCRIPT.format(master=replica_name(job, "Master", 0))
    return {
        "name": "init-pytorch",
        "image": settings.init_image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "limits": {"cpu": "100m", "memory": "20Mi"},
            "requests": {"cpu": "50m", "memory": "10Mi"},
        },
        "command": ["sh", "-c", script],
    }


def build_service(framework: Framework, job: Obj, kind: str, index: int) -> Obj:
    """The headless service of one replica, with the ports of its main container."""
    specs = replica_specs_of(framework, job)
    replica, labels = specs[kind], child_labels(framework, job, specs, kind, index)
    containers = _with_port(framework, ((replica.get("template") or {}).get("spec") or {}).get("containers") or [])
    main = next((entry for entry in containers if entry.get("name") == framework.container), {})
    ports = [
        {"name": port.get("name") or f"port-{port['containerPort']}", "port": port["containerPort"]}
        for port in main.get("ports") or ()
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": replica_name(job, kind, index),
            "namespace": namespace_of(job),
            "labels": labels,
            "ownerReferences": [owner_ref(job)],
        },
        "spec": {"clusterIP": "None", "selector": labels, "ports": ports},
    }
