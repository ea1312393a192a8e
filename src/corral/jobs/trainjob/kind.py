"""The API group trainer.kubeflow.org/v1alpha1: TrainJob and the runtimes it is composed with.

The API changed between releases. This schema is their union: the older `podTemplateOverrides`, `podSpecOverrides`,
`labels`, `annotations`, `mlPolicy.torch.numProcPerNode` and `elasticPolicy` stand beside the newer `runtimePatches`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from corral.core import names
from corral.core import validation as v
from corral.core.errors import Cause
from corral.core.meta import Obj, labels_of, spec_of
from corral.core.quantity import milli
from corral.jobs.jobset.kind import default_spec, job_status_schema
from corral.jobs.jobset.kind import spec_schema as job_set_spec_schema
from corral.jobs.trainjob.torchtune import is_torchtune, validate_torchtune
from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Column, KindDef, Schema, VersionDef, age_column

GROUP = "trainer.kubeflow.org"
CONTROLLER = "trainer.kubeflow.org/trainjob-controller"
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
SUPPORT = "trainer.kubeflow.org/support"
STEPS = ("trainer", "dataset-initializer", "model-initializer")
POLICIES = ("torch", "mpi", "jax", "flux", "xgboost")
RESERVED_ENV = {
    "torch": ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    "jax": ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS"),
    "mpi": (
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_plm_rsh_args",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_set_default_slots",
    ),
    "xgboost": ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"),
}

_IMMUTABLE = "field is immutable"


def _fixed(message: str = _IMMUTABLE) -> Schema:
    return s.rule("self == oldSelf", message)


def _initializer() -> Schema:
    uri = s.string(
        rules=(
            s.rule(
                "self == '' || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')",
                "storageUri may be empty, or it must be a valid URI (scheme://...)",
            ),
        ),
    )
    return s.obj(
        {
            "storageUri": uri,
            "env": s.array(s.core_v1("EnvVar"), list_type="map", keys=("name",)),
            "secretRef": s.core_v1("LocalObjectReference"),
        }
    )


def _trainer() -> Schema:
    return s.obj(
        {
            "image": s.string(),
            "command": s.array(s.string(), list_type="atomic"),
            "args": s.array(s.string(), list_type="atomic"),
            "env": s.array(s.core_v1("EnvVar"), list_type="map", keys=("name",)),
            "numNodes": s.integer(minimum=0),
            "resourcesPerNode": s.core_v1("ResourceRequirements"),
            "numProcPerNode": s.int_or_string(
                rules=(
                    s.rule(
                        "type(self) == string || self >= 1",
                        "numProcPerNode must be greater than or equal to 1",
                    ),
                )
            ),
        },
    )


def _pod_spec_patch() -> Schema:
    """The parts of a pod spec that a TrainJob or a queue may lay over the runtime's."""
    fixed = (_fixed(),)
    container = s.obj(
        {
            "name": s.string(),
            "env": s.array(s.core_v1("EnvVar"), list_type="map", keys=("name",)),
            "volumeMounts": s.array(s.core_v1("VolumeMount")),
            "securityContext": s.core_v1("SecurityContext"),
        },
        required=("name",),
    )
    return s.obj(
        {
            "serviceAccountName": s.string(rules=fixed, max_length=253),
            "nodeSelector": s.mapping(s.string()),
            "affinity": s.core_v1("Affinity"),
            "tolerations": s.array(s.core_v1("Toleration"), list_type="atomic", max_items=128),
            "volumes": s.array(s.core_v1("Volume"), list_type="map", keys=("name",), max_items=128, rules=fixed),
            "initContainers": s.array(container, list_type="map", keys=("name",), max_items=64, rules=fixed),
            "containers": s.array(container, list_type="map", keys=("name",), max_items=64, rules=fixed),
            "schedulingGates": s.array(s.core_v1("PodSchedulingGate"), list_type="map", keys=("name",), max_items=16),
            "imagePullSecrets": s.array(
                s.obj({"name": s.string(default="")}), list_type="map", keys=("name",), rules=fixed
            ),
            "securityContext": s.core_v1("PodSecurityContext"),
            "terminationGracePeriodSeconds": s.integer("int64", rules=fixed),
        }
    )


