"""Devices as nodes hand them out: what each is called by the program that uses it, and under which name it is claimed.

A device is a whole GPU, a MIG instance, a share of a GPU, or one that is only pretended. Pure: `gpus.py` looks, `claims.py` holds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from corral.node.machine.claims import SHARE
from corral.node.machine.gpus import AMD, NVIDIA, Gpu

SHARED: Final = ".shared"
"""What the resource of a share is called after, as NVIDIA's device plugin does."""
MIG: Final = "nvidia.com/mig-"
Mig = Literal["none", "single", "mixed"]


class Device(msgspec.Struct, frozen=True):
    """One device. `visible` is its name to programs, `claim` to whoever else could hand it out on this machine."""

    resource: str
    visible: str
    claim: str


class Equipment(msgspec.Struct, frozen=True):
    """The devices of a cluster's nodes, what their labels say of them, and whose devices the machine has at all."""

    devices: dict[str, list[Device]] = {}
    labels: dict[str, dict[str, str]] = {}
    vendors: tuple[str, ...] = ()


def devices_of(gpus: Iterable[Gpu], shares: int = 1, mig: Mig = "none") -> list[Device]:
    """What a machine with these GPUs has to hand out, in the order in which it is handed out: neighbours beside each other."""
    found: list[Device] = []
    for gpu in sorted(gpus, key=lambda gpu: (gpu.resource != NVIDIA, gpu.numa, gpu.index)):
        if gpu.instances and mig != "none":
            for one in gpu.instances:
                resource = NVIDIA if mig == "single" else MIG + one.profile
                found.append(Device(resource, one.uuid, one.uuid))
        elif shares > 1:
            resource = gpu.resource + SHARED
            found += [Device(resource, str(gpu.index), f"{gpu.uuid}{SHARE}{slot}") for slot in range(1, shares + 1)]
        elif not gpu.instances:  # a GPU that is cut into instances is none itself
            found.append(Device(gpu.resource, str(gpu.index), gpu.uuid))
    return found


def pretended(resource: str, first: int, count: int, owner: str) -> list[Device]:
    """Devices nobody has, numbered over a whole fleet, which is their `owner`."""
    return [Device(resource, str(n), f"pretended/{owner}/{resource}/{n}") for n in range(first, first + count)]


def is_device(resource: str) -> bool:
    """Whether a resource is counted in devices that programs are told about."""
    return resource.startswith((NVIDIA, MIG, AMD))


def environment(held: Sequence[Device], *, vendors: Iterable[str]) -> dict[str, str]:
    """What tells a program which devices are its own. `vendors` are those the machine has devices of: without any held, none is seen."""
    variables: dict[str, str] = {}
    for vendor in sorted(set(vendors)):
        mine = [device.visible for device in held if vendor_of(device.resource) == vendor]
        shown = ",".join(dict.fromkeys(mine))  # two shares of one GPU are one GPU
        if vendor == NVIDIA:
            variables |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": shown}
            variables["NVIDIA_VISIBLE_DEVICES"] = shown or "void"
        elif vendor == AMD:
            variables |= {"ROCR_VISIBLE_DEVICES": shown}
    return variables


def vendor_of(resource: str) -> str:
    """`nvidia.com/gpu` or `amd.com/gpu`, whichever part or share of one a resource is; "" for neither."""
    return AMD if resource.startswith(AMD) else NVIDIA if resource.startswith((NVIDIA, MIG)) else ""


def labels_of(held: Sequence[Device], gpus: Iterable[Gpu]) -> dict[str, str]:
    """What a node with these devices can say about them: product, count, NUMA node and NVLink, as far as it is known."""
    by_claim = {claim: gpu for gpu in gpus for claim in (gpu.uuid, *(one.uuid for one in gpu.instances))}
    mine = list({gpu.uuid: gpu for device in held if (gpu := by_claim.get(device.claim.partition(SHARE)[0]))}.values())
    if not mine:
        return {}
    labels: dict[str, str] = {}
    counted = Counter(gpu.resource for gpu in mine)
    for resource, count in sorted(counted.items()):
        products = {gpu.product for gpu in mine if gpu.resource == resource}
        labels[f"{resource}.count"] = str(count)
        if len(products) == 1 and (product := _label(products.pop())):
            labels[f"{resource}.product"] = product
    nodes = {gpu.numa for gpu in mine}
    if len(nodes) == 1 and -1 not in nodes:
        labels["corral.dev/gpu-numa-node"] = str(nodes.pop())
    if len(mine) > 1:
        others = {gpu.index for gpu in mine}
        is_linked = all(others - {gpu.index} <= gpu.linked for gpu in mine)
        labels["corral.dev/gpu-nvlink"] = "true" if is_linked else "false"
    return labels


def _label(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-_.")[:63]
