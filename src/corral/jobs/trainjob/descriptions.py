"""What the kinds are for, in the words of `kubectl explain`."""

from __future__ import annotations

from corral.jobs.framework.descriptions import SHARED
from corral.kinds.machinery.describing import Table

DESCRIPTIONS: Table = {
    "*": SHARED,
    "ClusterTrainingRuntime": (
        "A blueprint for TrainJobs of all namespaces.",
        {
            "spec.mlPolicy": "The framework: how many nodes, and how their processes find each other.",
            "spec.podGroupPolicy": "Whether a gang scheduler places the pods together.",
            "spec.template": "The JobSet a TrainJob becomes.",
        },
    ),
    "TrainJob": (
        "A training run: which runtime, with which data, on how many nodes.",
        {
            "spec.initializer": "What is fetched before training: a dataset, a model.",
            "spec.runtimePatches": "Changes to what the runtime makes, by manager.",
            "spec.runtimeRef": "The TrainingRuntime or ClusterTrainingRuntime it is made from.",
            "spec.trainer": "Image, command, nodes and resources of the training itself.",
            "status.jobsStatus": "Jobs that run, wait, succeeded and failed, by name.",
            "status.trainerStatus": "What the training reports about its progress.",
        },
    ),
    "TrainingRuntime": (
        "A blueprint for the TrainJobs of its namespace.",
        {
            "spec.mlPolicy": "The framework: how many nodes, and how their processes find each other.",
            "spec.podGroupPolicy": "Whether a gang scheduler places the pods together.",
            "spec.template": "The JobSet a TrainJob becomes.",
        },
    ),
}
