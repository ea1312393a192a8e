"""Upstream's scenarios of applying, taking over, drift and diff (chapter 12.6 of the behaviour we follow, 95 to 122)."""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.simulation.member.test_works import job
from tests.simulation.member.world import NAMESPACE, MemberWorld, about, config_map, in_world, reasons, told

from corral.configuration.member import MemberSettings
from corral.core.meta import Obj, annotations_of, owner_references_of, status_of, uid_of
from corral.decide.member.work_status import STATUS_LIMIT
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.fleet import APPLIED_WORKS, WORKS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS

APPLIED = ("True", "Applied", "Manifest has been applied successfully")
FULL = {"comparisonOption": "FullComparison"}
IF_NOT_DRIFTED = {"whenToApply": "IfNotDrifted"}
ERROR = "Failed to apply the manifest (error: {})"


async def owned_by_somebody(world: MemberWorld, **data: str) -> Obj:
    """A ConfigMap that a ServiceAccount owns; returns the reference."""
    body = {"metadata": {"name": "somebody", "namespace": "ns"}}
    account = await world.member.client.create(SERVICE_ACCOUNTS, body)
    reference = {"apiVersion": "v1", "kind": "ServiceAccount", "name": "somebody", "uid": uid_of(account)}
    manifest = config_map(**data)
    manifest["metadata"]["ownerReferences"] = [reference]
    await world.member.client.create(CONFIG_MAPS, manifest)
    return reference


def test_095_an_object_without_an_owner_is_taken_over() -> None:
    async def check(world: MemberWorld) -> None:
        await world.member.client.create(CONFIG_MAPS, config_map(a="old"))
        work = await world.send(config_map())
        assert about(work) == APPLIED
        live = await world.live()
        assert live is not None
        assert live["data"] == {"a": "1", "b": "2"}
        assert [one["kind"] for one in owner_references_of(live)] == ["AppliedWork"]

    in_world(check)


def test_097_with_co_ownership_both_own_it_and_only_our_part_ends() -> None:
    async def check(world: MemberWorld) -> None:
        theirs = await owned_by_somebody(world)
        work = await world.send(config_map(), config_map("other"), strategy={"allowCoOwnership": True})
        assert about(work) == APPLIED
        live = await world.live()
        assert live is not None
        assert [one["kind"] for one in owner_references_of(live)] == ["ServiceAccount", "AppliedWork"]
        await world.send(config_map("other"), strategy={"allowCoOwnership": True})
        live = await world.live()
        assert live is not None
        assert owner_references_of(live) == [theirs]

    in_world(check)


@pytest.mark.parametrize("force", [False, True])
def test_098_a_conflict_of_server_side_apply_fails_unless_forced(force: bool) -> None:
    async def check(world: MemberWorld) -> None:
        strategy = {"type": "ServerSideApply", "serverSideApplyConfig": {"force": force}}
        body = {"metadata": {"name": "conf", "namespace": "ns"}, "data": {"a": "theirs"}}
        await world.member.client.apply(CONFIG_MAPS, body, manager="someone", force=True)
        work = await world.send(config_map(a="3"), strategy=strategy)
        text = (
            "failed to apply the manifest: failed to apply the manifest object: an error is returned by the API server:"
            ' Apply failed with 1 conflict: conflict with "someone": .data.a'
        )
        assert about(work) == (APPLIED if force else ("False", "ManifestApplyFailed", ERROR.format(text)))

    in_world(check)


def test_099_an_object_too_large_to_remember_is_applied_by_the_server() -> None:
    async def check(world: MemberWorld) -> None:
        large = "x" * 300_000
        await world.send(config_map(a=large))
        work = await world.send(config_map(a=large, b="new"))
        assert about(work) == APPLIED
        live = await world.live()
        assert live is not None
        assert live["data"]["b"] == "new"
        assert annotations_of(live)["kubernetes-fleet.io/last-applied-configuration"] == ""

    in_world(check)


