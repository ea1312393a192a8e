"""What nodes hand out: whole GPUs, instances and shares, what programs are told, and what labels say."""

from __future__ import annotations

from corral.node.machine.devices import Device, devices_of, environment, labels_of, pretended
from corral.node.machine.gpus import AMD, NVIDIA, Gpu, Instance

ONE = Gpu(NVIDIA, 0, "GPU-a", "NVIDIA H100 80GB HBM3", numa=1, linked=frozenset({1}))
TWO = Gpu(NVIDIA, 1, "GPU-b", "NVIDIA H100 80GB HBM3", numa=0, linked=frozenset({0}))
CUT = Gpu(NVIDIA, 2, "GPU-c", instances=(Instance("1g.10gb", "MIG-1"), Instance("3g.40gb", "MIG-2")))
RED = Gpu(AMD, 0, "GPU-d", "gfx942")


def test_whole_gpus_are_handed_out_neighbour_by_neighbour() -> None:
    assert [(d.resource, d.visible, d.claim) for d in devices_of([ONE, TWO, RED])] == [
        (NVIDIA, "1", "GPU-b"),
        (NVIDIA, "0", "GPU-a"),
        (AMD, "0", "GPU-d"),
    ]


def test_instances_count_as_gpus_or_under_their_own_names_or_not_at_all() -> None:
    assert devices_of([CUT]) == []
    assert [d.resource for d in devices_of([CUT], mig="single")] == [NVIDIA, NVIDIA]
    mixed = devices_of([CUT], mig="mixed")
    assert [(d.resource, d.visible) for d in mixed] == [
        ("nvidia.com/mig-1g.10gb", "MIG-1"),
        ("nvidia.com/mig-3g.40gb", "MIG-2"),
    ]


def test_shares_have_a_name_of_their_own_and_show_their_gpu() -> None:
    shares = devices_of([ONE], shares=2)
    assert [(d.resource, d.visible, d.claim) for d in shares] == [
        ("nvidia.com/gpu.shared", "0", "GPU-a#1"),
        ("nvidia.com/gpu.shared", "0", "GPU-a#2"),
    ]
    assert environment(shares, vendors=[NVIDIA])["CUDA_VISIBLE_DEVICES"] == "0"


def test_programs_are_told_their_devices_and_see_no_others() -> None:
    held = [Device(NVIDIA, "3", "GPU-x"), Device(NVIDIA, "1", "GPU-y")]
    assert environment(held, vendors=[NVIDIA, AMD]) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "3,1",
        "NVIDIA_VISIBLE_DEVICES": "3,1",
        "ROCR_VISIBLE_DEVICES": "",
    }
    assert environment([], vendors=[NVIDIA])["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert environment([], vendors=[]) == {}


def test_labels_say_what_is_known() -> None:
    assert labels_of(devices_of([ONE, TWO]), [ONE, TWO]) == {
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "corral.dev/gpu-nvlink": "true",
    }
    assert labels_of(devices_of([ONE], shares=4), [ONE])["corral.dev/gpu-numa-node"] == "1"
    assert labels_of(devices_of([CUT], mig="single"), [CUT])["nvidia.com/gpu.count"] == "1"
    assert labels_of(pretended(NVIDIA, 0, 2, "me"), [ONE]) == {}
