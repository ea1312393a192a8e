"""The Jobs in a TrainJob's runtime: reading and changing their pods and containers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from corral.core.meta import Obj, spec_of


def sized(job: Obj, nodes: int) -> Obj:
    """The Job with so many pods, all of which have to succeed."""
    template = job.get("template") or {}
    spec = {**spec_of(template), "parallelism": nodes, "completions": nodes}
    return {**job, "template": {**template, "spec": spec}}


def pod_template_of(job: Obj) -> Obj:
    return spec_of(job.get("template") or {}).get("template") or {}


def with_pod_template(job: Obj, pod: Obj) -> Obj:
    template = job.get("template") or {}
    return {**job, "template": {**template, "spec": {**spec_of(template), "template": pod}}}


def pod_spec_of(job: Obj) -> Obj:
    return dict(spec_of(pod_template_of(job)))


def with_pod_spec(job: Obj, pod_spec: Obj) -> Obj:
    return with_pod_template(job, {**pod_template_of(job), "spec": pod_spec})


def with_container(job: Obj, name: str, change: Callable[[Obj], Obj]) -> Obj:
    pod = pod_spec_of(job)
    containers = [change(entry) if entry.get("name") == name else entry for entry in pod.get("containers") or ()]
    return with_pod_spec(job, {**pod, "containers": containers})


def with_env(container: Obj, env: Iterable[Obj]) -> Obj:
    """The container with variables set by name: what is set later wins, in its old place."""
    merged = {entry["name"]: entry for entry in container.get("env") or ()}
    for entry in env:
        merged[entry["name"]] = entry
    return {**container, "env": list(merged.values())} if merged else container
