"""A Job's accounting survives anything: its controller may die between any two writes, pods may end or be deleted at any
time, and still every finished pod is counted exactly once and no pod keeps the tracking finalizer for ever."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.meta import Obj, uid_of
from corral.core.timestamps import format_time
from corral.decide.pods.facts import is_active, phase_of
from corral.jobs.batch_job.failure import NO_BACKOFF, Backoff
from corral.jobs.batch_job.plan import TRACKING, SyncView, assess, finish_of, index_of, is_tracked
from corral.jobs.batch_job.pods import plan_pods
from corral.jobs.batch_job.status import plan_status, settle

START = 1_767_225_600.0
CRASHES = ("nowhere", "after pods", "after naming", "amid releasing", "after releasing")


@dataclass
class World:
    """One Job and its pods, as the API would hold them."""

    job: Obj
    pods: dict[str, Obj] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    now: float = START
    made: int = 0
    backoff: Backoff = NO_BACKOFF

    def make(self, body: Obj) -> None:
        self.made += 1
        uid = f"pod-{self.made}"
        stamp = format_time(self.now)
        metadata = {**body["metadata"], "name": uid, "uid": uid, "creationTimestamp": stamp}
        self.pods[uid] = {"metadata": metadata, "spec": body["spec"], "status": {"phase": "Pending"}}

    def end(self, uid: str, phase: str) -> None:
        pod = self.pods[uid]
        if phase_of(pod) in ("Succeeded", "Failed"):
            return
        state = {"terminated": {"exitCode": 0 if phase == "Succeeded" else 1, "finishedAt": format_time(self.now)}}
        status = {"phase": phase, "containerStatuses": [{"name": "c", "state": state}]}
        self.pods[uid] = {**pod, "status": status}
        self.ended.setdefault(uid, phase)

    def delete(self, uid: str) -> None:
        pod = self.pods[uid]
        if is_tracked(pod):
            self.pods[uid] = {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": format_time(self.now)}}
        else:
            del self.pods[uid]

    def release(self, uid: str) -> None:
        pod = self.pods.get(uid)
        if pod is None:
            return
        metadata = {key: value for key, value in pod["metadata"].items() if key != "finalizers"}
        self.pods[uid] = {**pod, "metadata": metadata}
        if "deletionTimestamp" in metadata:
            del self.pods[uid]

    def write(self, status: Obj) -> None:
        self.job = {**self.job, "status": status}

    def sync(self, crash: str) -> None:
        """One look of the controller, which may die on the way."""
        if finish_of(self.job) is not None:
            for uid in [uid for uid, pod in self.pods.items() if is_tracked(pod)]:
                self.release(uid)
            return None
        view = SyncView(self.job, [self.pods[uid] for uid in sorted(self.pods)], self.now, backoff=self.backoff)
        facts = assess(view)
        plan = plan_pods(view, facts)
        for pod in plan.delete:
            if plan.release_first:
                self.release(uid_of(pod))
            self.delete(uid_of(pod))
        for body in plan.create:
            self.make(body)
        if crash == "after pods":
            return self.forget()
        status = plan_status(view, facts, plan, len(plan.create), plan.delete)
        if status.write:
            self.write(status.status)
            self.backoff = facts.backoff
        if crash == "after naming":
            return self.forget()
        released = [uid_of(pod) for pod in status.release]
        if crash == "amid releasing":
            for uid in released[: len(released) // 2]:
                self.release(uid)
            return self.forget()
        for uid in released:
            self.release(uid)
        if crash == "after releasing":
            return self.forget()
        last = settle(view, status, released)
        if last.write:
            self.write(last.status)
        return None

    def forget(self) -> None:
        """What only the dead controller knew."""
        self.backoff = NO_BACKOFF


def new_job(indexed: bool, parallelism: int, completions: int, limit: int) -> Obj:
    template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}
    spec = {
        "parallelism": parallelism,
        "completions": completions,
        "completionMode": "Indexed" if indexed else "NonIndexed",
        "backoffLimit": limit,
        "template": template,
    }
    return {"metadata": {"name": "j", "namespace": "n", "uid": "job"}, "spec": spec, "status": {}}


happenings = st.lists(
    st.tuples(
        st.sampled_from(CRASHES),
        st.lists(
            st.tuples(st.integers(0, 9), st.sampled_from(("Succeeded", "Succeeded", "Failed", "delete"))), max_size=3
        ),
    ),
    min_size=4,
    max_size=14,
)


@settings(max_examples=100, deadline=None)
@given(st.booleans(), st.integers(1, 4), st.integers(1, 5), st.integers(0, 4), happenings)
def test_every_finished_pod_is_counted_once(
    indexed: bool, parallelism: int, completions: int, limit: int, story: list[tuple[str, list[tuple[int, str]]]]
) -> None:
    world = World(new_job(indexed, parallelism, completions, limit))
    for crash, changes in story:
        world.sync(crash)
        for number, what in changes:
            alive = sorted(uid for uid, pod in world.pods.items() if is_active(pod))
            if alive and what == "delete":
                world.delete(alive[number % len(alive)])
            elif alive:
                world.end(alive[number % len(alive)], what)
        world.now += 700.0  # longer than any pause
    for _ in range(40):
        world.sync("nowhere")
        for uid in sorted(uid for uid, pod in world.pods.items() if is_active(pod)):
            world.end(uid, "Succeeded")
        world.now += 700.0
    status = world.job["status"]
    assert finish_of(world.job) is not None
    assert not any(is_tracked(pod) for pod in world.pods.values())
    assert status["uncountedTerminatedPods"] == {}
    assert status.get("active", 0) == status["terminating"] == 0
    succeeded = [uid for uid, phase in world.ended.items() if phase == "Succeeded"]
    if indexed:
        assert status.get("succeeded", 0) <= completions
    else:
        assert status.get("succeeded", 0) <= len(succeeded)
    if finish_of(world.job)["type"] == "Complete":  # type: ignore[index]
        assert status["succeeded"] == completions or (not indexed and status["succeeded"] >= completions)
        if not indexed:
            assert status["succeeded"] == len(succeeded)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), happenings)
def test_indexes_are_never_run_twice_at_once(
    parallelism: int, completions: int, story: list[tuple[str, list[tuple[int, str]]]]
) -> None:
    world = World(new_job(True, parallelism, completions, 1000))
    for crash, changes in story:
        world.sync(crash)
        active = [pod for pod in world.pods.values() if is_active(pod)]
        assert len({index_of(pod) for pod in active}) == len(active) <= parallelism
        assert all(TRACKING in pod["metadata"]["finalizers"] for pod in active)
        for number, what in changes:
            alive = sorted(uid for uid, pod in world.pods.items() if is_active(pod))
            if alive and what != "delete":
                world.end(alive[number % len(alive)], what)
        world.now += 700.0
