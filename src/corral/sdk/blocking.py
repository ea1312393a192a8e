"""The blocking client: the asynchronous one, run on a loop of its own, so that it works in scripts and in notebooks, whose loop is busy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from corral.core.meta import Obj
from corral.runtime.threads import LoopThread
from corral.sdk.calls import ResultForm
from corral.sdk.client import AsyncClient, Manifest, Program
from corral.sdk.errors import CorralError
from corral.sdk.job import AsyncCall, AsyncJob, Explanation, JobStatus
from corral.sdk.log_lines import LogLine
from corral.sdk.options import JobOptions
from corral.sdk.tables import ClusterRow, JobRow, QueueRow, Table, html_table

LOOP = LoopThread()
T = TypeVar("T")


class Job:
    """A job of a cluster. It holds a name, not a state: every method looks anew."""

    def __init__(self, job: AsyncJob) -> None:
        self._job = job
        self.name = job.name
        self.namespace = job.namespace
        self.target = job.target
        """`job/train`, which every command of `corral` takes."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.target} in {self.namespace}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: how far it is."""
        try:
            return self.status()._repr_html_()
        except CorralError as error:
            return html_table(("job", "namespace", "text"), [(self.target, self.namespace, error)])

    def manifest(self) -> Obj:
        """The object as the cluster has it."""
        return LOOP.run(self._job.manifest())

    def status(self) -> JobStatus:
        """How far it is now."""
        return LOOP.run(self._job.status())

    def changes(self) -> Iterator[JobStatus]:
        """How far it is now and whenever that changes, until it has ended."""
        return LOOP.iterate(self._job.changes())

    def wait(self, timeout: float | None = None, *, check: bool = True) -> JobStatus:
        """Until it has ended. Raises JobFailedError if it failed, unless `check` is False; WaitTimeoutError after `timeout` seconds.

        A job that was cancelled has not ended: it is kept to be resumed."""
        return LOOP.run(self._job.wait(timeout, check=check))

    def logs(self, *, follow: bool = False, tail: int | None = None, container: str = "") -> Iterator[LogLine]:
        """What its pods have written; with `follow`, from its start to its end, waiting for both. A line is a text that knows
        its pod. `tail` is how many of the last lines of each pod are read."""
        return LOOP.iterate(self._job.logs(follow=follow, tail=tail, container=container))

    def explain(self) -> Explanation:
        """Why it waits, where it runs, or how it ended."""
        return LOOP.run(self._job.explain())

    def cancel(self) -> bool:
        """Stop it, wherever it waits or runs, and keep it to be looked at; False if it had ended already."""
        return LOOP.run(self._job.cancel())

    def retry(self, name: str = "") -> Job:
        """Run it once more, after it has ended or was cancelled, as a new job (by default `NAME-2`)."""
        return blocking(LOOP.run(self._job.retry(name)))

    def delete(self) -> None:
        """Stop and remove it, with what was sent for it."""
        LOOP.run(self._job.delete())


class Call(Job, Generic[T]):
    """A job that runs a function."""

    def __init__(self, job: AsyncCall[T]) -> None:
        super().__init__(job)
        self._call = job

    def result(self, timeout: float | None = None) -> T:
        """What the function returned, once it has. Raises what it raised as RemoteError, JobFailedError if its job failed for another
        reason, and WaitTimeoutError after `timeout` seconds."""
        return LOOP.run(self._call.result(timeout))


def blocking(job: AsyncJob) -> Job:
    """The handle for those who block."""
    return Call(job) if isinstance(job, AsyncCall) else Job(job)


