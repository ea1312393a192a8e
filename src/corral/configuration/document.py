"""Reading a cluster's `config` before anything starts: what is wrong is told with the file and the field.

The document is Kueue's Configuration with three parts of ours. Fields of Kueue's that mean nothing here are let pass, but
not those that look like a slip of the pen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from corral.core.meta import Obj

MAPPINGS = (
    "admissionFairSharing", "clientConnection", "controller", "corral", "fairSharing", "featureGates", "health",
    "integrations", "internalCertManagement", "leaderElection", "managedJobsNamespaceSelector", "member", "metrics",
    "multiKueue", "objectRetentionPolicies", "placement", "resources", "tls", "waitForPodsReady", "webhook",
)  # fmt: skip
OTHERS = ("apiVersion", "kind", "manageJobsWithoutQueueName", "metadata", "namespace", "pprofBindAddress")
PARTS = {
    "corral": (
        "fencing", "giveUpAfter", "jobKinds", "keepFinished", "keepLogs", "propagateDependencies", "remoteEventBatch", "sayWhy",
    ),
    "placement": (
        "clusterUnhealthyThreshold", "enableClusterInventory", "enableGuardRail", "enableWorkload",
        "forceDeleteWaitTime", "pendingTimeout", "reserve", "resourceChangesCollectionDuration",
        "resourceSnapshotCreationMinimumInterval", "strictAdmission", "upstream", "whiteListedUsers",
    ),
    "member": (
        "collectNamespaces", "concurrentWorkSyncs", "costProperties", "deletionWaitTime", "nullTemplateTimestamps",
        "ownProperties", "propertyProvider", "queueFriendly", "rememberFinishedJobs", "upstream", "yieldToQueue",
    ),
}  # fmt: skip


class ConfigurationError(ValueError):
    """The document cannot be used; the text says where and why."""


def read_configuration(path: Path) -> Obj:
    """The document in a file, checked."""
    try:
        document = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    for fault in faults(document):
        raise ConfigurationError(f"{path}: {fault}")
    return dict(document)


def _close_to(name: str) -> list[str]:
    from difflib import get_close_matches  # only for words of complaint

    return get_close_matches(name, (*MAPPINGS, *OTHERS), n=1)


def faults(document: Any) -> Iterator[str]:
    """What is wrong with a document."""
    if not isinstance(document, dict):
        yield "it is not a mapping; a configuration has fields such as `integrations` and `multiKueue`"
        return
    for name, value in document.items():
        if name not in (*MAPPINGS, *OTHERS) and (close := _close_to(str(name))):
            yield f"unknown field {name!r}; did you mean {close[0]!r}?"
        if name in MAPPINGS and not isinstance(value, dict | None):
            yield f"{name}: expected a mapping, got {value!r}"
        for field in value if name in PARTS and isinstance(value, dict) else ():
            if field not in PARTS[name]:
                yield f"{name}: unknown field {field!r}; there are {', '.join(PARTS[name])}"
    yield from _unknown_frameworks((document.get("integrations") or {}).get("frameworks") or ())
    yield from _unreadable(document)


def _unknown_frameworks(names: Any) -> Iterator[str]:
    from corral.jobs.framework.registry import known_frameworks

    known = known_frameworks()
    for name in names:
        if name not in known:
            yield f"integrations.frameworks: Corral does not queue {name!r}; there are {', '.join(known)}"


def _unreadable(document: Obj) -> Iterator[str]:
    """What those who use a document make of it."""
    from corral.configuration.dispatch import dispatch_settings
    from corral.configuration.member import member_settings
    from corral.configuration.placement import placement_settings
    from corral.configuration.queueing import load_config

    readers: dict[str, Callable[[Obj], object]] = {
        "": load_config,
        "multiKueue or corral": dispatch_settings,
        "placement": placement_settings,
        "member": member_settings,
    }
    for part, read in readers.items():
        try:
            read(document)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            yield f"{part}: {error}" if part else str(error)
