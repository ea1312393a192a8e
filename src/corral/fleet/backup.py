"""A fleet in one file: what its clusters know, their keys and kubeconfigs, and what to start. Its pods' own files are not in it.

Each cluster's journal is copied as of one moment, also while it runs; clusters are copied one after the other, and agree again the way
they do after a crash. A restored file is checked whole before anything in the folder is touched.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from corral.fleet.folder import FleetFolder
from corral.fleet.removal import KEYS
from corral.store import StoreError
from corral.store.encryption import KEY_FILE
from corral.store.integrity import check_file, copy

JOURNAL: Final = "store.db"
MARKER: Final = ".corral-fleet.json"
FLEET_FILES: Final = (MARKER, "fleet.json", "status.json", "kubeconfig")
# The keys after the journal: a file of keys opens every copy that was made before it.
CLUSTER_FILES: Final = (JOURNAL, KEY_FILE, "admin.kubeconfig", *(f"pki/{key}" for key in KEYS))
_CLUSTER: Final = re.compile(r"[a-z0-9-]{1,63}")


class BackupError(Exception):
    """The backup could not be written or is not one; nothing has changed."""


def _belongs(name: str) -> bool:
    """Whether a fleet's backup may hold a file of this name; nothing else is ever unpacked."""
    folder, _, rest = name.partition("/")
    cluster, _, file = rest.partition("/")
    known = folder == "clusters" and _CLUSTER.fullmatch(cluster) is not None and file in CLUSTER_FILES
    return known or name in FLEET_FILES


def write(folder: FleetFolder, file: Path) -> list[str]:
    """Write the fleet of `folder`, running or not, to `file`; returns the clusters in it."""
    clusters = [name for name in folder.started() if (folder.cluster(name) / JOURNAL).exists()]
    if not clusters:
        raise BackupError(f"there is no fleet in {folder.root}")
    part = file.with_name(f"{file.name}.part")
    try:
        with (
            tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}-") as temporary,
            os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out,
        ):
            with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as archive:
                for name, path in _members(folder, clusters, Path(temporary)):
                    archive.add(path, arcname=name, recursive=False)
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)
    except StoreError as error:
        raise BackupError(str(error)) from error
    finally:
        part.unlink(missing_ok=True)
    return clusters


def _members(folder: FleetFolder, clusters: list[str], temporary: Path) -> Iterator[tuple[str, Path]]:
    """What goes into a backup, each by its name there."""
    for name in FLEET_FILES:
        if (folder.root / name).is_file():
            yield name, folder.root / name
    for cluster in clusters:
        copied = temporary / JOURNAL
        copy(folder.cluster(cluster) / JOURNAL, copied)
        yield f"clusters/{cluster}/{JOURNAL}", copied
        copied.unlink()
        for name in CLUSTER_FILES:
            if name != JOURNAL and (folder.cluster(cluster) / name).is_file():
                yield f"clusters/{cluster}/{name}", folder.cluster(cluster) / name


def read(folder: FleetFolder, file: Path) -> list[str]:
    """Put the fleet of the backup `file` into `folder`, which nobody uses; returns its clusters."""
    with tempfile.TemporaryDirectory(dir=folder.root, prefix=".restored-") as temporary:
        names = _unpack(file, Path(temporary))
        clusters = sorted(name.split("/")[1] for name in names if name.endswith(f"/{JOURNAL}"))
        if MARKER not in names or not clusters:
            raise BackupError(f"{file} is not the backup of a fleet")
        for cluster in clusters:
            path = Path(temporary) / "clusters" / cluster / JOURNAL
            try:
                check_file(path)
            except StoreError as error:
                raise BackupError(f"{file}: the state of cluster {cluster} in it is damaged: {error}") from error
        known = folder.started()
        for name in names:
            _put(Path(temporary) / name, folder.root / name)
        folder.add_started(known)
    return clusters


def _unpack(file: Path, target: Path) -> list[str]:
    """Write the members out, only plain files and only by names a backup has."""
    names = []
    try:
        with tarfile.open(file, mode="r:gz") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is None or not _belongs(member.name):
                    raise BackupError(f"{file} is not the backup of a fleet: it has {member.name!r}")
                path = target / member.name
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                    shutil.copyfileobj(content, out)
                names.append(member.name)
    except (tarfile.TarError, EOFError, FileExistsError) as error:
        raise BackupError(f"{file} is not a whole backup: {error}") from error
    return names


def _put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if target.name == JOURNAL:
        # What belongs to the journal that was here must not be taken for a part of the one that comes.
        for ending in ("-wal", "-shm", "-journal"):
            target.with_name(JOURNAL + ending).unlink(missing_ok=True)
    source.replace(target)