def _meta() -> Schema:
    return s.obj({"labels": s.mapping(s.string()), "annotations": s.mapping(s.string())})


def _runtime_patches() -> Schema:
    # When patches may change is checked in code: as schema rules it would cost more than a server allows.
    pod = s.obj({"metadata": _meta(), "spec": _loose_pod_spec()})
    job = s.obj({"metadata": _meta(), "spec": s.obj({"template": pod})})
    replicated = s.obj({"name": s.string(), "template": job}, required=("name",))
    replicated_jobs = s.array(replicated, list_type="map", keys=("name",), max_items=100)
    template = s.obj({"metadata": _meta(), "spec": s.obj({"replicatedJobs": replicated_jobs})})
    entry = s.obj(
        {
            "manager": s.string(min_length=1, max_length=316, rules=(_fixed(),)),
            "time": s.time(),
            "trainingRuntimeSpec": s.obj({"template": template}),
        },
        required=("manager",),
    )
    return s.array(entry, list_type="map", keys=("manager",), max_items=16)


def _overrides() -> Schema:
    """The older way to change pods: `podTemplateOverrides` of release 2.1."""
    target = s.obj({"name": s.string()}, required=("name",))
    return s.array(
        s.obj(
            {
                "targetJobs": s.array(target, list_type="atomic"),
                "metadata": _meta(),
                "spec": _loose_pod_spec(),
            }
        ),
        list_type="atomic",
    )


def _loose_pod_spec() -> Schema:
    schema = _pod_spec_patch()
    for field in schema["properties"].values():
        field.pop("x-kubernetes-validations", None)
    return schema


def _spec_overrides() -> Schema:
    """`podSpecOverrides` of release 2.0: the same with the pod spec's fields at the top."""
    target = s.obj({"name": s.string()}, required=("name",))
    properties = {"targetJobs": s.array(target, list_type="atomic"), **_loose_pod_spec()["properties"]}
    return s.array(s.obj(properties), list_type="atomic")


def _train_job() -> Schema:
    reference = s.obj(
        {
            "name": s.string(),
            "apiGroup": s.string(default=GROUP),
            "kind": s.string(default="ClusterTrainingRuntime"),
        },
        required=("name",),
        rules=(_fixed(),),
    )
    manager = s.string(
        default=CONTROLLER,
        rules=(
            s.rule(
                f"self in ['{CONTROLLER}', '{MULTIKUEUE}']",
                f"ManagedBy must be {CONTROLLER} or {MULTIKUEUE} if set",
            ),
            _fixed(),
        ),
    )
    spec = s.obj(
        {
            "runtimeRef": reference,
            "initializer": s.obj({"dataset": _initializer(), "model": _initializer()}, rules=(_fixed(),)),
            "trainer": s.obj(_trainer()["properties"], rules=(_fixed(),)),
            "runtimePatches": _runtime_patches(),
            "podTemplateOverrides": _overrides(),
            "podSpecOverrides": _spec_overrides(),
            "labels": s.mapping(s.string()),
            "annotations": s.mapping(s.string()),
            "suspend": s.boolean(default=False),
            "activeDeadlineSeconds": s.integer("int64", minimum=1, rules=(_fixed(),)),
            "managedBy": manager,
        },
        required=("runtimeRef",),
    )
    short = s.string(min_length=1, max_length=64)
    metric = s.obj({"name": short, "value": short}, required=("name", "value"))
    progress = s.obj(
        {
            "progressPercentage": s.integer(minimum=0, maximum=100),
            "estimatedRemainingSeconds": s.integer(minimum=0),
            "metrics": s.array(metric, list_type="atomic", max_items=256),
            "lastUpdatedTime": s.time(),
        }
    )
    status = s.obj(
        {
            "conditions": s.conditions(),
            "jobsStatus": s.array(job_status_schema(), list_type="map", keys=("name",)),
            "trainerStatus": progress,
        }
    )
    name_rules = (
        s.rule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name must match RFC 1035 DNS label format",
        ),
        s.rule("size(self.metadata.name) <= 63", "metadata.name must be no more than 63 characters"),
    )
    return s.root(spec=spec, status=status, rules=name_rules)


