"""Which kubeconfig is meant: the one named, kubectl's, or that of the fleet on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from corral.client import kubeconfig
from corral.client.kubeconfig import KubeconfigError
from corral.fleet.folder import FleetFolder


def kubeconfig_file(path: Path | None, context: str = "") -> Path:
    """The file to use: the given one, of kubectl's the first that has the context, else the local fleet's.

    $KUBECONFIG that leads nowhere is an error: who sets it does not mean another cluster.
    """
    if path is not None:
        return path
    default = kubeconfig.default_path()
    listed = [Path(entry) for entry in os.environ.get("KUBECONFIG", "").split(os.pathsep) if entry]
    there = [file for file in listed or [default] if file.exists()]
    if listed and not there:
        raise KubeconfigError(
            f"KUBECONFIG names {', '.join(map(str, listed))}, which {'is' if len(listed) == 1 else 'are'} not there; "
            "correct or unset it, or name a file with --kubeconfig"
        )
    for file in there:
        document = kubeconfig.load(file)
        wanted = context or document.get("current-context")
        if len(listed) < 2 or wanted in [entry.get("name") for entry in document.get("contexts") or []]:
            return file
    if there:
        return there[0]
    local = FleetFolder.default().kubeconfig
    if not local.exists():
        raise KubeconfigError(
            f"there is no kubeconfig {default}; name one with --kubeconfig, or start with `corral up`"
        )
    return local
