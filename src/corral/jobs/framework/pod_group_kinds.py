"""The PodGroups of the two gang schedulers: scheduling.volcano.sh/v1beta1 and scheduling.x-k8s.io/v1alpha1.

Corral's own scheduler reads neither. They are served so that operators can ask for gang scheduling and a scheduler of
the user's choice finds what it expects.
"""

from __future__ import annotations

from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Column, KindDef, Schema, VersionDef, age_column

VOLCANO_GROUP = "scheduling.volcano.sh"
PLUGINS_GROUP = "scheduling.x-k8s.io"


def _counts() -> dict[str, Schema]:
    return {name: s.integer() for name in ("running", "succeeded", "failed")}


def _volcano() -> Schema:
    spec = s.obj(
        {
            "minMember": s.integer(),
            "minTaskMember": s.mapping(s.integer()),
            "queue": s.string(default="default"),
            "priorityClassName": s.string(),
            "minResources": s.resource_list(),
            "networkTopology": s.anything(),
            "subGroupPolicy": s.array(s.anything()),
        }
    )
    status = s.obj({"phase": s.string(), "conditions": s.array(s.anything()), **_counts()})
    return s.root(spec=spec, status=status)


def _plugins() -> Schema:
    spec = s.obj(
        {
            "minMember": s.integer(minimum=1),
            "minResources": s.resource_list(),
            "scheduleTimeoutSeconds": s.integer(),
        }
    )
    status = s.obj(
        {
            "phase": s.string(),
            "occupiedBy": s.string(),
            "scheduleStartTime": s.time(nullable=True),
            **_counts(),
        }
    )
    return s.root(spec=spec, status=status)


_VOLCANO_COLUMNS = (
    Column("STATUS", ".status.phase"),
    Column("minMember", ".spec.minMember", type="integer"),
    Column("RUNNINGS", ".status.running", type="integer"),
    age_column(),
    Column("QUEUE", ".spec.queue", priority=1),
)
_PLUGINS_COLUMNS = (
    Column("Phase", ".status.phase"),
    Column("MinMember", ".spec.minMember", type="integer"),
    Column("Running", ".status.running", type="integer"),
    Column("Succeeded", ".status.succeeded", type="integer"),
    Column("Failed", ".status.failed", type="integer"),
    age_column(),
)

VOLCANO_POD_GROUP = KindDef(
    group=VOLCANO_GROUP,
    descriptions="corral.jobs.framework.descriptions:DESCRIPTIONS",
    kind="PodGroup",
    plural="podgroups",
    short_names=("pg", "podgroup-v1beta1"),
    versions=(VersionDef("v1beta1", _volcano, status=True, columns=_VOLCANO_COLUMNS),),
)
PLUGINS_POD_GROUP = KindDef(
    group=PLUGINS_GROUP,
    descriptions="corral.jobs.framework.descriptions:DESCRIPTIONS",
    kind="PodGroup",
    plural="podgroups",
    short_names=("pg", "pgs"),
    versions=(VersionDef("v1alpha1", _plugins, status=True, columns=_PLUGINS_COLUMNS),),
)
VOLCANO_POD_GROUPS = VOLCANO_POD_GROUP.resource()
PLUGINS_POD_GROUPS = PLUGINS_POD_GROUP.resource()
KINDS = (VOLCANO_POD_GROUP, PLUGINS_POD_GROUP)
