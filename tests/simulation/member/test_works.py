"""Works on a member: applied, reported on, changed, taken away; and what happens when something is in the way."""

from __future__ import annotations

import asyncio

from tests.simulation.member.world import NAMESPACE, MemberWorld, about, config_map, in_world, reasons, told

from corral.core.meta import Obj, finalizers_of, owner_references_of, spec_of, status_of, uid_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.fleet import APPLIED_WORKS, WORKS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS

IF_NOT_DRIFTED = {"whenToApply": "IfNotDrifted"}


def job(**annotations: str) -> Obj:
    """A Job as a hub sends it: defaulted there, its selector emptied on the way."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "ns",
            "annotations": {"kueue.x-k8s.io/queue-name": "local-queue", **annotations},
            "labels": {"batch.kubernetes.io/job-name": "train", "controller-uid": "u", "job-name": "train"},
        },
        "spec": {
            "backoffLimit": 3,
            "completionMode": "NonIndexed",
            "completions": 1,
            "manualSelector": False,
            "parallelism": 1,
            "podReplacementPolicy": "TerminatingOrFailed",
            "selector": {"matchLabels": {}},
            "suspend": True,
            "template": {
                "metadata": {"labels": {"batch.kubernetes.io/job-name": "train", "job-name": "train"}},
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "image": "ubuntu",
                            "imagePullPolicy": "Always",
                            "resources": {},
                            "terminationMessagePath": "/dev/termination-log",
                            "terminationMessagePolicy": "File",
                        }
                    ],
                    "dnsPolicy": "ClusterFirst",
                    "restartPolicy": "Never",
                    "schedulerName": "default-scheduler",
                    "securityContext": {},
                    "terminationGracePeriodSeconds": 30,
                },
            },
            "ttlSecondsAfterFinished": 60,
        },
    }


def test_a_work_is_applied_and_reported_on() -> None:
    async def check(world: MemberWorld) -> None:
        work = await world.send(config_map())
        assert finalizers_of(work) == ["kubernetes-fleet.io/work-cleanup"]
        assert reasons(work) == {
            "Applied": ("True", "AllManifestsApplied"),
            "Available": ("True", "AllManifestsAvailable"),
        }
        assert about(work) == ("True", "Applied", "Manifest has been applied successfully")
        assert about(work, "Available") == ("True", "Available", "Manifest is available")
        live = await world.live()
        assert live is not None
        applied = await world.applied()
        assert owner_references_of(live) == [
            {
                "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
                "kind": "AppliedWork",
                "name": "w",
                "uid": uid_of(applied),
                "blockOwnerDeletion": True,
            }
        ]
        assert applied["spec"] == {"workName": "w", "workNamespace": NAMESPACE}
        (entry,) = status_of(applied)["appliedResources"]
        assert (entry["kind"], entry["name"], entry["uid"]) == ("ConfigMap", "conf", uid_of(live))

    in_world(check)


def test_a_changed_manifest_is_merged_and_what_left_it_goes() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(config_map(), config_map("other"))
        await world.edit({"data": {"x": "9"}})
        await world.send(config_map(a="5"))
        live = await world.live()
        assert live is not None
        assert live["data"] == {"a": "5", "x": "9"}
        assert await world.live("other") is None

    in_world(check)


def test_a_deleted_work_takes_its_objects_with_it() -> None:
    async def check(world: MemberWorld) -> None:
        await world.send(config_map())
        await world.hub.client.delete(WORKS, "w", NAMESPACE)
        await asyncio.sleep(6)
        assert await world.live() is None
        assert (await world.member.client.list(APPLIED_WORKS)).items == []
        assert (await world.hub.client.list(WORKS, NAMESPACE)).items == []

    in_world(check)


def test_a_job_drifts_in_degraded_mode_as_upstream() -> None:
    async def check(world: MemberWorld) -> None:
        work = await world.send(job(), strategy=IF_NOT_DRIFTED)
        assert reasons(work)["Available"] == ("True", "WorkNotTrackable")
        await asyncio.sleep(2)
        await world.edit({"spec": {"suspend": False}}, "train", JOBS)
        await asyncio.sleep(4)
        work = await world.work()
        assert reasons(work) == {"Applied": ("False", "SomeManifestsAreNotApplied")}
        status, reason, message = about(work)
        assert (status, reason) == ("False", "FoundDriftsInDegradedMode")
        assert message == (
            "Failed to apply the manifest (error: cannot apply manifest: drifts are found between the manifest and the"
            " object from the member cluster in degraded mode (full comparison is performed instead of partial comparison,"
            " as the manifest object is considered to be invalid by the member cluster API server))"
        )
        live = await world.live("train", JOBS)
        assert live is not None
        uid = uid_of(live)
        assert told(work)["driftDetails"]["observedDrifts"] == [
            {"path": "/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid", "valueInMember": uid},
            {"path": "/spec/suspend", "valueInHub": "true", "valueInMember": "false"},
            {"path": "/spec/template/metadata/labels/batch.kubernetes.io~1controller-uid", "valueInMember": uid},
            {"path": "/spec/template/metadata/labels/controller-uid", "valueInMember": uid},
        ]
        assert told(work)["driftDetails"]["observedInMemberClusterGeneration"] == 2
        assert status_of(await world.applied()) == {}

    in_world(check)


def test_secret_drift_is_redacted() -> None:
    async def check(world: MemberWorld) -> None:
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "conf", "namespace": "ns"},
            "type": "Opaque",
            "data": {"k": "YQ=="},
        }
        await world.send(secret, strategy=IF_NOT_DRIFTED)
        await world.edit({"data": {"k": "Yg=="}}, resource=SECRETS)
        await asyncio.sleep(6)
        hidden = "(redacted for security reasons)"
        assert told(await world.work())["driftDetails"]["observedDrifts"] == [
            {"path": "/data/k", "valueInHub": hidden, "valueInMember": hidden}
        ]

    in_world(check)


def test_foreign_objects_survive() -> None:
    async def check(world: MemberWorld) -> None:
        account = await world.member.client.create(
            SERVICE_ACCOUNTS, {"metadata": {"name": "somebody", "namespace": "ns"}}
        )
        owner = {"apiVersion": "v1", "kind": "ServiceAccount", "name": "somebody", "uid": uid_of(account)}
        body = {**config_map(), "metadata": {"name": "conf", "namespace": "ns", "ownerReferences": [owner]}}
        await world.member.client.create(CONFIG_MAPS, body)
        work = await world.send(config_map(a="9"))
        assert about(work) == (
            "False",
            "FailedToTakeOver",
            "Failed to apply the manifest (error: failed to take over a pre-existing object: the object is already owned by"
            " some other sources(s) and co-ownership is disallowed (existingOwnerRefs: [{APIVersion:v1 Kind:ServiceAccount"
            f" Name:somebody UID:{uid_of(account)} Controller:<nil> BlockOwnerDeletion:<nil>}}]))",
        )
        await world.hub.client.delete(WORKS, "w", NAMESPACE)
        await asyncio.sleep(10)
        assert (await world.hub.client.list(WORKS, NAMESPACE)).items == []
        live = await world.live()
        assert live is not None
        assert live["data"] == {"a": "1", "b": "2"}

    in_world(check)


def test_a_work_made_again_out_of_sight_is_looked_at_at_once_and_as_often_as_a_new_one() -> None:
    async def check(world: MemberWorld) -> None:
        old = await world.send(config_map())
        await asyncio.sleep(7200)
        world.link.cut = True
        world.link.break_streams()
        await world.hub.client.patch(WORKS, "w", NAMESPACE, {"metadata": {"finalizers": None}})
        await world.hub.client.delete(WORKS, "w", NAMESPACE)
        body: Obj = {"metadata": {"name": "w", "namespace": NAMESPACE}, "spec": spec_of(old)}
        await world.hub.client.create(WORKS, body)
        world.link.cut = False
        await asyncio.sleep(60)
        assert reasons(await world.work())["Applied"] == ("True", "AllManifestsApplied")
        await world.edit({"data": {"a": "9"}})
        await asyncio.sleep(60)
        live = await world.live()
        assert live is not None
        assert live["data"]["a"] == "1"

    in_world(check)
