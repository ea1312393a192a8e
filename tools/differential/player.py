"""Plays scenarios on a cluster, whoever schedules there, and writes down what was decided.

The player is everybody but the scheduler: it creates what the scenario says, stops what was evicted, ends what is to end, and
answers for admission checks. It does each of these when the cluster has come to rest, so that one thing happens at a time, and
the same code plays on a real cluster by the wall clock and on Corral in virtual time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from tools.differential.scenario import Scenario, Step

from corral.client.protocol import Client
from corral.core import conditions
from corral.core.errors import ApiError, Conflict, NotFound
from corral.core.meta import Obj, name_of, namespace_of, status_of, with_status
from corral.core.resource import Resource
from corral.core.timestamps import format_time
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kueue import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS, names
from corral.runtime.clock import Clock
from corral.workload import lifecycle
from corral.workload import workload as wl

PAUSE_S = 2.1
"""Between two Workloads: times have whole seconds, and age decides among equals, as does the time of the admission."""
ROUNDS = 40
"""So often may what was evicted be released after one step before a cluster counts as restless."""
PATIENCE_S = 45.0
LOOP = 3
"""So often may one Workload be evicted for the same other after one step; chance alone ends what goes on longer."""
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_STOPPED_MESSAGE = re.compile(r"\d+(\.\d+)?s\b")


@dataclass
class Rest:
    """What could be seen when the cluster had come to rest after a step."""

    step: str
    states: dict[str, Any] = field(default_factory=dict)
    evictions: list[tuple[str, str, str]] = field(default_factory=list)
    """Who was evicted since the last rest, why, and for whom, in the order of names."""
    reasons: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Why each Workload waits."""

    def without(self, prefix: str) -> Rest:
        """The same, whatever the names of a scenario begin with."""
        plain = json.loads(json.dumps(asdict(self)).replace(prefix, ""))
        return Rest.from_json(plain)

    @classmethod
    def from_json(cls, read: dict[str, Any]) -> Rest:
        return cls(
            read["step"],
            read["states"],
            [tuple(entry) for entry in read["evictions"]],
            {name: tuple(reason) for name, reason in read["reasons"].items()},
        )


@dataclass
class Record:
    """One scenario, played once."""

    name: str
    rests: list[Rest] = field(default_factory=list)
    restless: str = ""
    """The step after which the cluster did not come to rest; nothing was played after it."""
    in_vain: list[str] = field(default_factory=list)
    """Who was evicted for the same other again, which had not been admitted meanwhile."""
    times: list[float] = field(default_factory=list)
    """When the player did each thing it did, in seconds since the scenario began."""


@dataclass
class Life:
    """What is known of the Workloads of one scenario."""

    began: float
    pace: Iterator[float] = field(default_factory=lambda: iter(()))
    """When the next thing is to be done, at the earliest."""
    times: list[float] = field(default_factory=list)
    objects: dict[str, Obj] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """By uid."""
    evictions: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    stamps: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)
    made_room: dict[str, set[str]] = field(default_factory=dict)
    """By uid of a preemptor: who was evicted for it since it was admitted last."""
    in_vain: list[str] = field(default_factory=list)
    changed: float = 0.0
    """When something was decided last; that a Workload is told something else is no decision."""

    def take(self, kind: str, workload: Obj, now: float) -> None:
        name = name_of(workload)
        old = self.objects.get(name)
        if kind == "DELETED" or old is None or _decided(old) != _decided(workload):
            self.changed = now
        if kind == "DELETED":
            self.objects.pop(name, None)
            return
        self.objects[name] = workload
        self.names[workload["metadata"]["uid"]] = name
        if wl.has_quota(workload):
            self.made_room.pop(workload["metadata"]["uid"], None)
        evicted = conditions.find(workload, names.EVICTED)
        if evicted is None or evicted["status"] != "True":
            self.stamps.pop(name, None)
            return
        stamp = (evicted["lastTransitionTime"], evicted["reason"], evicted["message"])
        if self.stamps.get(name) != stamp:
            self.stamps[name] = stamp
            self.evictions[name, evicted["reason"], evicted["message"]] += 1
            self._note_preemptor(name, _UID.search(evicted["message"]))

    def _note_preemptor(self, victim: str, uid: re.Match[str] | None) -> None:
        if uid is None:
            return
        evicted = self.made_room.setdefault(uid.group(), set())
        if victim in evicted:
            self.in_vain.append(f"{victim} for {self.names.get(uid.group(), '?')}")
        evicted.add(victim)

    def named(self, text: str) -> str:
        return _UID.sub(lambda found: self.names.get(found.group(), "?"), text)


