"""The adapters Corral ships, by framework name and by kind; a new kind is one more line here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module

from corral.core.resource import Resource
from corral.jobs.framework.adapter import JobAdapter

ADAPTERS: Mapping[str, str] = {
    "batch/job": "corral.jobs.batch_job.adapter:BatchJob",
    "kubeflow.org/mpijob": "corral.jobs.kubeflow.adapter:MpiJob",
    "kubeflow.org/jaxjob": "corral.jobs.kubeflow.adapter:JaxJob",
    "kubeflow.org/paddlejob": "corral.jobs.kubeflow.adapter:PaddleJob",
    "kubeflow.org/pytorchjob": "corral.jobs.kubeflow.adapter:PyTorchJob",
    "kubeflow.org/tfjob": "corral.jobs.kubeflow.adapter:TfJob",
    "kubeflow.org/xgboostjob": "corral.jobs.kubeflow.adapter:XgBoostJob",
    "trainer.kubeflow.org/trainjob": "corral.jobs.trainjob.adapter:TrainJob",
    "jobset.x-k8s.io/jobset": "corral.jobs.jobset.adapter:JobSet",
    "ray.io/rayjob": "corral.jobs.ray.adapter:RayJob",
    "ray.io/raycluster": "corral.jobs.ray.adapter:RayCluster",
    "ray.io/rayservice": "corral.jobs.ray.adapter:RayService",
    "workload.codeflare.dev/appwrapper": "corral.jobs.appwrapper.adapter:AppWrapper",
    "pod": "corral.jobs.pod.adapter:PodJob",
}
"""Framework name to `module:class`; imported when first asked for."""

IMPLIED = {"deployment": ("pod",), "statefulset": ("pod",), "leaderworkerset.x-k8s.io/leaderworkerset": ("pod",)}
"""Frameworks that need others to work."""


@cache
def adapter(framework: str) -> JobAdapter:
    """The adapter of a framework. Raises KeyError when Corral has none."""
    module, _, name = ADAPTERS[framework].partition(":")
    made: JobAdapter = getattr(import_module(module), name)()
    return made


def adapters(frameworks: Iterable[str]) -> list[JobAdapter]:
    """The adapters of `frameworks` that stand for a single object, in order."""
    return [adapter(name) for name in dict.fromkeys(frameworks) if name in ADAPTERS]


def with_implied(frameworks: Iterable[str]) -> list[str]:
    """`frameworks` and those they need."""
    wanted: dict[str, None] = {}
    for name in frameworks:
        wanted.update(dict.fromkeys((name, *IMPLIED.get(name, ()))))
    return list(wanted)


def adapter_for(resource: Resource) -> JobAdapter | None:
    """The adapter of a kind, in whatever version."""
    for name in ADAPTERS:
        found = adapter(name)
        if (found.resource.group, found.resource.kind) == (resource.group, resource.kind):
            return found
    return None