def _runtime() -> Schema:
    elastic = s.obj(
        {
            "maxRestarts": s.integer(),
            "minNodes": s.integer(),
            "maxNodes": s.integer(),
            "metrics": s.array(s.anything()),
        }
    )
    names = s.array(
        s.string(max_length=63),
        list_type="set",
        min_items=1,
        max_items=8,
        rules=(
            s.rule(
                "!self.exists(c, c == 'node')",
                "containerNames must not include the main node container "
                "because PET_* envs are always injected into it",
            ),
        ),
    )
    target = s.obj(
        {"jobName": s.string(min_length=1, max_length=253), "containerNames": names},
        required=("jobName", "containerNames"),
    )
    policy = s.obj(
        {
            "numNodes": s.integer(default=1),
            "torch": s.obj(
                {
                    "numProcPerNode": s.int_or_string(),
                    "elasticPolicy": elastic,
                    "envInjection": s.obj(
                        {"targets": s.array(target, list_type="map", keys=("jobName",), max_items=16)}
                    ),
                }
            ),
            "mpi": s.obj(
                {
                    "numProcPerNode": s.integer(default=1),
                    "mpiImplementation": s.string(enum=("OpenMPI", "Intel", "MPICH"), default="OpenMPI"),
                    "sshAuthMountPath": s.string(default="/root/.ssh"),
                    "runLauncherAsNode": s.boolean(default=False),
                }
            ),
            "flux": s.obj({"numProcPerNode": s.integer(default=1)}),
            "jax": s.obj({}),
            "xgboost": s.obj({}),
        },
        rules=(
            s.rule(
                f"[{', '.join(f'has(self.{name})' for name in POLICIES)}].filter(x, x).size() <= 1",
                "Only one of the policy can be configured",
            ),
        ),
    )
    group = s.obj(
        {
            "coscheduling": s.obj({"scheduleTimeoutSeconds": s.integer(default=60)}),
            "volcano": s.obj({"networkTopology": s.anything()}),
        }
    )
    template = s.obj({"metadata": _meta(), "spec": _loose_job_set_spec()})
    spec = s.obj({"mlPolicy": policy, "podGroupPolicy": group, "template": template}, required=("template",))
    return s.root(spec=spec)


def _loose_job_set_spec() -> Schema:
    """A JobSetSpec inside a runtime: a runtime may be edited, so nothing in it is immutable."""
    schema = job_set_spec_schema()
    for field in schema["properties"].values():
        field.pop("x-kubernetes-validations", None)
    return schema


def _default_runtime(obj: Obj) -> None:
    template = spec_of(obj).get("template") or {}
    if template.get("spec"):
        default_spec(template["spec"])


# Rules of upstream's webhooks


def ancestor_of(replicated: Obj) -> str:
    """Which step of a TrainJob a replicated job plays; empty for none."""
    metadata = (replicated.get("template") or {}).get("metadata") or {}
    return str((metadata.get("labels") or {}).get(ANCESTOR) or "")


def containers_of(replicated: Obj) -> list[Obj]:
    job_spec = (replicated.get("template") or {}).get("spec") or {}
    return list(((job_spec.get("template") or {}).get("spec") or {}).get("containers") or [])


def replicated_jobs_of(runtime: Obj) -> list[Obj]:
    return list(((spec_of(runtime).get("template") or {}).get("spec") or {}).get("replicatedJobs") or [])


def policy_of(runtime: Obj) -> str:
    """The framework a runtime is for; `plainml` when it names none."""
    policy = spec_of(runtime).get("mlPolicy") or {}
    return next((name for name in POLICIES if policy.get(name) is not None), "plainml")