class Client:
    """A cluster's queues and jobs. Without arguments it is the cluster that the command line would use: kubectl's current context,
    else the fleet of `corral up` on this machine. It is also a context manager that closes its connections."""

    def __init__(self, context: str = "", *, kubeconfig: Program | None = None, namespace: str = "") -> None:
        self._client = AsyncClient(context, kubeconfig=kubeconfig, namespace=namespace)
        self.namespace = self._client.namespace
        """Where jobs are submitted to and looked for, unless another is named."""

    def __repr__(self) -> str:
        return repr(self._client).replace("AsyncClient", "Client")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        LOOP.run(self._client.close())

    @overload
    def submit(
        self, what: Callable[..., T], *arguments: Any, result: ResultForm = "json", **options: Unpack[JobOptions]
    ) -> Call[T]: ...
    @overload
    def submit(self, what: Program | Manifest, *arguments: str, **options: Unpack[JobOptions]) -> Job: ...
    def submit(
        self,
        what: Program | Manifest | Callable[..., Any],
        *arguments: Any,
        result: ResultForm = "json",
        **options: Unpack[JobOptions],
    ) -> Job:
        """Submit a program with its arguments, a function with its arguments, or a manifest (a mapping, or a .yaml or .json file).

        A program is what `corral submit` takes: a script of the folder that goes with the job, or a command. What a function returns
        comes back as JSON, or with `result="pickle"` as a pickle, which runs code of the job when it is read."""
        if callable(what):
            return Call(LOOP.run(self._client.submit(what, *arguments, result=result, **options)))
        return Job(LOOP.run(self._client.submit(what, *arguments, **options)))

    def call(
        self,
        function: Callable[..., T],
        arguments: Iterable[Any],
        named: Mapping[str, Any],
        result: ResultForm,
        options: JobOptions,
    ) -> Call[T]:
        """Submit a function with arguments by place and by name."""
        return Call(LOOP.run(self._client.call(function, tuple(arguments), named, result, options)))

    def submit_many(
        self,
        what: Program | Callable[..., Any],
        each: int | Iterable[Any],
        *,
        result: ResultForm = "json",
        **options: Unpack[JobOptions],
    ) -> list[Job]:
        """Submit many jobs at once: as many as `each` says, or one for each of its items. An item is a word or a sequence of words that
        follow the program, or the argument of a function. They are called NAME-0, NAME-1 and so on, carry the label
        corral.dev/batch=NAME, and each finds its number in CORRAL_INDEX."""
        return [blocking(job) for job in LOOP.run(self._client.submit_many(what, each, result=result, **options))]

    def map(
        self,
        function: Callable[..., T],
        items: Iterable[Any],
        *,
        timeout: float | None = None,
        return_exceptions: bool = False,
        result: ResultForm = "json",
        **options: Unpack[JobOptions],
    ) -> list[T]:
        """Call a function with each item, every call a job of its own, and return what they returned, in order. With
        `return_exceptions` those that failed are in the list, otherwise the first of them is raised."""
        return LOOP.run(
            self._client.map(
                function, items, timeout=timeout, return_exceptions=return_exceptions, result=result, **options
            )
        )

    def job(self, target: str, *, namespace: str = "", result: ResultForm = "json") -> Job:
        """A job that is there, by `KIND/NAME` or, for a Job, by its name; of a function, its call."""
        return blocking(LOOP.run(self._client.job(target, namespace=namespace, result=result)))

    def jobs(self, *, queue: str = "", namespace: str = "", all_namespaces: bool = False) -> Table[JobRow]:
        """The jobs that are or were in queues, newest first."""
        return LOOP.run(self._client.jobs(queue=queue, namespace=namespace, all_namespaces=all_namespaces))

    def changes(self, *, namespace: str = "", all_namespaces: bool = False) -> Iterator[JobRow]:
        """Every job there is, and then each that changes, as it does; without end."""
        return LOOP.iterate(self._client.changes(namespace=namespace, all_namespaces=all_namespaces))

    def queues(self, *, namespace: str = "", all_namespaces: bool = False) -> Table[QueueRow]:
        """The queues jobs can be submitted to."""
        return LOOP.run(self._client.queues(namespace=namespace, all_namespaces=all_namespaces))

    def clusters(self) -> Table[ClusterRow]:
        """The worker clusters of a manager; none where jobs are not dispatched."""
        return LOOP.run(self._client.clusters())

    def wait(self, jobs: Iterable[Job], timeout: float | None = None, *, check: bool = True) -> list[bool]:
        """Until all of some jobs have ended; whether each succeeded. Raises JobFailedError if one failed, unless `check` is False."""
        return LOOP.run(self._client.wait([job._job for job in jobs], timeout, check=check))
