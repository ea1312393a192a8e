"""What the command line answers to a user who waits, mistypes or guesses, against a served cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conformance.served_cli import JOBS, Run, job, serve, until, user_with

from corral.clusters.embedded_api import EmbeddedApi
from corral.clusters.kueue_installation.objects import roles
from corral.core.resource import Resource
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kubernetes.rbac import CLUSTER_ROLES
from corral.kinds.kueue import ADMISSION_CHECKS, MULTI_KUEUE_CONFIGS, WORKLOAD_PRIORITY_CLASSES

QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")


async def set_up(run: Run, cpu: str = "1") -> None:
    await run("queue", "create", "rf", "default")
    await run("queue", "create", "cq", "team", "--nominal-quota", f"default:cpu={cpu}", "--admission-check", "look")
    await run("queue", "create", "lq", "lq", "-c", "team")


async def says(run: Run, text: str, *words: str) -> str:
    """The answer to a command, once it has `text` in it."""
    answer = ""

    async def said() -> bool:
        nonlocal answer
        answer = await run(*words)
        return text in answer

    await until(said)
    return answer


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("explain", "job/tran"), 'jobs.batch "tran" not found; did you mean train?'),
        (("explain", "tran"), 'jobs.batch "tran" not found; did you mean train?'),
        (("explain", "job/zzz"), 'jobs.batch "zzz" not found; there is train in namespace default'),
        (("explain", "job/train", "-n", "empty"), "there is one in namespace default: add -n default"),
        (("explain", "job/zzz", "-n", "empty"), "there are no jobs in namespace empty"),
        (("explain", "jbo/train"), "the server does not know a resource type 'jbo'; did you mean job?"),
        (("queue", "create", "lq", "x", "-c", "taem"), "did you mean team?"),
        (
            ("queue", "stop", "nope"),
            "nothing is called nope in namespace default; there are LocalQueues lq; ClusterQueues team",
        ),
        (("queue", "resume", "cq", "taem"), "did you mean team?"),
        (("queue", "delete", "cq/taem"), "did you mean team?"),
        (("workload", "stop", "job-train"), "did you mean job-train-"),
        (("clusters", "describe", "w1"), "there are no multikueueclusters"),
        (
            ("fleet", "describe", "x"),
            "there is no member and no placement called x; there are none at all: is this a hub?",
        ),
        (("fleet", "drain", "x"), "there are no memberclusters"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
async def test_what_is_not_there_is_answered_with_what_is(words: tuple[str, ...], answer: str, tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await set_up(run)
        await embedded.client.create(NAMESPACES, {"metadata": {"name": "empty"}})
        await embedded.client.create(JOBS, job("train", "1"))
        await says(run, "job-train-", "workload", "list")
        assert answer in " ".join((await run(*words, code=1)).split())

    await serve(tmp_path, scenario)


@pytest.mark.parametrize(
    "words", [("explain", "job/"), ("explain", "/train"), ("explain", "a", "b", "c"), ("logs", "job/")]
)
async def test_half_a_name_is_answered_with_how_to_name(words: tuple[str, ...], tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        assert "write KIND/NAME, for example job/train" in await run(*words, code=2)

    await serve(tmp_path, scenario)


async def test_a_queue_needs_no_kind_unless_two_have_its_name(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await set_up(run)
        assert await run("queue", "stop", "lq") == "localqueue.kueue.x-k8s.io/lq stopped\n"
        assert await run("queue", "stop", "team") == "clusterqueue.kueue.x-k8s.io/team stopped\n"
        assert await run("queue", "resume", "lq/lq") == "localqueue.kueue.x-k8s.io/lq resumed\n"
        assert "name: default" in await run("queue", "describe", "default")
        await run("queue", "create", "lq", "team", "-c", "team")
        assert "there is a LocalQueue and a ClusterQueue called team" in await run("queue", "stop", "team", code=2)
        assert "'flavour' is not one of localqueue, clusterqueue" in await run("queue", "stop", "flavour", "x", code=2)

    await serve(tmp_path, scenario)


async def test_a_queue_in_use_is_not_said_to_be_gone(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await run("queue", "create", "rf", "default")
        await run("queue", "create", "cq", "team", "--nominal-quota", "default:cpu=1")
        await run("queue", "create", "lq", "lq", "-c", "team")
        await embedded.client.create(JOBS, job("train", "1"))
        await says(run, "ADMITTED", "workload", "list", "--status", "admitted")
        assert "is in use and will be deleted when it is not" in await run("queue", "delete", "team")
        assert await run("queue", "delete", "lq") == "localqueue.kueue.x-k8s.io/lq deleted\n"

    await serve(tmp_path, scenario)


async def test_a_queue_is_explained_with_its_quota_and_who_waits(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await run("queue", "create", "rf", "default")
        await run("queue", "create", "cq", "team", "--cohort", "all", "--nominal-quota", "default:cpu=1")
        await run("queue", "create", "lq", "lq", "-c", "team")
        await run("queue", "create", "lq", "other", "-c", "team")
        await embedded.client.create(JOBS, job("first", "1"))
        await says(run, "ADMITTED", "workload", "list", "--status", "admitted")
        await embedded.client.create(JOBS, job("second", "1"))
        await says(run, "1 waiting, 1 admitted", "explain", "cq/team")
        told = (await says(run, "1 more needed", "explain", "cq/team")).splitlines()
        assert told[:3] == [
            "ClusterQueue team: active, 1 waiting, 1 admitted",
            "  cohort: all",
            "  strategy: BestEffortFIFO",
        ]
        assert told[3] == "  LocalQueues: default/lq, default/other"
        assert told[5].split() == ["default", "cpu", "1", "1", "0"]
        assert told[-1].split()[:2] == ["0", "default"]
        assert "more needed" in await run("explain", "lq/lq")
        assert "more needed" not in await run("explain", "lq/other")

    await serve(tmp_path, scenario)


async def test_an_unknown_priority_is_the_reason_a_job_is_not_queued(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await set_up(run)
        await embedded.client.create(JOBS, job("train", "1", **{"priority-class": "hihg"}))
        told = await says(run, "hihg", "explain", "job/train")
        assert told.startswith("Job train has no Workload: ")
        assert "Create the WorkloadPriorityClass" in told
        assert "integrations" not in told

    await serve(tmp_path, scenario)


async def test_a_refused_workload_is_the_reason_a_job_is_not_queued(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await set_up(run)
        quota = {"hard": {"count/workloads.kueue.x-k8s.io": "0"}}
        await embedded.client.create(QUOTAS, {"metadata": {"name": "none", "namespace": "default"}, "spec": quota})
        await embedded.client.create(JOBS, job("train", "1"))
        told = await says(run, "Could not create Workload", "explain", "job/train")
        assert told.startswith("Job train has no Workload: Could not create Workload default/job-train-")
        assert "exceeded quota: none" in told

    await serve(tmp_path, scenario)


async def test_only_what_can_have_pods_is_a_job(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await set_up(run)
        assert "ResourceFlavor default is not a job" in await run("explain", "resourceflavor/default", code=1)
        assert "Namespace default is not a job" in await run("explain", "ns/default", code=1)

    await serve(tmp_path, scenario)


async def test_a_workload_is_also_called_by_its_job(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await set_up(run)
        await embedded.client.create(JOBS, job("train", "1"))
        await says(run, "train", "workload", "list")
        assert "stopped" in await run("workload", "stop", "job/train")
        assert "`corral workload resume job-train-" in await says(run, "Deactivated", "explain", "job/train")
        assert "resumed" in await run("workload", "resume", "job/train")
        assert "kind: Workload" in await run("workload", "describe", "job/train")
        assert (await run("workload", "pods", "job/train")).split() == ["NAME", "STATUS", "CLUSTER", "AGE"]
        assert "write KIND/NAME" in await run("workload", "pods", code=2)

    await serve(tmp_path, scenario)


async def test_who_holds_the_quota_and_who_is_before_a_job_are_named(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await run("queue", "create", "rf", "default")
        await run("queue", "create", "cq", "team", "--cohort", "all", "--nominal-quota", "default:cpu=2")
        await run("queue", "create", "lq", "lq", "-c", "team")
        await embedded.client.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
        await run("queue", "create", "lq", "lq", "-c", "team", "-n", "elsewhere")
        other = job("other", "1")
        await embedded.client.create(JOBS, {**other, "metadata": {**other["metadata"], "namespace": "elsewhere"}})
        await embedded.client.create(JOBS, job("first", "1"))
        await says(run, "2 admitted", "explain", "cq/team")
        # Of a higher priority: what is created within one second has no order of its own.
        await embedded.client.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
        second = job("second", "1")
        second["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
        await embedded.client.create(JOBS, second)
        told = await says(run, "1 more needed", "explain", "job/second")
        holders = "  cpu of default: it asks for 1, 0 of 2 is free; "
        assert holders + "Job first has 1, Job other has 1" in told
        assert "  it is the next in ClusterQueue team\n" in told
        await embedded.client.create(JOBS, job("third", "1"))
        await says(run, "  1 workload is before it in ClusterQueue team: Job second\n", "explain", "job/third")
        await embedded.client.create(
            CLUSTER_ROLES, {"metadata": {"name": "user"}, "rules": roles()["kueue-batch-user-role"]}
        )
        alice = await user_with(embedded, tmp_path, "user")
        mine = await run("explain", "job/third", kubeconfig=alice)
        assert holders + "Job first has 1\n" in mine
        assert ": Job second\n" in mine
        assert "Job other" not in mine

    await serve(tmp_path, scenario)


async def test_an_inactive_check_says_why_and_what_is_missing_is_to_be_created(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await set_up(run)
        await embedded.client.create(JOBS, job("train", "1"))
        assert "-> Create AdmissionCheck look." in await says(run, "is not active", "explain", "job/train")
        check = {"metadata": {"name": "look"}, "spec": {"controllerName": "example.com/gate"}}
        made = await embedded.client.create(ADMISSION_CHECKS, check)
        stamp = "2026-01-01T00:00:00Z"
        active = {"type": "Active", "status": "False", "reason": "Broken", "message": "the gate is rusty"}
        status = {"conditions": [{**active, "lastTransitionTime": stamp}]}
        await embedded.client.update(ADMISSION_CHECKS, {**made, "status": status}, subresource="status")
        told = await says(run, "inactive AdmissionCheck(s): look", "explain", "job/train")
        assert "  AdmissionCheck look is not active: the gate is rusty\n" in told
        assert "-> `corral explain admissioncheck/look`" in told

    await serve(tmp_path, scenario)


async def test_a_cluster_without_explanations_is_told_by_its_conditions(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await run("queue", "create", "rf", "default")
        await run("queue", "create", "cq", "team", "--nominal-quota", "default:cpu=1")
        await run("queue", "create", "lq", "lq", "-c", "team")
        await embedded.client.create(JOBS, job("first", "1"))
        await says(run, "ADMITTED", "workload", "list", "--status", "admitted")
        await embedded.client.create(JOBS, job("train", "1"))
        told = await says(run, "more needed", "explain", "job/train")
        assert "it is the next in ClusterQueue team" in told
        assert "has 1" not in told

    await serve(tmp_path, scenario, explanations=False)


async def test_a_user_who_may_only_see_their_queue_is_answered_as_well(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await run("queue", "create", "rf", "default")
        await run("queue", "create", "cq", "team", "--nominal-quota", "default:cpu=1")
        await run("queue", "create", "lq", "lq", "-c", "team")
        await embedded.client.create(JOBS, job("first", "1"))
        await says(run, "ADMITTED", "workload", "list", "--status", "admitted")
        await embedded.client.create(JOBS, job("second", "1"))
        await embedded.client.create(JOBS, job("typo", "1", "ql"))
        await says(run, "1 more needed", "explain", "job/second")
        await says(run, "1 waiting", "explain", "lq/lq")
        rules = roles()["kueue-batch-user-role"]
        await embedded.client.create(CLUSTER_ROLES, {"metadata": {"name": "user"}, "rules": rules})
        alice = await user_with(embedded, tmp_path, "user")
        told = await run("explain", "job/second", kubeconfig=alice)
        assert "1 more needed" in told
        assert "it is the next in ClusterQueue team" in told
        assert "namespace default has the queue lq" in await run("explain", "job/typo", kubeconfig=alice)
        assert "did you mean second?" in await run("explain", "job/secnd", kubeconfig=alice, code=1)
        listed = await run("workload", "list", "--status", "pending", "--for", "job/second", kubeconfig=alice)
        assert listed.splitlines()[1].split()[3:7] == ["lq", "team", "PENDING", "0"]
        assert (await run("queue", "list", "-n", "default")).splitlines()[3].split()[:2] == ["NAME", "CLUSTERQUEUE"]
        queues = await run("queue", "list", kubeconfig=alice)
        assert "clusterqueues.kueue.x-k8s.io is forbidden" in queues
        assert "lq     team" in queues
        queue = await run("explain", "lq/lq", kubeconfig=alice)
        assert "ClusterQueue team is not yours to see" in queue
        assert "0       default     job-second-" in queue
        assert "cannot patch resource" in await run("queue", "stop", "lq", kubeconfig=alice, code=1)

    await serve(tmp_path, scenario)


async def test_a_user_without_rights_is_told_that_and_not_that_nothing_is_there(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await run("queue", "create", "rf", "default")
        await run("queue", "create", "cq", "team", "--nominal-quota", "default:cpu=1")
        await run("queue", "create", "lq", "lq", "-c", "team")
        await embedded.client.create(CLUSTER_ROLES, {"metadata": {"name": "nobody"}, "rules": []})
        alice = await user_with(embedded, tmp_path, "nobody")
        for words in (("queue", "stop", "lq"), ("queue", "delete", "cq/team"), ("workload", "delete", "--all", "-y")):
            said = await run(*words, kubeconfig=alice, code=1)
            assert "forbidden" in said, words
            assert "nothing is called" not in said
        assert "name a workload" not in await run("workload", "delete", "--all", "-y")

    await serve(tmp_path, scenario)


async def test_an_empty_list_says_how_it_is_filled(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        assert "`corral clusters add NAME --worker-context CONTEXT` adds one" in await run("clusters", "list")
        assert "`corral fleet join NAME --member-context CONTEXT` adds one" in await run("fleet", "members")
        assert "Nothing is placed from this cluster." in await run("fleet", "placements")

    await serve(tmp_path, scenario)


@pytest.mark.parametrize("command", ["drain", "remove"])
async def test_the_last_worker_can_be_taken_out_of_its_config_and_put_back(command: str, tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        for name in ("one", "two"):
            await run("clusters", "add", name, "--itself")
        assert "no cluster left" not in await run("clusters", command, "one")
        (config,) = (await embedded.client.list(MULTI_KUEUE_CONFIGS)).items
        assert config["spec"]["clusters"] == ["two"]
        said = await run("clusters", command, "two")
        assert "MultiKueueConfig multikueue has no cluster left" in said
        assert "corral clusters add NAME --config multikueue" in said
        assert (await embedded.client.list(MULTI_KUEUE_CONFIGS)).items == []
        assert "multikueue now has two" in await run("clusters", "add", "two", "--itself")

    await serve(tmp_path, scenario)


async def test_a_check_says_whether_it_works_what_it_lacks_and_who_waits_for_it(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await set_up(run)
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "workers"}
        spec = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
        await embedded.client.create(ADMISSION_CHECKS, {"metadata": {"name": "look"}, "spec": spec})
        missing = await run("explain", "admissioncheck/look")
        assert missing.startswith("AdmissionCheck look: ")
        assert "parameters: MultiKueueConfig workers" in missing
        assert "ClusterQueues that ask it: team" in missing
        assert (
            "-> `corral clusters add NAME --config workers --worker-context CONTEXT` makes MultiKueueConfig workers."
            in missing
        )
        config = {"metadata": {"name": "workers"}, "spec": {"clusters": ["gone"]}}
        await embedded.client.create(MULTI_KUEUE_CONFIGS, config)
        assert "worker gone: there is no MultiKueueCluster of that name" in await run("explain", "admissioncheck/look")

    await serve(tmp_path, scenario)
