"""What somebody who waits for jobs is told meanwhile, each thing once."""

from __future__ import annotations

from typing import Any

from corral.client.sync import SyncClient
from corral.core.errors import NotFound
from corral.core.meta import Obj, name_of
from corral.core.resource import Resource
from corral.inspect.concerns import FIRST_LOOK_S, LAST_LOOK_S, LASTS_S, LOOK_S, Attention, Concerns
from corral.jobs.batch_job.kind import JOBS

PULL = {"name": "main", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
BACK_OFF = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "back-off 10s"}}}
EXIT_3 = {"name": "main", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}
RUNS = {"name": "main", "state": {"running": {}}}
CREATING = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
MOUNT = {"type": "Warning", "reason": "FailedMount", "message": "no volume"}


def pod(name: str, phase: str, container: Obj, job: str = "train") -> Obj:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job}
    return {
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [owner]},
        "spec": {"nodeName": "n1"},
        "status": {"phase": phase, "containerStatuses": [container]},
    }


def workload(job: str, *, admitted: bool) -> Obj:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job}
    condition = {"type": "Admitted", "status": str(admitted), "reason": "x", "message": ""}
    metadata = {"name": f"w-{job}", "namespace": "default", "ownerReferences": [owner]}
    return {"kind": "Workload", "metadata": metadata, "spec": {}, "status": {"conditions": [condition]}}


class Cluster:
    """Answers as an API that holds these pods, Workloads and events, and counts what it is asked."""

    def __init__(self, pods: list[Obj], workloads: list[Obj] | None = None, **events: Obj) -> None:
        self.pods, self.workloads, self.events, self.asked = pods, workloads or [], events, 0

    def list(self, resource: Resource, namespace: str = "", *, fields: str = "", **_: Any) -> Obj:
        self.asked += 1
        if resource.kind == "Event":
            about = fields.partition("involvedObject.name=")[2].partition(",")[0]
            return {"items": [self.events[about]] if about in self.events else []}
        return {"items": {"Pod": self.pods, "Workload": self.workloads}.get(resource.kind, [])}

    def get(self, resource: Resource, name: str, namespace: str = "") -> Obj:
        raise NotFound(name)

    def call(self, *_: Any, **__: Any) -> Obj:
        return {}


def asked(cluster: Cluster) -> SyncClient:
    found: Any = cluster
    return found


def test_a_trouble_is_told_once_it_has_lasted_and_not_again_in_other_words() -> None:
    concerns = Concerns()
    assert concerns.of_pods([pod("p", "Pending", PULL)], 0) == []
    assert concerns.of_pods([pod("p", "Pending", PULL)], LASTS_S) == [
        "pod p, container main: ErrImagePull: no such image"
    ]
    assert concerns.of_pods([pod("p", "Pending", BACK_OFF)], 9) == []
    assert concerns.of_pods([pod("p", "Running", EXIT_3), pod("q", "Pending", CREATING)], 10) == []
    assert concerns.of_pods([pod("p", "Running", EXIT_3), pod("q", "Pending", CREATING)], 11) != []


def test_what_is_gone_at_the_next_moment_is_not_told() -> None:
    concerns = Concerns()
    concerns.of_pods([pod("p", "Pending", PULL)], 0)
    assert concerns.of_pods([pod("p", "Running", RUNS)], LASTS_S) == []
    assert concerns.of_pods([pod("p", "Pending", PULL)], LASTS_S) == []


def test_the_same_of_many_pods_is_one_line() -> None:
    concerns, pods = Concerns(), [pod(name, "Pending", PULL) for name in ("a", "b", "c")]
    concerns.of_pods(pods, 0)
    (told,) = concerns.of_pods(pods, LASTS_S)
    assert told == "pod a, container main: ErrImagePull: no such image (and 2 more like it)"


def test_a_failure_is_told_when_the_job_goes_on_without_it_and_left_to_the_ending_where_it_does_not() -> None:
    concerns, failed = Concerns(), pod("p", "Failed", EXIT_3)
    concerns.of_pods([failed], 0)
    assert concerns.of_pods([failed], 50) == []
    assert concerns.of_pods([failed, pod("q", "Running", RUNS)], 60) == ["pod p, container main: Error, exit code 3"]


