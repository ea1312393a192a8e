"""Which GPUs this machine has, and how they hang together.

NVIDIA's driver says it in /proc, AMD's in /sys; only what is not there (MIG instances, NVLink, a driver without /proc) is asked of
`nvidia-smi`. Devices count in the order of their PCI addresses, as `CUDA_DEVICE_ORDER=PCI_BUS_ID` has it. One whose device file is
not there, or that `CUDA_VISIBLE_DEVICES` of our own environment leaves out, is not ours to hand out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

NVIDIA: Final = "nvidia.com/gpu"
AMD: Final = "amd.com/gpu"
ASK_S: Final = 10.0

_FIELD = re.compile(r"^([^:\n]+):[ \t]*(.*)$", re.MULTILINE)
_GPU_LINE = re.compile(r"^GPU (\d+): (.+) \(UUID: (\S+)\)")
_MIG_LINE = re.compile(r"^\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (\S+)\)")
_ROW = re.compile(r"^GPU(\d+)\s")
_LINK = re.compile(r"^NV\d+$")

Ask = Callable[[Sequence[str]], str]
"""Runs a program to its end: what it writes, or nothing where it fails."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance: a part of a GPU that is a device of its own."""

    profile: str
    uuid: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. `index` is its number among all of its vendor, `numa` -1 where the machine does not say."""

    resource: str
    index: int
    uuid: str
    product: str = ""
    numa: int = -1
    instances: tuple[Instance, ...] = ()
    linked: frozenset[int] = frozenset()
    """The GPUs it reaches by NVLink."""


def find_gpus(root: Path = Path("/"), environ: Mapping[str, str] = os.environ, ask: Ask | None = None) -> list[Gpu]:
    """All GPUs this process may hand out, NVIDIA's first."""
    ask = ask or _ask
    return [*_visible(_nvidia(root, ask), environ), *_amd(root)]


def _ask(command: Sequence[str]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _nvidia(root: Path, ask: Ask) -> list[Gpu]:
    gpus = list(_from_proc(root))
    has_instances = any((root / "proc/driver/nvidia/capabilities").glob("gpu*/mig/gi*"))
    is_outside = not gpus and (root / "dev/dxg").exists()  # a driver in the host of a virtual machine
    if has_instances or is_outside:
        gpus = _with_listing(gpus, ask(["nvidia-smi", "-L"]))
    return _with_links(gpus, ask(["nvidia-smi", "topo", "-m"])) if len(gpus) > 1 else gpus


def _from_proc(root: Path) -> Iterator[Gpu]:
    folder = root / "proc/driver/nvidia/gpus"
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    index = 0
    for entry in entries:
        fields = {name.strip(): text.strip() for name, text in _FIELD.findall(_read(entry / "information"))}
        has_file = (root / f"dev/nvidia{fields.get('Device Minor', '')}").exists()
        if not has_file or fields.get("GPU Excluded") == "Yes":
            continue
        numa = _number(root / "sys/bus/pci/devices" / entry.name.lower() / "numa_node")
        yield Gpu(NVIDIA, index, fields.get("GPU UUID") or f"pci-{entry.name}", fields.get("Model", ""), numa)
        index += 1


def _with_listing(gpus: list[Gpu], listing: str) -> list[Gpu]:
    """The GPUs with what `nvidia-smi -L` knows of them: their instances, or that they are there at all."""
    found = {gpu.uuid: gpu for gpu in gpus}
    current = ""
    for line in listing.splitlines():
        if whole := _GPU_LINE.match(line):
            index, product, current = int(whole[1]), whole[2], whole[3]
            found.setdefault(current, Gpu(NVIDIA, index, current, product))
        elif (part := _MIG_LINE.match(line)) and current in found:
            known = found[current]
            found[current] = replace(known, instances=(*known.instances, Instance(part[1], part[2])))
    return sorted(found.values(), key=lambda gpu: gpu.index)


def _with_links(gpus: list[Gpu], matrix: str) -> list[Gpu]:
    """The GPUs with their NVLinks, from the matrix of `nvidia-smi topo -m`."""
    links: dict[int, frozenset[int]] = {}
    for line in re.sub(r"\x1b\[[0-9;]*m", "", matrix).splitlines():
        if row := _ROW.match(line):
            cells = line.split()[1 : len(gpus) + 1]
            links[int(row[1])] = frozenset(number for number, cell in enumerate(cells) if _LINK.match(cell))
    return [replace(gpu, linked=links.get(gpu.index, frozenset())) for gpu in gpus]


def _visible(gpus: list[Gpu], environ: Mapping[str, str]) -> list[Gpu]:
    """Those that `CUDA_VISIBLE_DEVICES` leaves us; like CUDA, nothing after the first entry that is none of ours."""
    if "CUDA_VISIBLE_DEVICES" not in environ:
        return gpus
    kept: list[Gpu] = []
    for entry in environ["CUDA_VISIBLE_DEVICES"].split(","):
        named = entry.strip()
        gpu = next((gpu for gpu in gpus if named in (str(gpu.index), gpu.uuid)), None)
        gpu = gpu or next((_only(gpu, named) for gpu in gpus if any(i.uuid == named for i in gpu.instances)), None)
        if gpu is None:
            break
        kept.append(gpu)
    return sorted(kept, key=lambda gpu: gpu.index)


def _only(gpu: Gpu, instance: str) -> Gpu:
    return replace(gpu, instances=tuple(one for one in gpu.instances if one.uuid == instance))


def _amd(root: Path) -> list[Gpu]:
    if not (root / "dev/kfd").exists():
        return []
    gpus: list[Gpu] = []
    folder = root / "sys/class/kfd/kfd/topology/nodes"
    for node in sorted(folder.iterdir(), key=lambda entry: int(entry.name)) if folder.is_dir() else ():
        properties = dict(line.split(maxsplit=1) for line in _read(node / "properties").splitlines() if " " in line)
        if properties.get("simd_count", "0") == "0":
            continue  # the processors are nodes of that graph, too
        unique = int(properties.get("unique_id", "0"))
        place = root / f"sys/class/drm/renderD{properties.get('drm_render_minor', '')}/device/numa_node"
        uuid = f"GPU-{unique:x}" if unique else f"kfd-{node.name}"
        gpus.append(Gpu(AMD, len(gpus), uuid, _read(node / "name").strip(), _number(place)))
    return gpus


def _number(file: Path) -> int:
    text = _read(file).strip()
    return int(text) if re.fullmatch(r"-?\d+", text) else -1


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
