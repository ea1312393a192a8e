"""Rules for jobs of any kind: names in labels, and what may change while a job runs."""

from __future__ import annotations

from corral.controllers.queueing.admission.gated_by import validate_gates, validate_gates_update
from corral.core.errors import Cause
from corral.core.meta import Obj, annotations_of, labels_of
from corral.core.names import check_subdomain
from corral.core.validation import forbidden, invalid, keyed
from corral.jobs.framework.adapter import JobAdapter, prebuilt_workload, queue_name, workload_priority_class
from corral.kinds.kueue import names
from corral.kinds.kueue.gates import FeatureGates
from corral.workload import workload as wl

IMMUTABLE = "field is immutable"
QUEUE_PATH = keyed("metadata.labels", names.QUEUE_NAME)
PRIORITY_PATH = keyed("metadata.labels", names.PRIORITY_CLASS)
MAX_TIME_PATH = keyed("metadata.labels", names.MAX_EXEC_TIME)
ELASTIC_PATH = keyed("metadata.annotations", names.ELASTIC_JOB)


def validate_job(adapter: JobAdapter, job: Obj, gates: FeatureGates) -> list[Cause]:
    """What is wrong with a new job."""
    causes = _name_in_label(job, names.QUEUE_NAME)
    causes += _prebuilt(adapter, job)
    causes += _max_time(job)
    if wl.is_elastic(job) and not adapter.elastic:
        resource = adapter.resource
        text = f'elastic job is not supported for "{resource.api_version}, Kind={resource.kind}"'
        causes.append(forbidden(ELASTIC_PATH, text))
    if gates["AdmissionGatedBy"]:
        causes += validate_gates(job)
    return causes


def validate_job_update(
    adapter: JobAdapter, new: Obj, old: Obj, gates: FeatureGates, *, default_queue: bool
) -> list[Cause]:
    """What is wrong with the change of a job; `default_queue` says whether its namespace has one."""
    suspended = adapter.is_suspended(new)
    causes: list[Cause] = []
    if not suspended and queue_name(new) != queue_name(old):
        causes.append(invalid(QUEUE_PATH, queue_name(new), IMMUTABLE))
    if not queue_name(new) and queue_name(old) and default_queue:
        causes.append(invalid(QUEUE_PATH, "", "queue-name must not be empty in namespace with default queue"))
    if suspended or wl.is_elastic(old):
        causes += _prebuilt(adapter, new)
    elif prebuilt_workload(new) != prebuilt_workload(old):
        causes.append(invalid(_prebuilt_path(new), prebuilt_workload(new), IMMUTABLE))
    before, after = labels_of(old).get(names.MAX_EXEC_TIME, ""), labels_of(new).get(names.MAX_EXEC_TIME, "")
    if before != after and not (suspended and adapter.is_suspended(old)):
        causes.append(invalid(MAX_TIME_PATH, after, IMMUTABLE))
    causes += _priority_class(new, old, suspended)
    if wl.is_elastic(new) != wl.is_elastic(old):
        causes.append(invalid(ELASTIC_PATH, wl.is_elastic(new), IMMUTABLE))
    if gates["AdmissionGatedBy"]:
        causes += validate_gates_update(new, old)
    return causes


def _name_in_label(job: Obj, label: str) -> list[Cause]:
    value = labels_of(job).get(label)
    errors = check_subdomain(value) if value is not None else []
    return [invalid(keyed("metadata.labels", label), value, ",".join(errors))] if errors else []


def _prebuilt_path(job: Obj) -> str:
    annotated = annotations_of(job).get(names.PREBUILT_WORKLOAD)
    return keyed("metadata.annotations" if annotated else "metadata.labels", names.PREBUILT_WORKLOAD)


def _prebuilt(adapter: JobAdapter, job: Obj) -> list[Cause]:
    name = prebuilt_workload(job)
    if not name:
        return []
    path = _prebuilt_path(job)
    errors = check_subdomain(name)
    causes = [invalid(path, name, ",".join(errors))] if errors else []
    if not adapter.prebuilt:
        resource = adapter.resource
        causes.append(forbidden(path, f'Is not supported for "{resource.api_version}, Kind={resource.kind}"'))
    return causes


def _max_time(job: Obj) -> list[Cause]:
    text = labels_of(job).get(names.MAX_EXEC_TIME)
    if text is None:
        return []
    try:
        value = int(text)
    except ValueError:
        return [invalid(MAX_TIME_PATH, text, f'strconv.Atoi: parsing "{text}": invalid syntax')]
    return [] if value > 0 else [invalid(MAX_TIME_PATH, value, "should be greater than 0")]


def _priority_class(new: Obj, old: Obj, suspended: bool) -> list[Cause]:
    before, after = workload_priority_class(old), workload_priority_class(new)
    if after and not before and not suspended:
        text = "WorkloadPriorityClass cannot be added to a non-suspended workload"
        return [invalid(PRIORITY_PATH, after, text)]
    if before and not after:
        return [invalid(PRIORITY_PATH, after, "WorkloadPriorityClass cannot be removed from a workload")]
    return []
