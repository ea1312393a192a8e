"""Schemas of members, overrides, envelopes, evictions, budgets and staged updates."""

from __future__ import annotations

from corral.kinds.fleet.placement_schemas import apply_strategy
from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Schema


def _taint() -> Schema:
    return s.obj(
        {"key": s.string(), "value": s.string(), "effect": s.string(enum=("NoSchedule",))}, required=("key", "effect")
    )


def _usage() -> Schema:
    amounts = s.mapping(s.quantity())
    return s.obj({"capacity": amounts, "allocatable": amounts, "available": amounts, "observationTime": s.time()})


def _member_status() -> dict[str, Schema]:
    agent = s.obj(
        {"type": s.string(), "conditions": s.array(s.condition()), "lastReceivedHeartbeat": s.time()},
        required=("type",),
    )
    value = s.obj({"value": s.string(), "observationTime": s.time()}, required=("observationTime", "value"))
    return {
        "conditions": s.conditions(),
        "properties": s.mapping(value),
        "resourceUsage": _usage(),
        "agentStatus": s.array(agent),
    }


def member_cluster(version: str) -> Schema:
    identity = s.obj(
        {"kind": s.string(), "apiGroup": s.string(), "name": s.string(), "namespace": s.string()},
        required=("kind", "name"),
    )
    fields = {
        "identity": identity,
        "heartbeatPeriodSeconds": s.integer(default=60, minimum=1, maximum=600),
        "taints": s.array(_taint(), maxItems=100),
    }
    status = _member_status()
    if version == "v1beta1":
        fields["deleteOptions"] = s.obj({"validationMode": s.string(enum=("Strict", "Skip"), default="Strict")})
        status["namespaces"] = s.mapping(s.string())
    spec = s.obj(fields, required=("identity",))
    return s.root(
        spec=spec,
        status=s.obj(status),
        required=("spec",),
        rules=(s.rule("size(self.metadata.name) < 64", "metadata.name max length is 63"),),
    )


def internal_member_cluster() -> Schema:
    spec = s.obj(
        {
            "state": s.string(enum=("Join", "Leave")),
            "heartbeatPeriodSeconds": s.integer(default=60, minimum=1, maximum=600),
        },
        required=("state",),
    )
    status = s.obj({**_member_status(), "namespaces": s.mapping(s.string())})
    return s.root(spec=spec, status=status, required=("spec",))


def _override_policy() -> Schema:
    patch = s.obj(
        {
            "op": s.string(enum=("add", "remove", "replace")),
            "path": s.string(),
            "value": {"x-kubernetes-preserve-unknown-fields": True},
        },
        required=("op", "path"),
    )
    terms = s.array(
        s.obj({"labelSelector": s.label_selector(), "propertySelector": s.anything(), "propertySorter": s.anything()}),
        maxItems=10,
    )
    rule = s.obj(
        {
            "clusterSelector": s.obj({"clusterSelectorTerms": terms}, required=("clusterSelectorTerms",)),
            "overrideType": s.string(enum=("JSONPatch", "Delete"), default="JSONPatch"),
            "jsonPatchOverrides": s.array(patch, minItems=1, maxItems=20),
        }
    )
    return s.obj({"overrideRules": s.array(rule, minItems=1, maxItems=20)}, required=("overrideRules",))


def _override_spec(*, cluster: bool) -> Schema:
    reference = s.obj(
        {"name": s.string(), "scope": s.string(enum=("Cluster", "Namespaced"), default="Cluster")}, required=("name",)
    )
    selected = {"group": s.string(), "version": s.string(), "kind": s.string(), "name": s.string()}
    if cluster:
        selected["labelSelector"] = s.label_selector()
        selected["selectionScope"] = s.string(default="NamespaceWithResources")
    selectors = s.array(s.obj(selected, required=("group", "kind", "version")), minItems=1, maxItems=20)
    rules = [
        s.rule(
            "(has(oldSelf.placement) && has(self.placement) && oldSelf.placement == self.placement)"
            " || (!has(oldSelf.placement) && !has(self.placement))",
            "The placement field is immutable",
        )
    ]
    name = "clusterResourceSelectors" if cluster else "resourceSelectors"
    return s.obj(
        {"placement": reference, name: selectors, "policy": _override_policy()},
        required=(name, "policy"),
        rules=tuple(rules),
    )


def override(*, cluster: bool) -> Schema:
    wide = s.rule(
        "!(has(self.spec.placement) && has(self.spec.placement.scope) && self.spec.placement.scope == 'Namespaced')",
        "clusterResourceOverride placement reference cannot be Namespaced scope",
    )
    return s.root(spec=_override_spec(cluster=cluster), required=("spec",), rules=(wide,) if cluster else ())


def override_snapshot(*, cluster: bool) -> Schema:
    spec = s.obj(
        {"overrideSpec": _override_spec(cluster=cluster), "overrideHash": s.string(format="byte")},
        required=("overrideHash", "overrideSpec"),
    )
    return s.root(spec=spec, required=("spec",))


def envelope() -> Schema:
    root = s.root()
    root["properties"]["data"] = s.mapping(s.embedded(), minProperties=1, maxProperties=50)
    root["required"] = ["data"]
    return root


