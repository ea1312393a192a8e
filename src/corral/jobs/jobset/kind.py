"""The API group jobset.x-k8s.io: a JobSet is several Jobs that start, restart and end together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from corral.core import names, regex
from corral.core import validation as v
from corral.core.errors import Cause
from corral.core.meta import Obj, metadata_of, name_of, spec_of
from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Column, KindDef, Schema, VersionDef, age_column

GROUP = "jobset.x-k8s.io"
CONTROLLER = "jobset.sigs.k8s.io/jobset-controller"
MAX_INT32 = 2**31 - 1
WEBHOOK = "vjobset.kb.io"

FAILURE_REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
ACTIONS = (
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
)
_SUSPENDED_CHANGES = ("nodeSelector", "tolerations", "schedulingGates")
_POD_SUFFIX = 6  # a dash and five random characters


def _fixed() -> tuple[Schema, ...]:
    return (s.rule("self == oldSelf", "Value is immutable"),)


def job_template() -> Schema:
    """batch/v1 JobTemplateSpec, whose selector and completion mode the Job's own API fills in."""
    return dict(s.structural("io.k8s.api.batch.v1.JobTemplateSpec"))


def spec_schema() -> Schema:
    """JobSetSpec; a training runtime contains one too."""
    depends_on = s.obj(
        {"name": s.string(), "status": s.string(enum=("Ready", "Complete"))}, required=("name", "status")
    )
    replicated = s.obj(
        {
            "name": s.string(),
            "groupName": s.string(default="default"),
            "template": job_template(),
            "replicas": s.integer(default=1, minimum=0),
            "dependsOn": s.array(depends_on, list_type="map", keys=("name",), max_items=5, rules=_fixed()),
        },
        required=("name", "template"),
    )
    rule = s.obj(
        {
            "name": s.string(),
            "action": s.string(enum=ACTIONS),
            "onJobFailureReasons": s.array(s.string(), list_type="atomic"),
            "onJobFailureMessagePatterns": s.array(s.string(), list_type="atomic"),
            "targetReplicatedJobs": s.array(s.string(), list_type="atomic"),
        },
        required=("action",),
    )
    failure = s.obj(
        {
            "maxRestarts": s.integer(),
            "restartStrategy": s.string(enum=("Recreate", "BlockingRecreate", "InPlaceRestart"), default="Recreate"),
            "rules": s.array(rule, list_type="atomic"),
        },
        rules=_fixed(),
    )
    success = s.obj(
        {
            "operator": s.string(enum=("All", "Any")),
            "targetReplicatedJobs": s.array(s.string(), list_type="atomic"),
        },
        required=("operator",),
        rules=_fixed(),
    )
    network = s.obj(
        {
            "enableDNSHostnames": s.boolean(),
            "subdomain": s.string(),
            "publishNotReadyAddresses": s.boolean(),
        },
        rules=_fixed(),
    )
    startup = s.obj(
        {"startupPolicyOrder": s.string(enum=("AnyOrder", "InOrder"))},
        required=("startupPolicyOrder",),
        rules=_fixed(),
    )
    coordinator = s.obj(
        {"replicatedJob": s.string(), "jobIndex": s.integer("int64"), "podIndex": s.integer("int64")},
        required=("replicatedJob",),
    )
    claims = s.obj(
        {
            "templates": s.array(s.anything(), list_type="atomic", max_items=50),
            "retentionPolicy": s.obj({"whenDeleted": s.string(enum=("Delete", "Retain"), default="Delete")}),
        }
    )
    return s.obj(
        {
            "replicatedJobs": s.array(replicated, list_type="map", keys=("name",)),
            "network": network,
            "successPolicy": success,
            "failurePolicy": failure,
            "startupPolicy": startup,
            "suspend": s.boolean(),
            "coordinator": coordinator,
            "managedBy": s.string(),
            "ttlSecondsAfterFinished": s.integer(minimum=0),
            "volumeClaimPolicies": s.array(claims, list_type="atomic", max_items=50, rules=_fixed()),
        }
    )


