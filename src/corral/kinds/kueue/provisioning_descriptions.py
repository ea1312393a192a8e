"""What a ProvisioningRequest is for, in the words of `kubectl explain`."""

from __future__ import annotations

from corral.kinds.machinery.describing import Table

DESCRIPTIONS: Table = {
    "*": (
        "",
        {
            "spec": "What is wanted.",
            "status": "What was observed.",
            "status.conditions": "What is known about it at present, one entry per type.",
        },
    ),
    "ProvisioningRequest": (
        "Asks the cluster's autoscaler for nodes for given pods, before these are created.",
        {
            "spec.parameters": "Passed on to the class as they are.",
            "spec.podSets": "The pods: a template and how many of it.",
            "spec.provisioningClassName": "The class of provisioning, which the autoscaler defines.",
            "status.provisioningClassDetails": "What the class reports about the request.",
        },
    ),
}
