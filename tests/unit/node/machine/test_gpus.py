"""Which GPUs are found, on machines made of files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from corral.node.machine.gpus import AMD, NVIDIA, Instance, find_gpus

INFORMATION = """Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 41
GPU UUID: \t GPU-{uuid}
Bus Location: \t 0000:{bus}:00.0
Device Minor: \t {minor}
GPU Excluded:\t {excluded}
"""
LISTING = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)
  MIG 3g.40gb     Device  0: (UUID: MIG-1)
  MIG 1g.10gb     Device  1: (UUID: MIG-2)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-b)
"""
MATRIX = (
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
    "GPU0\t X \tNV18\tSYS\t0-15\t0\n"
    "GPU1\tNV18\t X \tSYS\t0-15\t0\n"
    "GPU2\tSYS\tSYS\t X \t16-31\t1\n\nLegend:\n\n  X    = Self\n"
)


def write(root: Path, name: str, text: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def nvidia(root: Path, bus: str, uuid: str, minor: int, numa: int = -1, excluded: str = "No") -> None:
    text = INFORMATION.format(bus=bus, uuid=uuid, minor=minor, excluded=excluded)
    write(root, f"proc/driver/nvidia/gpus/0000:{bus}:00.0/information", text)
    write(root, f"sys/bus/pci/devices/0000:{bus}:00.0/numa_node", f"{numa}\n")
    write(root, f"dev/nvidia{minor}")


def answers(**texts: str):  # type: ignore[no-untyped-def]  # a small stand-in for `nvidia-smi`
    def ask(command: Sequence[str]) -> str:
        return texts.get(command[1].strip("-"), "")

    return ask


def test_a_machine_without_a_driver_has_none(tmp_path: Path) -> None:
    assert find_gpus(tmp_path, {}, answers(L=LISTING)) == []


def test_gpus_count_in_the_order_of_their_addresses_with_their_numa_node(tmp_path: Path) -> None:
    nvidia(tmp_path, "83", "b", minor=0, numa=1)
    nvidia(tmp_path, "06", "a", minor=1, numa=0)
    found = find_gpus(tmp_path, {}, answers())
    assert [(gpu.index, gpu.uuid, gpu.numa) for gpu in found] == [(0, "GPU-a", 0), (1, "GPU-b", 1)]
    assert {gpu.product for gpu in found} == {"NVIDIA H100 80GB HBM3"}


def test_gpus_whose_file_is_not_here_or_that_are_excluded_are_not_ours(tmp_path: Path) -> None:
    nvidia(tmp_path, "06", "a", minor=0)
    nvidia(tmp_path, "07", "b", minor=1, excluded="Yes")
    nvidia(tmp_path, "83", "c", minor=2)
    (tmp_path / "dev/nvidia0").unlink()
    assert [(gpu.index, gpu.uuid) for gpu in find_gpus(tmp_path, {}, answers())] == [(0, "GPU-c")]


@pytest.mark.parametrize(
    ("visible", "want"), [("1", ["GPU-b"]), ("GPU-a", ["GPU-a"]), ("1,9,0", ["GPU-b"]), ("", []), ("-1", [])]
)
def test_what_our_own_environment_hides_is_not_handed_out(tmp_path: Path, visible: str, want: list[str]) -> None:
    nvidia(tmp_path, "06", "a", minor=0)
    nvidia(tmp_path, "07", "b", minor=1)
    assert [gpu.uuid for gpu in find_gpus(tmp_path, {"CUDA_VISIBLE_DEVICES": visible}, answers())] == want


def test_instances_are_asked_for_where_the_driver_has_some(tmp_path: Path) -> None:
    nvidia(tmp_path, "06", "a", minor=0)
    nvidia(tmp_path, "07", "b", minor=1)
    write(tmp_path, "proc/driver/nvidia/capabilities/gpu0/mig/gi1/access")
    first, second = find_gpus(tmp_path, {}, answers(L=LISTING))
    assert first.instances == (Instance("3g.40gb", "MIG-1"), Instance("1g.10gb", "MIG-2"))
    assert second.instances == ()
    (only,) = find_gpus(tmp_path, {"CUDA_VISIBLE_DEVICES": "MIG-2"}, answers(L=LISTING))
    assert only.instances == (Instance("1g.10gb", "MIG-2"),)


def test_a_driver_outside_of_a_virtual_machine_is_asked(tmp_path: Path) -> None:
    write(tmp_path, "dev/dxg")
    assert [gpu.uuid for gpu in find_gpus(tmp_path, {}, answers(L=LISTING))] == ["GPU-a", "GPU-b"]


def test_links_between_gpus_are_read_from_the_matrix(tmp_path: Path) -> None:
    for minor, uuid in enumerate("abc"):
        nvidia(tmp_path, f"0{minor}", uuid, minor)
    found = find_gpus(tmp_path, {}, answers(topo=MATRIX))
    assert [sorted(gpu.linked) for gpu in found] == [[1], [0], []]


def test_amd_gpus_are_the_nodes_of_the_graph_that_compute(tmp_path: Path) -> None:
    write(tmp_path, "dev/kfd")
    nodes = "sys/class/kfd/kfd/topology/nodes"
    write(tmp_path, f"{nodes}/0/properties", "cpu_cores_count 16\nsimd_count 0\n")
    write(tmp_path, f"{nodes}/1/properties", "simd_count 304\nunique_id 255\ndrm_render_minor 128\n")
    write(tmp_path, f"{nodes}/1/name", "gfx942\n")
    write(tmp_path, "sys/class/drm/renderD128/device/numa_node", "1\n")
    (only,) = find_gpus(tmp_path, {}, answers())
    assert (only.resource, only.index, only.uuid, only.product, only.numa) == (AMD, 0, "GPU-ff", "gfx942", 1)
    assert only.resource != NVIDIA