class Player:
    """Plays scenarios on one cluster."""

    def __init__(self, client: Client, clock: Clock, *, quiet_s: Callable[[], float], poll_s: float) -> None:
        self._client, self._clock = client, clock
        self._quiet_s, self._poll_s = quiet_s, poll_s
        self._lives: dict[str, Life] = {}

    async def follow(self) -> None:
        """See every change of every Workload; ends when it is cancelled."""
        version = (await self._client.list(WORKLOADS)).resource_version
        while True:
            with contextlib.suppress(ApiError):
                async for event in self._client.watch(WORKLOADS, resource_version=version):
                    version = event.obj["metadata"]["resourceVersion"]
                    life = self._lives.get(namespace_of(event.obj))
                    if event.type != "BOOKMARK" and life is not None:
                        life.take(event.type, event.obj, self._clock.monotonic())
            await asyncio.sleep(self._poll_s)

    async def play(self, scenario: Scenario, pace: Iterable[float] = ()) -> Record:
        """`pace` are the times of a record to keep to, where time decides: what is played elsewhere takes its own."""
        life = self._lives[scenario.namespace] = Life(self._clock.monotonic(), iter(pace))
        record = Record(scenario.name, in_vain=life.in_vain, times=life.times)
        await self._client.create(NAMESPACES, {"metadata": {"name": scenario.namespace}})
        for resource, obj in scenario.made:
            made = await self._client.create(resource, obj)
            # A patch, because the scheduler may have added its finalizer since.
            if (status := obj.get("status") or self._first_status(resource)) is not None:
                await self._client.patch(
                    resource, name_of(made), "", {"status": status}, kind="merge", subresource="status"
                )
        await asyncio.sleep(self._quiet_s())
        for number, step in enumerate(scenario.steps):
            if not await self._do(scenario, life, step):
                continue
            label = f"{number} {step.verb} {step.name}"
            last = number + 1 == len(scenario.steps) or scenario.steps[number + 1].verb != "submit"
            if step.verb == "submit" and not last:
                await asyncio.sleep(PAUSE_S)
                continue
            if not await self._rest(scenario, life):
                record.restless = label.replace(f"{scenario.name}-", "")
                break
            if step.verb != "hold-local" or step.value == "None":
                record.rests.append(_seen(life, label, scenario))
        del self._lives[scenario.namespace]
        return record

    async def clean(self, scenario: Scenario) -> None:
        """Take away what a scenario was made of, so that nobody has to look at it any more."""
        await self._client.delete_collection(WORKLOADS, scenario.namespace)
        for resource, obj in reversed(scenario.made):
            with contextlib.suppress(NotFound):
                await self._client.delete(resource, name_of(obj), namespace_of(obj))

    def _first_status(self, resource: Resource) -> Obj | None:
        """What the player says of an object it has just made."""
        if resource is not ADMISSION_CHECKS:
            return None
        now = format_time(self._clock.now())
        active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": now}
        return {"conditions": [active]}

    async def _in_time(self, life: Life) -> None:
        """Wait until the next thing is due, and note when it is done."""
        due = next(life.pace, 0.0)
        await asyncio.sleep(max(0.0, life.began + due - self._clock.monotonic()))
        life.times.append(round(self._clock.monotonic() - life.began, 2))

    # Steps

    async def _do(self, scenario: Scenario, life: Life, step: Step) -> bool:
        """Whether there was anything to do."""
        client, space = self._client, scenario.namespace
        await self._in_time(life)
        if step.verb == "submit":
            await client.create(WORKLOADS, step.value)
        elif step.verb == "flavor":
            await client.create(RESOURCE_FLAVORS, step.value)
        elif step.verb in ("hold", "hold-local"):
            resource, within = (CLUSTER_QUEUES, "") if step.verb == "hold" else (LOCAL_QUEUES, space)
            change = {"spec": {"stopPolicy": step.value}}
            if step.value == "None":
                drained = [name for name, one in sorted(life.objects.items()) if _is_drained(one, step, scenario)]
                open_queue = partial(client.patch, resource, step.name, within, change, kind="merge")
                await self._let_go(scenario, life, drained, open_queue)
            else:
                await client.patch(resource, step.name, within, change, kind="merge")
        elif step.verb == "look":
            await client.patch(CLUSTER_QUEUES, step.name, "", {"spec": {"namespaceSelector": step.value}}, kind="merge")
        elif step.verb == "quota":
            await client.patch(CLUSTER_QUEUES, step.name, "", {"spec": {"resourceGroups": step.value}}, kind="merge")
        elif step.name not in life.objects:
            return False
        elif step.verb == "delete":
            await client.delete(WORKLOADS, step.name, space)
        elif step.verb == "active":
            await self._switch(scenario, [step.name], active=step.value)
            if step.value and await self._rest(scenario, life):
                await self._write(scenario, step.name, self._reactivated)
        elif not wl.is_admitted(life.objects[step.name]):
            return False
        else:
            await self._write(scenario, step.name, self._finished)
        return True

    async def _let_go(
        self, scenario: Scenario, life: Life, drained: list[str], open_queue: Callable[[], Awaitable[Any]]
    ) -> None:
        """Let a queue go on, and then, one after the other, those who left it when it was drained.

        Of themselves they come back in an order that is chance in Kueue, and the first finds room before the others are there.
        """
        await self._switch(scenario, drained, active=False)
        if drained and not await self._rest(scenario, life):
            return
        await self._in_time(life)
        await open_queue()
        for name in drained:
            if not await self._rest(scenario, life):
                return
            await self._in_time(life)
            await self._switch(scenario, [name], active=True)

    async def _switch(self, scenario: Scenario, workloads: list[str], *, active: bool) -> None:
        for name in workloads:
            await self._client.patch(WORKLOADS, name, scenario.namespace, {"spec": {"active": active}}, kind="merge")

    def _finished(self, workload: Obj) -> Obj | None:
        return lifecycle.finish(workload, "Succeeded", "played to its end", format_time(self._clock.now()))

    def _reactivated(self, workload: Obj) -> Obj | None:
        """Kueue forgets who was deactivated for a reason, such as a rejected check, when it is activated again."""
        requeued = conditions.find(workload, names.REQUEUED)
        if requeued is None or requeued["status"] == "True" or not requeued["reason"].startswith("DeactivatedDueTo"):
            return None
        said = {
            "type": names.REQUEUED,
            "status": "True",
            "reason": "Reactivated",
            "message": "The workload was reactivated",
        }
        now = format_time(self._clock.now())
        return with_status(
            workload,
            {
                **status_of(workload),
                "conditions": conditions.set_condition(conditions.conditions_of(workload), said, now),
            },
        )

    def _released(self, workload: Obj) -> Obj | None:
        if not (wl.is_evicted(workload) and wl.has_quota(workload)):
            return None
        required = [entry["name"] for entry in wl.check_states_of(workload)]
        now = format_time(self._clock.now())
        released = lifecycle.release_evicted(workload, required, now)
        # Kueue's controllers end a back-off of no time with a write of their own; who waits may come first until then, or not.
        return lifecycle.end_backoff(released, now) if lifecycle.is_backing_off(released) else released

    async def _write(self, scenario: Scenario, name: str, change: Callable[[Obj], Obj | None]) -> bool:
        while True:
            try:
                current = await self._client.get(WORKLOADS, name, scenario.namespace)
                new = change(current)
                if new is None:
                    return False
                await self._client.update(WORKLOADS, new, subresource="status")
            except Conflict:
                continue
            except NotFound:
                return False
            return True

    # Rest

    async def _rest(self, scenario: Scenario, life: Life) -> bool:
        """Until nothing changes any more and nobody waits for the player; False when that does not come about."""
        for _ in range(ROUNDS):
            if not await self._quiet(life) or max(life.evictions.values(), default=0) >= LOOP:
                return False
            if not await self._play_the_others(scenario, life):
                return True
        return False

    async def _quiet(self, life: Life) -> bool:
        started = self._clock.monotonic()
        life.changed = max(life.changed, started)
        while self._clock.monotonic() - life.changed < self._quiet_s():
            if self._clock.monotonic() - started > PATIENCE_S + self._quiet_s():
                return False
            await asyncio.sleep(self._poll_s)
        return True

    async def _play_the_others(self, scenario: Scenario, life: Life) -> bool:
        """Stop the first of those that were evicted, or answer for checks. Whether there was anything.

        One at a time, so that it is the scheduler that decides and not who writes first. Those of a LocalQueue on hold
        stop together: what they give back counts when the next thing happens.
        """
        evicted = [workload for _, workload in sorted(life.objects.items()) if _must_stop(workload)]
        drained = [workload for workload in evicted if _reason(workload) == names.BY_LOCAL_QUEUE_STOPPED]
        work: list[Awaitable[bool]] = [
            self._write(scenario, name_of(workload), self._released) for workload in drained or evicted[:1]
        ]
        for name, workload in sorted(life.objects.items()) if not work else ():
            if wl.is_finished(workload):
                continue
            if wl.has_quota(workload) and any(_asked(entry) for entry in wl.check_states_of(workload)):
                answers = scenario.answers.get(name) or ("Ready",)
                answer = answers[min(life.attempts[name], len(answers) - 1)]
                life.attempts[name] += 1
                work.append(self._write(scenario, name, self._answering(answer)))
        if work:
            await self._in_time(life)
        return any(await asyncio.gather(*work))

    def _answering(self, answer: str) -> Callable[[Obj], Obj | None]:
        now = format_time(self._clock.now())

        def change(workload: Obj) -> Obj | None:
            if not wl.has_quota(workload) or wl.is_evicted(workload):
                return None
            states = [
                {**entry, "state": answer, "message": "asked and answered", "lastTransitionTime": now}
                if _asked(entry)
                else entry
                for entry in wl.check_states_of(workload)
            ]
            return with_status(workload, {**status_of(workload), "admissionChecks": states})

        return change