@pytest.mark.parametrize("together", [False, True])
def test_100_a_second_placement_of_an_object_is_told_who_has_it(together: bool) -> None:
    async def check(world: MemberWorld) -> None:
        strategy = {"allowCoOwnership": together}
        await world.send(config_map(), strategy=strategy)
        work = await world.send(config_map(a="9"), name="second", strategy=strategy)
        status, reason, message = about(work)
        assert (status, reason) == ("False", "FailedToTakeOver")
        if together:
            assert "the object is already owned by another Fleet AppliedWork object" in message
        else:
            assert "some other sources(s) and co-ownership is disallowed (existingOwnerRefs: [{APIVersion:" in message
            assert "Kind:AppliedWork Name:w UID:" in message
        live = await world.live()
        assert live is not None
        assert live["data"]["a"] == "1"

    in_world(check)


NO_TAKE_OVER = (
    "cannot take over object: configuration differences are found between the manifest object and the"
    " corresponding object in the member cluster"
)


@pytest.mark.parametrize(
    ("there", "strategy", "paths"),
    [
        pytest.param({"a": "1", "b": "2"}, {}, [], id="equal"),
        pytest.param({"a": "9", "b": "2"}, {}, ["/data/a"], id="a managed field differs"),
        pytest.param({"a": "1", "b": "2", "x": "3"}, {}, [], id="an extra field does not matter"),
        pytest.param({"a": "1", "b": "2", "x": "3"}, FULL, ["/data/x"], id="an extra field matters in full comparison"),
    ],
)
def test_101_take_over_if_no_diff(there: dict[str, str], strategy: Obj, paths: list[str]) -> None:
    async def check(world: MemberWorld) -> None:
        await world.member.client.create(CONFIG_MAPS, config_map(**there))
        work = await world.send(config_map(), strategy={"whenToTakeOver": "IfNoDiff", **strategy})
        if not paths:
            assert about(work) == APPLIED
            return
        assert about(work) == ("False", "FailedToTakeOver", ERROR.format(NO_TAKE_OVER))
        assert [one["path"] for one in told(work)["diffDetails"]["observedDiffs"]] == paths
        live = await world.live()
        assert live is not None
        assert live["data"] == there

    in_world(check)


def test_102_never_taken_over_until_the_strategy_changes() -> None:
    async def check(world: MemberWorld) -> None:
        await world.member.client.create(CONFIG_MAPS, config_map())
        work = await world.send(config_map(), strategy={"whenToTakeOver": "Never"})
        text = "no ownership of the object in the member cluster; takeover is needed"
        assert about(work) == ("False", "NotTakenOver", ERROR.format(text))
        work = await world.send(config_map(), strategy={"whenToTakeOver": "IfNoDiff"})
        assert about(work) == APPLIED

    in_world(check)


@pytest.mark.parametrize(
    ("strategy", "edit", "reason", "data", "paths"),
    [
        pytest.param({}, {"a": "9"}, "Applied", {"a": "1", "b": "2"}, [], id="103 Always puts it back"),
        pytest.param({}, {"x": "9"}, "Applied", {"a": "1", "b": "2", "x": "9"}, [], id="103 Always leaves extras"),
        pytest.param(
            FULL, {"x": "9"}, "Applied", {"a": "1", "b": "2", "x": "9"}, ["/data/x"], id="103 Always/full tells extras"
        ),
        pytest.param(
            IF_NOT_DRIFTED, {"a": "9"}, "FoundDrifts", {"a": "9", "b": "2"}, ["/data/a"], id="104 drift stops it"
        ),
        pytest.param(
            IF_NOT_DRIFTED, {"x": "9"}, "Applied", {"a": "1", "b": "2", "x": "9"}, [], id="104 extras are no drift"
        ),
        pytest.param(
            {**IF_NOT_DRIFTED, **FULL},
            {"x": "9"},
            "FoundDrifts",
            {"a": "1", "b": "2", "x": "9"},
            ["/data/x"],
            id="105 any edit is drift in full comparison",
        ),
    ],
)
def test_drift(strategy: Obj, edit: dict[str, str], reason: str, data: dict[str, str], paths: list[str]) -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(config_map(), strategy=strategy)
        await world.edit({"data": edit})
        await asyncio.sleep(6)
        work = await world.work()
        assert about(work)[1] == reason
        if reason == "FoundDrifts":
            text = "cannot apply manifest: drifts are found between the manifest and the object from the member cluster"
            assert about(work)[2] == ERROR.format(text)
        assert [one["path"] for one in told(work).get("driftDetails", {}).get("observedDrifts", [])] == paths
        live = await world.live()
        assert live is not None
        assert live["data"] == data

    in_world(check)