def validate_runtime(obj: Obj) -> list[Cause]:
    causes = []
    for position, replicated in enumerate(replicated_jobs_of(obj)):
        path = f"spec.template.spec.replicatedJobs[{position}]"
        step = ancestor_of(replicated)
        if not step:
            continue
        if replicated.get("replicas") not in (None, 1):
            causes.append(v.invalid(f"{path}.replicas", replicated["replicas"], "always must be 1"))
        wanted = "node" if step == "trainer" else step
        if step in STEPS and not any(entry.get("name") == wanted for entry in containers_of(replicated)):
            text = f"must have container with name - {wanted} in the {replicated.get('name')} job"
            causes.append(v.invalid(f"{path}.template.spec.template.spec.containers", containers_of(replicated), text))
    return causes


def validate_train_job(new: Obj, old: Obj | None, runtime: Obj | None, *, active: bool = False) -> list[Cause]:
    """What upstream's webhook refuses. `active`: some replicated job of its JobSet is running."""
    spec = spec_of(new)
    reference = spec.get("runtimeRef") or {}
    if runtime is None:
        kind = str(reference.get("kind") or "ClusterTrainingRuntime")
        noun = kind[:1].lower() + kind[1:]
        text = f"specified {noun} must be created before the TrainJob is created"
        return [v.invalid("spec.runtimeRef", reference, text)] if old is None else []
    causes = _check_initializers(spec, runtime)
    causes += _check_env(spec, runtime)
    causes += _check_policy(new, runtime)
    return causes + _check_patches(new, old, active)


def _check_policy(train_job: Obj, runtime: Obj) -> list[Cause]:
    """What the framework of the runtime asks of a TrainJob."""
    policy, spec = spec_of(runtime).get("mlPolicy") or {}, spec_of(train_job)
    jobs = {str(entry.get("name")): entry for entry in replicated_jobs_of(runtime)}
    nodes = (spec.get("trainer") or {}).get("numNodes")
    if (
        (policy.get("mpi") or {}).get("runLauncherAsNode")
        and int(nodes or 1) >= 2
        and not {"launcher", "node"} <= jobs.keys()
    ):
        text = (
            "must have 1 when MPI trainingRuntime with enabled runLauncherAsNode does not have either launcher and node"
        )
        return [v.invalid("spec.trainer.numNodes", nodes, text)]
    if policy.get("torch") is None:
        return []
    causes = [
        v.invalid(
            "spec.runtimeRef",
            target,
            f'envInjection target podSet "{target["jobName"]}" container "{name}" not found in runtime template',
        )
        for target in injection_targets(runtime)
        for name in target["containerNames"]
        if not any(entry.get("name") == name for entry in all_containers_of(jobs.get(target["jobName"]) or {}))
    ]
    if is_torchtune(train_job):
        causes += validate_torchtune(train_job, gpus_in(resources_per_node(train_job, runtime)))
    return causes


def injection_targets(runtime: Obj) -> list[Obj]:
    """Containers beside the trainer's that get torch's variables too."""
    torch = (spec_of(runtime).get("mlPolicy") or {}).get("torch") or {}
    return list((torch.get("envInjection") or {}).get("targets") or [])


def all_containers_of(replicated: Obj) -> list[Obj]:
    job_spec = (replicated.get("template") or {}).get("spec") or {}
    pod = (job_spec.get("template") or {}).get("spec") or {}
    return [*(pod.get("initContainers") or ()), *(pod.get("containers") or ())]


def resources_per_node(train_job: Obj, runtime: Obj) -> Obj:
    """What one training node asks for: as the TrainJob says, else as the runtime does."""
    own = (spec_of(train_job).get("trainer") or {}).get("resourcesPerNode")
    if own:
        return dict(own)
    trainers = (entry for entry in replicated_jobs_of(runtime) if ancestor_of(entry) == "trainer")
    containers = (item for entry in trainers for item in containers_of(entry) if item.get("name") == "node")
    return dict(next((item.get("resources") or {} for item in containers), {}))


