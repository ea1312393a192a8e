"""What `corral up` says to do next fits the fleet it started."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.cli.up import _print_next_steps
from corral.configuration import fleet as config
from corral.fleet.folder import ClusterStatus, FleetFolder, FleetStatus


@pytest.mark.parametrize(
    ("workers", "members", "told", "untold"),
    [
        (2, 0, ["queued on the manager, run on a worker", "corral logs job/NAME"], ["corral fleet"]),
        (0, 0, ["queued, then run"], ["corral fleet", "on a worker"]),
        (0, 2, ["corral fleet members", "corral fleet placements"], ["examples/job.yaml"]),
        (1, 1, ["queued on the manager", "corral fleet members"], []),
    ],
)
def test_the_next_steps_are_those_of_the_fleet(
    workers: int, members: int, told: list[str], untold: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = config.standard(workers=workers, members=members)
    status = FleetStatus(1, True, "", [ClusterStatus(cluster.name, url="https://here") for cluster in spec.clusters])
    assert _print_next_steps(spec, FleetFolder(tmp_path), 0.0, status)
    printed = capsys.readouterr().out
    assert [text for text in told if text not in printed] == []
    assert [text for text in untold if text in printed] == []
    assert f"corral down --state {tmp_path}" in printed


def test_a_fleet_that_could_not_be_set_up_is_an_error_and_not_called_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = config.standard(workers=1)
    status = FleetStatus(
        1, True, "setting up the fleet failed: no queue", [ClusterStatus("manager", url="https://here")]
    )
    assert not _print_next_steps(spec, FleetFolder(tmp_path), 0.0, status)
    printed = capsys.readouterr()
    assert (
        "Error: setting up the fleet failed: no queue; the clusters run, and jobs do not: `corral down" in printed.err
    )
    assert "Ready" not in printed.out
    assert "corral run" not in printed.out
