"""Control groups of both generations, on a pretended file system."""

from __future__ import annotations

from pathlib import Path

from corral.node.process.cgroups import Cgroups, Group


def test_second_generation_uses_the_closest_place_that_hands_controllers_on(tmp_path: Path) -> None:
    slice_ = tmp_path / "user.slice"
    (slice_ / "shell.scope").mkdir(parents=True)
    (slice_ / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (slice_ / "shell.scope" / "cgroup.subtree_control").write_text("")
    groups = Cgroups(tmp_path, "0::/user.slice/shell.scope\n")
    group = groups.confine("x", 42, 64 << 20, 1500)
    assert group.memory == group.cpu == slice_ / "corral-x"
    found = {path.name: path.read_text() for path in (slice_ / "corral-x").iterdir()}
    assert found == {"memory.max": str(64 << 20), "cpu.max": "150000 100000", "cgroup.procs": "42"}


def test_first_generation_has_a_place_per_controller(tmp_path: Path) -> None:
    (tmp_path / "memory" / "mine").mkdir(parents=True)
    (tmp_path / "cpu").mkdir()
    groups = Cgroups(tmp_path, "4:memory:/mine\n1:cpu,cpuacct:/\n0::/\n")
    group = groups.confine("x", 42, 100, 250)
    assert (tmp_path / "memory/mine/corral-x/memory.limit_in_bytes").read_text() == "100"
    assert (tmp_path / "cpu/corral-x/cpu.cfs_quota_us").read_text() == "25000"
    assert not group.out_of_memory()
    (tmp_path / "memory/mine/corral-x/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert group.out_of_memory()


def test_without_a_place_nothing_is_limited(tmp_path: Path) -> None:
    groups = Cgroups(tmp_path, "0::/\n")
    assert groups.confine("x", 42, 100, 250) == Group(None, None)
    Group(None, None).remove()
