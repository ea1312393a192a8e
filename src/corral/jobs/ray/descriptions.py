"""What the kinds are for, in the words of `kubectl explain`."""

from __future__ import annotations

from corral.jobs.framework.descriptions import SHARED
from corral.kinds.machinery.describing import Table

DESCRIPTIONS: Table = {
    "*": SHARED,
    "RayCluster": (
        "A Ray cluster: one head and groups of workers.",
        {
            "spec.enableInTreeAutoscaling": "Lets Ray change the number of workers.",
            "spec.headGroupSpec": "The head.",
            "spec.rayVersion": "The version of Ray the images have.",
            "spec.workerGroupSpecs": "Groups of equal workers.",
            "status.state": "Where the cluster stands.",
        },
    ),
    "RayJob": (
        "A program that runs on a Ray cluster made for it, or on one that is there.",
        {
            "spec.clusterSelector": "The labels of a RayCluster that is there already.",
            "spec.entrypoint": "The command to run.",
            "spec.rayClusterSpec": "The cluster to make for it.",
            "spec.runtimeEnvYAML": "Ray's runtime environment.",
            "spec.shutdownAfterJobFinishes": "Whether its cluster goes with it.",
            "spec.submissionMode": "Who hands the command to Ray.",
            "status.jobDeploymentStatus": "Where the whole stands.",
            "status.jobStatus": "Where the program stands, in Ray's words.",
        },
    ),
    "RayService": (
        "Ray Serve applications on a Ray cluster that is replaced without a gap when it changes.",
        {
            "spec.rayClusterConfig": "The cluster.",
            "spec.serveConfigV2": "The applications, as Ray Serve reads them.",
            "spec.upgradeStrategy": "How a new cluster takes over.",
        },
    ),
}
