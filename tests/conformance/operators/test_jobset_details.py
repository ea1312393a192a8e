"""JobSets in detail: names, policies, dependencies, children; what test_jobset.py leaves out."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from tests.conformance.operators.operator_stage import Stage, play, summary, template
from tests.conformance.operators.test_jobset import controllers, counts, job_set, pods_of, replicated

from corral.clusters.operators import operator_plugins
from corral.core.errors import Invalid
from corral.core.meta import Obj, annotations_of, labels_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.jobset.kind import JOB_SETS
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES


def plugins(cluster: Any) -> list[Any]:
    return operator_plugins(OperatorContext(cluster.client, cluster.clock))


# 87 and 88: sizes and names


def test_no_jobs_and_no_replicas_are_fine_and_fewer_are_not() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOB_SETS, job_set())
        assert await stage.names(JOBS) == []
        none = job_set(replicated("w", 0))
        none["metadata"]["name"] = "none"
        await stage.create(JOB_SETS, none)
        assert await stage.names(JOBS) == []
        with pytest.raises(Invalid, match="should be greater than or equal to 0"):
            await stage.create(JOB_SETS, {**job_set(replicated("w", -1)), "metadata": {"name": "less"}})

    play(controllers, script, plugins=plugins)


def test_rules_get_names() -> None:
    async def script(stage: Stage) -> None:
        policy = {"rules": [{"action": "FailJobSet"}, {"name": "mine", "action": "RestartJobSet"}]}
        made = await stage.create(JOB_SETS, job_set(replicated("w"), failurePolicy=policy))
        assert [rule["name"] for rule in made["spec"]["failurePolicy"]["rules"]] == ["failurePolicyRule0", "mine"]

    play(controllers, script, plugins=plugins)


@pytest.mark.parametrize(
    ("metadata", "job"),
    [
        ({"name": "j" * 56}, replicated("worker")),
        ({"generateName": "j" * 52}, replicated("worker")),
        ({"name": "j" * 50}, replicated("w", pods=1000)),
    ],
    ids=["job", "generated name", "pod"],
)
def test_names_that_grow_too_long_are_refused(metadata: Obj, job: Obj) -> None:
    async def script(stage: Stage) -> None:
        with pytest.raises(Invalid, match="63 characters"):
            await stage.create(JOB_SETS, {**job_set(job), "metadata": metadata})

    play(controllers, script, plugins=plugins)


# 89: success


@pytest.mark.parametrize(
    ("operator", "targets", "done", "ended"),
    [
        ("All", ["a"], ["js-a-0"], False),
        ("All", ["a"], ["js-a-0", "js-a-1"], True),
        ("Any", ["a"], ["js-b-0"], False),
        ("Any", ["a"], ["js-a-1"], True),
        ("Any", [], ["js-b-0"], True),
    ],
)
def test_success_policy(operator: str, targets: list[str], done: list[str], ended: bool) -> None:
    async def script(stage: Stage) -> None:
        policy: Obj = {"operator": operator, **({"targetReplicatedJobs": targets} if targets else {})}
        await stage.create(JOB_SETS, job_set(replicated("a", 2), replicated("b"), successPolicy=policy))
        await stage.run()
        for name in done:
            await stage.succeed(*await pods_of(stage, name))
        await stage.pass_time(4)
        held = await stage.get(JOB_SETS, "js")
        assert (held["status"].get("terminalState") == "Completed") is ended

    play(controllers, script, plugins=plugins)


# 91: rules by message and in order


FAILURES: list[Any] = [
    pytest.param(
        [{"action": "FailJobSet", "onJobFailureMessagePatterns": ["backoff limit$"]}], "Failed", id="message matches"
    ),
    pytest.param(
        [{"action": "FailJobSet", "onJobFailureMessagePatterns": ["^deadline"]}], "Restarting", id="message does not"
    ),
    pytest.param(
        [
            {"action": "FailJobSet", "targetReplicatedJobs": ["b"]},
            {"action": "RestartJobSet", "targetReplicatedJobs": ["a"]},
            {"action": "FailJobSet"},
        ],
        "Restarting",
        id="first rule for the target",
    ),
    pytest.param(
        [
            {"action": "RestartJobSet", "onJobFailureReasons": ["DeadlineExceeded"]},
            {"action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]},
        ],
        "Failed",
        id="first rule for the reason",
    ),
    pytest.param(
        [{"action": "RestartJobSet"}, {"action": "FailJobSet", "targetReplicatedJobs": ["a"]}],
        "Restarting",
        id="a rule without conditions comes first",
    ),
]


@pytest.mark.parametrize(("rules", "want"), FAILURES)
def test_failure_rules_in_order(rules: list[Obj], want: str) -> None:
    async def script(stage: Stage) -> None:
        policy = {"maxRestarts": 3, "rules": rules}
        await stage.create(JOB_SETS, job_set(replicated("a"), replicated("b"), failurePolicy=policy))
        await stage.run()
        await stage.fail(*await pods_of(stage, "js-a-0"))
        await stage.pass_time(3)
        held = await stage.get(JOB_SETS, "js")
        states = [kind for kind, value in summary(held) if value == "True"]
        assert states == (["Failed"] if want == "Failed" else ["RestartingJobSet"])

    play(controllers, script, plugins=plugins)


def test_earliest_failure_decides() -> None:
    async def script(stage: Stage) -> None:
        rules = [{"action": "FailJobSet", "targetReplicatedJobs": ["b"]}]
        policy = {"maxRestarts": 3, "rules": rules}
        await stage.create(JOB_SETS, job_set(replicated("a"), replicated("b"), failurePolicy=policy))
        await stage.run()
        await stage.fail(*await pods_of(stage, "js-b-0"))
        await stage.pass_time(3)
        failed = (await stage.get(JOB_SETS, "js"))["status"]["conditions"][-1]
        assert "first failed job: js-b-0" in failed["message"]

    play(controllers, script, plugins=plugins)


# 92: how Jobs are made again


def test_blocking_restart_waits_until_all_old_jobs_are_gone() -> None:
    async def script(stage: Stage) -> None:
        policy = {"maxRestarts": 1, "restartStrategy": "BlockingRecreate"}
        await stage.create(JOB_SETS, job_set(replicated("a"), replicated("b"), failurePolicy=policy))
        await stage.run()
        old = (await stage.get(JOBS, "js-b-0"))["metadata"]["uid"]
        await stage.client.patch(JOBS, "js-b-0", "default", {"metadata": {"finalizers": ["example.com/hold"]}})
        await stage.fail(*await pods_of(stage, "js-a-0"))
        await stage.pass_time(60)
        assert (await stage.get(JOBS, "js-b-0"))["metadata"]["uid"] == old
        assert "js-a-0" not in await stage.names(JOBS)  # waits for the other
        await stage.client.patch(JOBS, "js-b-0", "default", {"metadata": {"finalizers": []}})
        await stage.pass_time(60)
        assert await stage.names(JOBS) == ["js-a-0", "js-b-0"]
        assert labels_of(await stage.get(JOBS, "js-a-0"))["jobset.sigs.k8s.io/restart-attempt"] == "1"

    play(controllers, script, plugins=plugins)


# 93: dependencies


def test_dependencies_in_a_diamond() -> None:
    async def script(stage: Stage) -> None:
        jobs = (
            replicated("start"),
            replicated("left", depends={"start": "Complete"}),
            replicated("right", depends={"start": "Ready"}),
            replicated("end", depends={"left": "Complete", "right": "Complete"}),
        )
        await stage.create(JOB_SETS, job_set(*jobs))
        assert await stage.names(JOBS) == ["js-start-0"]
        await stage.run()
        await stage.pass_time(2)
        assert await stage.names(JOBS) == ["js-right-0", "js-start-0"]
        await stage.succeed(*await pods_of(stage, "js-start-0"))
        await stage.pass_time(3)
        assert await stage.names(JOBS) == ["js-left-0", "js-right-0", "js-start-0"]
        await stage.succeed(*await pods_of(stage, "js-left-0"))
        await stage.pass_time(3)
        assert "js-end-0" not in await stage.names(JOBS)
        await stage.succeed(*await pods_of(stage, "js-right-0"))
        await stage.pass_time(3)
        assert "js-end-0" in await stage.names(JOBS)

    play(controllers, script, plugins=plugins)


def test_dependencies_hold_while_suspended_and_after() -> None:
    async def script(stage: Stage) -> None:
        jobs = (replicated("start"), replicated("end", depends={"start": "Complete"}))
        await stage.create(JOB_SETS, job_set(*jobs, suspend=True))
        assert await stage.names(JOBS) == ["js-start-0"]
        assert (await stage.get(JOBS, "js-start-0"))["spec"]["suspend"] is True
        await stage.patch(JOB_SETS, "js", {"spec": {"suspend": False}})
        await stage.run()
        await stage.succeed()
        await stage.pass_time(3)
        assert await stage.names(JOBS) == ["js-end-0", "js-start-0"]

    play(controllers, script, plugins=plugins)


def test_suspended_set_in_order_has_all_its_jobs() -> None:
    async def script(stage: Stage) -> None:
        order = {"startupPolicyOrder": "InOrder"}
        await stage.create(JOB_SETS, job_set(replicated("a"), replicated("b"), startupPolicy=order, suspend=True))
        assert await stage.names(JOBS) == ["js-a-0", "js-b-0"]
        await stage.patch(JOB_SETS, "js", {"spec": {"suspend": False}})
        await stage.pass_time(2)
        assert [len(await pods_of(stage, name)) for name in ("js-a-0", "js-b-0")] == [1, 0]
        await stage.run()
        await stage.pass_time(2)
        assert len(await pods_of(stage, "js-b-0")) == 1

    play(controllers, script, plugins=plugins)


# 94: templates change only while suspended


def test_scheduling_of_a_running_set_does_not_change() -> None:
    async def script(stage: Stage) -> None:
        made = await stage.create(JOB_SETS, job_set(replicated("w")))
        job = deepcopy(made["spec"]["replicatedJobs"][0])
        job["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"a": "b"}
        with pytest.raises(Invalid, match="field is immutable"):
            await stage.patch(JOB_SETS, "js", {"spec": {"replicatedJobs": [job]}})
        await stage.patch(JOB_SETS, "js", {"spec": {"suspend": True}})
        changed = await stage.patch(JOB_SETS, "js", {"spec": {"replicatedJobs": [job]}})
        assert changed["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"] == {
            "a": "b"
        }
        job = deepcopy(job)
        job["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = "other:1"
        with pytest.raises(Invalid, match="field is immutable"):
            await stage.patch(JOB_SETS, "js", {"spec": {"replicatedJobs": [job]}})

    play(controllers, script, plugins=plugins)


# 95: the service


def test_subdomain_names_the_service() -> None:
    async def script(stage: Stage) -> None:
        network = {"subdomain": "ring", "publishNotReadyAddresses": False}
        await stage.create(JOB_SETS, job_set(replicated("w"), network=network))
        assert await stage.names(SERVICES) == ["ring"]
        assert (await stage.get(SERVICES, "ring"))["spec"].get("publishNotReadyAddresses") in (False, None)
        assert (await stage.pods())[0]["spec"]["subdomain"] == "ring"

    play(controllers, script, plugins=plugins)


# 99: children of a namesake


def test_jobs_of_an_earlier_set_of_that_name_are_not_ours() -> None:
    async def script(stage: Stage) -> None:
        owner = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "js", "uid": "gone", "controller": True,
        }  # fmt: skip
        spec = {"template": template(restartPolicy="Never"), "suspend": True}
        labels = {"jobset.sigs.k8s.io/jobset-name": "js", "jobset.sigs.k8s.io/replicatedjob-name": "w"}
        stray = {"metadata": {"name": "stray", "labels": labels, "ownerReferences": [owner]}, "spec": spec}
        await stage.create(JOBS, stray)
        await stage.create(JOB_SETS, job_set(replicated("w")))
        held = await stage.get(JOB_SETS, "js")
        assert counts(held, "w").get("suspended") is None
        assert {"js-w-0"} <= set(await stage.names(JOBS))

    play(controllers, script, plugins=plugins)


# 100: what is counted


def test_jobs_are_counted_in_every_state_they_are_in() -> None:
    async def script(stage: Stage) -> None:
        policy = {"operator": "All", "targetReplicatedJobs": ["never"]}
        await stage.create(JOB_SETS, job_set(replicated("w", 3, pods=2), replicated("never"), successPolicy=policy))
        await stage.pass_time(2)
        assert counts(await stage.get(JOB_SETS, "js"), "w") == {"active": 3}
        await stage.run(*await pods_of(stage, "js-w-0"))
        assert counts(await stage.get(JOB_SETS, "js"), "w") == {"active": 3, "ready": 1}
        await stage.succeed(*await pods_of(stage, "js-w-1"))
        await stage.pass_time(3)
        assert counts(await stage.get(JOB_SETS, "js"), "w") == {"active": 2, "ready": 1, "succeeded": 1}
        await stage.patch(JOB_SETS, "js", {"spec": {"suspend": True}})
        await stage.pass_time(60)
        assert counts(await stage.get(JOB_SETS, "js"), "w") == {"succeeded": 1, "suspended": 2}

    play(controllers, script, plugins=plugins)


# 101: places


def test_groups_and_exclusive_placement_are_passed_on() -> None:
    async def script(stage: Stage) -> None:
        jobs = [
            {**replicated("a", 2), "groupName": "one"},
            {**replicated("b", 1), "groupName": "two"},
            {**replicated("c"), "groupName": "one"},
        ]
        body = job_set(*jobs)
        topology = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
        body["metadata"]["annotations"] = topology
        await stage.create(JOB_SETS, body)
        labels = labels_of(await stage.get(JOBS, "js-c-0"))
        place = {
            name: labels[f"jobset.sigs.k8s.io/{name}"]
            for name in ("job-global-index", "group-replicas", "job-group-index")
        }
        assert place == {"job-global-index": "3", "group-replicas": "3", "job-group-index": "2"}
        (pod,) = await stage.pods(**{"batch.kubernetes.io/job-name": "js-c-0"})
        assert topology.items() <= annotations_of(pod).items()
        field = "requiredDuringSchedulingIgnoredDuringExecution"
        (near,) = pod["spec"]["affinity"]["podAffinity"][field]
        assert near["topologyKey"] == "rack"
        assert near["labelSelector"]["matchExpressions"][0]["values"] == [labels["jobset.sigs.k8s.io/job-key"]]
        assert "podAntiAffinity" in pod["spec"]["affinity"]

    play(controllers, script, plugins=plugins)


@pytest.mark.parametrize(
    "coordinator",
    [{"replicatedJob": "w", "jobIndex": 2}, {"replicatedJob": "w", "podIndex": 1}, {"replicatedJob": "none"}],
    ids=["job", "pod", "no such"],
)
def test_coordinator_has_to_exist(coordinator: Obj) -> None:
    async def script(stage: Stage) -> None:
        with pytest.raises(Invalid):
            await stage.create(JOB_SETS, job_set(replicated("w", 2), coordinator=coordinator))

    play(controllers, script, plugins=plugins)


# 102: apply


def test_applying_the_same_again_changes_nothing() -> None:
    async def script(stage: Stage) -> None:
        body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", **job_set(replicated("w"))}
        body["metadata"]["namespace"] = "default"
        first = await stage.client.apply(JOB_SETS, body, manager="me")
        await stage.run()
        second = await stage.client.apply(JOB_SETS, body, manager="me")
        assert first["metadata"]["generation"] == second["metadata"]["generation"] == 1
        assert await stage.names(PODS)

    play(controllers, script, plugins=plugins)
