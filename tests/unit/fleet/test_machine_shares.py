"""How one machine is divided among the nodes of a fleet."""

from __future__ import annotations

import msgspec
import pytest

from corral.configuration.fleet import ClusterSpec, FleetError, FleetSpec, GpuOptions, NodeGroup, standard
from corral.fleet.introduce import capacity
from corral.fleet.machine_shares import Machine, divided, equipped
from corral.node.machine.gpus import NVIDIA, Gpu
from corral.node.machine.size import Size

GIB = 1 << 30


def machine(cpus: float = 8, gib: int = 32, gpus: int = 0) -> Machine:
    found = tuple(Gpu(NVIDIA, n, f"GPU-{n}", "H200", numa=n // 2) for n in range(gpus))
    return Machine(Size(int(cpus * 1000), gib * GIB), found)


def visible(fleet: FleetSpec, of: Machine) -> dict[str, str]:
    """The devices of each node, by the names programs know them by."""
    return {
        node: ",".join(device.visible for device in devices)
        for equipment in equipped(fleet, of, "me").values()
        for node, devices in equipment.devices.items()
    }


def test_what_is_not_said_is_an_equal_share() -> None:
    fleet = divided(standard(workers=2), machine(cpus=2, gib=23, gpus=2))
    for worker in fleet.clusters[1:]:
        assert capacity([worker]) == {"cpu": "1", "memory": f"{23 * 512}Mi", "pods": "110", NVIDIA: "1"}
    assert capacity(fleet.clusters)[NVIDIA] == "2"


def test_the_sum_is_never_more_than_the_machine() -> None:
    fleet = divided(standard(workers=3), machine(cpus=2, gib=1))
    assert capacity(fleet.clusters) == {"cpu": "1998m", "memory": "1023Mi", "pods": "330"}


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"cpu": "8"}, "the nodes have 16 CPUs together, and this machine 8"),
        ({"memory": "20Gi"}, "the nodes have 40960Mi of memory together, and this machine 32768Mi"),
        ({"extended": {NVIDIA: "2"}}, r"the nodes have 4 nvidia.com/gpu together, and this machine 3"),
    ],
)
def test_more_than_the_machine_is_refused_unless_it_is_wanted(asked: dict[str, str], complaint: str) -> None:
    with pytest.raises(FleetError, match=f"{complaint}.*--overcommit"):
        divided(standard(workers=2, **asked), machine(gpus=3))  # type: ignore[arg-type]  # one option at a time
    assert divided(standard(workers=2, overcommit=True, **asked), machine(gpus=3))  # type: ignore[arg-type]


def test_those_that_say_nothing_share_what_the_others_leave() -> None:
    said, silent = NodeGroup(name="said", cpu=6, memory="24Gi"), NodeGroup(name="silent{i}", count=2)
    fleet = FleetSpec(clusters=[ClusterSpec("a", nodes=[said]), ClusterSpec("b", nodes=[silent])])
    assert capacity([divided(fleet, machine()).clusters[1]]) == {"cpu": "2", "memory": "8Gi", "pods": "220"}
    with pytest.raises(FleetError, match=r"nothing of this machine's CPUs is left for the 2 nodes"):
        divided(fleet, machine(cpus=6))


def test_simulated_clusters_use_nothing() -> None:
    fleet = standard(workers=2, runtime="simulated", extended={NVIDIA: "64"})
    assert divided(fleet, machine(cpus=1, gpus=1)) == fleet
    assert capacity(fleet.clusters)["cpu"] == "16"


def test_a_gpu_belongs_to_one_node() -> None:
    of = machine(gpus=3)
    fleet = divided(standard(workers=2), of)
    assert visible(fleet, of) == {"worker1-node1": "0,1", "worker2-node1": "2"}
    uneven = divided(standard(workers=1, nodes=2), of)
    assert visible(uneven, of) == {"worker1-node1": "0,1", "worker1-node2": "2"}
    assert [group.names() for group in uneven.clusters[1].nodes] == [["worker1-node1"], ["worker1-node2"]]


def test_declared_devices_are_numbered_over_the_fleet_where_the_machine_has_none() -> None:
    fleet = divided(standard(workers=2, extended={NVIDIA: "2"}), machine())
    assert visible(fleet, machine()) == {"worker1-node1": "0,1", "worker2-node1": "2,3"}
    claims = [d.claim for one in equipped(fleet, machine(), "me").values() for ds in one.devices.values() for d in ds]
    assert len(set(claims)) == 4
    others = [d.claim for one in equipped(fleet, machine(), "you").values() for ds in one.devices.values() for d in ds]
    assert not set(claims) & set(others)


def test_nodes_that_overcommit_share_devices_but_claim_them_under_one_name() -> None:
    of = machine(gpus=2)
    fleet = divided(standard(workers=2, extended={NVIDIA: "2"}, overcommit=True), of)
    assert visible(fleet, of) == {"worker1-node1": "0,1", "worker2-node1": "0,1"}
    claims = [d.claim for one in equipped(fleet, of, "me").values() for ds in one.devices.values() for d in ds]
    assert sorted(claims) == ["GPU-0", "GPU-0", "GPU-1", "GPU-1"]


def test_gpus_can_be_chosen_and_shared() -> None:
    options = GpuOptions(use=[1], shares=4)
    of = machine(gpus=2)
    fleet = divided(msgspec.structs.replace(standard(workers=2), gpus=options), of)
    assert visible(fleet, of) == {"worker1-node1": "1,1", "worker2-node1": "1,1"}
    assert capacity(fleet.clusters)["nvidia.com/gpu.shared"] == "4"
    assert NVIDIA not in capacity(fleet.clusters)


def test_labels_tell_what_the_devices_of_a_node_are() -> None:
    of = machine(gpus=4)
    found = equipped(divided(standard(workers=2), of), of, "me")
    assert found["worker2"].labels["worker2-node1"]["corral.dev/gpu-numa-node"] == "1"
    assert found["manager"].devices == {}
    assert found["manager"].vendors == (NVIDIA,)
