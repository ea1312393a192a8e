"""One job of each kind, small and soon over, as a user would submit it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from corral.core import conditions
from corral.core.meta import Obj, spec_of, status_of, with_annotations, with_finalizer, with_labels
from corral.core.resource import Resource
from corral.jobs.pod.adapter import gated
from corral.jobs.pod.role_hash import role_hash
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import names

QUEUE = {"kueue.x-k8s.io/queue-name": "team"}
BATCH_JOBS = Resource("batch", "v1", "jobs", "Job")
PYTORCH_JOBS = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
TRAIN_JOBS = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
RAY_JOBS = Resource("ray.io", "v1", "rayjobs", "RayJob")


@dataclass(frozen=True)
class Example:
    """What to create, and how its object shows that it has succeeded."""

    name: str
    resource: Resource
    manifests: tuple[Obj, ...]
    succeeded: Callable[[Obj], bool]


def template(name: str, cpu: str = "100m", seconds: str = "1", policy: str = "Never") -> Obj:
    """A pod for a script to play: it ends well after some seconds, or never."""
    container = {"name": name, "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    played = {"fake/run-seconds": seconds, "fake/exit-code": "0"}
    return {"metadata": {"annotations": played}, "spec": {"restartPolicy": policy, "containers": [container]}}


def meta(name: str, labels: Mapping[str, str] = {}) -> Obj:
    return {"name": name, "namespace": "default", "labels": {**QUEUE, **labels}}


def batch_job(name: str, cpu: str = "100m", seconds: str = "1", labels: Mapping[str, str] = {}) -> Obj:
    return {"metadata": meta(name, labels), "spec": {"template": template("main", cpu, seconds)}}


def pytorch_job(name: str) -> Obj:
    def replica(count: int) -> Obj:
        return {"replicas": count, "restartPolicy": "OnFailure", "template": template("pytorch", policy="OnFailure")}

    specs = {"Master": replica(1), "Worker": replica(2)}
    return {"metadata": meta(name), "spec": {"pytorchReplicaSpecs": specs}}


def job_set(name: str) -> Obj:
    replicated = {"name": "main", "replicas": 2, "template": {"spec": {"template": template("main")}}}
    return {"metadata": meta(name), "spec": {"replicatedJobs": [replicated]}}


def runtime() -> Obj:
    """What a TrainJob is made from, the same on every cluster."""
    node = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": template("node")},
        },
    }
    spec = {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [node]}}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch-distributed", "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": spec,
    }


def train_job(name: str) -> Obj:
    trainer = {"numNodes": 2, "command": ["train"], "resourcesPerNode": {"requests": {"cpu": "100m"}}}
    return {"metadata": meta(name), "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer}}


def ray_job(name: str) -> Obj:
    forever = "forever"
    head = {"rayStartParams": {}, "template": template("ray-head", seconds=forever, policy="Always")}
    small = {
        "groupName": "small", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "rayStartParams": {},
        "template": template("ray-worker", seconds=forever, policy="Always"),
    }  # fmt: skip
    spec = {
        "entrypoint": "python train.py",
        "shutdownAfterJobFinishes": True,
        "submitterPodTemplate": template("ray-job-submitter"),
        "rayClusterSpec": {"rayVersion": "2.50.0", "headGroupSpec": head, "workerGroupSpecs": [small]},
    }
    return {"metadata": meta(name), "spec": spec}


def pod_group(name: str, count: int) -> tuple[Obj, ...]:
    def pod(number: int) -> Obj:
        made = template("main")
        metadata = meta(f"{name}-{number}", {"kueue.x-k8s.io/pod-group-name": name})
        annotations = {**made["metadata"]["annotations"], "kueue.x-k8s.io/pod-group-total-count": str(count)}
        return {"metadata": {**metadata, "annotations": annotations}, "spec": made["spec"]}

    return tuple(pod(number) for number in range(count))


def suspended(resource: Resource, manifest: Obj, managed_by: str = "") -> Obj:
    """As a webhook would leave it, where none is registered."""
    left = {"suspend": True, **({"managedBy": managed_by} if managed_by else {})}
    spec = manifest["spec"]
    if resource == PYTORCH_JOBS:
        return {**manifest, "spec": {**spec, "runPolicy": left}}
    return {**manifest, "spec": {**spec, **left}}


def held(pod: Obj, suffix: str) -> Obj:
    """The same for a pod of a group, which is another one with another suffix."""
    labels = pod["metadata"]["labels"]
    group = labels[names.POD_GROUP_NAME] + suffix
    marked = with_labels(pod, {names.POD_GROUP_NAME: group, names.MANAGED: "true"})
    hashed = with_annotations(gated(marked), {names.ROLE_HASH: role_hash(spec_of(pod))})
    return with_finalizer(hashed, names.POD_FINALIZER)


def _is(condition: str) -> Callable[[Obj], bool]:
    return lambda obj: conditions.is_true(obj, condition)


KINDS = (
    Example("job", BATCH_JOBS, (batch_job("job"),), _is("Complete")),
    Example("torch", PYTORCH_JOBS, (pytorch_job("torch"),), _is("Succeeded")),
    Example("set", JOB_SETS, (job_set("set"),), _is("Completed")),
    Example("train", TRAIN_JOBS, (train_job("train"),), _is("Complete")),
    Example("ray", RAY_JOBS, (ray_job("ray"),), lambda obj: status_of(obj).get("jobStatus") == "SUCCEEDED"),
    Example("group", PODS, pod_group("group", 2), lambda obj: status_of(obj).get("phase") == "Succeeded"),
)
