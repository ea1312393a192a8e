"""Who each group of controllers acts as, and what it may do: the one list that embedded clusters enforce and `corral roles` prints.

What depends on the kinds of jobs or on the configuration is worked out from them: a kind that is not queued gives no rights, and
Secrets outside the own namespace are readable only where jobs take theirs along. Operators of job kinds bring their identity in
their own folder, hub and member in `placement_identities.py`, the server's own controllers (namespaces, garbage) in
`server/lifecycle/identity.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.configuration.dispatch import DispatchSettings
from corral.configuration.queueing import QueueingConfig
from corral.controllers.queueing.admission import lookups as admission
from corral.core.admission import UserInfo
from corral.core.identity import (
    FOLLOW,
    Identity,
    Rules,
    controller,
    merged,
    rights,
    service_account,
    statuses,
    with_events,
)
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.adapter import JobAdapter
from corral.jobs.framework.registry import POD, queued_sets, with_implied
from corral.kinds.fleet import CLUSTER_PROFILES
from corral.kinds.kubernetes.apps.kinds import CONTROLLER_REVISIONS, DAEMON_SETS, DEPLOYMENTS, REPLICA_SETS
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kubernetes.core.kinds import (
    CONFIG_MAPS,
    ENDPOINTS,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_TEMPLATES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from corral.kinds.kubernetes.dynamic_resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES
from corral.kinds.kubernetes.networking.endpoint_slices import ENDPOINT_SLICES
from corral.kinds.kubernetes.node import RUNTIME_CLASSES
from corral.kinds.kubernetes.notices import NAME as NOTICES
from corral.kinds.kubernetes.notices import NAMESPACE as NOTICES_NAMESPACE
from corral.kinds.kubernetes.rbac import CLUSTER_ROLES
from corral.kinds.kubernetes.scheduling import PRIORITY_CLASSES
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    MULTI_KUEUE_CLUSTERS,
    MULTI_KUEUE_CONFIGS,
    PROVISIONING_REQUEST_CONFIGS,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from corral.kinds.kueue.provisioning import PROVISIONING_REQUESTS
from corral.node.node import LEASE_NAMESPACE as NODE_LEASES


def queueing(config: QueueingConfig) -> Identity:
    """The queueing controllers and their admission, and on a worker the fence."""
    adapters = config.job_adapters()
    frameworks = with_implied(config.frameworks)
    jobs = [adapter.resource for adapter in adapters if adapter.framework != POD]
    sets = [found.resource for found in queued_sets(frameworks) if found.holds_pods]
    pods = POD in frameworks or any(
        config.gates[gate] for gate in ("TopologyAwareScheduling", "ElasticJobsViaWorkloadSlices")
    )
    retires = config.retention.after_deactivated_s is not None
    devices = (DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES)
    return Identity(
        "queueing",
        service_account("kueue-controller-manager", config.namespace),
        with_events(
            rights(
                FOLLOW,
                *_QUEUE_KINDS,
                *jobs,
                *sets,
                *(read for adapter in adapters for read in adapter.reads),
                NAMESPACES,
                LIMIT_RANGES,
                LEASES,
                RUNTIME_CLASSES,
                PRIORITY_CLASSES,
                PROVISIONING_REQUESTS,
                *((PODS, NODES) if pods else ()),
                *(devices if config.gates["KueueDRAIntegration"] else ()),
            ),
            rights("get", *jobs, *admission.READ),
            rights("create delete get patch update", WORKLOADS),
            rights("patch update", *statuses(WORKLOADS)),
            rights("update", *statuses(CLUSTER_QUEUES, LOCAL_QUEUES, COHORTS)),
            rights("patch", *statuses(ADMISSION_CHECKS)),
            rights("update", CLUSTER_QUEUES, RESOURCE_FLAVORS, ADMISSION_CHECKS, TOPOLOGIES),
            rights("update", *jobs),
            rights("update", *statuses(*(job for job in jobs if job == JOBS))),
            rights("delete", *(jobs if retires else ())),
            rights("delete get patch update", *((PODS,) if pods else ())),
            rights("update", *(statuses(PODS) if pods else ())),
            rights("create delete", PROVISIONING_REQUESTS),
            rights("create get update", POD_TEMPLATES),
        ),
        {config.namespace: (*rights("create get update", LEASES), *rights(FOLLOW, PODS))},
    )


_QUEUE_KINDS = (
    WORKLOADS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    COHORTS,
    RESOURCE_FLAVORS,
    ADMISSION_CHECKS,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
    PROVISIONING_REQUEST_CONFIGS,
)


def dispatch(settings: DispatchSettings, adapters: Iterable[JobAdapter]) -> Identity:
    """The dispatch controllers of a manager, on the manager. What they may do on a worker is in `fleet/join.py`."""
    known = list(adapters)
    jobs = [adapter.resource for adapter in known]
    prerequisites = (NAMESPACES, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES, PRIORITY_CLASSES)
    named = (CONFIG_MAPS, SECRETS, *prerequisites, *(needed for adapter in known for needed in adapter.needs))
    quota = (CLUSTER_QUEUES, LOCAL_QUEUES) if settings.automates_quota else ()
    own = rights(FOLLOW, SECRETS, *((CLUSTER_PROFILES,) if settings.profiles else ()))
    return Identity(
        "dispatch",
        service_account("multikueue-controller-manager", settings.namespace),
        with_events(
            rights(FOLLOW, WORKLOADS, ADMISSION_CHECKS, MULTI_KUEUE_CONFIGS, MULTI_KUEUE_CLUSTERS, *quota, *jobs, PODS),
            rights("patch", WORKLOADS, *statuses(ADMISSION_CHECKS, MULTI_KUEUE_CLUSTERS)),
            rights("patch update", *statuses(WORKLOADS)),
            rights("update", *statuses(*jobs)),
            rights("get", *(named if settings.propagate else ())),
            rights("update", *((CLUSTER_QUEUES,) if quota else ())),
            rights("patch", *(statuses(CLUSTER_QUEUES) if quota else ())),
        ),
        {settings.namespace: own},
    )


def installation(namespace: str) -> Identity:
    """Who keeps the objects of the queueing installation, and tells of settings without effect. Its ClusterRoles are for people: it
    holds none of their rights, so it escalates."""
    own = (
        *rights("create get update", CONFIG_MAPS),
        *rights("create", SERVICE_ACCOUNTS, SERVICES),
        *rights("create get", DEPLOYMENTS),
        *rights("create get update", ENDPOINT_SLICES),
        *rights("update", *statuses(PODS)),
    )
    notices = (*rights("create", CONFIG_MAPS), *rights("get patch", CONFIG_MAPS, names=(NOTICES,)))
    inside = {namespace: own}
    inside[NOTICES_NAMESPACE] = merged((*inside.get(NOTICES_NAMESPACE, ()), *notices))
    return Identity(
        "installation",
        service_account("kueue-installation", namespace),
        with_events(
            rights(FOLLOW, DEPLOYMENTS, PODS, SERVICES),
            rights("create", NAMESPACES),
            rights("create escalate", CLUSTER_ROLES),
        ),
        inside,
    )


def _kubernetes_own(name: str, *rules: Rules) -> Identity:
    """A controller of Kubernetes itself, by the names it has there."""
    return controller(name, service_account(name), *rules, role=f"system:controller:{name}")


REPLICA_SET_CONTROLLER = _kubernetes_own(
    "replicaset-controller",
    rights(FOLLOW, REPLICA_SETS, PODS),
    rights("create delete patch", PODS),
    rights("update", *statuses(REPLICA_SETS)),
)
DEPLOYMENT_CONTROLLER = _kubernetes_own(
    "deployment-controller",
    rights(FOLLOW, DEPLOYMENTS, REPLICA_SETS, PODS),
    rights("create delete get patch update", REPLICA_SETS),
    rights("update", DEPLOYMENTS, *statuses(DEPLOYMENTS)),
)
DAEMON_SET_CONTROLLER = _kubernetes_own(
    "daemon-set-controller",
    rights(FOLLOW, DAEMON_SETS, PODS, NODES, CONTROLLER_REVISIONS),
    rights("create delete patch", PODS),
    rights("create delete update", CONTROLLER_REVISIONS),
    rights("update", *statuses(DAEMON_SETS)),
)
ENDPOINTS_CONTROLLER = _kubernetes_own(
    "endpointslice-controller",
    rights(FOLLOW, SERVICES, PODS, ENDPOINT_SLICES, ENDPOINTS),
    rights("create delete update", ENDPOINT_SLICES, ENDPOINTS),
)
SCHEDULER = controller(
    "scheduler",
    UserInfo("system:kube-scheduler", ("system:authenticated",)),
    rights(FOLLOW, PODS, NODES, PERSISTENT_VOLUME_CLAIMS),
    rights("create", (PODS, "binding")),
    rights("patch", *statuses(PODS)),
    rights("delete", PODS),
    role="system:kube-scheduler",
)
NODE_AGENT = Identity(
    "node",
    service_account("node-agent"),
    with_events(
        rights(FOLLOW, PODS, NODES, SERVICES, ENDPOINTS, ENDPOINT_SLICES),
        rights("get", CONFIG_MAPS, SECRETS),
        rights("create", (SERVICE_ACCOUNTS, "token")),
        rights("create get update", NODES),
        rights("update", *statuses(NODES)),
        rights("patch update", *statuses(PODS)),
        rights("delete", PODS),
    ),
    {NODE_LEASES: rights("create patch", LEASES)},
)
"""All nodes of an embedded cluster are one agent, which also answers for Services and evicts from tainted nodes. It reads the
ConfigMaps and Secrets that pods of any namespace name."""
