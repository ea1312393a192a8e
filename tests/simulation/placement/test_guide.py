"""The published guide on AI jobs: what it prints about its placements, on a hub whose members are played by a script."""

from __future__ import annotations

from corral.core.meta import Obj, status_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS

from .hub import Hub, on_hub

ROLLING = {
    "type": "RollingUpdate",
    "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%", "unavailablePeriodSeconds": 60},
}
DETECTED = "Detected the new changes on the resources and started the rollout process"
NO_OVERRIDE = "No override rules are configured for the selected resources"


async def set_up_queues(hub: Hub) -> None:
    flavors, queues = RESOURCE_FLAVORS.at("v1beta1"), CLUSTER_QUEUES.at("v1beta1")
    await hub.client.create(flavors, {"metadata": {"name": "default-flavor"}, "spec": {}})
    amounts = [{"name": "cpu", "nominalQuota": "32"}, {"name": "memory", "nominalQuota": "128Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "default-flavor", "resources": amounts}]}
    spec = {
        "cohort": "compute-workload",
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "resourceGroups": [group],
    }
    await hub.client.create(queues, {"metadata": {"name": "cluster-queue"}, "spec": spec})
    labels = {"app": "compute-workload"}
    await hub.client.create(NAMESPACES, {"metadata": {"name": "compute-jobs", "labels": labels}})


def kueue(kind: str, name: str) -> Obj:
    return {"group": "kueue.x-k8s.io", "version": "v1beta1", "kind": kind, "name": name}


def test_the_queue_placement_says_what_the_guide_prints() -> None:
    async def scenario(hub: Hub) -> None:
        await set_up_queues(hub)
        await hub.place(
            "sample-kueue",
            selectors=[
                kueue("ResourceFlavor", "default-flavor"),
                kueue("ClusterQueue", "cluster-queue"),
                {
                    "group": "",
                    "version": "v1",
                    "kind": "Namespace",
                    "name": "compute-jobs",
                    "selectionScope": "NamespaceOnly",
                },
            ],
            policy={"placementType": "PickAll"},
            strategy=ROLLING,
            revisionHistoryLimit=15,
        )
        placement = await hub.placement("sample-kueue")
        status = status_of(placement)
        assert await hub.conditions("sample-kueue") == {
            "Scheduled": (
                "True",
                "SchedulingPolicyFulfilled",
                "found all cluster needed as specified by the scheduling policy, found 3 cluster(s)",
            ),
            "RolloutStarted": (
                "True",
                "RolloutStarted",
                "All 3 cluster(s) start rolling out the latest resource",
            ),
            "Overridden": ("True", "NoOverrideSpecified", NO_OVERRIDE),
            "WorkSynchronized": (
                "True",
                "WorkSynchronized",
                "Works(s) are succcesfully created or updated in 3 target cluster(s)' namespaces",
            ),
            "Applied": (
                "True",
                "ApplySucceeded",
                "The selected resources are successfully applied to 3 cluster(s)",
            ),
            "Available": (
                "True",
                "ResourceAvailable",
                "The selected resources in 3 cluster(s) are available now",
            ),
        }
        assert [one["kind"] for one in status["selectedResources"]] == ["Namespace", "ClusterQueue", "ResourceFlavor"]
        assert status["observedResourceIndex"] == "0"
        assert placement["metadata"]["finalizers"] == [
            "kubernetes-fleet.io/crp-cleanup",
            "kubernetes-fleet.io/scheduler-cleanup",
        ]
        assert [one["clusterName"] for one in status["placementStatuses"]] == ["cluster-1", "cluster-2", "cluster-3"]
        picked = "(affinity score: 0, topology spread score: 0): picked by scheduling policy"
        assert [
            (one["type"], one["status"], one["reason"], one["message"])
            for one in status["placementStatuses"][0]["conditions"]
        ] == [
            (
                "Scheduled",
                "True",
                "Scheduled",
                f'Successfully scheduled resources for placement in "cluster-1" {picked}',
            ),
            ("RolloutStarted", "True", "RolloutStarted", DETECTED),
            ("Overridden", "True", "NoOverrideSpecified", NO_OVERRIDE),
            ("WorkSynchronized", "True", "AllWorkSynced", "All of the works are synchronized to the latest"),
            ("Applied", "True", "AllWorkHaveBeenApplied", "All corresponding work objects are applied"),
            (
                "Available",
                "True",
                "NotAllWorkAreAvailabilityTrackable",
                "The availability of work object sample-kueue-work is not trackable",
            ),
        ]
        assert await hub.events("sample-kueue") == [
            ("PlacementRolloutStarted", "Started rolling out the latest resources"),
            ("PlacementOverriddenSucceeded", "Placement has been successfully overridden"),
            (
                "PlacementWorkSynchronized",
                "Work(s) have been created or updated successfully for the selected cluster(s)",
            ),
            ("PlacementApplied", "Resources have been applied to the selected cluster(s)"),
            ("PlacementAvailable", "Resources are available on the selected cluster(s)"),
            (
                "PlacementRolloutCompleted",
                "Placement has finished the rollout process and reached the desired status",
            ),
        ]

    on_hub(scenario)


def test_a_job_goes_to_the_cluster_with_most_of_both_and_scores_seventy() -> None:
    async def scenario(hub: Hub) -> None:
        await set_up_queues(hub)
        queue = {"metadata": {"name": "local-queue", "namespace": "compute-jobs"}}
        await hub.client.create(LOCAL_QUEUES.at("v1beta1"), {**queue, "spec": {"clusterQueue": "cluster-queue"}})
        container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}
        job = {
            "metadata": {"name": "mock-workload", "namespace": "compute-jobs"},
            "spec": {
                "parallelism": 3,
                "completions": 3,
                "suspend": True,
                "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            },
        }
        await hub.client.create(JOBS, job)

        def by(what: str, weight: int) -> Obj:
            name = f"resources.kubernetes-fleet.io/available-{what}"
            return {
                "weight": weight,
                "preference": {"propertySorter": {"name": name, "sortOrder": "Descending"}},
            }

        preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [by("cpu", 40), by("memory", 30)]}
        await hub.place(
            "job1-placement",
            "compute-jobs",
            [{"group": "batch", "version": "v1", "kind": "Job", "name": "mock-workload"}],
            policy={"placementType": "PickN", "numberOfClusters": 1, "affinity": {"clusterAffinity": preferred}},
            strategy={**ROLLING, "applyStrategy": {"whenToApply": "IfNotDrifted"}},
        )
        conditions = await hub.conditions("job1-placement", "compute-jobs")
        assert conditions["Available"][:2] == ("True", "ResourceAvailable")
        (binding,) = await hub.bindings("job1-placement", "compute-jobs")
        assert binding["spec"]["clusterDecision"]["reason"] == (
            'Successfully scheduled resources for placement in "cluster-3"'
            " (affinity score: 70, topology spread score: 0): picked by scheduling policy"
        )
        (manifest,) = await hub.manifests("cluster-3", "compute-jobs.job1-placement-work")
        assert manifest["spec"]["selector"] == {"matchLabels": {}}
        assert sorted(manifest["spec"]["template"]["metadata"]["labels"]) == [
            "batch.kubernetes.io/job-name",
            "job-name",
        ]
        assert len(await hub.events("job1-placement")) == 6

    on_hub(scenario)
