"""Fields that mean the same in every kind of job, in the words of `kubectl explain`."""

from __future__ import annotations

from collections.abc import Mapping

from corral.kinds.machinery.describing import Table

SHARED: tuple[str, Mapping[str, str]] = (
    "",
    {
        "spec": "What is wanted.",
        "spec.activeDeadlineSeconds": "The longest it may run, from its start, before it is stopped as failed.",
        "spec.managedBy": "Who runs the job; other controllers leave it alone. kueue.x-k8s.io/multikueue dispatches it.",
        "spec.runPolicy": "When the job ends, how often it is tried, what stays behind; suspended jobs have no pods.",
        "spec.suspend": "A suspended job has no pods. The queue sets and clears this.",
        "spec.ttlSecondsAfterFinished": "How long it stays after its end before it is deleted.",
        "status": "What was observed.",
        "status.completionTime": "When it ended.",
        "status.conditions": "What is known about it at present, one entry per type.",
        "status.observedGeneration": "The generation this status speaks of.",
        "status.replicaStatuses": "Pods that run, succeeded and failed, by role.",
        "status.startTime": "When it was first started.",
    },
)

DESCRIPTIONS: Table = {
    "*": SHARED,
    "PodGroup": (
        "Pods that a gang scheduler places together or not at all.",
        {
            "spec.minMember": "How many pods must fit at once.",
            "spec.minResources": "What they need together.",
            "status.phase": "Where the group stands.",
        },
    ),
}
