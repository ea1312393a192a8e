"""Removing a fleet from the disk: what Corral made goes, and nothing else.

A fleet may live in a folder that is also somebody's project or home. So files go by name, from a list of what Corral writes,
and only below clusters it has started; folders go when that leaves them empty. Whole trees go only where pods and logs have their files.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from corral.fleet import lock
from corral.fleet.folder import FleetFolder
from corral.store.encryption import KEY_FILE

DATABASE: Final = tuple(f"store.db{ending}" for ending in ("", "-lock", "-lock-journal", "-shm", "-wal", "-journal"))
ENCRYPTION: Final = (KEY_FILE, f"{KEY_FILE}.new")
KEYS: Final = ("ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key", "tokens.csv")
NODE_FILES: Final = ("supervisor.log", "supervisor.pid", "supervisor.sock")
TREES: Final = ("node/pods", "node/claims", "node/root", "kept-logs")


def remove(folder: FleetFolder) -> list[Path]:
    """Remove the fleet's state; returns what else is in its folder, which stays then."""
    for path in _files(folder):
        if not _is_outside(folder, path.parent) and (path.is_symlink() or not path.is_dir()):
            path.unlink(missing_ok=True)
    for name in folder.started():
        for tree in TREES:
            path = folder.cluster(name) / tree
            if path.is_dir() and not _is_outside(folder, path):
                shutil.rmtree(path)
    for path in _folders(folder):
        if path.is_dir() and not _is_outside(folder, path) and not any(path.iterdir()):
            path.rmdir()
    left = sorted(path for path in folder.root.iterdir() if path != folder.marker)
    folder.marker.unlink(missing_ok=True)
    # Whoever stands in the folder, or lives there, would be lost without it.
    if not left and folder.root.resolve() not in (Path.cwd(), Path.home().resolve()) and not folder.root.is_symlink():
        folder.root.rmdir()
    return left


def _files(folder: FleetFolder) -> Iterator[Path]:
    for path in (folder.spec_file, folder.status_file, folder.kubeconfig):
        yield from (path, path.with_name(f"{path.name}.new"))
    yield from (folder.supervisor_log, folder.root / lock.NAME)
    for name in folder.started():
        yield folder.log(name)
        cluster, kubeconfig = folder.cluster(name), folder.admin_kubeconfig(name)
        yield from (kubeconfig, kubeconfig.with_name(f"{kubeconfig.name}.new"))
        yield from (cluster / file for file in (*DATABASE, *ENCRYPTION))
        yield from (cluster / "pki" / file for file in KEYS)
        yield from (cluster / "node" / file for file in NODE_FILES)


def _folders(folder: FleetFolder) -> Iterator[Path]:
    """The folders Corral makes below its own, the innermost first."""
    for name in folder.started():
        cluster = folder.cluster(name)
        yield from (cluster / "pki", cluster / "node", cluster)
    yield from (folder.root / "clusters", folder.root / "logs")


def _is_outside(folder: FleetFolder, path: Path) -> bool:
    """Whether a folder below the fleet's is a link, or is reached by one: its files are not ours to remove."""
    return any(part.is_symlink() for part in (path, *path.parents) if folder.root in part.parents)
