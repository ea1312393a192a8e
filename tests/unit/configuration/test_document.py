"""A cluster's configuration is read before anything starts; what is wrong is told with the file and the field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from corral.configuration import fleet as config
from corral.configuration.document import OURS, read_all
from corral.configuration.fleet import FleetError
from corral.configuration.job_kinds import external_kinds
from corral.configuration.part import Part
from corral.configuration.queueing import load_config

DOCUMENTATION = Path(__file__).parents[3] / "docs"


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
        ("corral: {sayWhy: often}", "corral.sayWhy: expected true or false, got 'often'"),
        ("corral: {remotePods: Never}", "corral.remotePods: 'Never' is none of Listed, OnRequest"),
        ("multiKueue: {gcInterval: soon}", "multiKueue.gcInterval: invalid duration 'soon'"),
        ("multiKueue: {gcIntervall: 1m}", "multiKueue: unknown field 'gcIntervall'; did you mean 'gcInterval'?"),
        ("placement: {reserv: true}", "placement: unknown field 'reserv'; there are clusterUnhealthyThreshold"),
        ("member: {colectNamespaces: true}", "member: unknown field 'colectNamespaces'; there are collectNamespaces"),
        ("corral: {keepFinished: soon}", "corral.keepFinished: invalid duration 'soon'"),
        ("placement: {pendingTimeout: soon}", "placement.pendingTimeout: invalid duration 'soon'"),
        ("member: {concurrentWorkSyncs: many}", "member.concurrentWorkSyncs: expected a whole number, got 'many'"),
        (
            "member: {workApplierRequeueRateLimiter: {attemptsWithFixedDelay: 0}}",
            "RateLimiter.attemptsWithFixedDelay: expected",
        ),
        (
            "member: {workApplierRequeueRateLimiter: {fixedDelaySeconds: 0}}",
            "fixedDelaySeconds: expected a number of at least",
        ),
        (
            "member: {workApplierRequeueRateLimiter: {maxFastBackoffDelaySeconds: 3}}",
            "expected a number of at least 15, got 3",
        ),
        (
            "member: {workApplierRequeueRateLimiter: {fixedDelay: 3}}",
            "unknown field 'workApplierRequeueRateLimiter.fixedDelay'",
        ),
    ],
)
def test_what_is_wrong_is_named_before_anything_starts(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=re.escape(fault)) as told:
        fleet_with(tmp_path, text)
    assert str(told.value).startswith(f"cluster one: config {tmp_path / 'kueue.yaml'}")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("integratoins: {}", 1),
        ("namespace: a\ncorral:\n  sayWhy: true\n  keepFinishd: 5m\n", 4),
        ("multiKueue:\n  gcIntervall: 1m\n", 2),
        ("waitForPodsReady:\n  timeout: soon\n", 2),
        ("kind: Configuration\nintegrations:\n  frameworks: [batch/jbo]\n", 3),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, line: int, tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=re.escape(f"kueue.yaml, line {line}: ")):
        fleet_with(tmp_path, text)


def test_fields_that_mean_nothing_here_are_let_pass(tmp_path: Path) -> None:
    fleet_with(tmp_path, "queueVisibility: {}\nleaderElection: {leaderElect: true}\nmember:\nnamespace: kueue-system")


def test_a_field_that_has_no_effect_is_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fleet_with(
        tmp_path,
        "multiKueue: {origin: here}\n"
        "waitForPodsReady: {enable: false, timeout: 5m, requeuingStrategy: {backoffJitter: 1}}\n"
        "webhook: {port: 9443}\ncontroller: {cacheSyncTimeout: 1m}\nintegrations: {podOptions: {}}",
    )
    told = [record.message.split()[3] for record in caplog.records if "has no effect" in record.message]
    assert told == [
        "waitForPodsReady.requeuingStrategy.backoffJitter",
        "integrations.podOptions",
    ]


def test_a_gate_that_has_no_effect_is_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fleet_with(tmp_path, "featureGates: {TASCacheTopologyTree: true, TLSOptions: true, PartialAdmission: false}")
    told = [record.message.split(": ", 1)[1] for record in caplog.records if "has no effect" in record.message]
    assert told == [
        "the feature gate TASCacheTopologyTree has no effect in Corral: the tree of nodes is maintained, never built anew"
    ]


def test_gates_of_settings_take_them_back() -> None:
    metrics = {"metrics": {"localQueueMetrics": {"enable": True}}, "featureGates": {"LocalQueueMetrics": False}}
    assert not load_config(metrics).local_queue_metrics
    external = {"multiKueue": {"externalFrameworks": [{"name": "Render.v1.studio.example.com"}]}}
    assert external_kinds(external)
    assert not external_kinds({**external, "featureGates": {"MultiKueueAdaptersForCustomJobs": False}})


def test_the_documented_fields_of_our_parts_are_the_ones_that_are_read() -> None:
    document = Part({})
    read_all(document)
    described = "".join(page.read_text() for page in sorted(DOCUMENTATION.rglob("*.md")))
    for name in OURS:
        missing = [field for field in document.part(name).known() if not re.search(rf"\b{field}\b", described)]
        assert missing == [], name