def job_status_schema() -> Schema:
    """How many Jobs of one replicated job are in each state."""
    counts = ("ready", "succeeded", "failed", "active", "suspended")
    properties = {"name": s.string(), **{name: s.integer() for name in counts}}
    return s.obj(properties, required=("name", *counts))


def _schema() -> Schema:
    status = s.obj(
        {
            "conditions": s.conditions(),
            "restarts": s.integer(),
            "restartsCountTowardsMax": s.integer(),
            "previousInPlaceRestartAttempt": s.integer(),
            "currentInPlaceRestartAttempt": s.integer(),
            "terminalState": s.string(),
            "replicatedJobsStatus": s.array(job_status_schema(), list_type="map", keys=("name",)),
            "individualJobRestarts": s.mapping(s.integer()),
        }
    )
    return s.root(spec=spec_schema(), status=status)


def default_job_set(obj: Obj) -> None:
    """Fill in what upstream's webhook does; `obj` is a private copy."""
    spec = obj.setdefault("spec", {})
    default_spec(spec)


def default_spec(spec: Obj) -> None:
    """The defaults of a JobSetSpec, in place."""
    for replicated in spec.get("replicatedJobs") or ():
        template = replicated.setdefault("template", {}).setdefault("spec", {})
        template.setdefault("completionMode", "Indexed")
        template.setdefault("template", {}).setdefault("spec", {}).setdefault("restartPolicy", "OnFailure")
    spec.setdefault("successPolicy", {}).setdefault("operator", "All")
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    spec.setdefault("startupPolicy", {}).setdefault("startupPolicyOrder", "AnyOrder")
    for position, rule in enumerate((spec.get("failurePolicy") or {}).get("rules") or ()):
        if not rule.get("name"):
            rule["name"] = f"failurePolicyRule{position}"


def validate_job_set(obj: Obj) -> list[Cause]:
    """What upstream's webhook refuses on create and update."""
    spec = spec_of(obj)
    return [
        *_check_manager(spec.get("managedBy")),
        *_check_names(obj),
        *_check_targets(spec),
        *_check_rules(spec),
        *_check_dependencies(spec),
        *_check_coordinator(obj),
        *_check_in_place_restart(spec),
    ]


def _check_in_place_restart(spec: Obj) -> list[Cause]:
    """Pods that restart in place must not be replaced by their Jobs meanwhile."""
    if (spec.get("failurePolicy") or {}).get("restartStrategy") != "InPlaceRestart":
        return []
    causes = []
    for position, replicated in enumerate(spec.get("replicatedJobs") or ()):
        path = f"spec.replicatedJobs[{position}].template.spec"
        job, about = (replicated.get("template") or {}).get("spec") or {}, f"replicatedJob {replicated.get('name')}:"
        if job.get("backoffLimit") != MAX_INT32:
            text = f"{about} must be set to {MAX_INT32} (MaxInt32) when in-place restart is enabled"
            causes.append(v.invalid(f"{path}.backoffLimit", job.get("backoffLimit"), text))
        if job.get("podReplacementPolicy") != "Failed":
            text = f"{about} must be set to Failed when in-place restart is enabled"
            causes.append(v.invalid(f"{path}.podReplacementPolicy", job.get("podReplacementPolicy"), text))
        if job.get("completions") is None or job["completions"] != job.get("parallelism"):
            text = (
                f"{about} completions and parallelism must be set and equal to each other "
                "when in-place restart is enabled"
            )
            causes.append(v.invalid(f"{path}.completions", job.get("completions"), text))
    return causes


