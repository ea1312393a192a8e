"""What `corral explain` says in each state of a Workload: first the one thing that matters."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.meta import Key, Obj
from corral.decide.dispatch.reasons import REFUSED, TOO_LARGE, WorkerAnswer
from corral.decide.queueing.explanation import Explanation as Known
from corral.decide.queueing.explanation import Holder, Shortage
from corral.inspect.explain import Evidence, explain

LOCAL = {"metadata": {"name": "lq"}, "spec": {"clusterQueue": "cq"}}
QUEUE = {"metadata": {"name": "cq"}, "status": {"conditions": [{"type": "Active", "status": "True"}]}}
STOPPED = {
    "metadata": {"name": "cq"},
    "status": {"conditions": [{"type": "Active", "status": "False", "message": "Can't admit"}]},
}
EVIDENCE = Evidence(LOCAL, QUEUE, position=4)


def workload(*entries: tuple[str, str, str, str], spec: Obj | None = None, **status: Any) -> Obj:
    conditions = [{"type": t, "status": s, "reason": r, "message": m} for t, s, r, m in entries]
    return {
        "metadata": {"name": "w"},
        "spec": {"queueName": "lq", **(spec or {})},
        "status": {"conditions": conditions, **status},
    }


def known(**told: Any) -> Known:
    position = told.pop("position", None)
    return Known(Key("default", "w"), "pending", "cq", position, "Pending", "any words", **told)


RESERVED = ("QuotaReserved", "True", "QuotaReserved", "")
ADMITTED = ("Admitted", "True", "Admitted", "")


@pytest.mark.parametrize(
    ("subject", "evidence", "headline"),
    [
        (workload(("Finished", "True", "Succeeded", "all done")), EVIDENCE, "Finished (Succeeded): all done"),
        (workload(spec={"active": False}), EVIDENCE, "Deactivated: somebody cancelled or stopped it"),
        (
            workload(("Evicted", "True", "Deactivated", "The workload is deactivated"), spec={"active": False}),
            EVIDENCE,
            "Deactivated: somebody cancelled or stopped it",
        ),
        (
            workload(
                ("Evicted", "True", "Deactivated", "exceeding the maximum execution time"), spec={"active": False}
            ),
            EVIDENCE,
            "Deactivated: exceeding the maximum execution time",
        ),
        (
            workload(RESERVED, ADMITTED, clusterName="w1", admission={"clusterQueue": "cq"}),
            EVIDENCE,
            "Admitted, pods are starting on cluster w1 with quota of cq.",
        ),
        (
            workload(RESERVED, ADMITTED, ("PodsReady", "True", "", ""), admission={"clusterQueue": "cq"}),
            EVIDENCE,
            "Running on this cluster with quota of cq.",
        ),
        (
            workload(
                RESERVED,
                admission={"clusterQueue": "cq"},
                admissionChecks=[{"name": "mk", "state": "Pending", "message": "w1: full"}],
            ),
            EVIDENCE,
            "Quota is reserved in cq; waiting for admission check mk: w1: full",
        ),
        (workload(("QuotaReserved", "False", "Pending", "1 more needed")), EVIDENCE, "Waiting in lq: 1 more needed"),
        (workload(), Evidence(), "Waiting: LocalQueue lq does not exist."),
        (workload(), Evidence(LOCAL), "Waiting: ClusterQueue cq does not exist."),
        (workload(), Evidence(LOCAL, STOPPED), "Waiting: ClusterQueue cq is not active: Can't admit"),
        (workload(spec={"queueName": ""}), EVIDENCE, "Not queued: it names no queue."),
    ],
)
def test_the_headline_is(subject: Obj, evidence: Evidence, headline: str) -> None:
    assert explain(subject, evidence).headline == headline


def test_a_waiting_workload_knows_its_place() -> None:
    found = explain(workload(("QuotaReserved", "False", "Pending", "full")), EVIDENCE)
    assert found.facts[0] == "4 workloads are before it in ClusterQueue cq"


def test_a_workload_that_was_not_tried_waits_for_those_before_it() -> None:
    assert explain(workload(), EVIDENCE).headline == "Waiting in lq: others are before it"
    assert explain(workload(), Evidence(LOCAL, QUEUE)).headline == "Waiting in lq: it has not been looked at yet"


def test_evidence_does_not_repeat_the_headline() -> None:
    checks = [{"name": "mk", "state": "Pending", "message": "w1: full; w2: full"}]
    events = [{"reason": "WaitingForWorker", "message": "w1: full"}, {"reason": "QuotaReserved", "message": "at last"}]
    found = explain(
        workload(RESERVED, admission={"clusterQueue": "cq"}, admissionChecks=checks), Evidence(events=events)
    )
    assert found.headline.endswith("w1: full; w2: full")
    assert found.facts == ("None QuotaReserved: at last",)


def test_every_worker_has_a_line_of_its_own() -> None:
    message = "w1, w2: request (9) > maximum capacity (8); w3: quota of a; of b"
    subject = workload(
        RESERVED,
        admission={"clusterQueue": "cq"},
        admissionChecks=[{"name": "mk", "state": "Pending", "message": message}],
        nominatedClusterNames=["w1", "w2", "w3", "w4"],
    )
    answers = (
        *(WorkerAnswer(name, "request (9) > maximum capacity (8)", TOO_LARGE) for name in ("w1", "w2")),
        WorkerAnswer("w3", "quota of a; of b"),
        WorkerAnswer("w4", ""),
    )
    events = [{"reason": "WaitingForWorker", "message": message}]
    found = explain(subject, Evidence(events=events, known=known(workers=answers)))
    assert found.headline == "Quota is reserved in cq; waiting for admission check mk: no worker takes it yet."
    assert found.facts == (
        "w1, w2: request (9) > maximum capacity (8)",
        "w3: quota of a; of b",
        "w4: asked, no answer yet",
    )
    assert found.advice == ""


def test_a_misspelt_queue_is_answered_with_the_queues_there_are() -> None:
    def queue(name: str, namespace: str) -> Obj:
        return {"metadata": {"name": name, "namespace": namespace}}

    subject = workload(spec={"queueName": "usr"})
    subject["metadata"]["namespace"] = "team"
    found = explain(subject, Evidence(queues=[queue("user", "team"), queue("usr", "other")]))
    assert found.headline == "Waiting: LocalQueue usr does not exist in namespace team."
    assert found.facts == ("namespace team has the queue user", "a queue of that name is in namespace other")
    assert (
        found.advice
        == "Create the job again with one of them in the label kueue.x-k8s.io/queue-name, or create LocalQueue usr."
    )
    assert explain(subject, Evidence()).facts == ("namespace team has no queue",)


def test_a_stopped_queue_comes_with_the_command_that_resumes_it() -> None:
    held = {"metadata": {"name": "lq", "namespace": "team"}, "spec": {"clusterQueue": "cq", "stopPolicy": "Hold"}}
    found = explain(workload(), Evidence(held, QUEUE))
    assert found.headline == "Waiting: LocalQueue lq is stopped."
    assert found.advice.startswith("`corral queue resume localqueue lq -n team`")
    drained = {**STOPPED, "spec": {"stopPolicy": "HoldAndDrain"}}
    assert explain(workload(), Evidence(LOCAL, drained)).advice.startswith("`corral queue resume clusterqueue cq`")


def test_a_worker_out_of_reach_is_told_of_its_running_job() -> None:
    away = {"type": "Active", "status": "False", "message": "refused", "lastTransitionTime": "noon"}
    subject = workload(RESERVED, ADMITTED, clusterName="w1", admission={"clusterQueue": "cq"})
    found = explain(subject, Evidence(LOCAL, QUEUE, worker={"status": {"conditions": [away]}}))
    assert found.facts == ("cluster w1 cannot be reached since noon: refused",)
    assert "workerLostTimeout" in found.advice
    assert not explain(subject, Evidence(LOCAL, QUEUE, worker={"status": {}})).advice


def test_preemptors_are_called_by_the_names_of_their_jobs() -> None:
    why = "Preempted to accommodate a workload (UID: u1, JobUID: j1) due to priority"
    subject = workload(("QuotaReserved", "False", "Pending", "full"), ("Evicted", "True", "Preempted", why))
    events = [{"reason": "Preempted", "message": f"{why}; more"}, {"reason": "Other", "message": "by (UID: u2)"}]
    found = explain(subject, Evidence(LOCAL, QUEUE, events=events, jobs={"u1": "Job train"}))
    named = "Preempted to accommodate a workload (Job train) due to priority"
    assert found.facts == (f"evicted before: {named}", "None Other: by (UID: u2)", f"None Preempted: {named}; more")


def test_a_job_without_managed_by_has_to_be_created_again() -> None:
    why = 'The owner is not managed by Kueue: Expecting spec.managedBy to be "kueue.x-k8s.io/multikueue" not ""'
    found = explain(workload(("Evicted", "True", "Deactivated", why), spec={"active": False}), EVIDENCE)
    assert "create it again with the managedBy named above" in found.advice
    assert "with `corral controllers run` the manifest has to" in found.advice  # nothing there sets it


TOO_LARGE_ANSWER = WorkerAnswer("w1", "can never give so much cpu", TOO_LARGE)
REFUSAL = WorkerAnswer("w1", "refuses the TrainJob: whatever it says", REFUSED, ("spec.runtimeRef",))
FULL = WorkerAnswer("w2", "insufficient unused quota for cpu in flavor f, 1 more needed")


@pytest.mark.parametrize(
    ("found", "advice"),
    [
        pytest.param(known(detail="ExceedsMaxQuota"), "ask for less", id="more than the queue can ever have"),
        pytest.param(
            known(detail="NoMatchingFlavor", unavailable=("nvidia.com/gpu",)),
            "no quota for nvidia.com/gpu: add it to a resource group, or do not ask for it. A fleet of `corral up` has what "
            "the machine has, and what `corral up --gpu nvidia.com/gpu=COUNT` says.",
            id="a resource the queue does not have",
        ),
        pytest.param(known(detail="NamespaceNotSelected"), "open to this namespace", id="not for this namespace"),
        pytest.param(known(workers=(TOO_LARGE_ANSWER,)), "more than there can ever be", id="too large for all"),
        pytest.param(known(workers=(TOO_LARGE_ANSWER, FULL)), "", id="another worker may take it"),
        pytest.param(known(workers=(TOO_LARGE_ANSWER, WorkerAnswer("w2", ""))), "", id="another worker may be asked"),
        pytest.param(known(detail="WaitingForQuota"), "", id="waiting cures it"),
    ],
)
def test_what_waiting_does_not_cure_comes_with_advice_whatever_the_message_is(found: Known, advice: str) -> None:
    subject = workload(("QuotaReserved", "False", "Pending", "any words"))
    told = explain(subject, Evidence(LOCAL, QUEUE, known=found)).advice
    assert advice in told
    assert bool(advice) == bool(told)


@pytest.mark.parametrize(
    ("answers", "advice"),
    [
        pytest.param((REFUSAL,), "Create the runtime on every worker", id="a runtime is missing"),
        pytest.param((REFUSAL, FULL), "", id="another worker may take it"),
        pytest.param((TOO_LARGE_ANSWER,), "more than there can ever be", id="too large"),
    ],
)
def test_what_all_workers_refuse_comes_with_advice(answers: tuple[WorkerAnswer, ...], advice: str) -> None:
    checks = [{"name": "mk", "state": "Pending", "message": "any words"}]
    subject = workload(RESERVED, admission={"clusterQueue": "cq"}, admissionChecks=checks)
    told = explain(subject, Evidence(LOCAL, QUEUE, known=known(workers=answers))).advice
    assert advice in told
    assert bool(advice) == bool(told)


def test_without_the_scheduler_a_granular_reason_is_enough_for_advice() -> None:
    subject = workload(("QuotaReserved", "False", "ExceedsMaxQuota", "any words"))
    assert "ask for less" in explain(subject, EVIDENCE).advice


def test_who_holds_the_quota_and_who_is_before_it_are_named() -> None:
    short = Shortage("f", "cpu", "4", "1", "8", (Holder(Key("a", "big"), "5"), Holder(Key("b", "small"), "2")))
    found = known(shortages=(short,), ahead=(Key("a", "first"),), position=1)
    evidence = Evidence(LOCAL, QUEUE, 1, known=found, owners={Key("a", "big"): "Job train"})
    assert explain(workload(("QuotaReserved", "False", "Pending", "full")), evidence).facts == (
        "1 workload is before it in ClusterQueue cq: Workload a/first",
        "cpu of f: it asks for 4, 1 of 8 is free; Job train has 5, Workload b/small has 2",
    )


def test_of_many_before_it_the_nearest_are_named() -> None:
    found = known(ahead=tuple(Key("a", f"w{number}") for number in range(10)), position=30)
    (place,) = explain(workload(), Evidence(LOCAL, QUEUE, 30, known=found)).facts
    assert place.endswith(": … Workload a/w5, Workload a/w6, Workload a/w7, Workload a/w8, Workload a/w9")


def test_more_than_any_worker_has_is_said_while_the_manager_is_busy() -> None:
    subject = workload(("QuotaReserved", "False", "Pending", "insufficient unused quota for cpu, 8 more needed"))
    found = explain(subject, Evidence(LOCAL, QUEUE, known=known(workers=(TOO_LARGE_ANSWER,))))
    assert found.headline.startswith("Waiting in lq: no worker can ever take it; ")
    assert "w1: can never give so much cpu" in found.facts


def test_a_running_job_has_its_pods_its_resources_and_its_time() -> None:
    entry = {"name": "main", "count": 2, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "4"}}
    subject = workload(RESERVED, ADMITTED, admission={"clusterQueue": "cq", "podSetAssignments": [entry]})
    subject["status"]["conditions"][1]["lastTransitionTime"] = "noon"
    assert explain(subject, EVIDENCE).facts == ("pod set main, 2 pods: cpu 4 from f", "admitted since noon")


def inactive(message: str) -> Obj:
    active = {"type": "Active", "status": "False", "message": message}
    return {"metadata": {"name": "cq"}, "status": {"conditions": [active]}}


@pytest.mark.parametrize("kind", ["ResourceFlavor", "AdmissionCheck"])
def test_what_a_queue_refers_to_in_vain_is_to_be_created(kind: str) -> None:
    evidence = Evidence(LOCAL, inactive("any words"), missing={kind: ["a", "b"]})
    assert explain(workload(), evidence).advice == f"Create {kind} a,b."


def test_an_inactive_check_says_why() -> None:
    active = {"type": "Active", "status": "False", "message": "clusters w1 are not active"}
    check = {"metadata": {"name": "multikueue"}, "status": {"conditions": [active]}}
    found = explain(workload(), Evidence(LOCAL, inactive("references inactive AdmissionCheck(s)"), checks=[check]))
    assert found.facts == ("AdmissionCheck multikueue is not active: clusters w1 are not active",)
    assert "admissioncheck/multikueue" in found.advice


def test_the_eviction_is_told_once() -> None:
    why = "Evicted due to a check"
    found = explain(workload(("QuotaReserved", "False", "Pending", why), ("Evicted", "True", "", why)), EVIDENCE)
    assert not any("evicted before" in fact for fact in found.facts)


def test_who_was_set_aside_by_a_controller_learns_why() -> None:
    told = {"type": "SetAside", "status": "True", "message": "workload took 2 seconds of computing at a time"}
    subject = {"metadata": {"name": "w"}, "spec": {"queueName": "lq"}, "status": {"conditions": [told]}}
    assert "set aside: workload took 2 seconds of computing at a time" in explain(subject, Evidence()).facts
    told["status"] = "False"
    assert not any("set aside" in fact for fact in explain(subject, Evidence()).facts)
