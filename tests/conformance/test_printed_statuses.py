"""What `kubectl get -o wide` prints of a status, for every kind that has one.

No two columns of a case show the same value where that can be helped, so that a column which reads its neighbour's
field, or the first condition in place of the last, is seen.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from corral.core.meta import Obj
from corral.core.timestamps import format_time
from corral.jobs.framework.served_kinds import builtin_kinds, native_kinds
from corral.kinds.machinery.definition import Column, KindDef, VersionDef
from corral.kinds.machinery.tables import cells, columns_of

NOW = 1_800_000_000.0
KINDS = {(kind.group, kind.kind): kind for kind in (*builtin_kinds(), *native_kinds())}


def ago(seconds: int) -> str:
    return format_time(NOW - seconds)


def conditions(**statuses: Any) -> list[Obj]:
    """Conditions by type, in order: a status, or a status and the generation it was seen at. They are found by their types only:
    the first and the last are others."""
    return [FOREMOST, *only(**statuses), LAST]


FOREMOST, LAST = (
    {"type": word, "status": word, "observedGeneration": number, "reason": word}
    for word, number in (("Foremost", 97), ("Last", 98))
)


def only(**statuses: Any) -> list[Obj]:
    """The same and no others, for kinds that show the last."""
    found = []
    for name, value in statuses.items():
        status, generation = value if isinstance(value, tuple) else (value, 99)
        found.append({"type": name, "status": status, "observedGeneration": generation, "reason": f"{name}Reason"})
    return found


def placed(prefix: str) -> Obj:
    names = {f"{prefix}{word}": value for word, value in PLACEMENT.items()}
    return {"conditions": conditions(**names)}


PLACEMENT = {
    "Applied": ("False", 12),
    "Scheduled": ("True", 13),
    "WorkSynchronized": ("Unknown", 14),
    "Available": ("False", 15),
}
PLACED = {
    "Gen": "7",
    "Type": "PickN",
    "Scheduled": "True",
    "Scheduled-Gen": "13",
    "Work-Synchronized": "Unknown",
    "Work-Synchronized-Gen": "14",
    "Available": "False",
    "Available-Gen": "15",
}
BOUND = {
    "status": {
        "conditions": conditions(RolloutStarted="-", WorkSynchronized="True", Applied="False", Available="Unknown")
    }
}
UPDATING = {
    "spec": {"placementName": "crp", "resourceSnapshotIndex": "3", "stagedRolloutStrategyName": "slowly"},
    "status": {
        "policySnapshotIndexUsed": "4",
        "conditions": conditions(Initialized="True", Progressing="Unknown", Succeeded="False"),
    },
}
APPROVING = {
    "spec": {"parentStageRollout": "run", "targetStage": "canary"},
    "status": {"conditions": conditions(ApprovalAccepted="False", Approved="True")},
}
TRAINED = {"status": {"conditions": only(Created="True", Running="False", Succeeded="True")}}
CONTAINERS = {"Containers": "c", "Images": "img:1", "Selector": "a=b"}


def workloads(status: Obj, **spec: Any) -> Obj:
    template = {"spec": {"containers": [{"name": "c", "image": "img:1"}]}}
    base = {"replicas": 5, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"spec": {**base, **spec}, "status": status}


def job(status: Obj, **spec: Any) -> Obj:
    return workloads(status, completions=3, parallelism=2, **spec)


def pod(phase: str, *statuses: Obj, **more: Any) -> Obj:
    names = [status["name"] for status in statuses]
    return {
        "spec": {"nodeName": "node-1", "containers": [{"name": name} for name in names], **more.pop("spec", {})},
        "status": {
            "phase": phase,
            "podIPs": [{"ip": "10.0.0.7"}],
            "containerStatuses": list(statuses),
            **more.pop("status", {}),
        },
        **more,
    }


def container(name: str, state: Obj, *, ready: bool = False, restarts: int = 0, **more: Any) -> Obj:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state, **more}


RUNNING = {"running": {"startedAt": ago(60)}}
WHERE = {"IP": "10.0.0.7", "Node": "node-1", "Nominated Node": "<none>", "Readiness Gates": "<none>"}

# Group and kind, what the object is, and the cells that are printed beside its name and age.
CASES: list[tuple[str, str, str, Obj, dict[str, Any]]] = [
    # Queueing
    (
        "a workload that is admitted and not finished",
        "kueue.x-k8s.io",
        "Workload",
        {
            "spec": {"queueName": "lq"},
            "status": {
                "admission": {"clusterQueue": "cq"},
                "conditions": conditions(QuotaReserved="Unknown", Admitted="True", Finished="False"),
            },
        },
        {"Queue": "lq", "Reserved in": "cq", "Admitted": "True", "Finished": "False"},
    ),
    (
        "a workload that waits",
        "kueue.x-k8s.io",
        "Workload",
        {"spec": {"queueName": "lq"}, "status": {"conditions": conditions(QuotaReserved="False")}},
        {"Queue": "lq", "Reserved in": None, "Admitted": None, "Finished": None},
    ),
    (
        "a queue",
        "kueue.x-k8s.io",
        "ClusterQueue",
        {
            "spec": {"cohortName": "team", "cohort": "team", "queueingStrategy": "StrictFIFO"},
            "status": {"pendingWorkloads": 3, "reservingWorkloads": 4, "admittedWorkloads": 5},
        },
        {"Cohort": "team", "Strategy": "StrictFIFO", "Pending Workloads": 3, "Admitted Workloads": 5},
    ),
    (
        "a local queue",
        "kueue.x-k8s.io",
        "LocalQueue",
        {
            "spec": {"clusterQueue": "cq"},
            "status": {"pendingWorkloads": 3, "reservingWorkloads": 4, "admittedWorkloads": 5},
        },
        {"ClusterQueue": "cq", "Pending Workloads": 3, "Admitted Workloads": 5},
    ),
    (
        "a worker that is connected",
        "kueue.x-k8s.io",
        "MultiKueueCluster",
        {"status": {"conditions": conditions(Other="False", Active="True")}},
        {"Connected": "True"},
    ),
    # Jobs
    *(
        (f"a {kind} shows its last condition", "kubeflow.org", kind, TRAINED, {"State": "Succeeded"})
        for kind in ("TFJob", "PyTorchJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")
    ),
    ("a train job shows its last condition", "trainer.kubeflow.org", "TrainJob", TRAINED, {"State": "Succeeded"}),
    ("a train job at its start", "trainer.kubeflow.org", "TrainJob", {"status": {}}, {"State": None}),
    (
        "a job set",
        "jobset.x-k8s.io",
        "JobSet",
        {
            "spec": {"suspend": True},
            "status": {
                "terminalState": "Failed",
                "restarts": 2,
                "conditions": conditions(Suspended="Unknown", Completed="False", Failed="True"),
            },
        },
        {"TerminalState": "Failed", "Restarts": "2", "Completed": "False", "Suspended": "true"},
    ),
    (
        "a ray job",
        "ray.io",
        "RayJob",
        {
            "status": {
                "jobStatus": "STOPPED",
                "jobDeploymentStatus": "Complete",
                "rayClusterName": "rc",
                "startTime": ago(100),
                "endTime": ago(10),
            }
        },
        {
            "job status": "STOPPED",
            "deployment status": "Complete",
            "ray cluster name": "rc",
            "start time": ago(100),
            "end time": ago(10),
        },
    ),
    (
        "a ray cluster",
        "ray.io",
        "RayCluster",
        {
            "status": {
                "desiredWorkerReplicas": 4,
                "readyWorkerReplicas": 2,
                "availableWorkerReplicas": 3,
                "desiredCPU": "5",
                "desiredMemory": "6Gi",
                "desiredGPU": "7",
                "state": "ready",
            }
        },
        {
            "desired workers": 4,
            "available workers": 3,
            "cpus": "5",
            "memory": "6Gi",
            "gpus": "7",
            "status": "ready",
        },
    ),
    (
        "a ray service",
        "ray.io",
        "RayService",
        {"status": {"serviceStatus": "Running", "numServeEndpoints": 2}},
        {"service status": "Running", "num serve endpoints": 2},
    ),
    (
        "an app wrapper",
        "workload.codeflare.dev",
        "AppWrapper",
        {
            "status": {
                "phase": "Resetting",
                "conditions": conditions(ResourcesDeployed="False", QuotaReserved="True", Unhealthy="Unknown"),
            }
        },
        {"Status": "Resetting", "Quota Reserved": "True", "Resources Deployed": "False", "Unhealthy": "Unknown"},
    ),
    (
        "a leader worker set",
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        {"spec": {"replicas": 4}, "status": {"replicas": 9, "readyReplicas": 2, "updatedReplicas": 3}},
        {"Ready": 2, "Desired": 4, "Up-to-date": 3},
    ),
    (
        "a pod group of volcano",
        "scheduling.volcano.sh",
        "PodGroup",
        {"spec": {"minMember": 4, "queue": "q"}, "status": {"phase": "Inqueue", "running": 3, "succeeded": 9}},
        {"STATUS": "Inqueue", "minMember": 4, "RUNNINGS": 3, "QUEUE": "q"},
    ),
    (
        "a pod group of the scheduler plugins",
        "scheduling.x-k8s.io",
        "PodGroup",
        {"spec": {"minMember": 4}, "status": {"phase": "Running", "running": 1, "succeeded": 2, "failed": 3}},
        {"Phase": "Running", "MinMember": 4, "Running": 1, "Succeeded": 2, "Failed": 3},
    ),
    (
        "a job that runs",
        "batch",
        "Job",
        job({"startTime": ago(30), "succeeded": 1, "active": 2}),
        {"Status": "Running", "Completions": "1/3", "Duration": "30s", **CONTAINERS},
    ),
    (
        "a job that is complete",
        "batch",
        "Job",
        job(
            {
                "startTime": ago(90),
                "completionTime": ago(20),
                "succeeded": 3,
                "conditions": conditions(SuccessCriteriaMet="True", Complete="True"),
            }
        ),
        {"Status": "Complete", "Completions": "3/3", "Duration": "70s", **CONTAINERS},
    ),
    (
        "a job that failed, after it was suspended once",
        "batch",
        "Job",
        job(
            {
                "startTime": ago(90),
                "succeeded": 2,
                "conditions": conditions(Suspended="False", FailureTarget="True", Failed="True"),
            }
        ),
        {"Status": "Failed", "Completions": "2/3", "Duration": "90s", **CONTAINERS},
    ),
    (
        "a job that is about to fail",
        "batch",
        "Job",
        job({"startTime": ago(30), "conditions": conditions(FailureTarget="True")}),
        {"Status": "FailureTarget", "Completions": "0/3", "Duration": "30s", **CONTAINERS},
    ),
    (
        "a job that is suspended",
        "batch",
        "Job",
        job({"conditions": conditions(Suspended="True")}, suspend=True),
        {"Status": "Suspended", "Completions": "0/3", "Duration": "", **CONTAINERS},
    ),
    (
        "a cron job",
        "batch",
        "CronJob",
        {
            "spec": {
                "schedule": "* * * * *",
                "timeZone": "Europe/Rome",
                "suspend": True,
                "jobTemplate": {"spec": workloads({})["spec"]},
            },
            "status": {"active": [{}, {}], "lastScheduleTime": ago(40), "lastSuccessfulTime": ago(50)},
        },
        {
            "Schedule": "* * * * *",
            "Timezone": "Europe/Rome",
            "Suspend": "True",
            "Active": 2,
            "Last Schedule": "40s",
            **CONTAINERS,
        },
    ),
    # Placement
    (
        "a cluster placement",
        "placement.kubernetes-fleet.io",
        "ClusterResourcePlacement",
        {
            "metadata": {"generation": 7},
            "spec": {"policy": {"placementType": "PickN"}},
            "status": placed("ClusterResourcePlacement"),
        },
        PLACED,
    ),
    (
        "a namespaced placement",
        "placement.kubernetes-fleet.io",
        "ResourcePlacement",
        {
            "metadata": {"generation": 7},
            "spec": {"policy": {"placementType": "PickN"}},
            "status": placed("ResourcePlacement"),
        },
        PLACED,
    ),
    *(
        (
            f"a {kind}",
            "placement.kubernetes-fleet.io",
            kind,
            BOUND,
            {"WorkSynchronized": "True", "ResourcesApplied": "False", "ResourceAvailable": "Unknown"},
        )
        for kind in ("ClusterResourceBinding", "ResourceBinding")
    ),
    *(
        (
            f"a {kind}",
            "placement.kubernetes-fleet.io",
            kind,
            UPDATING,
            {
                "Placement": "crp",
                "Resource-Snapshot-Index": "3",
                "Policy-Snapshot-Index": "4",
                "Initialized": "True",
                "Progressing": "Unknown",
                "Succeeded": "False",
                "Strategy": "slowly",
            },
        )
        for kind in ("ClusterStagedUpdateRun", "StagedUpdateRun")
    ),
    *(
        (
            f"a {kind}",
            "placement.kubernetes-fleet.io",
            kind,
            APPROVING,
            {"Update-Run": "run", "Stage": "canary", "Approved": "True"},
        )
        for kind in ("ClusterApprovalRequest", "ApprovalRequest")
    ),
    (
        "a mirrored status",
        "placement.kubernetes-fleet.io",
        "ClusterResourcePlacementStatus",
        {"sourceStatus": {"observedResourceIndex": "5"}, "lastUpdatedTime": ago(10)},
        {"Resource-Index": "5", "Last-Updated": ago(10)},
    ),
    (
        "an eviction",
        "placement.kubernetes-fleet.io",
        "ClusterResourcePlacementEviction",
        {"status": {"conditions": conditions(Executed="False", Valid="True")}},
        {"Valid": "True", "Executed": "False"},
    ),
    (
        "a member",
        "cluster.kubernetes-fleet.io",
        "MemberCluster",
        {
            "status": {
                "conditions": conditions(ReadyToJoin="False", Joined="True"),
                "agentStatus": [
                    {"type": "ServiceExportImportAgent", "lastReceivedHeartbeat": ago(35)},
                    {"type": "MemberAgent", "lastReceivedHeartbeat": ago(25)},
                    {"type": "MultiClusterServiceAgent", "lastReceivedHeartbeat": ago(45)},
                ],
                "properties": {"kubernetes-fleet.io/node-count": {"value": "3"}},
                "resourceUsage": {
                    "capacity": {"cpu": "9", "memory": "9Gi"},
                    "allocatable": {"cpu": "8", "memory": "8Gi"},
                    "available": {"cpu": "7", "memory": "7Gi"},
                },
            }
        },
        {
            "Joined": "True",
            "Member-Agent-Last-Seen": "25s",
            "Node-Count": "3",
            "Available-CPU": "7",
            "Available-Memory": "7Gi",
            "Allocatable-CPU": "8",
            "Allocatable-Memory": "8Gi",
        },
    ),
    (
        "a cluster profile",
        "multicluster.x-k8s.io",
        "ClusterProfile",
        {
            "spec": {"clusterManager": {"name": "corral"}},
            "status": {
                "version": {"kubernetes": "v1.34"},
                "conditions": conditions(Joined="False", ControlPlaneHealthy="True"),
            },
        },
        {"Cluster-Manager": "corral", "Kubernetes": "v1.34", "Healthy": "True"},
    ),
    # Kubernetes' own
    (
        "a pod that runs and was restarted",
        "",
        "Pod",
        pod(
            "Running",
            container("a", RUNNING, ready=True, restarts=2, lastState={"terminated": {"finishedAt": ago(300)}}),
            container("b", RUNNING, restarts=1),
        ),
        {"Ready": "1/2", "Status": "Running", "Restarts": "3 (5m ago)", **WHERE},
    ),
    (
        "a pod whose container cannot be started",
        "",
        "Pod",
        pod("Pending", container("a", {"waiting": {"reason": "ImagePullBackOff"}})),
        {"Ready": "0/1", "Status": "ImagePullBackOff", "Restarts": "0", **WHERE},
    ),
    (
        "a pod that ended",
        "",
        "Pod",
        pod("Succeeded", container("a", {"terminated": {"reason": "Completed", "exitCode": 0}})),
        {"Ready": "0/1", "Status": "Completed", "Restarts": "0", **WHERE},
    ),
    (
        "a pod that was evicted",
        "",
        "Pod",
        pod("Failed", status={"reason": "Evicted"}),
        {"Ready": "0/0", "Status": "Evicted", "Restarts": "0", **WHERE},
    ),
    (
        "a pod that leaves",
        "",
        "Pod",
        pod("Running", container("a", RUNNING, ready=True), metadata={"deletionTimestamp": ago(1)}),
        {"Ready": "1/1", "Status": "Terminating", "Restarts": "0", **WHERE},
    ),
    (
        "a node that is ready and cordoned",
        "",
        "Node",
        {
            "metadata": {"labels": {"node-role.kubernetes.io/worker": ""}},
            "spec": {"unschedulable": True},
            "status": {
                "conditions": conditions(MemoryPressure="False", Ready="True"),
                "addresses": [
                    {"type": "ExternalIP", "address": "2.2.2.2"},
                    {"type": "InternalIP", "address": "1.1.1.1"},
                ],
                "nodeInfo": {
                    "kubeletVersion": "v1.34.1",
                    "osImage": "Linux",
                    "kernelVersion": "6.1",
                    "containerRuntimeVersion": "containerd://2",
                },
            },
        },
        {
            "Status": "Ready,SchedulingDisabled",
            "Roles": "worker",
            "Version": "v1.34.1",
            "Internal-IP": "1.1.1.1",
            "External-IP": "2.2.2.2",
            "OS-Image": "Linux",
            "Kernel-Version": "6.1",
            "Container-Runtime": "containerd://2",
        },
    ),
    ("a namespace that goes", "", "Namespace", {"status": {"phase": "Terminating"}}, {"Status": "Terminating"}),
    (
        "a deployment",
        "apps",
        "Deployment",
        workloads({"replicas": 9, "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}),
        {"Ready": "2/5", "Up-to-date": 3, "Available": 1, **CONTAINERS},
    ),
    (
        "a replica set",
        "apps",
        "ReplicaSet",
        workloads({"replicas": 4, "readyReplicas": 2, "availableReplicas": 1}),
        {"Desired": 5, "Current": 4, "Ready": 2, **CONTAINERS},
    ),
    (
        "a stateful set",
        "apps",
        "StatefulSet",
        workloads({"replicas": 4, "readyReplicas": 2, "availableReplicas": 1}),
        {"Ready": "2/5", "Containers": "c", "Images": "img:1"},
    ),
    (
        "a daemon set",
        "apps",
        "DaemonSet",
        workloads(
            {
                "desiredNumberScheduled": 6,
                "currentNumberScheduled": 5,
                "numberReady": 4,
                "updatedNumberScheduled": 3,
                "numberAvailable": 2,
                "numberUnavailable": 1,
            }
        ),
        {
            "Desired": 6,
            "Current": 5,
            "Ready": 4,
            "Up-to-date": 3,
            "Available": 2,
            "Node Selector": "<none>",
            **CONTAINERS,
        },
    ),
    (
        "a budget",
        "policy",
        "PodDisruptionBudget",
        {"spec": {"minAvailable": 3}, "status": {"disruptionsAllowed": 1, "currentHealthy": 4, "expectedPods": 5}},
        {"Min Available": "3", "Max Unavailable": "N/A", "Allowed Disruptions": 1},
    ),
]


def shown(kind: KindDef, version: int, obj: Obj) -> dict[str, Any]:
    """Cells by column, but for the name and the age."""
    of = kind.versions[version]
    body = {**obj, "metadata": {"name": "it", "creationTimestamp": ago(600), **obj.get("metadata", {})}}
    found = dict(zip((column.name for column in columns_of(kind, of)), cells(kind, of, body, NOW), strict=True))
    assert found.pop("Name") == "it"
    assert found.pop("Age", "10m") == "10m"
    return found


@pytest.mark.parametrize(
    ("group", "kind", "obj", "cells"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_status_is_printed(group: str, kind: str, obj: Obj, cells: dict[str, Any]) -> None:
    definition = KINDS[group, kind]
    for version in range(len(definition.versions)):
        assert shown(definition, version, obj) == cells


def test_every_custom_kind_that_prints_its_status_has_a_case() -> None:
    printing = {
        (kind.group, kind.kind)
        for kind in native_kinds()
        for version in kind.versions
        if any(column.path.startswith(".status") for column in columns_of(kind, version))
    }
    assert len(printing) > 20
    assert printing - {(group, kind) for _, group, kind, _, _ in CASES} == set()


def mutants(kind: KindDef, column: Column, columns: Sequence[Column]) -> Iterator[str]:
    """Other places the column might read: its neighbours', other conditions, another part of its own."""
    paths = [other.path for other in columns if other.path]
    by_type = re.compile(r"""(@\.type\s*==\s*["'])(\w+)""")
    types = {match[2] for path in paths for match in by_type.finditer(path)}
    found = [*paths, *(by_type.sub(rf"\g<1>{name}", column.path) for name in (*sorted(types), "Other"))]
    found += [re.sub(r"\[\?\(@\.type[^\]]*\]", place, column.path) for place in ("[0]", "[-1:]")]
    stem, _, last = column.path.rpartition(".")
    found += [f"{stem}.{part}" for part in ("status", "reason", "observedGeneration") if last in ("status", "reason")]
    yield from sorted({path for path in found if path != column.path})


def with_path(version: VersionDef, column: Column, path: str) -> VersionDef:
    changed = copy.copy(version)
    changed.columns = tuple(replace(each, path=path) if each is column else each for each in version.columns)
    return changed


def test_a_column_that_reads_another_place_is_noticed() -> None:
    """Deliberate bugs in every column with a path: each changes what some case prints."""
    tried, missed = 0, []
    for kind in native_kinds():
        objects = [obj for _, group, name, obj, _ in CASES if (group, name) == (kind.group, kind.kind)]
        for version in kind.versions:
            columns = columns_of(kind, version)
            for column in columns:
                for path in mutants(kind, column, columns) if column.path.startswith((".status", ".spec")) else ():
                    tried += 1
                    wrong = with_path(version, column, path)
                    if all(row(kind, version, obj) == row(kind, wrong, obj) for obj in objects):
                        missed.append((kind.kind, version.name, column.name, path))
    assert tried > 1000
    assert missed == []


def row(kind: KindDef, version: VersionDef, obj: Obj) -> list[Any]:
    metadata = {"name": "it", "creationTimestamp": ago(600), **obj.get("metadata", {})}
    return list(cells(kind, version, {**obj, "metadata": metadata}, NOW))
