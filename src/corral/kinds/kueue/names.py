"""Words of the Kueue API: labels, annotations, gates, finalizers, condition types and their reasons.

One place for the spelling; what each word means is said where it is used.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "kueue.x-k8s.io"

# Labels and annotations of jobs and pods
QUEUE_NAME: Final = f"{GROUP}/queue-name"
PRIORITY_CLASS: Final = f"{GROUP}/priority-class"
PREBUILT_WORKLOAD: Final = f"{GROUP}/prebuilt-workload-name"
MAX_EXEC_TIME: Final = f"{GROUP}/max-exec-time-seconds"
MANAGED: Final = f"{GROUP}/managed"
JOB_UID: Final = f"{GROUP}/job-uid"
JOB_OWNER_GVK: Final = f"{GROUP}/job-owner-gvk"
JOB_OWNER_NAME: Final = f"{GROUP}/job-owner-name"
COMPONENT_WORKLOAD_INDEX: Final = f"{GROUP}/component-workload-index"
IS_GROUP_WORKLOAD: Final = f"{GROUP}/is-group-workload"
PODSET: Final = f"{GROUP}/podset"
CLUSTER_QUEUE_NAME: Final = f"{GROUP}/cluster-queue-name"
LOCAL_QUEUE_NAME: Final = f"{GROUP}/local-queue-name"
WORKLOAD: Final = f"{GROUP}/workload"
MULTIKUEUE_ORIGIN: Final = f"{GROUP}/multikueue-origin"
MULTIKUEUE_ORIGIN_UID: Final = f"{GROUP}/multikueue-origin-uid"
MULTIKUEUE_WORKER_POD: Final = f"{GROUP}/multikueue-worker-workload-pod"
POD_GROUP_NAME: Final = f"{GROUP}/pod-group-name"
POD_GROUP_TOTAL_COUNT: Final = f"{GROUP}/pod-group-total-count"
POD_GROUP_FAST_ADMISSION: Final = f"{GROUP}/pod-group-fast-admission"
POD_GROUP_SERVING: Final = f"{GROUP}/pod-group-serving"
POD_GROUP_POD_INDEX: Final = f"{GROUP}/pod-group-pod-index"
ROLE_HASH: Final = f"{GROUP}/role-hash"
RETRIABLE_IN_GROUP: Final = f"{GROUP}/retriable-in-group"
POD_SUSPENDING_PARENT: Final = f"{GROUP}/pod-suspending-parent"
ADMISSION_GATED_BY: Final = f"{GROUP}/admission-gated-by"
ELASTIC_JOB: Final = f"{GROUP}/elastic-job"
WORKLOAD_SLICE_NAME: Final = f"{GROUP}/workload-slice-name"
WORKLOAD_SLICE_REPLACEMENT_FOR: Final = f"{GROUP}/workload-slice-replacement-for"
JOB_MIN_PARALLELISM: Final = f"{GROUP}/job-min-parallelism"
JOB_COMPLETIONS_EQUAL_PARALLELISM: Final = f"{GROUP}/job-completions-equal-parallelism"
STOPPING: Final = f"{GROUP}/stopping"
PODSET_REQUIRED_TOPOLOGY: Final = f"{GROUP}/podset-required-topology"
PODSET_PREFERRED_TOPOLOGY: Final = f"{GROUP}/podset-preferred-topology"
PODSET_UNCONSTRAINED_TOPOLOGY: Final = f"{GROUP}/podset-unconstrained-topology"
PODSET_GROUP_NAME: Final = f"{GROUP}/podset-group-name"
POD_INDEX_OFFSET: Final = f"{GROUP}/pod-index-offset"
"""The index of the first pod of its pod set, where those before it are in another."""
PODSET_SLICE_REQUIRED_TOPOLOGY: Final = f"{GROUP}/podset-slice-required-topology"
PODSET_SLICE_SIZE: Final = f"{GROUP}/podset-slice-size"
PODSET_SLICE_LAYERS: Final = f"{GROUP}/podset-slice-required-topology-constraints"
PRIORITY_BOOST: Final = f"{GROUP}/priority-boost"
PROVISIONING_ANNOTATION_PREFIX: Final = "provreq.kueue.x-k8s.io/"

# Gates and finalizers
ADMISSION_GATE: Final = f"{GROUP}/admission"
TOPOLOGY_GATE: Final = f"{GROUP}/topology"
ELASTIC_JOB_GATE: Final = f"{GROUP}/elastic-job"
POD_FINALIZER: Final = f"{GROUP}/managed"
RESOURCE_IN_USE: Final = f"{GROUP}/resource-in-use"

# Controllers
MULTIKUEUE_CONTROLLER: Final = f"{GROUP}/multikueue"
MULTIKUEUE_MANAGER: Final = "manager"
"""Field manager of what a manager writes on workers."""
QUEUEING_MANAGER: Final = "kueue"
"""Field manager of what queueing and dispatching write in their own cluster."""
PROVISIONING_CONTROLLER: Final = f"{GROUP}/provisioning-request"

# Priority class sources
WORKLOAD_PRIORITY_CLASS_GROUP: Final = GROUP
POD_PRIORITY_CLASS_GROUP: Final = "scheduling.k8s.io"

# Condition types of a Workload
QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
EVICTED: Final = "Evicted"
PREEMPTED: Final = "Preempted"
PODS_READY: Final = "PodsReady"
FINISHED: Final = "Finished"
REQUEUED: Final = "Requeued"
DEACTIVATION_TARGET: Final = "DeactivationTarget"
WAITING_FOR_REPLACEMENT_PODS: Final = "WaitingForReplacementPods"
BLOCKED_ON_PREEMPTION_GATES: Final = "BlockedOnPreemptionGates"

PREEMPTING: Final = "corral.dev/Preempting"
"""Ours: on a waiting Workload while those it preempts are leaving. A scheduler that is started anew knows it by this."""
DEPENDENCIES: Final = "corral.dev/DependenciesPresent"
"""Ours: False on a dispatched Workload whose worker lacks what its pods need."""

# Condition type of queues and checks
ACTIVE: Final = "Active"

# Reasons of Evicted
BY_PREEMPTION: Final = "Preempted"
BY_PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
BY_ADMISSION_CHECK: Final = "AdmissionCheck"
BY_CLUSTER_QUEUE_STOPPED: Final = "ClusterQueueStopped"
BY_LOCAL_QUEUE_STOPPED: Final = "LocalQueueStopped"
BY_NODE_FAILURES: Final = "NodeFailures"
BY_DEACTIVATION: Final = "Deactivated"

# States of an admission check
PENDING: Final = "Pending"
READY: Final = "Ready"
RETRY: Final = "Retry"
REJECTED: Final = "Rejected"

LARGEST_WORKER = "corral.dev/largest-worker"
"""Annotation of a LocalQueue: what the largest of the clusters behind it has, by resource."""