def _decided(workload: Obj) -> Any:
    """What of a Workload is more than words: a StrictFIFO head may be told two things in turn for ever."""
    status = status_of(workload)
    said = [
        (entry["type"], entry["status"], entry["status"] == "True" and (entry["reason"], entry["message"]))
        for entry in conditions.conditions_of(workload)
    ]
    return said, workload["spec"], status.get("admission"), status.get("admissionChecks"), status.get("requeueState")


def _must_stop(workload: Obj) -> bool:
    return wl.is_evicted(workload) and wl.has_quota(workload) and not wl.is_finished(workload)


def _is_drained(workload: Obj, step: Step, scenario: Scenario) -> bool:
    """Does it wait for the queue of a step to be let go?"""
    queue = wl.queue_of(workload)
    if step.name != (queue if step.verb == "hold-local" else f"{scenario.name}-{queue.removesuffix('b')}"):
        return False
    requeued = conditions.find(workload, names.REQUEUED)
    if requeued is None or requeued["status"] == "True" or wl.is_finished(workload) or not wl.is_active(workload):
        return False
    return requeued["reason"] in (names.BY_CLUSTER_QUEUE_STOPPED, names.BY_LOCAL_QUEUE_STOPPED)


def _reason(workload: Obj) -> str:
    return str((conditions.find(workload, names.EVICTED) or {}).get("reason"))


