"""Rules for Jobs and CronJobs."""

from __future__ import annotations

from typing import Any

from corral.core import names
from corral.core.errors import Cause
from corral.core.meta import Obj, labels_of, name_of, spec_of, uid_of
from corral.core.selectors import from_label_selector
from corral.core.validation import (
    IMMUTABLE,
    OMIT,
    at_least_zero,
    check_label_selector,
    check_metadata,
    check_metadata_update,
    duplicate,
    immutable,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)  # fmt: skip
from corral.jobs.batch_job.cron_rules import schedule_error, zone_errors
from corral.jobs.batch_job.defaults import CONTROLLER_UID, JOB_NAME, LEGACY_CONTROLLER_UID, LEGACY_JOB_NAME
from corral.kinds.kubernetes.pods.container_rules import check_choice
from corral.kinds.kubernetes.pods.downward_rules import check_all, shown_selector
from corral.kinds.kubernetes.pods.rules import check_template
from corral.kinds.machinery import go_struct_text as internal

_SOFT_LIMIT = 100_000
_HIGH_LIMIT = 10_000
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")


def check_job(job: Obj) -> list[Cause]:
    """A new Job, its metadata aside."""
    return _check_job(job, check_job_spec(spec_of(job), "spec"), prefixed=True)


def _check_job(job: Obj, of_spec: list[Cause], *, prefixed: bool) -> list[Cause]:
    """A Job; `of_spec` is what its spec was found to be."""
    spec = spec_of(job)
    causes = _check_generated_selector(job, prefixed=prefixed) + of_spec
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0:
        hostname = f"{name_of(job)}-{completions - 1}"
        if names.check_label(hostname):
            detail = f"will not able to create pod with invalid DNS label: {hostname}"
            causes.append(invalid("metadata.name", name_of(job), detail))
    return causes


def _check_generated_selector(job: Obj, *, prefixed: bool) -> list[Cause]:
    spec = spec_of(job)
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    expected = {LEGACY_CONTROLLER_UID: uid_of(job), LEGACY_JOB_NAME: name_of(job)}
    if prefixed:
        expected |= {CONTROLLER_UID: uid_of(job), JOB_NAME: name_of(job)}
    labels = labels_of(spec.get("template") or {})
    causes: list[Cause] = []
    for key, value in expected.items():
        where, detail = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
        if key not in labels:
            causes.append(required(where, detail))
        elif labels[key] != value:
            causes.append(invalid(where, dict(sorted(labels.items())), detail))
    if _selects(spec["selector"], expected) is False:
        causes.append(invalid("spec.selector", shown_selector(spec["selector"]), "`selector` not auto-generated"))
    return causes


def _selects(selector: Obj | None, labels: dict[str, str]) -> bool | None:
    """Whether a LabelSelector matches; None when it cannot be read."""
    if selector is None:
        return False
    try:
        return from_label_selector(selector).matches(labels)
    except ValueError:
        return None


def check_job_spec(spec: Obj, path: str) -> list[Cause]:
    """A JobSpec with its selector."""
    causes = check_job_template(spec, path)
    selector = spec.get("selector")
    if selector is None:
        causes.append(required(f"{path}.selector"))
    else:
        causes += check_label_selector(f"{path}.selector", selector)
    labels = labels_of(spec.get("template") or {})
    if _selects(selector, labels) is False:
        shown = dict(sorted(labels.items())) or None
        detail = "`selector` does not match template `labels`"
        causes.append(invalid(f"{path}.template.metadata.labels", shown, detail))
    return causes


