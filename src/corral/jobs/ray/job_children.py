"""What a RayJob is made of: its cluster, and whoever hands it the entry point."""

from __future__ import annotations

import json
import shlex

from corral.core import yaml_documents
from corral.core.meta import Obj, name_of, namespace_of, owner_ref, spec_of, status_of
from corral.jobs.ray.cluster_plan import KEEP_HEAD, RaySettings, head_address
from corral.jobs.ray.job_plan_values import mode_of, submits_from_head
from corral.jobs.ray.kind import GROUP, RAY_JOBS

ORIGIN_NAME = "ray.io/originated-from-cr-name"
ORIGIN_KIND = "ray.io/originated-from-crd"
MODE = "ray.io/rayjob-submission-mode"
SUBMITTER = "ray-job-submitter"


def _labels(job: Obj) -> dict[str, str]:
    return {ORIGIN_NAME: name_of(job), ORIGIN_KIND: "RayJob"}


def _owner(job: Obj) -> Obj:
    return owner_ref({"apiVersion": RAY_JOBS.api_version, "kind": "RayJob", **job})


def ray_cluster(job: Obj, settings: RaySettings) -> Obj:
    """The cluster of a job; with a submitter beside its head where the mode asks for one."""
    spec = spec_of(job).get("rayClusterSpec") or {}
    cluster: Obj = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": status_of(job)["rayClusterName"],
            "namespace": namespace_of(job),
            "labels": {**_labels(job), MODE: mode_of(job)},
            "ownerReferences": [_owner(job)],
        },
        "spec": spec,
    }
    if submits_from_head(job, settings):
        group = spec.get("headGroupSpec") or {}
        template = group.get("template") or {}
        pod = template.get("spec") or {}
        cluster["metadata"]["annotations"] = {KEEP_HEAD: "true"}
        sidecar = _submitting(job, cluster, _default_container(cluster), settings)
        pod = {**pod, "containers": [*(pod.get("containers") or ()), sidecar], "restartPolicy": "Never"}
        cluster["spec"] = {**spec, "headGroupSpec": {**group, "template": {**template, "spec": pod}}}
    return cluster


def submission_request(job: Obj) -> Obj:
    """The body that submits the job to the dashboard."""
    spec = spec_of(job)
    body = {
        "entrypoint": spec.get("entrypoint") or "",
        "submission_id": status_of(job).get("jobId"),
        "runtime_env": _runtime_env(spec),
        "metadata": spec.get("metadata"),
        "entrypoint_num_cpus": spec.get("entrypointNumCpus"),
        "entrypoint_num_gpus": spec.get("entrypointNumGpus"),
        "entrypoint_resources": json.loads(spec["entrypointResources"]) if spec.get("entrypointResources") else None,
    }
    return {name: value for name, value in body.items() if value not in (None, {})}


def _runtime_env(spec: Obj) -> Obj:
    loaded = yaml_documents.load(spec.get("runtimeEnvYAML") or "")
    return loaded if isinstance(loaded, dict) else {}


SUBMIT = """\
tries=0
until ray job status {at} "$RAY_JOB_SUBMISSION_ID" > /dev/null 2>&1 || {submit}; do
  tries=$((tries + 1)); test $tries -lt 60 || exit 1; sleep 2
done
ray job logs {at} --follow "$RAY_JOB_SUBMISSION_ID"
ray job status {at} "$RAY_JOB_SUBMISSION_ID" | tee /dev/stderr | grep -qi succeeded
"""
"""Agents of a young cluster may not be up yet, so submitting is tried again; a job that is there is not submitted twice."""


def submit_command(job: Obj, settings: RaySettings) -> str:
    """The shell command that hands the entry point to the cluster and waits for its end."""
    spec, entry = spec_of(job), str(spec_of(job).get("entrypoint") or "")
    if not settings.real:
        return entry
    at = '--address "http://$RAY_DASHBOARD_ADDRESS"'
    words = ["ray", "job", "submit", at, "--no-wait", "--submission-id", '"$RAY_JOB_SUBMISSION_ID"']
    options = {"--entrypoint-num-cpus": "entrypointNumCpus", "--entrypoint-num-gpus": "entrypointNumGpus"}
    for option, name in options.items():
        if spec.get(name):
            words += [option, str(spec[name])]
    if spec.get("entrypointResources"):
        words += ["--entrypoint-resources", shlex.quote(str(spec["entrypointResources"]))]
    if _runtime_env(spec):
        words += ["--runtime-env-json", shlex.quote(json.dumps(_runtime_env(spec)))]
    if spec.get("metadata"):
        words += ["--metadata-json", shlex.quote(json.dumps(spec["metadata"]))]
    return SUBMIT.format(at=at, submit=" ".join([*words, "--", entry]))


def submitter_job(job: Obj, cluster: Obj, settings: RaySettings) -> Obj:
    """The Job that submits; its pod follows the job to its end and ends alike."""
    template = spec_of(job).get("submitterPodTemplate") or _default_template(cluster)
    pod_spec = dict(template.get("spec") or {})
    containers = [dict(container) for container in pod_spec.get("containers") or ()]
    containers[0] = _submitting(job, cluster, containers[0], settings)
    pod_spec["containers"] = containers
    pod_spec.setdefault("restartPolicy", "Never")
    metadata = template.get("metadata") or {}
    limit = (spec_of(job).get("submitterConfig") or {}).get("backoffLimit")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name_of(job),
            "namespace": namespace_of(job),
            "labels": _labels(job),
            "ownerReferences": [_owner(job)],
        },
        "spec": {
            # Running the entry point twice because its submitter failed would be wrong where both are one.
            "backoffLimit": int(limit) if limit is not None else (2 if settings.real else 0),
            "template": {
                **template,
                "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **_labels(job)}},
                "spec": pod_spec,
            },
        },
    }


def _submitting(job: Obj, cluster: Obj, container: Obj, settings: RaySettings) -> Obj:
    """A container that submits, unless it has a command of its own."""
    command = {}
    if not container.get("command") and not container.get("args"):
        command = {"command": ["/bin/bash", "-c", "--"], "args": [submit_command(job, settings)]}
    env = [
        *(container.get("env") or ()),
        {"name": "PYTHONUNBUFFERED", "value": "1"},
        {"name": "RAY_DASHBOARD_ADDRESS", "value": f"{head_address(cluster)}:8265"},
        {"name": "RAY_JOB_SUBMISSION_ID", "value": str(status_of(job).get("jobId") or "")},
    ]
    return {**container, **command, "env": env}


def _default_container(cluster: Obj) -> Obj:
    head = ((spec_of(cluster).get("headGroupSpec") or {}).get("template") or {}).get("spec") or {}
    image = (head.get("containers") or [{}])[0].get("image", "")
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}}
    return {"name": SUBMITTER, "image": image, "resources": resources}


def _default_template(cluster: Obj) -> Obj:
    return {"spec": {"containers": [_default_container(cluster)], "restartPolicy": "Never"}}
