"""A job as the Python API holds it: where it is, what it writes, how it ended, and what can be done with it."""

from __future__ import annotations

import asyncio
import html
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from corral.core.errors import ApiError
from corral.core.meta import Obj, annotations_of, name_of, namespace_of, spec_of
from corral.core.remote_pods import CALL_ANNOTATION
from corral.core.resource import Resource
from corral.inspect.evidence import place_in_queue
from corral.inspect.explain import Explanation as Explained
from corral.inspect.job_explanation import explain_job, explain_unqueued, visible_pods
from corral.inspect.lookup import workload_of
from corral.inspect.naming import get_named
from corral.inspect.placed_pods import cluster_of, let_go, where_pods_run
from corral.jobs.framework.registry import ENDINGS
from corral.sdk.attention import attentive
from corral.sdk.calls import is_result, read_result
from corral.sdk.endings import endings
from corral.sdk.errors import CorralError, JobFailedError, NotFoundError, WaitTimeoutError, as_corral_errors
from corral.sdk.log_lines import LogLine, LogReader
from corral.sdk.tables import html_table
from corral.submit import cancelling, submitting
from corral.submit.progress import exit_code, progress_of
from corral.submit.submitting import target_of, typed

if TYPE_CHECKING:
    from corral.client.sync import SyncClient
    from corral.sdk.connection import Connection

