"""Reasons and messages of placement conditions, for one cluster and for all of them."""

from __future__ import annotations

from typing import Final, NamedTuple


class Form(NamedTuple):
    """Reason and message of a condition in one state; `{n}` is the number of clusters."""

    reason: str
    message: str


NO_OVERRIDE: Final = Form("NoOverrideSpecified", "No override rules are configured for the selected resources")
WORK_SYNCED: Final = "Works(s) are succcesfully created or updated in {n} target cluster(s)' namespaces"
UNKNOWN_PER_CLUSTER: Final = {
    "RolloutStarted": Form(
        "RolloutStartedUnknown", "In the process of deciding whether to roll out some version of the resources or not"
    ),
    "Overridden": Form(
        "OverriddenPending", "In the process of overriding the selected resources if there is any override defined"
    ),
    "WorkSynchronized": Form(
        "WorkSynchronizedUnknown", "In the process of creating or updating the work object(s) in the hub cluster"
    ),
    "Applied": Form("ApplyPending", "In the process of applying the resources on the member cluster"),
    "Available": Form("ResourceAvailableUnknown", "The availability of the selected resources is unknown yet "),
    "DiffReported": Form("DiffReportingPending", "Diff reporting has just started; its status is not yet to be known"),
}
UNKNOWN: Final = {
    "RolloutStarted": Form(
        "RolloutStartedUnknown",
        "There are still {n} cluster(s) in the process of deciding whether to roll out the latest resources or not",
    ),
    "Overridden": Form(
        "OverriddenPending",
        "There are still {n} cluster(s) in the process of overriding the selected resources if there is any override"
        " defined",
    ),
    "WorkSynchronized": Form(
        "WorkSynchronizedUnknown",
        "There are still {n} cluster(s) in the process of creating or updating the work object(s) in the hub cluster",
    ),
    "Applied": Form(
        "ApplyPending",
        "There are still {n} cluster(s) in the process of applying the resources on the member cluster",
    ),
    "Available": Form(
        "ResourceAvailableUnknown",
        "There are still {n} cluster(s) in the process of checking the availability of the selected resources",
    ),
    "DiffReported": Form(
        "DiffReportingPending",
        "There are still {n} cluster(s) in the process of checking for configuration differences",
    ),
}
FALSE: Final = {
    "RolloutStarted": Form(
        "RolloutNotStartedYet", "The rollout is being blocked by the rollout strategy in {n} cluster(s)"
    ),
    "Overridden": Form("OverriddenFailed", "Failed to override resources in {n} cluster(s)"),
    "WorkSynchronized": Form(
        "WorkNotSynchronizedYet", "There are {n} cluster(s) which have not finished creating or updating work(s) yet"
    ),
    "Applied": Form(
        "ApplyFailed", "Failed to apply resources to {n} cluster(s), please check the `failedPlacements` status"
    ),
    "Available": Form(
        "ResourceNotAvailableYet", "The selected resources in {n} cluster(s) are still not available yet"
    ),
    "DiffReported": Form(
        "DiffReportingIncompleteOrFailed", "Diff reporting in {n} clusters is still in progress or has failed"
    ),
}
TRUE: Final = {
    "RolloutStarted": Form("RolloutStarted", "All {n} cluster(s) start rolling out the latest resource"),
    "Overridden": Form("OverriddenSucceeded", "The selected resources are successfully overridden in {n} cluster(s)"),
    "WorkSynchronized": Form("WorkSynchronized", WORK_SYNCED),
    "Applied": Form("ApplySucceeded", "The selected resources are successfully applied to {n} cluster(s)"),
    "Available": Form("ResourceAvailable", "The selected resources in {n} cluster(s) are available now"),
    "DiffReported": Form("DiffReportingCompleted", "Diff reporting in {n} cluster(s) has been completed"),
}