def test_106_a_changed_manifest_overwrites_drift() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(config_map(), strategy=IF_NOT_DRIFTED)
        await world.edit({"data": {"a": "9"}})
        await asyncio.sleep(6)
        assert about(await world.work())[1] == "FoundDrifts"
        work = await world.send(config_map(a="1", b="3"), strategy=IF_NOT_DRIFTED)
        assert about(work) == APPLIED
        assert "driftDetails" not in told(work)
        live = await world.live()
        assert live is not None
        assert live["data"] == {"a": "1", "b": "3"}

    in_world(check)


def test_107_a_job_nobody_touched_drifts_in_three_paths() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(job(), strategy=IF_NOT_DRIFTED)
        await asyncio.sleep(6)
        work = await world.work()
        assert about(work)[1] == "FoundDriftsInDegradedMode"
        assert [one["path"] for one in told(work)["driftDetails"]["observedDrifts"]] == [
            "/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid",
            "/spec/template/metadata/labels/batch.kubernetes.io~1controller-uid",
            "/spec/template/metadata/labels/controller-uid",
        ]

    in_world(check)


def test_108_drift_is_dated_when_first_and_when_last_seen_and_vanishes_when_fixed() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(config_map(), strategy=IF_NOT_DRIFTED)
        await world.edit({"data": {"a": "9"}})
        await asyncio.sleep(6)
        first = told(await world.work())["driftDetails"]
        await asyncio.sleep(10)
        later = told(await world.work())["driftDetails"]
        assert later["firstDriftedObservedTime"] == first["firstDriftedObservedTime"]
        assert later["observationTime"] > first["observationTime"]
        await world.edit({"data": {"a": "1"}})
        await asyncio.sleep(10)
        work = await world.work()
        assert about(work) == APPLIED
        assert "driftDetails" not in told(work)

    in_world(check)


REPORT = {"type": "ReportDiff", "whenToTakeOver": "Never"}


def test_109_reporting_on_an_object_that_is_not_there() -> None:
    async def check(world: MemberWorld) -> None:
        work = await world.send(config_map(), strategy=REPORT)
        assert reasons(work) == {"DiffReported": ("True", "AllManifestsDiffReported")}
        assert about(work, "DiffReported") == (
            "True",
            "FoundDiff",
            "Diff has been found between the hub cluster and the member cluster",
        )
        details = told(work)["diffDetails"]
        assert details["observedDiffs"] == [{"path": "/", "valueInHub": "(the whole object)"}]
        assert "observedInMemberClusterGeneration" not in details
        assert await world.live() is None

    in_world(check)


def test_110_and_111_a_diff_is_told_nothing_is_touched_and_it_clears() -> None:
    async def check(world: MemberWorld) -> None:
        before = await world.member.client.create(CONFIG_MAPS, config_map(a="9", b="2"))
        work = await world.send(config_map(), strategy=REPORT)
        assert told(work)["diffDetails"]["observedDiffs"] == [
            {"path": "/data/a", "valueInHub": "1", "valueInMember": "9"}
        ]
        assert await world.live() == before
        await world.edit({"data": {"a": "1"}})
        await asyncio.sleep(6)
        work = await world.work()
        assert about(work, "DiffReported")[1] == "NoDiffFound"
        assert "diffDetails" not in told(work)

    in_world(check)


def test_112_switching_strategies_leaves_only_the_conditions_that_apply() -> None:
    async def check(world: MemberWorld) -> None:
        work = await world.send(config_map())
        assert set(reasons(work)) == {"Applied", "Available"}
        work = await world.send(config_map(a="5"), strategy={"type": "ReportDiff"})
        assert set(reasons(work)) == {"DiffReported"}
        assert [one["type"] for one in told(work)["conditions"]] == ["DiffReported"]
        live = await world.live()
        assert live is not None
        assert live["data"]["a"] == "1"
        work = await world.send(config_map(a="5"), strategy={"type": "ServerSideApply"})
        assert reasons(work)["Applied"] == ("True", "AllManifestsApplied")
        assert "DiffReported" not in reasons(work)
        live = await world.live()
        assert live is not None
        assert live["data"]["a"] == "5"

    in_world(check)


