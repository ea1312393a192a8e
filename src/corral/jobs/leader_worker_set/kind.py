"""The API group leaderworkerset.x-k8s.io/v1: groups of one leader and its workers."""

from __future__ import annotations

from corral.core import names
from corral.core import validation as v
from corral.core.errors import Cause
from corral.core.meta import Obj, annotations_of, name_of, spec_of
from corral.core.whole_numbers import whole_number
from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Column, KindDef, ScalePaths, Schema, VersionDef, age_column

GROUP = "leaderworkerset.x-k8s.io"
PREFIX = "leaderworkerset.sigs.k8s.io"
NAME = f"{PREFIX}/name"
GROUP_INDEX = f"{PREFIX}/group-index"
WORKER_INDEX = f"{PREFIX}/worker-index"
GROUP_KEY = f"{PREFIX}/group-key"
REVISION = f"{PREFIX}/template-revision-hash"
SIZE = f"{PREFIX}/size"
LEADER_NAME = f"{PREFIX}/leader-name"
REPLICAS = f"{PREFIX}/replicas"
SUBDOMAIN_POLICY = f"{PREFIX}/subdomainPolicy"
SUBGROUP_SIZE = f"{PREFIX}/subgroup-size"
SUBGROUP_TYPE = f"{PREFIX}/subgroup-policy-type"
SUBGROUP_INDEX = f"{PREFIX}/subgroup-index"
SUBGROUP_KEY = f"{PREFIX}/subgroup-key"
EXCLUSIVE = f"{PREFIX}/exclusive-topology"
SUBGROUP_EXCLUSIVE = f"{PREFIX}/subgroup-exclusive-topology"


def _schema() -> Schema:
    template = s.obj(
        {
            "leaderTemplate": s.pod_template(),
            "workerTemplate": s.pod_template(),
            "size": s.integer(default=1, minimum=1),
            "restartPolicy": s.string(
                enum=("Default", "RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"),
                default="RecreateGroupOnPodRestart",
            ),
            "subGroupPolicy": s.obj(
                {
                    "subGroupSize": s.integer(),
                    "subGroupPolicyType": s.string(enum=("LeaderWorker", "LeaderExcluded")),
                }
            ),
            "volumeClaimTemplates": s.array(s.anything(), list_type="atomic"),
            "persistentVolumeClaimRetentionPolicy": s.anything(),
        },
        required=("workerTemplate",),
    )
    rolling = s.obj(
        {
            "partition": s.integer(default=0, minimum=0),
            "maxUnavailable": s.int_or_string(default=1),
            "maxSurge": s.int_or_string(default=0),
        }
    )
    rollout = s.obj(
        {
            "type": s.string(enum=("RollingUpdate",), default="RollingUpdate"),
            "rollingUpdateConfiguration": rolling,
        },
        required=("type",),
    )
    spec = s.obj(
        {
            "replicas": s.integer(default=1, minimum=0),
            "leaderWorkerTemplate": template,
            "rolloutStrategy": rollout,
            "startupPolicy": s.string(enum=("LeaderCreated", "LeaderReady"), default="LeaderCreated"),
            "networkConfig": s.obj({"subdomainPolicy": s.string(enum=("Shared", "UniquePerReplica"))}),
        },
        required=("leaderWorkerTemplate",),
    )
    status = s.obj(
        {
            "conditions": s.conditions(),
            "readyReplicas": s.integer(),
            "updatedReplicas": s.integer(),
            "replicas": s.integer(),
            "hpaPodSelector": s.string(),
            "observedGeneration": s.integer("int64"),
        }
    )
    return s.root(spec=spec, status=status)


def default_leader_worker_set(obj: Obj) -> None:
    """Fill in what upstream's webhook does; `obj` is a private copy. Go's clients send what is not said as an empty text."""
    spec = obj.setdefault("spec", {})
    template = spec.setdefault("leaderWorkerTemplate", {})
    if template.get("restartPolicy") == "Default":
        template["restartPolicy"] = "None"
    template["restartPolicy"] = template.get("restartPolicy") or "RecreateGroupOnPodRestart"
    strategy = spec.setdefault("rolloutStrategy", {})
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    rolling = strategy.setdefault("rollingUpdateConfiguration", {})
    rolling.setdefault("partition", 0)
    rolling.setdefault("maxUnavailable", 1)
    rolling.setdefault("maxSurge", 0)
    spec.setdefault("networkConfig", {}).setdefault("subdomainPolicy", "Shared")


def size_of(obj: Obj) -> int:
    return int((spec_of(obj).get("leaderWorkerTemplate") or {}).get("size") or 1)


def replicas_of(obj: Obj) -> int:
    value = spec_of(obj).get("replicas")
    return 1 if value is None else int(value)


def leader_template(obj: Obj) -> Obj:
    """The leader's pod template; the workers' when it has none of its own."""
    template = spec_of(obj).get("leaderWorkerTemplate") or {}
    return template.get("leaderTemplate") or template.get("workerTemplate") or {}


