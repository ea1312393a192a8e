"""Many jobs of one request: created side by side over a few connections, with one folder for all of them; and many results read at once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from corral.client.http import HttpClient
from corral.client.sync import SyncClient
from corral.core.errors import AlreadyExists, ApiError, ConnectionFailed, TooManyRequests
from corral.core.meta import Obj, labels_of, name_of, namespace_of, owner_ref, owner_references_of
from corral.core.resource import Resource
from corral.jobs.framework.registry import made_from
from corral.jobs.framework.submission import Submission
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, PODS
from corral.sdk.attention import attentive
from corral.sdk.calls import read_result
from corral.sdk.endings import endings
from corral.sdk.errors import CorralError, as_corral_errors
from corral.sdk.job import AsyncCall, AsyncJob
from corral.submit.errors import SubmitError
from corral.submit.request import Request, object_of, submission_for
from corral.submit.submitting import give, send, take_back, typed

if TYPE_CHECKING:
    from corral.sdk.connection import Connection

AT_ONCE: Final = 16
"""Requests on their way at a time: more connections make no server faster."""
TRIES: Final = 5
WAIT_S: Final = 0.5
OWNERS: Final = 5000
"""Jobs in one call: each is named as an owner of what was sent for them, in one object."""
BATCH: Final = "corral.dev/batch"
INDEX: Final = "CORRAL_INDEX"


@dataclass(frozen=True, slots=True)
class Plan:
    """What all jobs of a call share."""

    kind: str
    wanted: Submission
    resource: Resource
    annotations: Mapping[str, str]
    sent: list[Obj]

    def job(self, index: int, words: Sequence[str]) -> Obj:
        """One of them: its index is in its name and its environment, its words follow those of the program."""
        wanted = replace(
            self.wanted,
            name=f"{self.wanted.name}-{index}",
            command=(*self.wanted.command, *words),
            environment={**self.wanted.environment, INDEX: str(index)},
        )
        made = made_from(self.kind, wanted)
        labels = {**labels_of(made), BATCH: self.wanted.name}
        return {**made, "metadata": {**made["metadata"], "labels": labels, "annotations": dict(self.annotations)}}


async def create_many(
    connection: Connection, request: Request, each: Sequence[Sequence[str]], annotations: Mapping[str, str]
) -> tuple[Resource, list[Obj]]:
    """A job for every item, in order. When one is refused the others stay, and the error says how to find them."""
    if len(each) > OWNERS:
        raise CorralError(f"{len(each)} jobs are too many for one call: submit {OWNERS} at a time")
    plan = await connection.ask(_prepare, request, annotations)
    jobs = (plan.job(index, words) for index, words in enumerate(each))
    made: dict[str, Obj] = {}
    try:
        await _create_all(connection.http, plan, jobs, made)
    except ApiError as error:
        where = f"-l {BATCH}={plan.wanted.name} -n {plan.wanted.namespace}"
        raise CorralError(
            f"{len(made)} of {len(each)} jobs were created, then: {error}; "
            f"`corral get {plan.resource.plural} {where}` shows them"
        ) from error
    finally:
        await connection.ask(_hand_over, plan, list(made.values()))
    return plan.resource, [made[f"{plan.wanted.name}-{index}"] for index in range(len(each))]


def _prepare(client: SyncClient, request: Request, annotations: Mapping[str, str]) -> Plan:
    request.check()
    archive = request.archive()
    wanted = submission_for(client, request, archive)
    resource, _ = object_of(client, request.kind, wanted)
    if len(wanted.name) > 50:
        raise SubmitError(f"the name {wanted.name} is too long to be numbered: 50 letters are possible")
    sent = send(client, archive, wanted.namespace) if archive else []
    return Plan(request.kind, wanted, resource, annotations, sent)


def _hand_over(client: SyncClient, plan: Plan, made: list[Obj]) -> None:
    """What was sent belongs to one small object, which belongs to all the jobs: the pieces do not grow with their number."""
    if not plan.sent:
        return
    if not made:
        take_back(client, plan.sent)
        return
    owners = [owner_ref(typed(plan.resource, job), controller=False, block=False) for job in made]
    metadata = {
        "name": f"corral-batch-{plan.wanted.name}",
        "namespace": plan.wanted.namespace,
        "ownerReferences": owners,
    }
    batch = client.create(CONFIG_MAPS, {"metadata": {**metadata, "labels": {BATCH: plan.wanted.name}}})
    for piece in plan.sent:
        give(client, piece, typed(CONFIG_MAPS, batch))


async def _create_all(client: HttpClient, plan: Plan, jobs: Iterator[Obj], made: dict[str, Obj]) -> None:
    async def work() -> None:
        for job in jobs:
            created = await _create(client, plan.resource, job)
            made[name_of(job)] = created

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(AT_ONCE):
                workers.create_task(work())
    except* ApiError as errors:
        raise _first(errors) from None


def _first(errors: BaseExceptionGroup[ApiError]) -> ApiError:
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, ApiError)
    return found


async def _create(client: HttpClient, resource: Resource, job: Obj) -> Obj:
    """One job. A server that is busy is given time; a lost answer is looked for, for the name is ours alone."""
    for attempt in range(TRIES):
        try:
            return await client.create(resource, job, manager="corral")
        except AlreadyExists:
            found = await client.get(resource, name_of(job), namespace_of(job)) if attempt else {}
            if labels_of(found).get(BATCH) != labels_of(job)[BATCH]:
                raise
            return found
        except (TooManyRequests, ConnectionFailed):
            if attempt == TRIES - 1:
                raise
            await asyncio.sleep(WAIT_S * 2**attempt)
    raise AssertionError("the loop returns or raises")


# The way back


async def wait_for(connection: Connection, jobs: Sequence[AsyncJob]) -> list[bool]:
    """Whether each of some jobs succeeded, once all have ended."""
    groups: dict[tuple[Resource, str], list[AsyncJob]] = defaultdict(list)
    for job in jobs:
        groups[job.resource, job.namespace].append(job)
    ended: dict[tuple[Resource, str, str], bool] = {}
    async with attentive(connection, [(job.resource, job.namespace, job.name) for job in jobs]) as attention:
        for (resource, namespace), members in groups.items():
            found = endings(connection.http, resource, namespace, {job.name for job in members})
            with as_corral_errors():
                async for name, success in found:
                    attention.drop(resource, namespace, name)
                    ended[resource, namespace, name] = bool(success)
    return [ended[job.resource, job.namespace, job.name] for job in jobs]


async def results_of(connection: Connection, calls: Sequence[AsyncCall[Any]]) -> list[Any]:
    """What each of some calls returned, or the exception it raised, in order. Pods are listed once, not once for each."""
    await wait_for(connection, calls)
    pods = await _pods_by_owner(connection.http, {call.namespace for call in calls})
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(call: AsyncCall[Any]) -> Any:
        async with turns:
            try:
                return await _result(connection.http, call, pods.get((call.namespace, call.name), []))
            except CorralError as error:
                return error

    return list(await asyncio.gather(*map(one, calls)))


async def _result(client: HttpClient, call: AsyncCall[Any], pods: Iterable[Obj]) -> Any:
    written: list[str] = []
    try:
        for pod in pods:
            content = [chunk async for chunk in client.logs(name_of(pod), namespace_of(pod))]
            written += b"".join(content).decode(errors="replace").splitlines()
        return read_result(written, call.mark, trusts_pickle=call.trusts_pickle)
    except (ApiError, LookupError):
        return await call.result()  # by the long way, which also says why there is none


async def _pods_by_owner(client: HttpClient, namespaces: Iterable[str]) -> dict[tuple[str, str], list[Obj]]:
    found: dict[tuple[str, str], list[Obj]] = defaultdict(list)
    with as_corral_errors():
        for namespace in sorted(namespaces):
            for pod in (await client.list(PODS, namespace)).items:
                for owner in owner_references_of(pod):
                    found[namespace, str(owner["name"])].append(pod)
    return found