def test_114_more_than_a_hundred_differences_are_cut() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(config_map(), strategy={**IF_NOT_DRIFTED, **FULL})
        await world.edit({"data": {f"k{number:03}": "v" for number in range(150)}})
        await asyncio.sleep(6)
        assert len(told(await world.work())["driftDetails"]["observedDrifts"]) == 100

    in_world(check)


def test_115_a_manifest_of_an_unknown_kind_does_not_hold_up_the_others() -> None:
    async def check(world: MemberWorld) -> None:
        strange = {"apiVersion": "nope.example.com/v1", "kind": "Nothing", "metadata": {"name": "x", "namespace": "ns"}}
        work = await world.send(strange, config_map())
        text = (
            "failed to decode manifest: failed to find GVR from member cluster client REST mapping:"
            ' no matches for kind "Nothing" in version "nope.example.com/v1"'
        )
        assert about(work) == ("False", "DecodingErred", ERROR.format(text))
        assert about(work, ordinal=1) == APPLIED
        entry = next(one for one in status_of(work)["conditions"] if one["type"] == "Applied")
        assert entry["message"] == "Failed to apply all manifests (1 of 2 manifests are applied)"
        assert "Available" not in reasons(work)

    in_world(check)


def test_116_generated_names_and_duplicates_are_refused() -> None:
    async def check(world: MemberWorld) -> None:
        nameless = {**config_map(), "metadata": {"generateName": "conf-", "namespace": "ns"}}
        work = await world.send(nameless, config_map(), config_map(a="other"))
        assert about(work) == (
            "False",
            "FoundGenerateName",
            ERROR.format("objects with only generate name are not supported"),
        )
        assert about(work, ordinal=1) == APPLIED
        assert about(work, ordinal=2) == ("False", "Duplicated", ERROR.format("a duplicate manifest has been found"))

    in_world(check)


def test_117_what_leaves_a_work_leaves_the_member_drifted_or_not() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(config_map(), config_map("other"), strategy=IF_NOT_DRIFTED)
        await world.edit({"data": {"a": "9"}}, "other")
        await asyncio.sleep(6)
        await world.send(config_map(), strategy=IF_NOT_DRIFTED)
        assert await world.live("other") is None

    in_world(check)


def test_118_a_deletion_that_hangs_stops_waiting_for_what_others_own() -> None:
    async def check(world: MemberWorld) -> None:
        theirs = await owned_by_somebody(world)
        await world.send(config_map(), strategy={"allowCoOwnership": True})
        await world.hub.client.delete(WORKS, "w", NAMESPACE)
        await asyncio.sleep(320)
        assert (await world.member.client.list(APPLIED_WORKS)).items == []
        assert (await world.hub.client.list(WORKS, NAMESPACE)).items == []
        live = await world.live()
        assert live is not None
        assert owner_references_of(live) == [theirs]

    in_world(check)


def test_119_an_object_deleted_on_the_member_comes_back() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(config_map())
        await world.member.client.delete(CONFIG_MAPS, "conf", "ns")
        await asyncio.sleep(6)
        assert await world.live() is not None

    in_world(check)


def test_120_looks_come_after_5_5_2_and_then_ever_later() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(job(), strategy=IF_NOT_DRIFTED)
        seen: list[tuple[float, str]] = []
        start = world.hub.clock.now()
        while len(seen) < 16:
            work = await world.work()
            drift = told(work).get("driftDetails", {}).get("observationTime", "")
            if not seen or seen[-1][1] != drift:
                seen.append((world.hub.clock.now() - start, drift))
            await asyncio.sleep(0.1)
        gaps = [after[0] - before[0] for before, after in pairwise(seen[1:])]
        assert gaps == pytest.approx([5, 2, 2.4, 2.9, 3.5, 4.1, 5, 6, 7.2, 8.6, 10.3, 12.4, 14.9, 22.3], abs=0.2)

    in_world(check)