def eviction() -> Schema:
    spec = s.obj(
        {
            "placementName": s.string(
                maxLength=255, rules=(s.rule("self == oldSelf", "The PlacementName field is immutable"),)
            ),
            "clusterName": s.string(
                maxLength=255, rules=(s.rule("self == oldSelf", "The ClusterName field is immutable"),)
            ),
        },
        required=("clusterName", "placementName"),
    )
    return s.root(spec=spec, status=s.obj({"conditions": s.conditions()}), required=("spec",))


def disruption_budget() -> Schema:
    amount = {"pattern": r"^(100|[0-9]{1,2})%$"}
    spec = s.obj(
        {"maxUnavailable": s.int_or_string(**amount), "minAvailable": s.int_or_string(**amount)},
        rules=(
            s.rule(
                "!(has(self.maxUnavailable) && has(self.minAvailable))",
                "Both MaxUnavailable and MinAvailable cannot be specified",
            ),
        ),
    )
    return s.root(spec=spec)


def _stage_task() -> Schema:
    return s.obj({"type": s.string(enum=("TimedWait", "Approval")), "waitTime": s.duration()}, required=("type",))


def _strategy_spec() -> Schema:
    stage = s.obj(
        {
            "name": s.string(maxLength=63, pattern="^[a-z0-9]+$"),
            "labelSelector": s.label_selector(),
            "sortingLabelKey": s.string(),
            "maxConcurrency": s.int_or_string(
                default=1,
                pattern=r"^(100|[1-9][0-9]?)%$",
                rules=(s.rule("self == null || type(self) != int || self >= 1", "maxConcurrency must be at least 1"),),
            ),
            "beforeStageTasks": s.array(
                _stage_task(),
                maxItems=1,
                rules=(s.rule("!self.exists(e, e.type == 'TimedWait')", "BeforeStageTaskType cannot be TimedWait"),),
            ),
            "afterStageTasks": s.array(
                _stage_task(),
                maxItems=2,
                rules=(
                    s.rule(
                        "!self.exists(e, e.type == 'Approval' && has(e.waitTime))",
                        "AfterStageTaskType is Approval, waitTime is not allowed",
                    ),
                    s.rule(
                        "!self.exists(e, e.type == 'TimedWait' && !has(e.waitTime))",
                        "AfterStageTaskType is TimedWait, waitTime is required",
                    ),
                ),
            ),
        },
        required=("name",),
    )
    return s.obj({"stages": s.array(stage, maxItems=31)}, required=("stages",))


def update_strategy() -> Schema:
    return s.root(spec=_strategy_spec(), required=("spec",))


def update_run() -> Schema:
    task = s.obj(
        {"type": s.string(), "approvalRequestName": s.string(), "conditions": s.array(s.condition())},
        required=("type",),
    )
    cluster = s.obj(
        {
            "clusterName": s.string(),
            "resourceOverrideSnapshots": s.array(s.obj({"name": s.string(), "namespace": s.string()})),
            "clusterResourceOverrideSnapshots": s.array(s.string()),
            "conditions": s.array(s.condition()),
        },
        required=("clusterName",),
    )
    stage = s.obj(
        {
            "stageName": s.string(),
            "clusters": s.array(cluster),
            "beforeStageTaskStatus": s.array(task),
            "afterStageTaskStatus": s.array(task),
            "startTime": s.time(),
            "endTime": s.time(),
            "conditions": s.array(s.condition()),
        },
        required=("stageName",),
    )
    same = (s.rule("self == oldSelf", "field is immutable"),)
    spec = s.obj(
        {
            "placementName": s.string(maxLength=255, rules=(s.rule("self == oldSelf", "placementName is immutable"),)),
            "resourceSnapshotIndex": s.string(rules=same),
            "stagedRolloutStrategyName": s.string(
                rules=(s.rule("self == oldSelf", "stagedRolloutStrategyName is immutable"),)
            ),
            "state": s.string(enum=("Initialize", "Run", "Stop"), default="Initialize"),
        },
        required=("placementName", "stagedRolloutStrategyName"),
        rules=(
            s.rule(
                "!(has(oldSelf.state) && oldSelf.state == 'Initialize' && self.state == 'Stop')",
                "invalid state transition: cannot transition from Initialize to Stop",
            ),
            s.rule(
                "!(has(oldSelf.state) && oldSelf.state == 'Run' && self.state == 'Initialize')",
                "invalid state transition: cannot transition from Run to Initialize",
            ),
            s.rule(
                "!(has(oldSelf.state) && oldSelf.state == 'Stop' && self.state == 'Initialize')",
                "invalid state transition: cannot transition from Stop to Initialize",
            ),
        ),
    )
    status = s.obj(
        {
            "policySnapshotIndexUsed": s.string(),
            "policyObservedClusterCount": s.integer(),
            "resourceSnapshotIndexUsed": s.string(),
            "appliedStrategy": apply_strategy(),
            "stagedUpdateStrategySnapshot": _strategy_spec(),
            "stagesStatus": s.array(stage),
            "deletionStageStatus": stage,
            "conditions": s.conditions(),
        }
    )
    return s.root(
        spec=spec,
        status=status,
        required=("spec",),
        rules=(s.rule("size(self.metadata.name) < 64", "metadata.name max length is 63"),),
    )


def approval_request() -> Schema:
    spec = s.obj(
        {"parentStageRollout": s.string(), "targetStage": s.string()},
        required=("parentStageRollout", "targetStage"),
        rules=(s.rule("self == oldSelf", "The spec field is immutable"),),
    )
    return s.root(spec=spec, status=s.obj({"conditions": s.conditions()}), required=("spec",))