def test_a_failure_is_told_also_when_whoever_came_after_it_was_never_seen_running() -> None:
    concerns, first = Concerns(), pod("p", "Failed", EXIT_3)
    concerns.of_pods([first], 0)
    assert concerns.of_pods([first, pod("q", "Failed", EXIT_3)], 10) == [
        "pod p, container main: Error, exit code 3 (and 1 more like it)"
    ]


def test_pods_that_fail_one_after_the_other_are_left_to_the_ending() -> None:
    concerns = Concerns()
    concerns.of_pods([pod("p", "Failed", EXIT_3), pod("q", "Failed", RUNS)], 0)
    assert concerns.of_pods([pod("p", "Failed", EXIT_3), pod("q", "Failed", EXIT_3)], 10) == []


def test_a_failure_is_told_also_where_the_failed_pod_was_replaced() -> None:
    concerns = Concerns()
    concerns.of_pods([pod("p", "Failed", EXIT_3)], 0)
    assert concerns.of_pods([pod("q", "Running", RUNS)], 9) == ["pod p, container main: Error, exit code 3"]


def test_events_are_asked_for_where_a_pod_does_not_start_and_does_not_say_why() -> None:
    cluster, concerns = Cluster([], p=MOUNT), Concerns()
    job, admitted, held = (
        {"metadata": {"name": "train"}},
        workload("train", admitted=True),
        pod("p", "Pending", CREATING),
    )
    for now in (0.0, LOOK_S / 2):
        assert concerns.of_job(asked(cluster), JOBS, job, admitted, [held], now) == []
    assert not cluster.asked, "most pods start by themselves"
    assert concerns.of_job(asked(cluster), JOBS, job, admitted, [held], LOOK_S) == []
    told = concerns.of_job(asked(cluster), JOBS, job, admitted, [held], LOOK_S + LASTS_S)
    assert told == ["pod p: FailedMount: no volume"]


def test_pods_that_are_not_made_are_told_by_the_events_of_their_job() -> None:
    refused = {"type": "Warning", "reason": "FailedCreate", "message": "exceeded quota"}
    cluster, concerns = Cluster([], train=refused), Concerns()
    job, admitted = {"metadata": {"name": "train"}}, workload("train", admitted=True)
    told = [concerns.of_job(asked(cluster), JOBS, job, admitted, [], now) for now in (0, LOOK_S, LOOK_S + LASTS_S)]
    assert told == [[], [], ["Job train: FailedCreate: exceeded quota"]]


def test_many_jobs_are_looked_at_together_and_less_and_less_often() -> None:
    pods = [pod(f"p-{job}", "Pending", PULL, job) for job in ("a", "b", "foreign")]
    cluster = Cluster(pods, [workload(job, admitted=True) for job in ("a", "b")])
    attention = Attention([(JOBS, "default", "a"), (JOBS, "default", "b")], 0)
    assert attention.look(asked(cluster), FIRST_LOOK_S / 2) == []
    assert not cluster.asked
    now, told, before = 0.0, [], cluster.asked
    for _ in range(30):
        now += attention.pause
        told += attention.look(asked(cluster), now)
    assert told == ["pod p-a, container main: ErrImagePull: no such image (and 1 more like it)"]
    assert attention.pause == LAST_LOOK_S
    assert (cluster.asked - before) / 30 <= 3, "a list of each kind, however many jobs there are"


def test_a_job_that_is_waited_for_no_more_is_not_looked_at() -> None:
    cluster = Cluster([pod("p", "Pending", PULL, "a")], [workload("a", admitted=True)])
    attention = Attention([(JOBS, "default", "a")], 0)
    attention.drop(JOBS, "default", "a")
    assert attention.look(asked(cluster), 100) == []
    assert not cluster.asked
    assert name_of(cluster.pods[0]) == "p"
