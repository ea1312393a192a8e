"""What is kept of finished jobs: the end of logs, within limits, without waiting for a slow worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from corral.client.protocol import ObjectList
from corral.controllers.dispatch.remote_pods.kept_pods import (
    BURST,
    CONTAINER_BYTES,
    POD_BYTES,
    PODS_OF_A_JOB,
    READ_S,
    KeptPods,
)
from corral.core.meta import Key, Obj, labels_of, name_of, owner_references_of
from corral.core.resource import Resource
from corral.core.streams import LogOptions
from corral.jobs.batch_job.kind import JOBS
from corral.runtime.clock import VirtualClock
from corral.runtime.virtual import run_virtual

ORIGIN = {"kueue.x-k8s.io/multikueue-origin": "multikueue"}


def job(name: str, uid: str, **labels: str) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "uid": uid, "labels": labels},
    }


class Worker:
    """A worker as far as keeping logs knows it: one finished job with pods."""

    name = "worker1"

    def __init__(self, name: str = "a", pods: int = 1, text: bytes = b"done\n", delay: float = 0.0) -> None:
        self.client = self
        self.made = job(name, f"there-{name}", **ORIGIN)
        self.jobs: dict[Resource, Any] = {JOBS: None}
        self._pods, self._text, self._delay = pods, text, delay

    def jobs_of(self, workload: Key) -> list[tuple[Resource, Obj]]:
        return [(JOBS, self.made)]

    def job(self, resource: Resource, key: Key) -> Obj | None:
        return self.made

    async def list(self, resource: Resource, namespace: str, labels: str) -> ObjectList:
        await asyncio.sleep(self._delay)
        assert labels == f"batch.kubernetes.io/controller-uid={self.made['metadata']['uid']}"
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name_of(self.made), "controller": True}
        owner["uid"] = self.made["metadata"]["uid"]
        stranger = {**owner, "uid": "stranger", "kind": "Nothing"}
        spec = {"containers": [{"name": "main"}]}
        items = [
            {
                "kind": "Pod",
                "metadata": {
                    "name": f"{name_of(self.made)}-{number:02}",
                    "namespace": namespace,
                    "uid": f"pod-{name_of(self.made)}-{number}",
                    "ownerReferences": [owner if number < self._pods else stranger],
                },
                "spec": spec,
            }
            for number in range(self._pods + 1)
        ]
        return ObjectList(items, "1", "")

    async def raw(self, method: str, path: str) -> Obj:
        return {}

    async def logs(self, name: str, namespace: str, **options: Any) -> AsyncIterator[bytes]:
        assert options["timestamps"]
        for line in self._text.splitlines(keepends=True):
            yield b"2026-11-16T10:00:00.0Z " + line


async def keep(kept: KeptPods, worker: Worker, uid: str = "") -> None:
    name = name_of(worker.made)
    await kept.keep(worker, Key("default", f"job-{name}"), [job(name, uid or f"here-{name}")])  # type: ignore[arg-type]


def kept_pods(limit: int = 64 << 20) -> KeptPods:
    return KeptPods(VirtualClock(), "multikueue", limit)


def test_a_pod_stays_with_its_log_until_its_job_goes() -> None:
    async def main() -> None:
        kept = kept_pods()
        told: list[tuple[Key, bool]] = []
        kept.on_change(lambda key, pod: told.append((key, pod is not None)))
        await keep(kept, Worker())
        ((key, pod),) = kept.all()
        assert key == Key("default", "a-00"), "the stranger's pod with the same labels is not ours"
        assert labels_of(pod)["corral.dev/cluster"] == "worker1"
        assert [owner["uid"] for owner in owner_references_of(pod)] == ["here-a"]
        assert kept.log(pod, "main", LogOptions()) == b"done\n"
        assert kept.log({**pod, "metadata": {**pod["metadata"], "uid": "other"}}, "main", LogOptions()) is None
        kept.forget("here-a")
        assert kept.all() == []
        assert told == [(key, True), (key, False)]

    run_virtual(main)


def test_the_end_of_a_long_log_and_the_first_pods_of_a_large_job_are_kept() -> None:
    async def main() -> None:
        kept = kept_pods()
        await keep(kept, Worker(pods=PODS_OF_A_JOB + 5, text=b"line of a long log\n" * 50_000))
        assert len(list(kept.all())) == PODS_OF_A_JOB
        said = kept.log(next(iter(kept.all()))[1], "main", LogOptions(timestamps=True)) or b""
        assert CONTAINER_BYTES - 100 < len(said) <= CONTAINER_BYTES
        assert said.startswith(b"2026-11-16T10:00:00.0Z line of a long log\n")

    run_virtual(main)


def test_the_oldest_jobs_make_room() -> None:
    async def main() -> None:
        kept = kept_pods(limit=3 * (POD_BYTES + 100))
        for name in "abcde":
            await keep(kept, Worker(name))
        assert [key.name for key, _ in kept.all()] == ["c-00", "d-00", "e-00"]

    run_virtual(main)


def test_a_slow_worker_is_not_waited_for() -> None:
    async def main() -> None:
        kept = kept_pods()
        started = asyncio.get_running_loop().time()
        await keep(kept, Worker(delay=60.0))
        assert asyncio.get_running_loop().time() - started <= READ_S
        assert kept.all() == []

    run_virtual(main)


def test_in_a_rush_jobs_are_let_go_unread_and_later_ones_are_read_again() -> None:
    async def main() -> None:
        kept = kept_pods()
        for number in range(int(BURST) + 50):
            await keep(kept, Worker(f"j{number}"))
        assert len(list(kept.all())) == BURST
        await asyncio.sleep(1)
        await keep(kept, Worker("later"))
        assert list(kept.all())[-1][0].name == "later-00"

    run_virtual(main)


def test_nothing_is_read_when_nothing_may_be_kept() -> None:
    async def main() -> None:
        kept = kept_pods(limit=0)
        await keep(kept, Worker())
        assert kept.all() == []

    run_virtual(main)


def test_what_a_function_returned_is_read_also_in_a_rush() -> None:
    async def main() -> None:
        kept = kept_pods()
        for number in range(int(BURST) + 20):
            await keep(kept, Worker(f"a{number}"))
        assert len(list(kept.all())) == int(BURST)
        awaited = {**job("call", "here-call"), "kind": "Job"}
        awaited["metadata"] = {**awaited["metadata"], "annotations": {"corral.dev/call": "mark"}}
        await kept.keep(Worker("call"), Key("default", "job-call"), [awaited])  # type: ignore[arg-type]
        assert Key("default", "call-00") in dict(kept.all())

    run_virtual(main)
