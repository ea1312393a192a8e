"""A cluster's configuration is read before anything starts; what is wrong is told with the file and the field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from corral.configuration import fleet as config
from corral.configuration.document import MAPPINGS, OTHERS, PARTS
from corral.configuration.fleet import FleetError

ROOMS = Path(config.__file__).parents[1] / "controllers"


def fleet_with(tmp_path: Path, text: str) -> None:
    (tmp_path / "kueue.yaml").write_text(text)
    (tmp_path / "fleet.yaml").write_text("clusters: [{name: one, roles: [manager], config: kueue.yaml}]")
    config.load(tmp_path / "fleet.yaml")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: [", "kueue.yaml is not YAML: while parsing"),
        ("", "it is not a mapping"),
        ("integratoins: {}", "unknown field 'integratoins'; did you mean 'integrations'?"),
        ("fairSharing: 5", "fairSharing: expected a mapping, got 5"),
        ("featureGates: {Nope: true}", "featureGates: unrecognized feature gate: Nope"),
        ("waitForPodsReady: {timeout: soon}", "waitForPodsReady.timeout: invalid duration 'soon'"),
        ("integrations: {frameworks: [batch/jbo]}", "Corral does not queue 'batch/jbo'; there are batch/job, deploy"),
        ("corral: {keepFinishd: 5m}", "corral: unknown field 'keepFinishd'; there are fencing"),
        ("corral: {keepFinished: soon}", "multiKueue or corral: invalid duration 'soon'"),
        ("placement: {pendingTimeout: soon}", "placement: invalid duration 'soon'"),
        ("member: {concurrentWorkSyncs: many}", "member: invalid literal"),
    ],
)
def test_what_is_wrong_is_named_before_anything_starts(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=re.escape(fault)) as told:
        fleet_with(tmp_path, text)
    assert str(told.value).startswith(f"cluster one: config {tmp_path / 'kueue.yaml'}")


def test_fields_that_mean_nothing_here_are_let_pass(tmp_path: Path) -> None:
    fleet_with(tmp_path, "queueVisibility: {}\nleaderElection: {leaderElect: true}\nmember:\nnamespace: kueue-system")


def test_every_field_that_is_read_is_known() -> None:
    text = "".join(path.read_text() for path in sorted(ROOMS.glob("*/settings.py")))
    read = set(re.findall(r'own\.get\("(\w+)"|seconds\("(\w+)"', text))
    known = {field for part in PARTS.values() for field in part}
    assert {name for pair in read for name in pair if name} <= known
    top = {
        name
        for path in (*ROOMS.glob("*/settings.py"), *ROOMS.glob("*/config.py"))
        for name in re.findall(r'(?:configuration|document)\.get\("(\w+)"', path.read_text())
    }
    assert top <= {*MAPPINGS, *OTHERS}