def gpus_in(resources: Obj) -> int:
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return sum(math.ceil(milli(value) / 1000) for name, value in amounts.items() if "gpu" in name.lower())


def _check_initializers(spec: Obj, runtime: Obj) -> list[Cause]:
    causes = []
    jobs = {ancestor_of(replicated): replicated for replicated in replicated_jobs_of(runtime)}
    for name in ("dataset", "model"):
        step = f"{name}-initializer"
        if (spec.get("initializer") or {}).get(name) is None:
            continue
        replicated = jobs.get(step)
        if replicated is None or not any(entry.get("name") == step for entry in containers_of(replicated)):
            text = f"must have {step} job when trainJob is configured with input {name} config"
            causes.append(v.invalid("spec.runtimeRef", spec.get("runtimeRef"), text))
    return causes


def _check_env(spec: Obj, runtime: Obj) -> list[Cause]:
    reserved = RESERVED_ENV.get(policy_of(runtime), ())
    env = (spec.get("trainer") or {}).get("env") or []
    if policy_of(runtime) == "xgboost":
        return [
            v.forbidden(f"spec.trainer.env[{position}]", f"{entry['name']} is reserved for the XGBoost runtime")
            for position, entry in enumerate(env)
            if entry.get("name") in reserved
        ]
    clashes = [entry["name"] for entry in env if entry.get("name") in reserved]
    if not clashes:
        return []
    text = f"must not have reserved envs, invalid envs configured: [{', '.join(clashes)}]"
    return [v.invalid("spec.trainer.env", env, text)]


def _check_patches(new: Obj, old: Obj | None, active: bool) -> list[Cause]:
    fresh = spec_of(new).get("runtimePatches") or []
    causes = []
    for position, entry in enumerate(fresh):
        for where, container in _patched_containers(entry):
            if container.get("env") and container.get("name") in ("node", *STEPS[1:]):
                text = f"must not have envs for the {container['name']} container"
                causes.append(v.forbidden(f"spec.runtimePatches[{position}].{where}", text))
    if old is None or fresh == (spec_of(old).get("runtimePatches") or []):
        return causes
    if not (spec_of(new).get("suspend") or spec_of(old).get("suspend")):
        text = "runtimePatches can only be modified when the TrainJob is suspended"
        causes.append(v.forbidden("spec.runtimePatches", text))
    elif active:
        text = "runtimePatches cannot be modified when the JobSet's ReplicatedJob is still active"
        causes.append(v.forbidden("spec.runtimePatches", text))
    return causes


FIXED_IN_PATCHES = (
    "serviceAccountName", "volumes", "initContainers", "containers", "imagePullSecrets", "securityContext",
    "terminationGracePeriodSeconds",
)  # fmt: skip
"""What a patch brings into pods once and for all; the rest is for queues to change."""


def _validate_train_job(obj: Obj) -> list[Cause]:
    causes = []
    for position, entry in enumerate(spec_of(obj).get("runtimePatches") or ()):
        manager = str(entry.get("manager") or "")
        domain, slash, rest = manager.partition("/")
        if not slash or not rest or names.check_subdomain(domain):
            text = 'must be a domain-prefixed path (such as "acme.io/foo")'
            causes.append(v.invalid(f"spec.runtimePatches[{position}].manager", manager, text))
    return causes


def _validate_train_job_update(new: Obj, old: Obj) -> list[Cause]:
    held = {entry.get("manager"): _patched_pods(entry) for entry in spec_of(old).get("runtimePatches") or ()}
    causes = []
    for position, entry in enumerate(spec_of(new).get("runtimePatches") or ()):
        before = held.get(entry.get("manager")) or {}
        for job, (place, pod) in _patched_pods(entry).items():
            if job in before:
                was = before[job][1]
                causes += [
                    v.invalid(f"spec.runtimePatches[{position}].{place}.{name}", pod.get(name), _IMMUTABLE)
                    for name in FIXED_IN_PATCHES
                    if name in was and pod.get(name) != was[name]
                ]
    return _validate_train_job(new) + causes


