"""What a TrainJob changes in the template of its runtime."""

from __future__ import annotations

from functools import cache

from corral.core.meta import Obj, spec_of
from corral.core.patch.strategic import strategic_merge
from corral.core.schema.structural import Schema, compile_schema
from corral.kinds.machinery import schemas as s


def patched_metadata(train_job: Obj, template: Obj) -> Obj:
    """Labels and annotations of the JobSet: the runtime's, the TrainJob's and those of its patches; the later wins."""
    sources = [template.get("metadata") or {}, spec_of(train_job)]
    sources += [_template(entry).get("metadata") or {} for entry in spec_of(train_job).get("runtimePatches") or ()]
    merged = {
        name: {key: value for source in sources for key, value in (source.get(name) or {}).items()}
        for name in ("labels", "annotations")
    }
    return {name: values for name, values in merged.items() if values}


def _template(entry: Obj) -> Obj:
    return (entry.get("trainingRuntimeSpec") or {}).get("template") or {}


def patched(train_job: Obj, jobs: list[Obj]) -> list[Obj]:
    """The replicated jobs with every patch and override applied in order."""
    spec = spec_of(train_job)
    for entry in spec.get("runtimePatches") or ():
        for change in (_template(entry).get("spec") or {}).get("replicatedJobs") or ():
            jobs = [_patch_job(job, change) if job.get("name") == change.get("name") else job for job in jobs]
    for entry in spec.get("podTemplateOverrides") or ():
        pod = {name: entry[name] for name in ("metadata", "spec") if entry.get(name)}
        jobs = _override(jobs, entry, pod)
    for entry in spec.get("podSpecOverrides") or ():
        jobs = _override(jobs, entry, {"spec": {key: value for key, value in entry.items() if key != "targetJobs"}})
    return jobs


def _override(jobs: list[Obj], entry: Obj, pod: Obj) -> list[Obj]:
    targets = {target.get("name") for target in entry.get("targetJobs") or ()}
    change = {"template": {"spec": {"template": pod}}}
    return [_patch_job(job, change) if job.get("name") in targets else job for job in jobs]


@cache
def _pod_template_schema() -> Schema:
    return compile_schema(s.kubernetes("io.k8s.api.core.v1.PodTemplateSpec"))


def _patch_job(job: Obj, change: Obj) -> Obj:
    template, wanted = job.get("template") or {}, change.get("template") or {}
    job_spec = dict(template.get("spec") or {})
    pod = (wanted.get("spec") or {}).get("template") or {}
    if pod:
        job_spec["template"] = strategic_merge(job_spec.get("template") or {}, pod, _pod_template_schema())
    metadata = _merged_metadata(template.get("metadata") or {}, wanted.get("metadata") or {})
    return {**job, "template": {**template, **({"metadata": metadata} if metadata else {}), "spec": job_spec}}


def _merged_metadata(old: Obj, new: Obj) -> Obj:
    result = dict(old)
    for name in ("labels", "annotations"):
        if new.get(name):
            result[name] = {**(old.get(name) or {}), **new[name]}
    return result
