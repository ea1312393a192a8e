"""Limits on what pods write: `ephemeral-storage` of containers and `sizeLimit` of emptyDir volumes.

Measured now and then, as a kubelet does: a pod over a limit is evicted. What counts is what Corral keeps for the pod: logs,
the container's own `/tmp` and working folder, its emptyDir volumes. What a program writes elsewhere on the machine does not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from corral.core.meta import Obj, spec_of
from corral.core.quantity import value
from corral.decide.pods.record import all_containers, main_containers
from corral.node.process.folder import PodFolder

RESOURCE = "ephemeral-storage"


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes on disk, by container and by emptyDir volume."""

    containers: Mapping[str, int]
    volumes: Mapping[str, int]


def has_limits(pod: Obj) -> bool:
    """Whether anything of the pod is to be measured."""
    return any(_limit(container) for container in all_containers(pod)) or any(_sizes(pod).values())


def measure(pod: Obj, folder: PodFolder) -> Written:
    containers = {c["name"]: _bytes_below(folder.container(c["name"])) for c in all_containers(pod)}
    return Written(containers, {name: _bytes_below(folder.volumes / name) for name in _sizes(pod)})


def excess(pod: Obj, written: Written) -> str:
    """The sentence of an eviction; empty while every limit is kept."""
    for name, size in _sizes(pod).items():
        if size and written.volumes.get(name, 0) > value(size):
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{size}". '
    limits = {container["name"]: _limit(container) for container in all_containers(pod)}
    for name, limit in limits.items():
        if limit and written.containers.get(name, 0) > value(limit):
            return f'Container {name} exceeded its local ephemeral storage limit "{limit}". '
    whole = [limits[container["name"]] for container in main_containers(pod)]
    used = sum(written.containers.values()) + sum(written.volumes.values())
    if all(whole) and used > (total := sum(map(value, whole))):
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {total}. "
    return ""


def _limit(container: Obj) -> str:
    return str(((container.get("resources") or {}).get("limits") or {}).get(RESOURCE) or "")


def _sizes(pod: Obj) -> dict[str, str]:
    """The emptyDir volumes of a pod and their limits."""
    volumes = [volume for volume in spec_of(pod).get("volumes") or () if "emptyDir" in volume]
    return {volume["name"]: str((volume["emptyDir"] or {}).get("sizeLimit") or "") for volume in volumes}


def _bytes_below(place: Path) -> int:
    """Bytes that the files below `place` take on disk; links are not followed."""
    total = 0
    for _, _, files, handle in os.fwalk(place, follow_symlinks=False, onerror=None):
        for name in files:
            try:
                total += os.stat(name, dir_fd=handle, follow_symlinks=False).st_blocks * 512
            except FileNotFoundError:
                pass  # removed meanwhile
    return total
