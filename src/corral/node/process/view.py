"""What a container sees of the machine: the host's files, with the pod's own mounted among them.

The root is an empty memory file system onto which every top-level entry of the host is bound. A mount point that the host
does not have never touches the host: the closest existing directory is rebuilt entry by entry in memory and the missing
part is created there. Runs in the child, in its own mount namespace, before the program starts.
"""

# Plain strings instead of pathlib: runs between fork and exec.
# ruff: noqa: PTH102, PTH108, PTH112, PTH114, PTH115, PTH118, PTH120, PTH208, PTH211

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field, replace

from corral.node.process import kernel
from corral.node.process.paths import checked_parts, open_entry

_DEVICES = re.compile(
    r"null|zero|full|random|urandom|tty|ptmx|pts|shm|fuse|kvm|net|dri|kfd|nvidia.*|infiniband|mqueue|hugepages"
)
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
_KERNELS_OWN = ("/proc", "/dev/shm", "/dev/mqueue", "/dev/pts")
"""Writable in every container, as with a kubelet."""
_MAX_LINKS = 40


@dataclass(frozen=True, slots=True)
class Mount:
    """`source` on the host, or what is `below` it, appears at the absolute path `target` in the container."""

    source: str
    target: str
    read_only: bool = False
    below: str = ""
    """A path inside `source`, which the pod may have written to: it is opened without following links."""

    @property
    def path(self) -> str:
        return os.path.join(self.source, self.below) if self.below else self.source


@dataclass(slots=True)
class RootView:
    """A root under construction at `base`."""

    base: str
    all_devices: bool = False
    _private: set[str] = field(default_factory=set)

    def build(self, mounts: list[Mount]) -> None:
        """Bind the host and the pod's mounts under `base`, which must be an empty directory."""
        kernel.mount_memory(self.base)
        self._private.add(self.base)
        with os.scandir("/") as entries:
            # The directory that holds `base` goes first, else it would carry along what is bound under `base` already.
            ordered = sorted(entries, key=lambda entry: (not self.base.startswith(entry.path + "/"), entry.name))
        for entry in ordered:
            if entry.name != "dev":
                self._copy(entry.path, os.path.join(self.base, entry.name))
        self._devices()
        for mount in sorted(mounts, key=lambda mount: (mount.target.count("/"), mount.target)):
            self._attach(mount)

    def protect(self, writable: list[str]) -> None:
        """Make everything read-only but what is mounted at `writable`, and what is the kernel's."""
        kernel.set_read_only(self.base, with_mounts_below=True)
        own = [path for path in (self.base + target for target in _KERNELS_OWN) if os.path.ismount(path)]
        for path in (*own, *(self._place(target, is_directory=False) for target in writable)):
            kernel.set_read_only(path, read_only=False)

    def enter(self) -> None:
        kernel.change_root(self.base)

    def _copy(self, source: str, target: str) -> None:
        mode = os.lstat(source).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(source), target)
            return
        if stat.S_ISDIR(mode):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
        try:
            kernel.bind(source, target)
        except OSError:
            if not stat.S_ISDIR(mode):
                os.unlink(target)  # sockets and files of foreign namespaces cannot be bound; the pod does without

    def _devices(self) -> None:
        target = os.path.join(self.base, "dev")
        os.mkdir(target, 0o755)
        self._private.add(target)
        with os.scandir("/dev") as entries:
            for entry in entries:
                if entry.name not in _DEVICE_LINKS and (self.all_devices or _DEVICES.fullmatch(entry.name)):
                    self._copy(entry.path, os.path.join(target, entry.name))
        for name, link in _DEVICE_LINKS.items():
            os.symlink(link, os.path.join(target, name))

    def _attach(self, mount: Mount) -> None:
        if mount.below:
            with open_entry(mount.source, checked_parts(mount.below)) as handle:
                self._bind(replace(mount, source=f"/proc/self/fd/{handle}", below=""))
        else:
            self._bind(mount)

    def _bind(self, mount: Mount) -> None:
        is_directory = os.path.isdir(mount.source)
        path = self._place(mount.target, is_directory)
        kernel.bind(mount.source, path, read_only=mount.read_only)
        if is_directory and not mount.read_only:
            self._private.add(path)  # a mount point inside a volume is made in the volume

    def _place(self, target: str, is_directory: bool) -> str:
        """The host path of `target` in the view, which exists afterwards and can be mounted on."""
        current, parts, links = self.base, [part for part in target.split("/") if part], 0
        while parts:
            part = parts.pop(0)
            if part == "..":
                current = os.path.dirname(current) if current != self.base else current
                continue
            following = os.path.join(current, part)
            if os.path.islink(following) and links < _MAX_LINKS:
                links += 1
                link = os.readlink(following)
                current = self.base if link.startswith("/") else current
                parts = [part for part in link.split("/") if part and part != "."] + parts
                continue
            if not os.path.lexists(following):
                self._create(current, following, is_directory=is_directory or bool(parts))
            current = following
        return current

    def _create(self, parent: str, path: str, *, is_directory: bool) -> None:
        if parent not in self._private:
            self._rebuild(parent)
        if is_directory:
            os.mkdir(path, 0o755)
            self._private.add(path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))

    def _rebuild(self, directory: str) -> None:
        """Replace a host directory by one in memory that shows the same entries."""
        handle = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        try:
            names = _entries(directory)
            kernel.mount_memory(directory)
            for name in names:
                self._copy(f"/proc/self/fd/{handle}/{name}", os.path.join(directory, name))
        finally:
            os.close(handle)
        self._private.add(directory)


def _entries(directory: str) -> list[str]:
    """The names in a directory; one that may not be read, such as another user's home, has none to show."""
    try:
        return os.listdir(directory)
    except PermissionError:
        return []
