"""What the kind is for, in the words of `kubectl explain`."""

from __future__ import annotations

from corral.jobs.framework.descriptions import SHARED
from corral.kinds.machinery.describing import Table

DESCRIPTIONS: Table = {
    "*": SHARED,
    "JobSet": (
        "Several Jobs that start, fail and end together, with names for each pod.",
        {
            "spec.coordinator": "The pod the others look up.",
            "spec.failurePolicy": "What a failed Job means for the whole, and how often it may start anew.",
            "spec.network": "Host names of the pods, and the service they are found by.",
            "spec.replicatedJobs": "The Jobs: a template, a name, and how many of it.",
            "spec.startupPolicy": "Whether the Jobs start at once or one after the other.",
            "spec.successPolicy": "Which Jobs have to succeed for the whole to succeed.",
            "spec.volumeClaimPolicies": "Volumes made for the JobSet, and what becomes of them.",
            "status.replicatedJobsStatus": "Jobs that run, wait, succeeded and failed, by name.",
            "status.restarts": "How often the whole was started anew.",
            "status.terminalState": "How it ended.",
        },
    ),
}