def test_121_a_status_too_large_is_trimmed() -> None:
    async def check(world: MemberWorld) -> None:
        manifests = [config_map(f"conf-{number}") for number in range(20)]
        await world.send(*manifests, strategy={**IF_NOT_DRIFTED, **FULL})
        for number in range(20):
            large = {f"k{index:02}": "x" * 2000 for index in range(90)}
            await world.edit({"data": large}, f"conf-{number}")
        await asyncio.sleep(6)
        work = await world.work()
        assert reasons(work)["StatusTrimmed"] == ("True", "Oversized")
        entry = next(one for one in status_of(work)["conditions"] if one["type"] == "StatusTrimmed")
        assert f"bytes over limit {STATUS_LIMIT})" in entry["message"]
        assert len(json.dumps(status_of(work))) < STATUS_LIMIT
        assert len(told(work)["driftDetails"]["observedDrifts"]) == 1

    in_world(check)


def test_122_statuses_are_reported_back_when_asked_for() -> None:
    async def check(world: MemberWorld) -> None:
        report: dict[str, Any] = {"reportBackStrategy": {"type": "Mirror", "destination": "WorkAPI"}}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "more"}}
        work = await world.send(namespace, config_map(), **report)
        assert told(work)["backReportedStatus"]["observedStatus"] == {
            "apiVersion": "v1",
            "kind": "Namespace",
            "status": {"phase": "Active"},
        }
        assert "backReportedStatus" not in told(work, 1)

    in_world(check)


def test_a_missing_namespace_is_told_as_the_api_server_does() -> None:
    async def check(world: MemberWorld) -> None:
        manifest = config_map()
        manifest["metadata"]["namespace"] = "compute-jobs"
        work = await world.send(manifest)
        text = (
            "failed to apply the manifest: failed to create manifest object: error returned by the API server:"
            ' namespaces "compute-jobs" not found'
        )
        assert about(work) == ("False", "ManifestApplyFailed", ERROR.format(text))
        await world.member.client.create(NAMESPACES, {"metadata": {"name": "compute-jobs"}})
        await asyncio.sleep(6)
        assert about(await world.work()) == APPLIED

    in_world(check)


def test_upstreams_way_with_jobs_can_be_had() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(job())
        await world.edit({"spec": {"suspend": False}}, "train", JOBS)
        await asyncio.sleep(6)
        live = await world.live("train", JOBS)
        assert live is not None
        assert live["spec"]["suspend"] is True

    in_world(check, MemberSettings.upstream())


@pytest.mark.parametrize("upstream", [False, True])
def test_a_job_compared_in_degraded_mode_is_reported_on(upstream: bool) -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(job())
        work = await world.send(job(), strategy={"type": "ReportDiff"})
        status, reason, message = about(work, "DiffReported")
        assert (status, reason) == ("True", "FoundDiffInDegradedMode")
        assert message == (
            "Diff has been found in degraded mode: cannot perform partial comparison as the member cluster API server"
            " rejected the manifest object (object is invalid)"
        )
        wanted = ("False", "SomeManifestsHaveNotReportedDiff") if upstream else ("True", "AllManifestsDiffReported")
        assert reasons(work) == {"DiffReported": wanted}

    in_world(check, MemberSettings.upstream() if upstream else None)


def test_an_error_that_blocks_reporting_is_told() -> None:
    async def check(world: MemberWorld) -> None:
        strange = {"apiVersion": "nope.example.com/v1", "kind": "Nothing", "metadata": {"name": "x", "namespace": "ns"}}
        work = await world.send(strange, strategy=REPORT)
        status, reason, message = about(work, "DiffReported")
        assert (status, reason) == ("False", "FailedToReportDiff")
        assert message.startswith("An error blocks the diff reporting process (DecodingErred, error: failed to decode")
        assert reasons(work) == {"DiffReported": ("False", "SomeManifestsHaveNotReportedDiff")}

    in_world(check)