def worker_template(obj: Obj) -> Obj:
    return (spec_of(obj).get("leaderWorkerTemplate") or {}).get("workerTemplate") or {}


def subgroup_policy(obj: Obj) -> Obj | None:
    policy: Obj | None = (spec_of(obj).get("leaderWorkerTemplate") or {}).get("subGroupPolicy")
    return policy


def _check_subgroups(new: Obj, old: Obj | None) -> list[Cause]:
    path, policy = "spec.leaderWorkerTemplate.SubGroupPolicy.subGroupSize", subgroup_policy(new)
    before = subgroup_policy(old) if old is not None else None
    if old is not None and policy is not None and before is None:
        text = "cannot enable subGroupSize after the lws is already created"
        return [v.invalid(path, policy.get("subGroupSize"), text)]
    if old is not None and policy is None and before is not None:
        return [v.invalid(path, before.get("subGroupSize"), "cannot remove subGroupSize after enabled")]
    if policy is None:
        if SUBGROUP_EXCLUSIVE in annotations_of(new):
            text = "cannot have subgroup-exclusive-topology without subGroupSize set"
            where = f"metadata.annotations.{SUBGROUP_EXCLUSIVE}"
            return [v.invalid(where, annotations_of(new)[SUBGROUP_EXCLUSIVE], text)]
        return []
    size, part = size_of(new), int(policy.get("subGroupSize") or 0)
    if part < 1:
        return [v.invalid(path, part, "subGroupSize must be equal or greater than 1")]
    causes = v.immutable(path, part, before.get("subGroupSize")) if before is not None else []
    if size % part and (size - 1) % part:
        causes.append(v.invalid(path, part, "size or size - 1 must be divisible by subGroupSize"))
    if size < part:
        causes.append(v.invalid(path, part, "subGroupSize cannot be larger than size"))
    if policy.get("subGroupPolicyType") == "LeaderExcluded" and (size - 1) % part:
        causes.append(v.invalid(path, part, "size-1 must be divisible by subGroupSize when using LeaderExcluded"))
    return causes


def validate_leader_worker_set(new: Obj, old: Obj | None) -> list[Cause]:
    causes = _check_subgroups(new, old)
    causes += [v.invalid("metadata.name", name_of(new), text) for text in names.check_label_1035(name_of(new))]
    if replicas_of(new) > 1000000:
        text = "replicas must be equal or less than 1000000"
        causes.append(v.invalid("spec.replicas", replicas_of(new), text))
    if replicas_of(new) * size_of(new) > 2147483647:
        text = f"the product of replicas and worker replicas must not exceed {2**31 - 1}"
        causes.append(v.invalid("spec.replicas", replicas_of(new), text))
    rolling = (spec_of(new).get("rolloutStrategy") or {}).get("rollingUpdateConfiguration") or {}
    for name in ("maxUnavailable", "maxSurge"):
        text = str(rolling.get(name, 0))
        if text.endswith("%") and (whole_number(text[:-1]) or 0) > 100:
            path = f"spec.rolloutStrategy.rollingUpdateConfiguration.{name}"
            causes.append(v.invalid(path, rolling[name], "must not be greater than 100%"))
    if str(rolling.get("maxUnavailable", 1)) in ("0", "0%") and str(rolling.get("maxSurge", 0)) in ("0", "0%"):
        path = "spec.rolloutStrategy.rollingUpdateConfiguration.maxUnavailable"
        causes.append(v.invalid(path, rolling.get("maxUnavailable"), "must not be 0 when `maxSurge` is 0"))
    return causes


def service_name(obj: Obj, group: int) -> str:
    """The headless service of a group's pods."""
    policy = (spec_of(obj).get("networkConfig") or {}).get("subdomainPolicy")
    return f"{name_of(obj)}-{group}" if policy == "UniquePerReplica" else name_of(obj)


LEADER_WORKER_SET = KindDef(
    group=GROUP,
    descriptions="corral.jobs.leader_worker_set.descriptions:DESCRIPTIONS",
    kind="LeaderWorkerSet",
    plural="leaderworkersets",
    short_names=("lws",),
    versions=(
        VersionDef(
            "v1",
            _schema,
            status=True,
            scale=ScalePaths(".spec.replicas", ".status.replicas", ".status.hpaPodSelector"),
            columns=(
                Column("Ready", ".status.readyReplicas", type="integer"),
                Column("Desired", ".spec.replicas", type="integer"),
                Column("Up-to-date", ".status.updatedReplicas", type="integer"),
                age_column(),
            ),
        ),
    ),
    default=default_leader_worker_set,
    validate=lambda obj: validate_leader_worker_set(obj, None),
)
LEADER_WORKER_SETS = LEADER_WORKER_SET.resource()
KINDS = (LEADER_WORKER_SET,)