def _check_manager(manager: str | None) -> list[Cause]:
    if manager is None:
        return []
    path = "spec.managedBy"
    domain, slash, rest = manager.partition("/")
    if not slash or not rest or names.check_subdomain(domain):
        return [v.invalid(path, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    return [v.too_long(path, 63)] if len(manager) > 63 else []


def _jobs(spec: Obj) -> Iterator[tuple[str, Obj]]:
    for position, replicated in enumerate(spec.get("replicatedJobs") or ()):
        yield f"spec.replicatedJobs[{position}]", replicated


def _check_names(obj: Obj) -> list[Cause]:
    """The names of Jobs, pods and the service have to be DNS labels; a generated suffix counts as five letters."""
    causes = []
    base = name_of(obj) or str(metadata_of(obj).get("generateName") or "") + "x" * 5
    for path, replicated in _jobs(spec_of(obj)):
        replicas = int(replicated.get("replicas", 1))
        if replicas <= 0:
            continue
        job = f"{base}-{replicated.get('name')}-{replicas - 1}"
        causes += [v.invalid(f"{path}.name", job, text) for text in names.check_label_1035(job)]
        job_spec = (replicated.get("template") or {}).get("spec") or {}
        completions = job_spec.get("completions") or job_spec.get("parallelism") or 1
        if job_spec.get("completionMode", "Indexed") == "Indexed":
            pod = f"{job}-{int(completions) - 1}" + "-" + "x" * (_POD_SUFFIX - 1)
            causes += [v.invalid(f"{path}.name", pod, text) for text in names.check_label_1035(pod)]
    subdomain = (spec_of(obj).get("network") or {}).get("subdomain")
    if subdomain:
        path = "spec.network.subdomain"
        causes += [v.invalid(path, subdomain, text) for text in names.check_label_1035(subdomain)]
    return causes


def _check_targets(spec: Obj) -> list[Cause]:
    known = [str(replicated.get("name")) for _, replicated in _jobs(spec)]
    causes = []
    for position, name in enumerate((spec.get("successPolicy") or {}).get("targetReplicatedJobs") or ()):
        if name not in known:
            path = f"spec.successPolicy.targetReplicatedJobs[{position}]"
            causes.append(
                v.invalid(path, name, f"invalid replicatedJob name '{name}' does not appear in .spec.ReplicatedJobs")
            )
    return causes


def _check_rules(spec: Obj) -> list[Cause]:
    known = [str(replicated.get("name")) for _, replicated in _jobs(spec)]
    causes, seen = [], set()
    for position, rule in enumerate((spec.get("failurePolicy") or {}).get("rules") or ()):
        path = f"spec.failurePolicy.rules[{position}]"
        name = str(rule.get("name"))
        if not re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", name) or len(name) > 128:
            causes.append(v.invalid(f"{path}.name", name, "invalid failure policy rule name"))
        if name in seen:
            causes.append(v.duplicate(f"{path}.name", name))
        seen.add(name)
        for target in rule.get("targetReplicatedJobs") or ():
            if target not in known:
                text = (
                    f"invalid replicatedJob name '{target}' in failure policy does not appear in .spec.ReplicatedJobs"
                )
                causes.append(v.invalid(f"{path}.targetReplicatedJobs", target, text))
        for reason in rule.get("onJobFailureReasons") or ():
            if reason not in FAILURE_REASONS:
                text = f"invalid job failure reason '{reason}' in failure policy is not a recognized job failure reason"
                causes.append(v.invalid(f"{path}.onJobFailureReasons", reason, text))
        for pattern in rule.get("onJobFailureMessagePatterns") or ():
            try:
                regex.check(pattern)
            except regex.RegexError as error:
                causes.append(v.invalid(f"{path}.onJobFailureMessagePatterns", pattern, f"invalid pattern: {error}"))
    return causes


def _check_dependencies(spec: Obj) -> list[Cause]:
    causes: list[Cause] = []
    earlier: set[str] = set()
    in_order = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    for path, replicated in _jobs(spec):
        wanted = replicated.get("dependsOn") or []
        if wanted and in_order:
            causes.append(v.invalid(f"{path}.dependsOn", wanted, "DependsOn can't be used with InOrder startup policy"))
        if wanted and not earlier:
            causes.append(v.invalid(f"{path}.dependsOn", wanted, "DependsOn can't be set for the first ReplicatedJob"))
        for position, entry in enumerate(wanted):
            if earlier and entry.get("name") not in earlier:
                text = "replicatedJob cannot depend on the replicatedJob that is not listed before it"
                causes.append(v.invalid(f"{path}.dependsOn[{position}].name", entry.get("name"), text))
        earlier.add(str(replicated.get("name")))
    return causes


def _check_coordinator(obj: Obj) -> list[Cause]:
    spec = spec_of(obj)
    coordinator = spec.get("coordinator")
    if not coordinator:
        return []
    path, name = "spec.coordinator", coordinator.get("replicatedJob")
    found = next((replicated for _, replicated in _jobs(spec) if replicated.get("name") == name), None)
    if found is None:
        return [v.invalid(f"{path}.replicatedJob", name, f"coordinator replicatedJob {name} does not exist")]
    causes = []
    job_index, pod_index = int(coordinator.get("jobIndex") or 0), int(coordinator.get("podIndex") or 0)
    if not 0 <= job_index < int(found.get("replicas", 1)):
        text = f"coordinator job index {job_index} is invalid for replicatedJob {name}"
        causes.append(v.invalid(f"{path}.jobIndex", job_index, text))
    job_spec = (found.get("template") or {}).get("spec") or {}
    if job_spec.get("completionMode", "Indexed") != "Indexed":
        causes.append(v.invalid(path, name, "job for coordinator pod must be indexed completion mode"))
    elif not 0 <= pod_index < int(job_spec.get("completions") or job_spec.get("parallelism") or 1):
        text = f"coordinator pod index {pod_index} is invalid for replicatedJob {name} job index {job_index}"
        causes.append(v.invalid(f"{path}.podIndex", pod_index, text))
    endpoint = coordinator_endpoint(obj)
    if len(endpoint) > 63:
        causes.append(v.invalid(path, endpoint, names.check_label_value(endpoint)[0]))
    return causes


def subdomain_of(obj: Obj) -> str:
    """The name of the headless service pods are found under."""
    return str((spec_of(obj).get("network") or {}).get("subdomain") or name_of(obj))


def coordinator_endpoint(obj: Obj) -> str:
    """The host name of the coordinator pod, empty when there is none."""
    coordinator = spec_of(obj).get("coordinator")
    if not coordinator:
        return ""
    index = f"{coordinator.get('jobIndex') or 0}-{coordinator.get('podIndex') or 0}"
    return f"{name_of(obj)}-{coordinator.get('replicatedJob')}-{index}.{subdomain_of(obj)}"


def validate_job_set_update(new: Obj, old: Obj) -> list[Cause]:
    """Immutability: while suspended (before or after), what a queue controller injects may change."""
    fresh, held = spec_of(new), spec_of(old)
    causes = v.immutable("spec.managedBy", fresh.get("managedBy"), held.get("managedBy"))
    loose = bool(fresh.get("suspend")) or bool(held.get("suspend"))
    left = [_comparable(entry, loose) for entry in fresh.get("replicatedJobs") or ()]
    right = [_comparable(entry, loose) for entry in held.get("replicatedJobs") or ()]
    if left != right:
        causes.append(v.invalid("spec.replicatedJobs", fresh.get("replicatedJobs"), v.IMMUTABLE))
    return causes


def _comparable(replicated: Obj, loose: bool) -> Obj:
    """A replicated job without the fields that may change while the JobSet is suspended."""
    if not loose:
        return replicated
    template = dict(replicated.get("template") or {})
    job_spec = dict(template.get("spec") or {})
    pod = dict(job_spec.get("template") or {})
    metadata = {
        name: value for name, value in (pod.get("metadata") or {}).items() if name not in ("labels", "annotations")
    }
    spec = {name: value for name, value in (pod.get("spec") or {}).items() if name not in _SUSPENDED_CHANGES}
    job_spec["template"] = {"metadata": metadata, "spec": spec}
    return {**replicated, "template": {**template, "spec": job_spec}}


JOB_SET = KindDef(
    group=GROUP,
    descriptions="corral.jobs.jobset.descriptions:DESCRIPTIONS",
    kind="JobSet",
    plural="jobsets",
    versions=(
        VersionDef(
            "v1alpha2",
            _schema,
            status=True,
            columns=(
                Column("TerminalState", ".status.terminalState", description="Final state of JobSet"),
                Column("Restarts", ".status.restarts", description="Number of restarts"),
                Column("Completed", '.status.conditions[?(@.type=="Completed")].status'),
                Column("Suspended", ".spec.suspend", description="JobSet suspended"),
                age_column("Time this JobSet was created"),
            ),
        ),
    ),
    default=default_job_set,
)
JOB_SETS = JOB_SET.resource()
KINDS = (JOB_SET,)