POLL_S: Final = 0.3
READS: Final = 15
"""How often the logs of a job that has ended are looked for."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How far a job is."""

    target: str
    """`job/train`"""
    phase: str
    """queued, admitted, running, succeeded or failed"""
    text: str
    """The same in a sentence, with its place or what it waits for."""
    cluster: str = ""
    """The worker it was sent to; empty where it runs on the cluster itself."""
    queue: str = ""
    exit_code: int | None = None
    """What its program returned; None before it has ended."""
    position: int | None = None
    """How many are before it in its ClusterQueue; None where it does not wait, or nobody can tell."""

    @property
    def has_ended(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.phase in ("succeeded", "failed")

    def __str__(self) -> str:
        return f"{self.target}: {self.text}"

    def _repr_html_(self) -> str:
        shown = (self.target, self.phase, self.queue, self.cluster, self.text)
        return html_table(("job", "phase", "queue", "cluster", "text"), [shown])


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job waits, where it runs, or how it ended; as text it is what `corral explain` prints."""

    headline: str
    facts: tuple[str, ...] = ()
    advice: str = ""
    """What to do, where something is to be done."""

    def __str__(self) -> str:
        lines = [self.headline, *(f"  {fact}" for fact in self.facts)]
        return "\n".join([*lines, f"-> {self.advice}"] if self.advice else lines)

    def _repr_html_(self) -> str:
        facts = "".join(f"<li>{html.escape(fact)}</li>" for fact in self.facts)
        advice = f"<p>&rarr; {html.escape(self.advice)}</p>" if self.advice else ""
        return f"<p><b>{html.escape(self.headline)}</b></p><ul>{facts}</ul>{advice}"


class AsyncJob:
    """A job of a cluster. It holds a name, not a state: every method looks anew."""

    def __init__(self, connection: Connection, resource: Resource, job: Obj) -> None:
        self._connection = connection
        self.resource = resource
        self.name = name_of(job)
        self.namespace = namespace_of(job)
        self.target = target_of(resource, job)
        """`job/train`, which every command of `corral` takes."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.target} in {self.namespace}>"

    def _repr_html_(self) -> str:
        return html_table(("job", "namespace"), [(self.target, self.namespace)])

    async def manifest(self) -> Obj:
        """The object as the cluster has it."""
        return await self._connection.ask(_object, self.resource, self.name, self.namespace)

    async def status(self) -> JobStatus:
        """How far it is now."""
        return await self._connection.ask(_status, self.resource, self.name, self.namespace)

    async def changes(self) -> AsyncGenerator[JobStatus, None]:
        """How far it is now and whenever that changes, until it has ended."""
        last = None
        while last is None or not last.has_ended:
            status = await self.status()
            if status != last:
                yield status
                last = status
                continue
            await asyncio.sleep(POLL_S)

    async def wait(self, timeout: float | None = None, *, check: bool = True) -> JobStatus:
        """Until it has ended. Raises JobFailedError if it failed, unless `check` is False; WaitTimeoutError after `timeout` seconds.

        A job that was cancelled has not ended: it is kept to be resumed."""
        if not ENDINGS.knows(self.resource.group, self.resource.kind):
            raise CorralError(f"a {self.resource.kind} has no end of its own")
        await self._ended(timeout)
        status = await self.status()
        if check and status.phase != "succeeded":
            code = status.exit_code or 1
            raise JobFailedError(
                f"{self.target} failed with exit code {code}; `corral explain {self.target}` says more", code
            )
        return status

    async def _ended(self, timeout: float | None) -> None:
        found = endings(self._connection.http, self.resource, self.namespace, [self.name])
        try:
            async with attentive(self._connection, [(self.resource, self.namespace, self.name)]):
                with as_corral_errors():
                    _, success = await asyncio.wait_for(anext(found), timeout)
        except TimeoutError as error:
            raise WaitTimeoutError(
                f"time ran out: {self.target} is not finished yet; `corral explain {self.target}` says why"
            ) from error
        finally:
            await found.aclose()
        if success is None:
            raise NotFoundError(f"{self.target} was deleted")

    async def logs(
        self, *, follow: bool = False, tail: int | None = None, container: str = ""
    ) -> AsyncGenerator[LogLine, None]:
        """What its pods have written; with `follow`, from its start to its end, waiting for both. A line is a text that knows
        its pod. `tail` is how many of the last lines of each pod are read."""
        reader = LogReader(self._connection, self.resource, self.name, self.namespace, tail, container)
        if not follow:
            async for line in reader.read():
                yield line
            return
        async with attentive(self._connection, [(self.resource, self.namespace, self.name)]):
            async for line in reader.follow():
                yield line

    async def explain(self) -> Explanation:
        """Why it waits, where it runs, or how it ended."""
        return await self._connection.ask(_explanation, self.resource, self.name, self.namespace)

    async def cancel(self) -> bool:
        """Stop it, wherever it waits or runs, and keep it to be looked at; False if it had ended already."""
        return await self._connection.ask(_cancel, self.resource, self.name, self.namespace)

    async def retry(self, name: str = "") -> AsyncJob:
        """Run it once more, after it has ended or was cancelled, as a new job (by default `NAME-2`)."""
        made = await self._connection.ask(_retry, self.resource, self.name, self.namespace, name)
        return job_of(self._connection, self.resource, made)

    async def delete(self) -> None:
        """Stop and remove it, with what was sent for it."""
        with as_corral_errors():
            await self._connection.http.delete(self.resource, self.name, self.namespace, propagation="Background")


class AsyncCall(AsyncJob, Generic[T]):
    """A job that runs a function."""

    def __init__(self, connection: Connection, resource: Resource, job: Obj, *, trusts_pickle: bool = False) -> None:
        super().__init__(connection, resource, job)
        self.mark = annotations_of(job).get(CALL_ANNOTATION, "")
        self.trusts_pickle = trusts_pickle

    async def logs(
        self, *, follow: bool = False, tail: int | None = None, container: str = ""
    ) -> AsyncGenerator[LogLine, None]:
        """What the function has written, without its result."""
        before: LogLine | None = None
        async for line in super().logs(follow=follow, tail=tail, container=container):
            if before is not None and not (is_result(before, self.mark) or (is_result(line, self.mark) and not before)):
                yield before
            before = line
        if before is not None and not is_result(before, self.mark):
            yield before

    async def result(self, timeout: float | None = None) -> T:
        """What the function returned, once it has. Raises what it raised as RemoteError, JobFailedError if its job failed for another
        reason, and WaitTimeoutError after `timeout` seconds."""
        lines = await self._written(timeout)
        for _ in range(READS):
            try:
                value: T = read_result(lines, self.mark, trusts_pickle=self.trusts_pickle)
            except LookupError:
                if lines:
                    break  # all was read, and it is not among it
            else:
                return value
            await asyncio.sleep(POLL_S)  # a pod that is being removed from its worker is soon shown by the manager
            lines = await self._read(follow=False)
        await self.wait()
        raise CorralError(f"{self.target} has ended, and its result was not kept")

    async def _written(self, timeout: float | None) -> Sequence[str]:
        """The logs of the job, once it has ended. Corral's own clusters keep them; of others they are read while it runs."""
        if await self._connection.ask(_keeps_logs):
            await self._ended(timeout)
            return await self._read(follow=False)
        try:
            return await asyncio.wait_for(self._read(follow=True), timeout)
        except TimeoutError as error:
            raise WaitTimeoutError(
                f"time ran out: {self.target} is not finished yet; `corral explain {self.target}` says why"
            ) from error

    async def _read(self, *, follow: bool) -> list[str]:
        try:
            return [str(line) async for line in super().logs(follow=follow)]
        except CorralError:
            return []  # how it ended says more


def job_of(connection: Connection, resource: Resource, job: Obj, *, trusts_pickle: bool = False) -> AsyncJob:
    """The handle of a job: that of a call where it runs a function."""
    if annotations_of(job).get(CALL_ANNOTATION):
        return AsyncCall(connection, resource, job, trusts_pickle=trusts_pickle)
    return AsyncJob(connection, resource, job)


# Asked beside the loop


def _keeps_logs(client: SyncClient) -> bool:
    from corral.submit.request import is_embedded

    return is_embedded(client)


def _object(client: SyncClient, resource: Resource, name: str, namespace: str) -> Obj:
    return typed(resource, get_named(client, resource, name, namespace))


def _status(client: SyncClient, resource: Resource, name: str, namespace: str) -> JobStatus:
    job = _object(client, resource, name, namespace)
    success = ENDINGS.success(job)
    workload = workload_of(client, resource, job, namespace)
    try:
        places = where_pods_run(client, resource, job, workload, namespace)
        let_go(client, places)
        pods = [pod for _, pod in places]
    except ApiError:
        pods = []  # a worker that does not answer now may do so soon
    position = place_in_queue(client, workload) if workload is not None and success is None else None
    progress = progress_of(workload, pods, success, position)
    code = None if success is None else exit_code(pods, success)
    text = f"failed with exit code {code}" if success is False else progress.text
    queue = str(spec_of(workload).get("queueName") or "") if workload else ""
    return JobStatus(target_of(resource, job), progress.phase, text, cluster_of(workload), queue, code, position)


def _explanation(client: SyncClient, resource: Resource, name: str, namespace: str) -> Explanation:
    job = _object(client, resource, name, namespace)
    workload = workload_of(client, resource, job, namespace)
    found: Explained
    if workload is not None:
        found = explain_job(client, resource, job, workload, namespace)
    else:
        pods = visible_pods(client, resource, job, namespace)
        found = explain_unqueued(client, resource.kind, job, pods, namespace)
    return Explanation(found.headline, found.facts, found.advice)


def _cancel(client: SyncClient, resource: Resource, name: str, namespace: str) -> bool:
    return cancelling.cancel(client, resource, _object(client, resource, name, namespace))


def _retry(client: SyncClient, resource: Resource, name: str, namespace: str, new_name: str) -> Obj:
    return submitting.retry(client, resource, _object(client, resource, name, namespace), new_name)
