"""Random faults on a simulated fleet, from a seed: what goes wrong when, and what must hold all the same.

`run_with_faults` makes a fleet, submits jobs and lets a plan of faults loose on it. While that goes on it keeps looking:
no job runs on two clusters outside the lost-worker window, and no quota is exceeded. Then everything is healed, and when
the fleet has come to rest every job has ended, the manager says so, and nothing of ours is left on any worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from corral.core import conditions
from corral.core.errors import ApiError, Conflict, NotFound
from corral.core.meta import Obj, key_of, labels_of, name_of, namespace_of, spec_of, status_of, uid_of, with_metadata
from corral.core.quantity import milli
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.batch_job.simulated import batch_job
from corral.jobs.framework.simulated import SimulatedKind
from corral.kinds.kubernetes.core.kinds import PODS, SECRETS
from corral.kinds.kueue import CLUSTER_QUEUES, MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS, WORKLOADS, names
from corral.runtime.random import Random
from corral.runtime.virtual import run_virtual
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import CONFIG, SimulatedFleet, kubeconfig_data, make_queue
from corral.simulate.jobs import has_ended, job_of, simulated_kinds
from corral.store.stored import Event

WINDOW_S = 300.0
"""How long faults happen."""
LOOK_S = 1.0
GRACE_S = 12.0
"""How long the manager may take to notice a lost or returned worker and to act on it."""
REST_S = 3000.0
"""How long a healed fleet may take to come to rest; the longest reconnect pause is 320 s."""
LOST_S = 15.0
MAX_LATENCY_S = 0.1


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong at `at` and is over after `seconds`."""

    at: float
    kind: str
    cluster: str
    seconds: float


LINK_FAULTS: dict[str, dict[str, Any]] = {
    "partition": {"cut": True},
    "hang": {"hung": True},
    "slow link": {"delay": 2.0},
    "lost replies": {"lose_replies": True},
    "lost requests": {"lose_requests": True},
    "lost events": {"lose_events": True},
    "expired credentials": {"refused": True},
}
WORKER_FAULTS = ("crash", "crash without disk")
MANAGER_FAULTS = ("manager crash", "manager crash in the middle")
HAND_FAULTS = (
    "delete copy",
    "delete remote job",
    "delete workload",
    "delete pod",
    "rotate credentials",
    "deactivate",
    "take out of the config",
    "local load",
)
KINDS = (*LINK_FAULTS, *WORKER_FAULTS, *MANAGER_FAULTS, *HAND_FAULTS)
MEMBERSHIP_FAULTS = ("remove the worker", "delete the cluster")
"""An operator removes a worker as `corral clusters remove` does, or deletes its MultiKueueCluster alone; both come back."""


def plan_faults(random: Random, workers: list[str], count: int, kinds: tuple[str, ...] = KINDS) -> list[Fault]:
    """`count` faults in the order they begin."""
    faults = [
        Fault(
            random.uniform(5.0, WINDOW_S),
            random.choice(kinds),
            random.choice(workers),
            random.uniform(0.5, random.choice([3.0, 20.0, 100.0])),
        )
        for _ in range(count)
    ]
    return sorted(faults, key=lambda fault: fault.at)


@dataclass
class FaultLog:
    """What happened in one run, for whoever has to understand a failure."""

    seed: int
    lines: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.lines.append(f"{asyncio.get_running_loop().time():9.3f} {text}")

    def breach(self, text: str) -> None:
        self.note(f"BROKEN: {text}")
        self.broken.append(text)

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}: {len(self.broken)} broken", *self.lines])


def run_with_faults(
    seed: int, *, max_jobs: int = 15, kinds: tuple[str, ...] = KINDS, configuration: Obj | None = None
) -> FaultLog:
    """One seeded run; `broken` of the story is empty when everything held."""
    return run_virtual(lambda: _Run(seed, max_jobs, kinds, configuration or {}).play(), seed=seed)