def _asked(state: Obj) -> bool:
    return bool(state.get("state") == "Pending")


def _seen(life: Life, step: str, scenario: Scenario) -> Rest:
    rest = Rest(step)
    for name, workload in sorted(life.objects.items()):
        rest.states[name] = _state(workload)
        held = conditions.find(workload, names.QUOTA_RESERVED)
        if held is not None and held["status"] == "False" and not wl.is_finished(workload):
            rest.reasons[name] = held["reason"], life.named(held["message"])
    # In the order of what can be compared: uids are chance.
    rest.evictions = sorted((name, reason, life.named(message)) for name, reason, message in life.evictions.elements())
    life.evictions.clear()
    return rest.without(f"{scenario.name}-")


def _state(workload: Obj) -> Mapping[str, Any]:
    """What was decided for a Workload, in plain values."""
    if wl.is_finished(workload):
        return {"is": "Finished"}
    if not wl.has_quota(workload):
        return {"is": "Pending" if wl.is_active(workload) else "Inactive"}
    admission = wl.admission_of(workload)
    sets = {
        entry["name"]: {
            "count": entry.get("count"),
            "flavors": entry.get("flavors"),
            "usage": entry.get("resourceUsage"),
            "nodes": entry.get("topologyAssignment"),
        }
        for entry in admission.get("podSetAssignments") or []
    }
    return {"is": "Admitted" if wl.is_admitted(workload) else "Reserved", "sets": sets}