def _patched_pods(entry: Obj) -> dict[str, tuple[str, Obj]]:
    """Per replicated job, where a patch changes its pods and how."""
    template = (entry.get("trainingRuntimeSpec") or {}).get("template") or {}
    pods = {}
    for index, replicated in enumerate((template.get("spec") or {}).get("replicatedJobs") or ()):
        job_spec = (replicated.get("template") or {}).get("spec") or {}
        place = f"trainingRuntimeSpec.template.spec.replicatedJobs[{index}].template.spec.template.spec"
        pods[str(replicated.get("name"))] = (place, (job_spec.get("template") or {}).get("spec") or {})
    return pods


def _patched_containers(entry: Obj) -> Iterable[tuple[str, Obj]]:
    for place, pod in _patched_pods(entry).values():
        for position, container in enumerate(pod.get("containers") or ()):
            yield f"{place}.containers[{position}].env", container


def stamp_patches(new: Obj, old: Obj | None, now: str) -> Obj:
    """The TrainJob with the time of writing on every runtime patch that is new or changed."""
    fresh = spec_of(new).get("runtimePatches") or []
    if not fresh:
        return new
    held: Mapping[str, Obj] = {
        str(entry.get("manager")): entry for entry in (spec_of(old).get("runtimePatches") or [] if old else [])
    }
    stamped = []
    for entry in fresh:
        before = held.get(str(entry.get("manager")))
        if before is not None and _untimed(before) == _untimed(entry):
            stamped.append({**entry, **({"time": before["time"]} if "time" in before else {})})
        else:
            stamped.append({**entry, "time": now})
    return {**new, "spec": {**spec_of(new), "runtimePatches": stamped}}


def _untimed(entry: Obj) -> Obj:
    return {name: value for name, value in entry.items() if name != "time"}


def runtime_warnings(runtime: Obj) -> list[str]:
    if labels_of(runtime).get(SUPPORT) != "deprecated":
        return []
    kind, name = runtime.get("kind"), (runtime.get("metadata") or {}).get("name")
    return [f'Referenced {kind} "{name}" is deprecated and will be removed in a future release of Kubeflow Trainer.']


TRAIN_JOB = KindDef(
    group=GROUP,
    descriptions="corral.jobs.trainjob.descriptions:DESCRIPTIONS",
    kind="TrainJob",
    plural="trainjobs",
    validate=_validate_train_job,
    validate_update=_validate_train_job_update,
    versions=(
        VersionDef(
            "v1alpha1",
            _train_job,
            status=True,
            columns=(Column("State", ".status.conditions[-1:].type"), age_column()),
        ),
    ),
)
TRAINING_RUNTIME = KindDef(
    group=GROUP,
    descriptions="corral.jobs.trainjob.descriptions:DESCRIPTIONS",
    kind="TrainingRuntime",
    inert_fields={"spec.mlPolicy.flux": "there is no Flux; the other policies have their effect"},
    plural="trainingruntimes",
    versions=(VersionDef("v1alpha1", _runtime),),
    default=_default_runtime,
)
CLUSTER_TRAINING_RUNTIME = KindDef(
    group=GROUP,
    descriptions="corral.jobs.trainjob.descriptions:DESCRIPTIONS",
    kind="ClusterTrainingRuntime",
    inert_fields={"spec.mlPolicy.flux": "there is no Flux; the other policies have their effect"},
    plural="clustertrainingruntimes",
    namespaced=False,
    versions=(VersionDef("v1alpha1", _runtime),),
    default=_default_runtime,
)
TRAIN_JOBS = TRAIN_JOB.resource()
TRAINING_RUNTIMES = TRAINING_RUNTIME.resource()
CLUSTER_TRAINING_RUNTIMES = CLUSTER_TRAINING_RUNTIME.resource()
KINDS = (TRAIN_JOB, TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME)