class _Run:
    def __init__(self, seed: int, max_jobs: int, kinds: tuple[str, ...], configuration: Obj) -> None:
        self.random = Random(f"faults-{seed}")
        self.story = FaultLog(seed)
        self.workers = [f"worker{number + 1}" for number in range(self.random.integer(2, 5))]
        kinds_ = [self._kind() for _ in range(self.random.integer(5, max_jobs))]
        self.jobs = {f"j{number}": kind for number, kind in enumerate(kinds_)}
        self.plan = plan_faults(self.random, self.workers, self.random.integer(1, 8), kinds)
        dispatcher = self.random.choice(["all-at-once", "incremental", "late-binding"])
        names_ = {"late-binding": "corral.dev/late-binding"}
        multikueue = {
            "workerLostTimeout": f"{LOST_S:.0f}s",
            "gcInterval": "20s",
            "dispatcherName": names_.get(dispatcher, f"kueue.x-k8s.io/multikueue-dispatcher-{dispatcher}"),
            **(configuration.get("multiKueue") or {}),
        }
        skews = {name: self.random.uniform(-60.0, 60.0) for name in self.workers if self.random.uniform(0, 1) < 0.3}
        self.fleet = SimulatedFleet(
            self.workers,
            seed=seed,
            skews=skews,
            latency=partial(self.random.fork("latency").uniform, 0.001, MAX_LATENCY_S),
            configuration={
                "integrations": {"frameworks": [kind.framework for kind in simulated_kinds()]},
                **configuration,
                "multiKueue": multikueue,
            },
        )
        self.fencing = bool((configuration.get("corral") or {}).get("fencing"))
        self.manager_up = True
        self.manager_back = asyncio.Event()
        self.manager_back.set()
        self.apart_since: dict[str, float] = {}
        self.given_up: dict[str, float] = {}
        """When each worker was last out of the manager's reach for long enough to be given up."""
        self.unfenced: dict[str, float] = {}
        """When each worker last came back after its control plane was down."""
        self.running: dict[str, dict[str, str]] = {}
        """On each worker, the pods that run, by uid, and the jobs they belong to."""
        self.bystanders: dict[str, str] = {}
        self.lost_disk: set[str] = set()
        self.removed: set[str] = set()
        """Workers that somebody has removed and not added again yet."""
        self.local_jobs = 0
        self.tasks: list[asyncio.Task[None]] = []
        self.story.lines.append(
            f"dispatcher {dispatcher}, workers {self.workers}, {len(self.jobs)} jobs, skews {skews}"
        )

    def _kind(self) -> SimulatedKind:
        return self.random.choice([*simulated_kinds()[:1] * 2, *simulated_kinds()])

    async def play(self) -> FaultLog:
        async with self.fleet:
            await self.fleet.introduce()
            await self.fleet.set_up_queues(manager_cpu=str(4 * len(self.workers)), worker_cpu="4")
            for name in self.workers:
                made = await self.fleet.workers[name].client.create(JOBS, _unqueued("bystander"))
                self.bystanders[name] = uid_of(made)
            await asyncio.sleep(1)
            looking = asyncio.ensure_future(self._look())
            for name in self.workers:
                self._watch_pods(name)
            self.tasks = [asyncio.ensure_future(self._submit()), *self._faults()]
            await asyncio.gather(*self.tasks)
            await self._heal()
            await self._come_to_rest()
            looking.cancel()
            await self._judge()
        return self.story

    # What happens

    async def _submit(self) -> None:
        for name, kind in self.jobs.items():
            await asyncio.sleep(self.random.uniform(0.0, 8.0))
            await self.manager_back.wait()
            made = kind.make(name, self.random.integer(1, 3), self._seconds())
            await self.fleet.manager.client.create(kind.resource, made)

    def _seconds(self) -> int:
        return self.random.choice([2, 20, 60, 120])

    def _faults(self) -> list[asyncio.Task[None]]:
        return [asyncio.ensure_future(self._cause(fault)) for fault in self.plan]

    async def _cause(self, fault: Fault) -> None:
        await asyncio.sleep(fault.at)
        self.story.note(f"{fault.kind} at {fault.cluster} for {fault.seconds:.1f} s")
        if fault.kind in LINK_FAULTS:
            link = self.fleet.links[fault.cluster]
            link.set(**LINK_FAULTS[fault.kind])
            await asyncio.sleep(fault.seconds)
            link.set()
            return
        actions: dict[str, Callable[[Fault], Coroutine[Any, Any, None]]] = {
            "crash": self._crash,
            "crash without disk": self._crash,
            "manager crash": self._crash_manager,
            "manager crash in the middle": self._crash_manager_in_the_middle,
            "delete copy": lambda f: self._delete(self.fleet.workers[f.cluster], WORKLOADS),
            "delete remote job": lambda f: self._delete(self.fleet.workers[f.cluster], self._kind().resource),
            "delete workload": lambda f: self._delete(self.fleet.manager, WORKLOADS),
            "delete pod": lambda f: self._delete(self.fleet.workers[f.cluster], PODS),
            "rotate credentials": self._rotate,
            "deactivate": self._deactivate,
            "take out of the config": self._take_out,
            "remove the worker": self._remove,
            "delete the cluster": self._remove,
            "local load": self._load,
        }
        await actions[fault.kind](fault)

    async def _crash(self, fault: Fault) -> None:
        name = fault.cluster
        if name in self.fleet.down:
            return
        worker, lose_disk = self.fleet.workers[name], fault.kind == "crash without disk"
        self.fleet.down.add(name)
        self.fleet.links[name].break_streams()
        await worker.crash(lose_disk=lose_disk)
        await asyncio.sleep(fault.seconds)
        await worker.start()
        if lose_disk:
            self.lost_disk.add(name)
            await make_queue(worker, "4")
            self._watch_pods(name)
        self.fleet.down.discard(name)
        self.unfenced[name] = self._now()

    async def _crash_manager(self, fault: Fault) -> None:
        if not self.manager_up:
            return
        self.manager_up = False
        self.manager_back.clear()
        await self.fleet.manager.crash()
        await asyncio.sleep(fault.seconds)
        await self.fleet.manager.start()
        self.manager_up = True
        self.manager_back.set()

    async def _crash_manager_in_the_middle(self, fault: Fault) -> None:
        """Crash at the n-th thing the manager writes or asks of a worker from now on, whatever that is."""
        left, reached = self.random.integer(1, 40), asyncio.Event()

        def count(*_: object) -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                reached.set()

        self.fleet.manager.store.observe(count)
        for link in self.fleet.links.values():
            link.on_call = count
        try:
            async with asyncio.timeout(30.0):
                await reached.wait()
        except TimeoutError:
            return  # nothing was going on
        await self._crash_manager(fault)

    async def _deactivate(self, fault: Fault) -> None:
        """Somebody stops a job for a while."""
        found = [] if not self.manager_up else (await self.fleet.manager.client.list(WORKLOADS)).items
        waiting = [obj for obj in found if not conditions.is_true(obj, names.FINISHED)]
        if not waiting:
            return
        key = key_of(self.random.choice(waiting))
        for active in (False, True):
            await self.manager_back.wait()
            try:
                patch = {"spec": {"active": active}}
                await self.fleet.manager.client.patch(WORKLOADS, key.name, key.namespace, patch)
            except (NotFound, Conflict):
                return
            await asyncio.sleep(fault.seconds)

    async def _take_out(self, fault: Fault) -> None:
        """Somebody takes a worker out of the config and puts it back later."""
        for clusters in ([name for name in self.workers if name != fault.cluster], self.workers):
            await self._configure(clusters)
            await asyncio.sleep(fault.seconds)

    async def _configure(self, clusters: list[str]) -> None:
        await self.manager_back.wait()
        await self.fleet.manager.client.patch(MULTI_KUEUE_CONFIGS, CONFIG, "", {"spec": {"clusters": clusters}})

    async def _remove(self, fault: Fault) -> None:
        """Somebody removes a worker and adds it again later."""
        name = fault.cluster
        if name in self.removed:
            return
        self.removed.add(name)
        is_orderly = fault.kind == "remove the worker"
        if is_orderly:
            await self._configure([worker for worker in self.workers if worker != name])
        await self.manager_back.wait()
        await self.fleet.manager.client.delete(MULTI_KUEUE_CLUSTERS, name)
        await self.fleet.manager.client.delete(SECRETS, f"{name}-secret", "kueue-system")
        await asyncio.sleep(fault.seconds)
        await self.manager_back.wait()
        await self.fleet.introduce_worker(name)
        self.removed.discard(name)
        if is_orderly:
            await self._configure(self.workers)

    async def _load(self, fault: Fault) -> None:
        """A worker's own users want the same quota at the same moment."""
        if fault.cluster in self.fleet.down:
            return
        self.local_jobs += 1
        made = batch_job(f"local{self.local_jobs}", self.random.integer(1, 4), int(fault.seconds) + 1)
        try:
            await self.fleet.workers[fault.cluster].client.create(JOBS, made)
        except NotFound:
            return  # its namespace went with its disk

    async def _delete(self, cluster: SimulatedCluster, resource: Any) -> None:
        """Somebody deletes one of our objects by hand."""
        if cluster.name in self.fleet.down or (cluster is self.fleet.manager and not self.manager_up):
            return
        listed = (await cluster.client.list(resource)).items
        found = [obj for obj in listed if name_of(obj) != "bystander" and job_of(obj) != "bystander"]
        if not found:
            return
        chosen = self.random.choice(found)
        self.story.note(f"deleted {resource.kind} {name_of(chosen)} at {cluster.name}")
        try:
            await cluster.client.delete(resource, name_of(chosen), namespace_of(chosen), propagation="Background")
        except (NotFound, Conflict):
            return

    async def _rotate(self, fault: Fault) -> None:
        if not self.manager_up:
            return
        data = {"kubeconfig": kubeconfig_data(fault.cluster, token=f"token-{fault.at:.0f}")}
        try:
            await self.fleet.manager.client.patch(SECRETS, f"{fault.cluster}-secret", "kueue-system", {"data": data})
        except NotFound:
            return  # the worker is removed, its credentials with it

    async def _heal(self) -> None:
        for link in self.fleet.links.values():
            link.set()
        self.story.note("healed")

    async def _come_to_rest(self) -> None:
        waited = 0.0
        while waited < REST_S:
            await asyncio.sleep(20.0)
            waited += 20.0
            if await self._all_ended() and not await self._left_over():
                return

    # What must hold at all times

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self._note_apart()
            try:
                await self._check_quota()
            except ApiError:
                continue  # a cluster went down under our eyes

    def _note_apart(self) -> None:
        """Remember which workers have been out of the manager's hands for so long that it gives them up."""
        for name in self.workers:
            remote = self.fleet.manager.remote(name) if self.manager_up else None
            if remote is None or not remote.connected or name in self.fleet.down or self.fleet.links[name].is_faulty:
                since = self.apart_since.setdefault(name, self._now())
                if self._now() - since >= LOST_S - LOOK_S:
                    self.given_up[name] = self._now()
            else:
                self.apart_since.pop(name, None)

    def _watch_pods(self, cluster: str) -> None:
        """See every state of every pod on a worker as it comes."""
        self.running[cluster] = {}
        self.fleet.workers[cluster].store.observe(partial(self._pod_changed, cluster))

    def _pod_changed(self, cluster: str, event: Event) -> None:
        if event.stored.key.resource != PODS.group_resource:
            return
        pod, running = event.stored.obj, self.running[cluster]
        job = job_of(pod)
        if event.type == "DELETED" or status_of(pod).get("phase") != "Running":
            running.pop(uid_of(pod), None)
        elif job in self.jobs and uid_of(pod) not in running:
            running[uid_of(pod)] = job
            clusters = sorted(
                name for name, held in self.running.items() if job in held.values() and self._counts(name)
            )
            if len(clusters) > 1 and (self.fencing or not self._in_window(clusters)):
                self.story.breach(f"job {job} runs on {clusters} at once")

    def _counts(self, cluster: str) -> bool:
        """Whether what runs on a worker is in anybody's hands. Nothing can stop pods while its control plane is down; with
        fencing it does so as soon as it is back."""
        is_back = not self.fencing or self._now() - self.unfenced.get(cluster, -1e9) > GRACE_S
        return cluster not in self.fleet.down and is_back

    def _in_window(self, clusters: list[str]) -> bool:
        """Whether all but one of these workers are given up, or just came back from it."""
        within = [name for name in clusters if self._now() - self.given_up.get(name, -1e9) > GRACE_S]
        return len(within) <= 1

    async def _check_quota(self) -> None:
        clusters = [worker for name, worker in self.fleet.workers.items() if name not in self.fleet.down]
        for cluster in [*clusters, *([self.fleet.manager] if self.manager_up else [])]:
            await _check_quota(cluster, self.story)

    # What must hold at the end

    async def _all_ended(self) -> bool:
        held = await self._held()
        return all(name in held and has_ended(kind, held[name]) for name, kind in self.jobs.items())

    async def _held(self) -> dict[str, Obj]:
        """The jobs on the manager by name, whatever their kind."""
        client = self.fleet.manager.client
        return {name_of(job): job for kind in simulated_kinds() for job in (await client.list(kind.resource)).items}

    async def _left_over(self) -> list[str]:
        found = []
        for name, worker in self.fleet.workers.items():
            for resource in (WORKLOADS, *(kind.resource for kind in simulated_kinds())):
                for obj in (await worker.client.list(resource)).items:
                    if names.MULTIKUEUE_ORIGIN in labels_of(obj):
                        found.append(f"{resource.kind} {name_of(obj)} on {name}")
        return found

    async def _judge(self) -> None:
        client = self.fleet.manager.client
        held = await self._held()
        for name, kind in self.jobs.items():
            if name not in held:
                self.story.breach(f"job {name} is lost")
            elif not has_ended(kind, held[name]):
                self.story.breach(f"{kind.resource.kind} {name} has not ended: {status_of(held[name])}")
            elif kind.resource == JOBS and status_of(held[name]).get("succeeded") != 1:
                self.story.breach(f"job {name} is not what it was on its worker: {status_of(held[name])}")
        for workload in (await client.list(WORKLOADS)).items:
            if not conditions.is_true(workload, names.FINISHED):
                self.story.breach(f"workload {key_of(workload)} has not ended: {status_of(workload)}")
        for left in await self._left_over():
            self.story.breach(f"left behind: {left}")
        for name, worker in self.fleet.workers.items():
            if name in self.lost_disk:
                continue
            local = await worker.client.get(JOBS, "bystander", "default")
            if uid_of(local) != self.bystanders[name] or local["metadata"]["generation"] != 1:
                self.story.breach(f"the bystander on {name} was touched")


async def _check_quota(cluster: SimulatedCluster, story: FaultLog) -> None:
    used: dict[str, int] = {}
    for workload in (await cluster.client.list(WORKLOADS)).items:
        if not conditions.is_true(workload, names.QUOTA_RESERVED) or conditions.is_true(workload, names.FINISHED):
            continue
        for entry in (status_of(workload).get("admission") or {}).get("podSetAssignments") or []:
            for resource, amount in (entry.get("resourceUsage") or {}).items():
                used[resource] = used.get(resource, 0) + milli(amount)
    for queue in (await cluster.client.list(CLUSTER_QUEUES)).items:
        for group in spec_of(queue).get("resourceGroups") or []:
            for entry in (entry for flavor in group["flavors"] for entry in flavor["resources"]):
                if used.get(entry["name"], 0) > milli(entry["nominalQuota"]):
                    story.breach(f"{cluster.name} has given {used} although {queue['metadata']['name']} has less")


def _unqueued(name: str) -> Obj:
    """A worker's own job that has nothing to do with any queue."""
    job = batch_job(name, 1, 1)
    return with_metadata(job, labels={})
