"""This machine and this installation: can a fleet run here, and is it our `corral` that would start it?"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Final

from corral import __version__
from corral.cli.machine.doctor.findings import Finding, note, ok, wrong

PART: Final = "machine"
INSTALLATION: Final = "installation"
DISTRIBUTION: Final = "corral-queue"
FILES: Final = 1024
"""Descriptors a cluster with a few dozen pods and watches wants."""
DISK_LOW: Final = 1 << 30
DISK_FULL: Final = 64 << 20
MEMORY_LOW: Final = 512 << 20


def look_at_machine(state: Path) -> Iterator[Finding]:
    """The findings of everything below Corral."""
    yield from _platform()
    yield from _descriptors()
    yield from _disk(state)
    yield from _memory()
    yield from _isolation()
    kubectl = shutil.which("kubectl")
    yield (
        ok(PART, f"kubectl is {kubectl}")
        if kubectl
        else note(
            PART, "kubectl is not installed; nothing needs it: `corral get`, `apply`, `logs` and `exec` do its work"
        )
    )


def _platform() -> Iterator[Finding]:
    system, python = platform.system(), platform.python_version()
    said = f"{system} {platform.machine()}, Python {python}, {os.cpu_count()} CPUs"
    if system == "Linux":
        yield ok(PART, said)
    elif system == "Darwin":
        yield note(
            PART,
            f"{said}: fleets of this machine are made for Linux and not tested here; commands over other clusters work",
        )
    else:
        yield wrong(PART, f"{said}: fleets run on Linux", "on Windows, install it in WSL 2")


def _descriptors() -> Iterator[Finding]:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # which clusters allow themselves
    if most == resource.RLIM_INFINITY or most >= FILES:
        yield ok(PART, f"{'any number of' if most == resource.RLIM_INFINITY else most} files may be open at once")
    else:
        yield wrong(
            PART,
            f"only {most} files may be open at once",
            f"let there be {FILES}: `nofile` in /etc/security/limits.conf",
        )


def _disk(state: Path) -> Iterator[Finding]:
    folder = next(path for path in (state, *state.parents) if path.exists())
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        yield wrong(PART, f"{folder} cannot be looked at: {error.strerror}", "name another folder with --state")
        return
    said = f"{free / 2**30:.1f} GiB are free in {folder}"
    if not os.access(folder, os.W_OK):
        yield wrong(PART, f"{folder} cannot be written", "name another folder with --state or CORRAL_HOME")
    elif free < DISK_FULL:
        yield wrong(PART, said, "make room, or name another folder with --state: clusters refuse writes on a full disk")
    elif free < DISK_LOW:
        yield note(PART, said)
    else:
        yield ok(PART, said)


def _memory() -> Iterator[Finding]:
    free = available_memory()
    if free is not None and free < MEMORY_LOW:
        yield note(
            PART, f"only {free / 2**20:.0f} MiB of memory are left; a manager and two workers take about 300 MiB"
        )


def available_memory() -> int | None:
    """What could be used without swapping, where the system says so."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in fields else None


def _isolation() -> Iterator[Finding]:
    if platform.system() != "Linux" or os.geteuid() == 0:
        return
    for file, forbidden in (
        ("/proc/sys/user/max_user_namespaces", "0"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
    ):
        try:
            value = Path(file).read_text().strip()
        except OSError:
            continue
        if value == forbidden:
            name = file.removeprefix("/proc/sys/").replace("/", ".")
            yield note(
                PART,
                f"{name} is {value}: pods run without mounts and names of their own; paths and names are written into their commands",
                f"`sudo sysctl {name}={'15000' if name.startswith('user.') else 1 - int(forbidden)}` allows them",
            )


def look_at_installation() -> Iterator[Finding]:
    """Whether what runs is whole, and alone under its name."""
    package = Path(sys.modules["corral"].__file__ or "").parent
    yield ok(INSTALLATION, f"corral {__version__} in {package}")
    schemas = [entry.name for entry in (files("corral.kinds") / "data").iterdir() if entry.name.endswith(".json.gz")]
    if not schemas:
        yield wrong(
            INSTALLATION,
            "the schemas of Kubernetes' kinds are missing: no cluster can start",
            "install the wheel, or in a checkout `python tools/build_schemas.py`",
        )
    yield from name_clash(_owners())
    command = shutil.which("corral")
    ours = Path(sys.executable).parent / "corral"
    if command and ours.exists() and Path(command).resolve() != ours.resolve():
        yield note(
            INSTALLATION, f"`corral` on the PATH is {command}, and this is {ours}", "activate the environment you mean"
        )


def _owners() -> set[str]:
    """Other distributions whose package is called `corral`, or whose command is."""
    return {
        str(one.metadata["Name"]) for one in metadata.distributions() if _is_called_corral(one) and not _is_ours(one)
    }


def _is_called_corral(one: metadata.Distribution) -> bool:
    packages = (one.read_text("top_level.txt") or "").split()
    return str(one.metadata["Name"]).lower() == "corral" or "corral" in packages or bool(_command_of(one))


def _is_ours(one: metadata.Distribution) -> bool:
    return _command_of(one) == ["corral.cli.main:main"]


def _command_of(one: metadata.Distribution) -> list[str]:
    return [entry.value for entry in one.entry_points if entry.group == "console_scripts" and entry.name == "corral"]


def name_clash(owners: set[str]) -> Iterator[Finding]:
    """Another project on PyPI is called `corral`; both have a package and a command of that name."""
    others = sorted(owners)
    if others:
        yield wrong(
            INSTALLATION,
            f"{', '.join(others)} is installed in the same environment and has the same package and command as {DISTRIBUTION}",
            f"`pip uninstall {' '.join(others)}`, then `pip install --force-reinstall --no-deps {DISTRIBUTION}`; "
            "to have both, give each an environment of its own (pipx, uv tool, venv)",
        )
