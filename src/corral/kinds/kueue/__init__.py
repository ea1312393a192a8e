"""The API group kueue.x-k8s.io: queues, quota, workloads and admission checks.

Eleven kinds, each in v1beta2 (stored) and v1beta1 (served, deprecated, converted). Rules that upstream keeps in its
CRDs are in the schemas here; rules it keeps in webhooks are admission plug-ins of the queueing controllers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from corral.core.meta import Obj, status_of
from corral.kinds.kueue import check_schemas, conversion, queue_schemas, workload_schemas
from corral.kinds.kueue.names import GROUP
from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Column, KindDef, Schema, VersionDef, age_column

DEPRECATION = "This version is deprecated. Use v1beta2 instead."


def _versions(
    schema: Callable[[str], Schema],
    *,
    status: bool,
    columns: Callable[[str], Sequence[Column]] = lambda version: (),
    selectable: tuple[str, ...] = (),
    deprecated: bool = True,
) -> tuple[VersionDef, ...]:
    """v1beta2, stored, and v1beta1, served with a warning."""
    return (
        VersionDef(
            "v1beta2",
            lambda: schema("v1beta2"),
            storage=True,
            status=status,
            columns=columns("v1beta2"),
            selectable=selectable,
        ),
        VersionDef(
            "v1beta1",
            lambda: schema("v1beta1"),
            storage=False,
            status=status,
            columns=columns("v1beta1"),
            deprecated=deprecated,
            deprecation_warning=DEPRECATION if deprecated else "",
        ),
    )


def _cluster_queue_columns(version: str) -> tuple[Column, ...]:
    cohort = ".spec.cohort" if version == "v1beta1" else ".spec.cohortName"
    return (
        Column("Cohort", cohort, description="Cohort that this ClusterQueue belongs to"),
        Column(
            "Strategy",
            ".spec.queueingStrategy",
            description="The queueing strategy used to prioritize workloads",
            priority=1,
        ),
        Column(
            "Pending Workloads",
            ".status.pendingWorkloads",
            type="integer",
            description="Number of pending workloads",
        ),
        Column(
            "Admitted Workloads",
            ".status.admittedWorkloads",
            type="integer",
            description="Number of admitted workloads that haven't finished yet",
            priority=1,
        ),
    )


def _local_queue_columns(version: str) -> tuple[Column, ...]:
    return (
        Column("ClusterQueue", ".spec.clusterQueue", description="Backing ClusterQueue"),
        Column(
            "Pending Workloads",
            ".status.pendingWorkloads",
            type="integer",
            description="Number of pending workloads",
        ),
        Column(
            "Admitted Workloads",
            ".status.admittedWorkloads",
            type="integer",
            description="Number of admitted workloads that haven't finished yet.",
        ),
    )


def _workload_columns(version: str) -> tuple[Column, ...]:
    return (
        Column("Queue", ".spec.queueName", description="Name of the queue this workload was submitted to"),
        Column(
            "Reserved in",
            ".status.admission.clusterQueue",
            description="Name of the ClusterQueue where the workload is reserving quota",
        ),
        Column("Admitted", ".status.conditions[?(@.type=='Admitted')].status", description="Admission status"),
        Column("Finished", ".status.conditions[?(@.type=='Finished')].status", description="Workload finished"),
        age_column("Time this workload was created"),
    )


def _cluster_columns(version: str) -> tuple[Column, ...]:
    return (
        Column(
            "Connected",
            ".status.conditions[?(@.type=='Active')].status",
            description="MultiKueueCluster is connected",
        ),
        age_column("Time this workload was created"),
    )


def _priority_columns(version: str) -> tuple[Column, ...]:
    return (Column("Value", ".value", type="integer", description="Value of workloadPriorityClass's Priority"),)


def _workload_schema(version: str) -> Schema:
    return workload_schemas.workload(version, s.pod_template())


def _reserved_in(obj: Obj) -> str:
    return str((status_of(obj).get("admission") or {}).get("clusterQueue") or "")


CLUSTER_QUEUE = KindDef(
    group=GROUP,
    descriptions="corral.kinds.kueue.descriptions:DESCRIPTIONS",
    kind="ClusterQueue",
    plural="clusterqueues",
    short_names=("cq",),
    namespaced=False,
    versions=_versions(queue_schemas.cluster_queue, status=True, columns=_cluster_queue_columns),
    convert=conversion.convert_cluster_queue,
)
LOCAL_QUEUE = KindDef(
    group=GROUP,
    descriptions="corral.kinds.kueue.descriptions:DESCRIPTIONS",
    kind="LocalQueue",
    plural="localqueues",
    short_names=("queue", "queues", "lq"),
    versions=_versions(queue_schemas.local_queue, status=True, columns=_local_queue_columns),
    convert=conversion.convert_local_queue,
)
COHORT = KindDef(
    group=GROUP,
    descriptions="corral.kinds.kueue.descriptions:DESCRIPTIONS",
    kind="Cohort",
    plural="cohorts",
    short_names=("co",),
    namespaced=False,
    versions=_versions(queue_schemas.cohort, status=True),
)
RESOURCE_FLAVOR = KindDef(
    group=GROUP,
    descriptions="corral.kinds.kueue.descriptions:DESCRIPTIONS",
    kind="ResourceFlavor",
    inert_fields={"spec.nodeTaints.timeAdded": "a taint keeps jobs away from its first moment on"},
    plural="resourceflavors",
    short_names=("flavor", "flavors", "rf"),
    namespaced=False,
    versions=_versions(queue_schemas.resource_flavor, status=False),
)
WORKLOAD = KindDef(
    group=GROUP,
    descriptions="corral.kinds.kueue.descriptions:DESCRIPTIONS",
    kind="Workload",
    plural="workloads",
    short_names=("wl", "kwl", "kueueworkload", "kueueworkloads"),
    versions=_versions(
        _workload_schema, status=True, columns=_workload_columns, selectable=(".status.admission.clusterQueue",)
    ),
    convert=conversion.convert_workload,
    fields={"status.admission.clusterQueue": _reserved_in},
)
WORKLOAD_PRIORITY_CLASS = KindDef(
    group=GROUP,
    descriptions="corral.kinds.kueue.descriptions:DESCRIPTIONS",
    kind="WorkloadPriorityClass",
    plural="workloadpriorityclasses",
    short_names=("wpc",),
    namespaced=False,
    versions=_versions(check_schemas.workload_priority_class, status=False, columns=_priority_columns),
)
ADMISSION_CHECK = KindDef(
    group=GROUP,
    descriptions="corral.kinds.kueue.descriptions:DESCRIPTIONS",
    kind="AdmissionCheck",
    plural="admissionchecks",
    short_names=("ac",),
    namespaced=False,
    versions=_versions(check_schemas.admission_check, status=True),
    convert=conversion.convert_admission_check,
)
MULTI_KUEUE_CONFIG = KindDef(
    group=GROUP,
    descriptions="corral.kinds.kueue.descriptions:DESCRIPTIONS",
    kind="MultiKueueConfig",
    plural="multikueueconfigs",
    short_names=("mkconf",),
    namespaced=False,
    versions=_versions(check_schemas.multi_kueue_config, status=False, deprecated=False),
    convert=conversion.convert_multi_kueue_config,
)
MULTI_KUEUE_CLUSTER = KindDef(
    group=GROUP,
    descriptions="corral.kinds.kueue.descriptions:DESCRIPTIONS",
    kind="MultiKueueCluster",
    plural="multikueueclusters",
    short_names=("mkc",),
    namespaced=False,
    versions=_versions(check_schemas.multi_kueue_cluster, status=True, columns=_cluster_columns),
    convert=conversion.convert_multi_kueue_cluster,
)
TOPOLOGY = KindDef(
    group=GROUP,
    descriptions="corral.kinds.kueue.descriptions:DESCRIPTIONS",
    kind="Topology",
    plural="topologies",
    short_names=("topo",),
    namespaced=False,
    versions=_versions(queue_schemas.topology, status=False),
)
PROVISIONING_REQUEST_CONFIG = KindDef(
    group=GROUP,
    descriptions="corral.kinds.kueue.descriptions:DESCRIPTIONS",
    kind="ProvisioningRequestConfig",
    plural="provisioningrequestconfigs",
    short_names=("prc",),
    namespaced=False,
    versions=_versions(check_schemas.provisioning_request_config, status=False),
)

KINDS = (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    LOCAL_QUEUE,
    MULTI_KUEUE_CLUSTER,
    MULTI_KUEUE_CONFIG,
    PROVISIONING_REQUEST_CONFIG,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
)

CLUSTER_QUEUES = CLUSTER_QUEUE.resource()
LOCAL_QUEUES = LOCAL_QUEUE.resource()
COHORTS = COHORT.resource()
RESOURCE_FLAVORS = RESOURCE_FLAVOR.resource()
WORKLOADS = WORKLOAD.resource()
WORKLOAD_PRIORITY_CLASSES = WORKLOAD_PRIORITY_CLASS.resource()
ADMISSION_CHECKS = ADMISSION_CHECK.resource()
MULTI_KUEUE_CONFIGS = MULTI_KUEUE_CONFIG.resource()
MULTI_KUEUE_CLUSTERS = MULTI_KUEUE_CLUSTER.resource()
TOPOLOGIES = TOPOLOGY.resource()
PROVISIONING_REQUEST_CONFIGS = PROVISIONING_REQUEST_CONFIG.resource()
