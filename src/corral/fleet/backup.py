"""A fleet in one file: what its clusters know, their keys, and what to start. Its pods' own files are not in it.

Each cluster's journal is copied as of one moment, also while it runs; clusters are copied one after the other, and agree again the way
they do after a crash. A restored file is checked whole before anything in the folder is touched. It may come from somebody else: what
it would do outside the folder has to be allowed by name, and what is found by a path is found by the names of its clusters alone.
Kubeconfigs, which may name programs, are in the backups of earlier versions and are left there: each start writes them anew.
"""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import msgspec

from corral.configuration.fleet import FleetError, FleetSpec, faults
from corral.fleet.folder import FleetFolder, FleetStatus
from corral.fleet.outside import reaches
from corral.fleet.removal import KEYS
from corral.store import StoreError
from corral.store.encryption import KEY_FILE
from corral.store.integrity import check_file, copy

JOURNAL: Final = "store.db"
MARKER: Final = ".corral-fleet.json"
SPEC: Final = "fleet.json"
STATUS: Final = "status.json"
FLEET_FILES: Final = (MARKER, SPEC, STATUS)
# The keys after the journal: a file of keys opens every copy that was made before it.
CLUSTER_FILES: Final = (JOURNAL, KEY_FILE, *(f"pki/{key}" for key in KEYS))
EARLIER_FILES: Final = ("kubeconfig", "admin.kubeconfig")
_CHUNK: Final = 1 << 20
_CLUSTER: Final = re.compile(r"[a-z0-9-]{1,63}")


class BackupError(Exception):
    """The backup could not be written or is not one; nothing has changed."""


def _belongs(name: str) -> bool:
    """Whether a fleet's backup may hold a file of this name; nothing else is ever unpacked."""
    folder, _, rest = name.partition("/")
    cluster, _, file = rest.partition("/")
    if folder == "clusters" and _CLUSTER.fullmatch(cluster):
        return file in (*CLUSTER_FILES, *EARLIER_FILES)
    return name in (*FLEET_FILES, *EARLIER_FILES)


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


def read(folder: FleetFolder, file: Path, allowed: Collection[str] = ()) -> list[str]:
    """Put the fleet of the backup `file` into `folder`, which nobody uses; returns its clusters. `allowed` are the programs, files and
    addresses outside the folder that it may use."""
    with tempfile.TemporaryDirectory(dir=folder.root, prefix=".restored-") as temporary:
        names = _unpack(file, Path(temporary))
        clusters = sorted(name.split("/")[1] for name in names if name.endswith(f"/{JOURNAL}"))
        if MARKER not in names or not clusters:
            raise BackupError(f"{file} is not the backup of a fleet")
        _check_description(FleetFolder(Path(temporary)), file, allowed)
        for cluster in clusters:
            path = Path(temporary) / "clusters" / cluster / JOURNAL
            try:
                check_file(path)
            except StoreError as error:
                raise BackupError(f"{file}: the state of cluster {cluster} in it is damaged: {error}") from error
        for name in names:
            if name != MARKER and name.rpartition("/")[2] not in EARLIER_FILES:
                _put(Path(temporary) / name, folder.root / name)
        folder.add_started(clusters)
    return clusters


def _check_description(fleet: FleetFolder, file: Path, allowed: Collection[str]) -> None:
    """Raises BackupError where what the backup says of its fleet cannot be started, or does more than is allowed."""
    try:
        spec = fleet.read_spec()
    except FleetError as error:
        raise BackupError(f"{file}: what to start cannot be read: {error.__cause__}") from error
    if spec is not None:
        _check_spec(spec, file, allowed)
    try:
        status = msgspec.json.decode(fleet.status_file.read_bytes(), type=FleetStatus)
    except FileNotFoundError:
        return
    except msgspec.DecodeError as error:
        raise BackupError(f"{file}: its status cannot be read: {error}") from error
    if not all(0 <= cluster.port < 1 << 16 for cluster in status.clusters):
        raise BackupError(f"{file}: its status names a port there cannot be")


def _check_spec(spec: FleetSpec, file: Path, allowed: Collection[str]) -> None:
    for fault in faults(spec):
        raise BackupError(f"{file}: what to start is wrong: {fault.text}")
    if asked := [reach for reach in reaches(spec) if reach.what not in allowed]:
        flags = " ".join(f"--allow {shlex.quote(what)}" for what in dict.fromkeys(reach.what for reach in asked))
        raise BackupError(
            f"{file} holds a fleet that, once started, {', '.join(map(str, asked))}; if that is meant, say {flags}"
        )


def _unpack(file: Path, target: Path) -> list[str]:
    """Write the members out, only plain files and only by names a backup has."""
    names = []
    try:
        with gzip.open(file) as plain, tarfile.open(fileobj=plain, mode="r:") as archive:
            for member in archive:
                # A sparse file is as long as it says, however short it is.
                content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
                if content is None or not _belongs(member.name):
                    raise BackupError(f"{file} is not the backup of a fleet: it has {member.name!r}")
                path = target / member.name
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                    shutil.copyfileobj(content, out)
                names.append(member.name)
            _read_to_the_end(plain)
    except (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, FileExistsError) as error:
        raise BackupError(f"{file} is not a whole backup: {error}") from error
    return names


def _read_to_the_end(plain: gzip.GzipFile) -> None:
    """The checksum of everything comes last."""
    while plain.read(_CHUNK):
        pass


def _put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if target.name == JOURNAL:
        # What belongs to the journal that was here must not be taken for a part of the one that comes.
        for ending in ("-wal", "-shm", "-journal"):
            target.with_name(JOURNAL + ending).unlink(missing_ok=True)
    source.replace(target)
