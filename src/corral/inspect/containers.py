"""The containers of a pod whose logs are read: which there are, which is meant, and whether it has anything to read. Pure."""

from __future__ import annotations

from typing import Final

from corral.core.meta import Obj, annotations_of, spec_of, status_of

DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


def containers_of(pod: Obj) -> list[str]:
    """All containers that may have written something, in the order they start."""
    spec = spec_of(pod)
    return [str(one["name"]) for part in ("initContainers", "containers") for one in spec.get(part) or ()]


def main_container(pod: Obj) -> str:
    """The one that is meant where none is named: that of kubectl's annotation, else the first."""
    default = annotations_of(pod).get(DEFAULT_CONTAINER, "")
    main = [str(one["name"]) for one in spec_of(pod).get("containers") or ()]
    return default if default in containers_of(pod) else next(iter(main), "")


def has_begun(pod: Obj, container: str) -> bool:
    """Whether a container has something to read. A pod runs its init containers first, one after the other."""
    status = status_of(pod)
    entries = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for entry in entries:
        if entry.get("name") == container:
            return bool((entry.get("state") or {}).keys() - {"waiting"}) or bool(entry.get("lastState"))
    return status.get("phase") in ("Running", "Succeeded", "Failed")


def failed_starts(pod: Obj) -> list[str]:
    """Init containers that failed: the one that is meant never begins, and they wrote why."""
    entries = status_of(pod).get("initContainerStatuses") or ()
    ends = {str(one["name"]): ((one.get("state") or {}).get("terminated") or {}).get("exitCode") for one in entries}
    return [name for name, code in ends.items() if code]