def check_job_template(spec: Obj, path: str) -> list[Cause]:
    """A JobSpec without its selector, as in the template of a CronJob."""
    causes: list[Cause] = []
    counters = (
        "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
        "backoffLimitPerIndex", "maxFailedIndexes",
    )  # fmt: skip
    for field in counters:
        causes += at_least_zero(f"{path}.{field}", spec.get(field))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        causes.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.get("managedBy") is not None:
        causes += _check_managed_by(spec["managedBy"], f"{path}.managedBy")
    causes += _check_completion_mode(spec, path)
    if spec.get("podFailurePolicy") is not None:
        causes += _check_failure_policy(spec, f"{path}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        causes += _check_success_policy(spec, f"{path}.successPolicy")
    causes += _check_replacement(spec, f"{path}.podReplacementPolicy")
    causes += check_template(spec.get("template") or {}, f"{path}.template")
    return causes + _check_restart_policy(spec, f"{path}.template.spec.restartPolicy")


def _check_managed_by(manager: str, path: str) -> list[Cause]:
    causes = _check_domain_prefixed(manager, path)
    if len(manager.encode()) > 63:
        causes.append(too_long(path, 63))
    return causes


def _check_domain_prefixed(text: str, path: str) -> list[Cause]:
    domain, slash, rest = text.partition("/")
    if not text:
        return [required(path)]
    if not slash or not domain or not rest:
        return [invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    causes = check_all(path, domain, names.check_subdomain(domain))
    if not all(char.isalnum() or char in "-._~:/?#[]@!$&'()*+,;=%" for char in rest):
        causes.append(invalid(path, rest, names.regex_message("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")))
    return causes


def _check_completion_mode(spec: Obj, path: str) -> list[Cause]:
    mode = spec.get("completionMode")
    causes: list[Cause] = []
    if mode not in (None, "NonIndexed", "Indexed"):
        causes.append(not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed":
        causes += _check_indexed(spec, path)
    if mode in (None, "NonIndexed"):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                causes.append(invalid(f"{path}.{field}", spec[field], "requires indexed completion mode"))
    return causes


def _check_indexed(spec: Obj, path: str) -> list[Cause]:
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    failed = spec.get("maxFailedIndexes")
    causes: list[Cause] = []
    if completions is None:
        causes.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism > _SOFT_LIMIT:
        detail = f"must be less than or equal to {_SOFT_LIMIT} when completion mode is Indexed"
        causes.append(invalid(f"{path}.parallelism", parallelism, detail))
    if completions is not None and failed is not None and failed > completions:
        causes.append(invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > _SOFT_LIMIT:
        causes.append(invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_SOFT_LIMIT}"))
    if completions is not None and completions > _SOFT_LIMIT and spec.get("backoffLimitPerIndex") is not None:
        suffix = f"when completions are above {_SOFT_LIMIT} and used with backoff limit per index"
        detail = f"must be less than or equal to {_HIGH_LIMIT} {suffix}"
        if failed is None:
            above = f"must be specified when completions is above {_SOFT_LIMIT}"
            causes.append(required(f"{path}.maxFailedIndexes", above))
        if parallelism > _HIGH_LIMIT:
            causes.append(invalid(f"{path}.parallelism", parallelism, detail))
        if failed is not None and failed > _HIGH_LIMIT:
            causes.append(invalid(f"{path}.maxFailedIndexes", failed, detail))
    return causes


def _check_restart_policy(spec: Obj, path: str) -> list[Cause]:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    if policy in (None, "", "Always"):
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(path, policy, ("OnFailure", "Never"))]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        return [invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def _check_replacement(spec: Obj, path: str) -> list[Cause]:
    policy = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    return [] if policy is None or policy in allowed else [not_supported(path, policy, allowed)]


# Pod failure policy


def _quoted(values: tuple[str, ...]) -> str:
    return "valid values: [" + " ".join(f'"{value}"' for value in values) + "]"


def _check_failure_policy(spec: Obj, path: str) -> list[Cause]:
    rules = spec["podFailurePolicy"].get("rules") or []
    causes = [too_many(f"{path}.rules", len(rules), 20)] if len(rules) > 20 else []
    template = (spec.get("template") or {}).get("spec") or {}
    containers = {
        container.get("name") for field in ("containers", "initContainers") for container in template.get(field) or ()
    }
    for position, rule in enumerate(rules):
        causes += _check_failure_rule(spec, rule, f"{path}.rules[{position}]", containers)
    return causes


def _check_failure_rule(spec: Obj, rule: Obj, path: str, containers: set[Any]) -> list[Cause]:
    action, codes, patterns = rule.get("action") or "", rule.get("onExitCodes"), rule.get("onPodConditions") or []
    causes: list[Cause] = []
    if not action:
        causes.append(required(f"{path}.action", _quoted(_ACTIONS)))
    elif action == "FailIndex":
        if spec.get("backoffLimitPerIndex") is None:
            causes.append(invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
    elif action not in _ACTIONS:
        causes.append(not_supported(f"{path}.action", action, _ACTIONS))
    if codes is not None:
        causes += _check_exit_codes(codes, f"{path}.onExitCodes", containers)
    if patterns:
        causes += _check_condition_patterns(patterns, f"{path}.onPodConditions")
    if codes is not None and patterns:
        causes.append(invalid(path, OMIT, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not patterns:
        causes.append(invalid(path, OMIT, "specifying one of OnExitCodes and OnPodConditions is required"))
    return causes


def _check_condition_patterns(patterns: list[Obj], path: str) -> list[Cause]:
    causes = [too_many(path, len(patterns), 20)] if len(patterns) > 20 else []
    for position, pattern in enumerate(patterns):
        kind, status = pattern.get("type") or "", pattern.get("status") or ""
        causes += check_all(f"{path}[{position}].type", kind, names.check_qualified_name(kind))
        if not status:
            causes.append(required(f"{path}[{position}].status", _quoted(_STATUSES)))
        elif status not in _STATUSES:
            causes.append(not_supported(f"{path}[{position}].status", status, _STATUSES))
    return causes


def _check_exit_codes(codes: Obj, path: str, containers: set[Any]) -> list[Cause]:
    operator, values = codes.get("operator") or "", codes.get("values") or []
    causes: list[Cause] = []
    if not operator:
        causes.append(required(f"{path}.operator", _quoted(_OPERATORS)))
    elif operator not in _OPERATORS:
        causes.append(not_supported(f"{path}.operator", operator, _OPERATORS))
    container = codes.get("containerName")
    if container is not None and container not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        causes.append(invalid(f"{path}.containerName", container, detail))
    if not values:
        causes.append(invalid(f"{path}.values", None, "at least one value is required"))
    elif len(values) > 255:
        causes.append(too_many(f"{path}.values", len(values), 255))
    seen: set[int] = set()
    for position, value in enumerate(values):
        where = f"{path}.values[{position}]"
        if operator == "In" and value == 0:
            causes.append(invalid(where, value, "must not be 0 for the In operator"))
        if value in seen:
            causes.append(duplicate(where, value))
        seen.add(value)
    if values != sorted(values):
        causes.append(invalid(f"{path}.values", values, "must be ordered"))
    return causes


# Success policy


def _check_success_policy(spec: Obj, path: str) -> list[Cause]:
    policy = spec["successPolicy"]
    if spec.get("completionMode") != "Indexed":
        detail = "requires indexed completion mode"
        return [internal.invalid(path, "batch.SuccessPolicy", "batch/v1.SuccessPolicy", policy, detail)]
    rules = policy.get("rules") or []
    causes: list[Cause] = []
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        causes.append(required(f"{path}.rules", detail))
    if len(rules) > 20:
        causes.append(too_many(f"{path}.rules", len(rules), 20))
    for position, rule in enumerate(rules):
        causes += _check_success_rule(rule, spec.get("completions") or 0, f"{path}.rules[{position}]")
    return causes


def _check_success_rule(rule: Obj, completions: int, path: str) -> list[Cause]:
    indexes, wanted = rule.get("succeededIndexes"), rule.get("succeededCount")
    causes: list[Cause] = []
    if indexes is None and wanted is None:
        causes.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    total = 0
    if indexes is not None:
        where = f"{path}.succeededIndexes"
        if len(indexes) > 64 * 1024:
            causes.append(too_long(where, 64 * 1024))
        try:
            total = count_indexes(indexes, completions)
        except ValueError as error:
            causes.append(invalid(where, indexes, f"error parsing succeededIndexes: {error}"))
    if wanted is not None:
        where = f"{path}.succeededCount"
        causes += at_least_zero(where, wanted)
        if wanted > completions:
            detail = f"must be less than or equal to {completions} (the number of specified completions)"
            causes.append(invalid(where, wanted, detail))
        if indexes is not None and wanted > total:
            counted = "the number of indexes in the specified succeededIndexes field"
            causes.append(invalid(where, wanted, f"must be less than or equal to {total} ({counted})"))
    return causes


def parse_intervals(text: str, completions: int) -> list[tuple[int, int]]:
    """The intervals of an index list such as `1,3-5`; ValueError in upstream's words when malformed."""
    found: list[tuple[int, int]] = []
    for interval in text.split(",") if text else ():
        first, last = _parse_interval(interval, completions)
        if found and found[-1][1] >= first:
            raise ValueError(f"non-increasing order, previous: {found[-1][1]}, current: {first}")
        found.append((first, last))
    return found


def count_indexes(text: str, completions: int) -> int:
    """How many indexes a well-formed list names."""
    return sum(last - first + 1 for first, last in parse_intervals(text, completions))


def _parse_interval(text: str, completions: int) -> tuple[int, int]:
    limits = text.split("-")
    if len(limits) > 2:
        requirement = "the requirement that an index interval can have at most two parts separated by '-'"
        raise ValueError(f'the fragment "{text}" violates {requirement}')
    numbers = []
    for limit in limits:
        if not limit.isascii() or not limit.lstrip("+").isdigit():
            raise ValueError(f'cannot convert string to integer for index: "{limit}"')
        if int(limit) >= completions:
            raise ValueError(f'too large index: "{limit}"')
        numbers.append(int(limit))
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]


# Updates


def check_job_update(new: Obj, old: Obj) -> list[Cause]:
    """A change of a Job. The whole Job is checked again, and its spec once more with the update, as upstream does."""
    spec, before = spec_of(new), spec_of(old)
    labels = labels_of(before.get("template") or {})
    of_spec = check_job_spec(spec, "spec")
    causes = check_metadata(new["metadata"], namespaced=True)
    causes += _check_job(new, of_spec, prefixed=JOB_NAME in labels and CONTROLLER_UID in labels)
    causes += check_metadata_update(new["metadata"], old["metadata"])
    causes += of_spec
    causes += _check_completions(spec, before)
    causes += immutable("spec.selector", shown_selector(spec.get("selector")), shown_selector(before.get("selector")))
    causes += _check_template_change(new, old)
    causes += immutable("spec.completionMode", spec.get("completionMode"), before.get("completionMode"))
    for field, kind in (("podFailurePolicy", "PodFailurePolicy"), ("backoffLimitPerIndex", ""), ("managedBy", "")):
        causes += _check_immutable(field, kind, spec, before)
    return causes + _check_immutable("successPolicy", "SuccessPolicy", spec, before)


def _check_immutable(field: str, kind: str, new: Obj, old: Obj) -> list[Cause]:
    path, value = f"spec.{field}", new.get(field)
    if value == old.get(field):
        return []
    if kind and value is not None:
        return [internal.invalid(path, f"batch.{kind}", f"batch/v1.{kind}", value, IMMUTABLE)]
    return [invalid(path, value, IMMUTABLE)]


def _check_completions(new: Obj, old: Obj) -> list[Cause]:
    path, completions = "spec.completions", new.get("completions")
    if new.get("completionMode") != "Indexed":
        return immutable(path, completions, old.get("completions"))
    if completions is None or completions == old.get("completions") or completions == new.get("parallelism"):
        return []
    return [invalid(path, completions, "can only be modified in tandem with spec.parallelism")]


def _check_template_change(new: Obj, old: Obj) -> list[Cause]:
    after, before = spec_of(new)["template"], spec_of(old)["template"]
    if spec_of(old).get("suspend") and (old.get("status") or {}).get("startTime") is None:
        before = _with_scheduling_of(before, after)
    if after == before:
        return []
    types = ("core.PodTemplateSpec", "core/v1.PodTemplateSpec")
    return [internal.invalid("spec.template", *types, after, IMMUTABLE)]


def _with_scheduling_of(old: Obj, new: Obj) -> Obj:
    """The old template with what may change before a suspended Job first starts taken from the new one."""
    metadata = _taken(old.get("metadata") or {}, new.get("metadata") or {}, ("labels", "annotations"))
    fields = ("nodeSelector", "tolerations", "schedulingGates")
    spec = _taken(old.get("spec") or {}, new.get("spec") or {}, fields)
    affinity = _taken(spec.get("affinity") or {}, (new.get("spec") or {}).get("affinity") or {}, ("nodeAffinity",))
    if affinity or "affinity" in (new.get("spec") or {}):
        spec["affinity"] = affinity
    else:
        spec.pop("affinity", None)
    return {**old, "metadata": metadata, "spec": spec}


def _taken(old: Obj, new: Obj, fields: tuple[str, ...]) -> Obj:
    result = {key: value for key, value in old.items() if key not in fields}
    return {**result, **{field: new[field] for field in fields if field in new}}


def job_warnings(job: Obj, old: Obj | None) -> list[str]:
    """What is allowed but surprising: a name that cannot be a host name."""
    complaints = names.check_label(name_of(job)) if old is None else []
    if not complaints:
        return []
    advice = (
        "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended"
    )
    return [f"metadata.name: {advice}: [{' '.join(complaints)}]"]


# CronJobs


def check_cron_job(cron_job: Obj) -> list[Cause]:
    """A new CronJob, its metadata aside."""
    causes = _check_cron_spec(spec_of(cron_job), None)
    if len(name_of(cron_job)) > 52:
        causes.append(invalid("metadata.name", name_of(cron_job), "must be no more than 52 characters"))
    return causes


def check_cron_job_update(new: Obj, old: Obj) -> list[Cause]:
    causes = check_metadata_update(new["metadata"], old["metadata"])
    return causes + _check_cron_spec(spec_of(new), spec_of(old))


def _check_cron_spec(spec: Obj, old: Obj | None) -> list[Cause]:
    schedule = spec.get("schedule") or ""
    causes = _check_schedule(spec, old) if schedule else [required("spec.schedule")]
    causes += at_least_zero("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    zone = spec.get("timeZone")
    if zone is not None and (old is None or old.get("timeZone") != zone):
        causes += check_all("spec.timeZone", zone, zone_errors(zone))
    policies = ("Allow", "Forbid", "Replace")
    causes += check_choice("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), policies)
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    causes += check_job_template(template, "spec.jobTemplate.spec")
    if template.get("selector") is not None:
        detail = "`selector` will be auto-generated"
        causes.append(invalid("spec.jobTemplate.spec.selector", shown_selector(template["selector"]), detail))
    if template.get("manualSelector"):
        causes.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
    for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        causes += at_least_zero(f"spec.{field}", spec.get(field))
    return causes


def _check_schedule(spec: Obj, old: Obj | None) -> list[Cause]:
    schedule, path = spec["schedule"], "spec.schedule"
    error = schedule_error(schedule)
    causes = [invalid(path, schedule, error)] if error else []
    if "TZ" in schedule:
        if old is None or "TZ" not in (old.get("schedule") or ""):
            detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            causes.append(invalid(path, schedule, detail))
        elif spec.get("timeZone") is not None:
            detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            causes.append(invalid(path, schedule, detail))
    return causes
