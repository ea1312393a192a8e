"""JobSets, scenario by scenario."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import Stage, play, summary, template

from corral.clusters.operators import operator_plugins
from corral.core.errors import Invalid
from corral.core.meta import Obj, labels_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.batch_job.operator import JobController
from corral.jobs.framework.operators import OperatorContext, OperatorSettings
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.jobset.operator import JobSetController
from corral.kinds.kubernetes.core.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES


def controllers(cluster: Any) -> list[Any]:
    return [kind(cluster.manager) for kind in (JobController, JobSetController)]


def replicated(name: str, replicas: int = 1, *, pods: int = 1, depends: Obj | None = None, **spec: Any) -> Obj:
    job = {
        "parallelism": pods,
        "completions": pods,
        "backoffLimit": 0,
        "template": template(restartPolicy="Never"),
        **spec,
    }
    entry: Obj = {"name": name, "replicas": replicas, "template": {"spec": job}}
    if depends:
        entry["dependsOn"] = [{"name": other, "status": status} for other, status in depends.items()]
    return entry


def job_set(*jobs: Obj, **spec: Any) -> Obj:
    return {"metadata": {"name": "js"}, "spec": {"replicatedJobs": list(jobs), **spec}}


async def pods_of(stage: Stage, job: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in await stage.pods(**{"batch.kubernetes.io/job-name": job})]


def counts(obj: Obj, name: str) -> Obj:
    entry = next(item for item in obj["status"]["replicatedJobsStatus"] if item["name"] == name)
    return {key: value for key, value in entry.items() if key != "name" and value}


def test_defaults_are_filled_in() -> None:
    async def script(stage: Stage) -> None:
        made = await stage.create(
            JOB_SETS,
            {
                "metadata": {"name": "js"},
                "spec": {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": template()}}}]},
            },
        )
        spec = made["spec"]
        job = spec["replicatedJobs"][0]
        assert (job["replicas"], job["groupName"]) == (1, "default")
        assert job["template"]["spec"]["completionMode"] == "Indexed"
        assert job["template"]["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"
        assert spec["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
        assert spec["successPolicy"] == {"operator": "All"}
        assert spec["startupPolicy"] == {"startupPolicyOrder": "AnyOrder"}

    play(controllers, script)


def test_children_know_their_place() -> None:
    async def script(stage: Stage) -> None:
        made = await stage.create(
            JOB_SETS,
            job_set(replicated("driver"), replicated("worker", 2, pods=2), coordinator={"replicatedJob": "driver"}),
        )
        assert await stage.names(JOBS) == ["js-driver-0", "js-worker-0", "js-worker-1"]
        job = await stage.get(JOBS, "js-worker-1")
        place = {key.partition("/")[2]: value for key, value in labels_of(job).items() if key.startswith("jobset.")}
        assert place.pop("job-key").isalnum()
        assert place == {
            "jobset-name": "js",
            "jobset-uid": made["metadata"]["uid"],
            "replicatedjob-name": "worker",
            "replicatedjob-replicas": "2",
            "restart-attempt": "0",
            "global-replicas": "3",
            "job-index": "1",
            "job-global-index": "2",
            "group-name": "default",
            "group-replicas": "3",
            "job-group-index": "2",
            "coordinator": "js-driver-0-0.js",
        }
        pod = (await stage.pods(**{"batch.kubernetes.io/job-name": "js-worker-1"}))[1]
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("js-worker-1-1", "js")
        service = await stage.get(SERVICES, "js")
        assert service["spec"]["selector"] == {"jobset.sigs.k8s.io/jobset-name": "js"}
        assert service["spec"]["publishNotReadyAddresses"] is True

    play(controllers, script)


def test_all_jobs_have_to_succeed() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOB_SETS, job_set(replicated("a"), replicated("b", 2)))
        await stage.run()
        running = await stage.get(JOB_SETS, "js")
        assert counts(running, "b") == {"ready": 2, "active": 2}
        await stage.succeed(*await pods_of(stage, "js-a-0"))
        assert counts(await stage.get(JOB_SETS, "js"), "a") == {"succeeded": 1}
        assert not (await stage.get(JOB_SETS, "js"))["status"].get("terminalState")
        await stage.succeed()
        done = await stage.get(JOB_SETS, "js")
        assert summary(done) == [("Completed", "True")]
        assert done["status"]["conditions"][0]["message"] == "jobset completed successfully"
        assert done["status"]["terminalState"] == "Completed"
        assert "AllJobsCompleted" in await stage.reasons()

    play(controllers, script)


def test_any_job_may_suffice_and_the_others_go() -> None:
    async def script(stage: Stage) -> None:
        policy = {"operator": "Any", "targetReplicatedJobs": ["a"]}
        await stage.create(JOB_SETS, job_set(replicated("a", 2), replicated("b"), successPolicy=policy))
        await stage.run()
        await stage.succeed(*await pods_of(stage, "js-b-0"))
        assert summary(await stage.get(JOB_SETS, "js")) == []
        await stage.succeed(*await pods_of(stage, "js-a-1"))
        assert summary(await stage.get(JOB_SETS, "js")) == [("Completed", "True")]
        await stage.pass_time(40)
        assert "js-a-0" not in await stage.names(JOBS)

    play(controllers, script)


def test_without_failure_policy_the_first_failure_is_final() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOB_SETS, job_set(replicated("a"), replicated("b")))
        await stage.run()
        await stage.fail(*await pods_of(stage, "js-b-0"))
        await stage.pass_time(3)
        failed = await stage.get(JOB_SETS, "js")
        assert failed["status"]["conditions"][-1]["reason"] == "FailedJobs"
        assert (
            failed["status"]["conditions"][-1]["message"]
            == "jobset failed due to one or more job failures (first failed job: js-b-0)"
        )
        assert failed["status"]["terminalState"] == "Failed"

    play(controllers, script)


@pytest.mark.parametrize("strategy", ["Recreate", "BlockingRecreate"])
def test_restarts_up_to_the_limit(strategy: str) -> None:
    async def script(stage: Stage) -> None:
        policy = {"maxRestarts": 1, "restartStrategy": strategy}
        await stage.create(JOB_SETS, job_set(replicated("a"), replicated("b"), failurePolicy=policy))
        first = {name: (await stage.get(JOBS, name))["metadata"]["uid"] for name in await stage.names(JOBS)}
        await stage.run()
        await stage.fail(*await pods_of(stage, "js-a-0"))
        await stage.pass_time(40)
        again = await stage.get(JOB_SETS, "js")
        assert (again["status"]["restarts"], again["status"]["restartsCountTowardsMax"]) == (1, 1)
        assert summary(again) == [("RestartingJobSet", "True")]
        second = {name: (await stage.get(JOBS, name))["metadata"]["uid"] for name in await stage.names(JOBS)}
        assert second.keys() == first.keys()
        assert all(second[name] != first[name] for name in first)
        assert labels_of(await stage.get(JOBS, "js-b-0"))["jobset.sigs.k8s.io/restart-attempt"] == "1"
        await stage.run()
        assert summary(await stage.get(JOB_SETS, "js")) == [("RestartingJobSet", "False")]
        await stage.fail(*await pods_of(stage, "js-b-0"))
        await stage.pass_time(5)
        last = (await stage.get(JOB_SETS, "js"))["status"]["conditions"][-1]
        assert (last["type"], last["reason"]) == ("Failed", "ReachedMaxRestarts")

    play(controllers, script)


RULES = [
    pytest.param(
        [{"action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}],
        ("Failed", 0, None),
        id="reason fails the set",
    ),
    pytest.param(
        [{"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}],
        ("Restarting", 1, 1),
        id="no match restarts",
    ),
    pytest.param(
        [{"action": "RestartJobSetAndIgnoreMaxRestarts"}], ("Restarting", 1, None), id="ignored restart does not count"
    ),
    pytest.param(
        [{"action": "FailJobSet", "targetReplicatedJobs": ["b"]}, {"action": "RestartJobSet"}],
        ("Restarting", 1, 1),
        id="other target",
    ),
    pytest.param(
        [{"action": "FailJobSet", "onJobFailureMessagePatterns": ["reached .* limit"]}],
        ("Failed", 0, None),
        id="message pattern",
    ),
    pytest.param([{"action": "RestartJobSet"}, {"action": "FailJobSet"}], ("Restarting", 1, 1), id="first rule wins"),
]


@pytest.mark.parametrize(("rules", "want"), RULES)
def test_failure_rules(rules: list[Obj], want: tuple[str, int, int | None]) -> None:
    async def script(stage: Stage) -> None:
        policy = {"maxRestarts": 3, "rules": rules}
        await stage.create(JOB_SETS, job_set(replicated("a"), replicated("b"), failurePolicy=policy))
        await stage.run()
        await stage.fail(*await pods_of(stage, "js-a-0"))
        await stage.pass_time(5)
        got = (await stage.get(JOB_SETS, "js"))["status"]
        state = "Failed" if got.get("terminalState") == "Failed" else "Restarting"
        assert (state, got["restarts"], got.get("restartsCountTowardsMax")) == want

    play(controllers, script)


def test_restarting_one_job_leaves_the_others_running() -> None:
    async def script(stage: Stage) -> None:
        policy = {"maxRestarts": 3, "rules": [{"action": "RestartJob"}]}
        await stage.create(JOB_SETS, job_set(replicated("a"), replicated("b"), failurePolicy=policy))
        before = {name: (await stage.get(JOBS, name))["metadata"]["uid"] for name in await stage.names(JOBS)}
        await stage.run()
        await stage.fail(*await pods_of(stage, "js-a-0"))
        await stage.pass_time(40)
        after = {name: (await stage.get(JOBS, name))["metadata"]["uid"] for name in await stage.names(JOBS)}
        assert after["js-a-0"] != before["js-a-0"]
        assert after["js-b-0"] == before["js-b-0"]

    play(controllers, script)


def test_dependencies_start_one_after_the_other() -> None:
    async def script(stage: Stage) -> None:
        jobs = (
            replicated("init"),
            replicated("server", depends={"init": "Complete"}),
            replicated("worker", 2, depends={"server": "Ready", "init": "Complete"}),
        )
        await stage.create(JOB_SETS, job_set(*jobs))
        assert await stage.names(JOBS) == ["js-init-0"]
        await stage.run()
        assert await stage.names(JOBS) == ["js-init-0"]
        await stage.succeed()
        await stage.pass_time(2)
        assert await stage.names(JOBS) == ["js-init-0", "js-server-0"]
        await stage.run(*await pods_of(stage, "js-server-0"))
        await stage.pass_time(2)
        assert await stage.names(JOBS) == ["js-init-0", "js-server-0", "js-worker-0", "js-worker-1"]

    play(controllers, script)


def test_in_order_startup() -> None:
    async def script(stage: Stage) -> None:
        policy = {"startupPolicyOrder": "InOrder"}
        await stage.create(JOB_SETS, job_set(replicated("a"), replicated("b"), startupPolicy=policy))
        assert await stage.names(JOBS) == ["js-a-0"]
        assert summary(await stage.get(JOB_SETS, "js")) == [("StartupPolicyInProgress", "True")]
        await stage.run()
        assert await stage.names(JOBS) == ["js-a-0", "js-b-0"]
        await stage.run()
        assert summary(await stage.get(JOB_SETS, "js")) == [("StartupPolicyCompleted", "True")]

    play(controllers, script)


def test_suspend_and_resume_with_other_nodes() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOB_SETS, job_set(replicated("a"), suspend=True))
        created = await stage.get(JOB_SETS, "js")
        assert summary(created) == [("Suspended", "True")]
        assert counts(created, "a") == {"suspended": 1}
        assert (await stage.get(JOBS, "js-a-0"))["spec"]["suspend"] is True
        await resume(stage, {"flavor": "a"})
        await stage.run()
        await stage.patch(JOB_SETS, "js", {"spec": {"suspend": True}})
        await stage.pass_time(40)
        assert await stage.names(PODS) == []
        assert summary(await stage.get(JOB_SETS, "js")) == [("Suspended", "True")]
        await resume(stage, {"flavor": "b"})
        pod = (await stage.pods())[0]
        assert pod["spec"]["nodeSelector"] == {"flavor": "b"}
        resumed = (await stage.get(JOB_SETS, "js"))["status"]["conditions"][0]
        assert (resumed["status"], resumed["reason"], resumed["message"]) == (
            "False",
            "ResumeJobs",
            "jobset is resumed",
        )

    async def resume(stage: Stage, selector: dict[str, str]) -> None:
        current = (await stage.get(JOB_SETS, "js"))["spec"]["replicatedJobs"][0]
        pod = current["template"]["spec"]["template"]
        changed = {**pod, "spec": {**pod["spec"], "nodeSelector": selector}}
        entry = {**current, "template": {"spec": {**current["template"]["spec"], "template": changed}}}
        await stage.patch(JOB_SETS, "js", {"spec": {"suspend": False, "replicatedJobs": [entry]}})
        await stage.pass_time(2)

    play(controllers, script)


def test_another_manager_is_left_alone() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOB_SETS, job_set(replicated("a"), managedBy="kueue.x-k8s.io/multikueue"))
        await stage.pass_time(5)
        assert await stage.names(JOBS) == await stage.names(SERVICES) == []
        assert "status" not in await stage.get(JOB_SETS, "js")

    play(controllers, script)


def test_lost_service_returns_and_may_be_disabled() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOB_SETS, job_set(replicated("a"), network={"subdomain": "net"}))
        assert await stage.names(SERVICES) == ["net"]
        await stage.client.delete(SERVICES, "net", "default")
        await stage.cluster.settle()
        assert await stage.names(SERVICES) == ["net"]
        other = {**job_set(replicated("a"), network={"enableDNSHostnames": False}), "metadata": {"name": "quiet"}}
        await stage.create(JOB_SETS, other)
        assert await stage.names(SERVICES) == ["net"]

    play(controllers, script)


def test_finished_set_expires() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOB_SETS, job_set(replicated("a"), ttlSecondsAfterFinished=10))
        await stage.run()
        await stage.succeed()
        await stage.pass_time(60)
        assert await stage.is_gone(JOB_SETS, "js")

    play(controllers, script)


def test_claims_are_shared_and_owned_by_policy() -> None:
    async def script(stage: Stage) -> None:
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        kept = {"templates": [{**claim, "metadata": {"name": "kept"}}], "retentionPolicy": {"whenDeleted": "Retain"}}
        user = replicated("a")
        user["template"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [
            {"name": "data", "mountPath": "/data"}
        ]
        policies = [{"templates": [claim]}, kept]
        await stage.create(JOB_SETS, job_set(user, replicated("b"), volumeClaimPolicies=policies))
        volumes = {
            name: (await stage.get(JOBS, name))["spec"]["template"]["spec"].get("volumes")
            for name in ("js-a-0", "js-b-0")
        }
        shared = {"name": "data", "persistentVolumeClaim": {"claimName": "data-js"}}
        assert volumes == {"js-a-0": [shared], "js-b-0": None}  # only where it is mounted
        assert await stage.names(PERSISTENT_VOLUME_CLAIMS) == ["data-js", "kept-js"]
        assert "ownerReferences" in (await stage.get(PERSISTENT_VOLUME_CLAIMS, "data-js"))["metadata"]
        assert "ownerReferences" not in (await stage.get(PERSISTENT_VOLUME_CLAIMS, "kept-js"))["metadata"]

    play(controllers, script)


IN_PLACE = {"restartStrategy": "InPlaceRestart", "maxRestarts": 2}


def restartable(name: str = "w", replicas: int = 2, **spec: Any) -> Obj:
    return replicated(name, replicas, **{"backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed", **spec})


async def agents_say(stage: Stage, *attempts: int | None) -> None:
    """What the agents in the pods write, pod by pod."""
    for pod, attempt in zip(await stage.pods(), attempts, strict=True):
        if attempt is not None:
            marks = {"jobset.sigs.k8s.io/in-place-restart-attempt": str(attempt)}
            patch = {"metadata": {"annotations": marks}}
            await stage.client.patch(PODS, pod["metadata"]["name"], "default", patch)
    await stage.cluster.settle()


async def attempts(stage: Stage) -> tuple[int | None, int | None]:
    status = (await stage.get(JOB_SETS, "js"))["status"]
    return status.get("previousInPlaceRestartAttempt"), status.get("currentInPlaceRestartAttempt")


def test_containers_restart_in_place_together() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOB_SETS, job_set(restartable(), failurePolicy=IN_PLACE))
        made = [pod["metadata"]["uid"] for pod in await stage.pods()]
        assert await attempts(stage) == (None, None)
        await agents_say(stage, 0, None)
        assert await attempts(stage) == (None, None)  # not all have spoken
        await agents_say(stage, 0, 0)
        assert await attempts(stage) == (None, 0)
        await agents_say(stage, 1, 0)
        assert await attempts(stage) == (0, 0)  # whoever is in attempt 0 or before restarts
        await agents_say(stage, 1, 1)
        assert await attempts(stage) == (0, 1)
        await agents_say(stage, 1, 2)
        await agents_say(stage, 2, 2)
        assert await attempts(stage) == (1, 2)
        assert [pod["metadata"]["uid"] for pod in await stage.pods()] == made
        assert (await stage.get(JOB_SETS, "js"))["status"]["restarts"] == 0
        await agents_say(stage, 3, 2)
        failed = await stage.get(JOB_SETS, "js")
        entry = failed["status"]["conditions"][-1]
        assert (entry["type"], entry["reason"]) == ("Failed", "ReachedMaxRestarts")
        assert entry["message"] == "jobset failed due to reaching max number of restarts"

    play(controllers, script)


def test_a_container_that_fails_too_fast_ends_the_set() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOB_SETS, job_set(restartable(), failurePolicy=IN_PLACE))
        await stage.run()
        (first, _) = await stage.pods()
        statuses = [{**entry, "restartCount": 3} for entry in first["status"]["containerStatuses"]]
        await stage.client.patch(
            PODS,
            first["metadata"]["name"],
            "default",
            {"status": {"containerStatuses": statuses}},
            subresource="status",
        )
        await stage.cluster.settle()
        assert (await stage.get(JOB_SETS, "js"))["status"]["terminalState"] == "Failed"

    play(controllers, script)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"backoffLimit": 6}, "must be set to 2147483647 (MaxInt32) when in-place restart is enabled"),
        ({"podReplacementPolicy": "TerminatingOrFailed"}, "must be set to Failed when in-place restart is enabled"),
        ({"completions": 2}, "completions and parallelism must be set and equal to each other"),
    ],
    ids=["backoffLimit", "podReplacementPolicy", "completions"],
)
def test_restarting_in_place_asks_for_jobs_that_keep_their_pods(change: Obj, text: str) -> None:
    async def script(stage: Stage) -> None:
        with pytest.raises(Invalid) as refused:
            await stage.create(JOB_SETS, job_set(restartable(**change), failurePolicy=IN_PLACE))
        assert text in refused.value.message

    play(controllers, script, plugins=lambda cluster: operator_plugins(OperatorContext(cluster.manager)))


def test_restarting_in_place_can_be_switched_off() -> None:
    def plugins(cluster: Any) -> list[Any]:
        return operator_plugins(OperatorContext(cluster.manager, OperatorSettings(features={"InPlaceRestart": False})))

    async def script(stage: Stage) -> None:
        with pytest.raises(Invalid, match="cannot be set when InPlaceRestart feature gate is disabled"):
            await stage.create(JOB_SETS, job_set(restartable(), failurePolicy=IN_PLACE))

    play(controllers, script, plugins=plugins)
