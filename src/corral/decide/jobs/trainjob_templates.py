"""The Jobs in a TrainJob's runtime: reading and changing their pods and containers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from corral.core.meta import Obj


def sized(job: Obj, nodes: int) -> Obj:
    template = job.get("template") or {}
    spec = {**(template.get("spec") or {}), "parallelism": nodes, "completions": nodes}
    return {**job, "template": {**template, "spec": spec}}


def pod_spec_of(job: Obj) -> Obj:
    job_spec = (job.get("template") or {}).get("spec") or {}
    return dict((job_spec.get("template") or {}).get("spec") or {})


def with_pod_spec(job: Obj, pod_spec: Obj) -> Obj:
    template = job.get("template") or {}
    job_spec = template.get("spec") or {}
    pod = {**(job_spec.get("template") or {}), "spec": pod_spec}
    return {**job, "template": {**template, "spec": {**job_spec, "template": pod}}}


def with_container(job: Obj, name: str, change: Any) -> Obj:
    pod = pod_spec_of(job)
    containers = [change(entry) if entry.get("name") == name else entry for entry in pod.get("containers") or ()]
    return with_pod_spec(job, {**pod, "containers": containers})


def with_env(container: Obj, env: Iterable[Obj]) -> Obj:
    """The container with variables set by name: what is set later wins, in its old place."""
    merged = {entry["name"]: entry for entry in container.get("env") or ()}
    for entry in env:
        merged[entry["name"]] = entry
    return {**container, "env": list(merged.values())} if merged else container
