"""What the kind is for, in the words of `kubectl explain`."""

from __future__ import annotations

from corral.jobs.framework.descriptions import SHARED
from corral.kinds.machinery.describing import Table

DESCRIPTIONS: Table = {
    "*": SHARED,
    "LeaderWorkerSet": (
        "Replicas of a group of pods, one leader with its workers, that serve together.",
        {
            "spec.leaderWorkerTemplate": "The group: leader, workers, and their number.",
            "spec.networkConfig": "How the pods of a group find each other.",
            "spec.replicas": "How many groups.",
            "spec.rolloutStrategy": "How a change reaches the groups.",
            "spec.startupPolicy": "Whether workers wait for their leader.",
            "status.readyReplicas": "Groups that are ready.",
            "status.replicas": "Groups that are there.",
            "status.updatedReplicas": "Groups that have the newest template.",
        },
    ),
}
