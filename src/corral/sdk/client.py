"""The asynchronous client: programs, functions and manifests become jobs of a cluster, and queues, clusters and jobs are shown."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import warnings
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack, cast, overload

from corral.client.sync import SyncClient
from corral.core import conditions, yaml_documents
from corral.core.errors import ConnectionFailed, Expired, NotFound
from corral.core.meta import Obj, name_of, namespace_of, owner_references_of, spec_of, status_of
from corral.core.remote_pods import CALL_ANNOTATION
from corral.core.resource import Resource
from corral.inspect.naming import object_named, resource_named
from corral.kinds.kueue import LOCAL_QUEUES, MULTI_KUEUE_CLUSTERS, WORKLOADS, names
from corral.runtime.secrets import random_bytes
from corral.sdk.calls import MARK, PROGRAM, Arguments, ResultForm, pack_call
from corral.sdk.connection import Connection
from corral.sdk.errors import CorralError, JobFailedError, WaitTimeoutError, as_corral_errors
from corral.sdk.job import AsyncCall, AsyncJob, job_of
from corral.sdk.many import create_many, results_of, wait_for
from corral.sdk.options import JobOptions, check_options, request_for
from corral.sdk.tables import ClusterRow, JobRow, QueueRow, Table
from corral.submit.errors import SubmitError
from corral.submit.request import Request, name_from, object_of, submission_for
from corral.submit.submitting import create, send
from corral.workload import workload as wl

MANIFESTS = (".yaml", ".yml", ".json")
OF_MANIFESTS = ("name", "namespace", "queue")
SHOWN = 5
T = TypeVar("T")
Program = str | os.PathLike[str]
Manifest = Mapping[str, Any]


class AsyncClient:
    """A cluster's queues and jobs. Without arguments it is the cluster that the command line would use: kubectl's current context,
    else the fleet of `corral up` on this machine. It is also a context manager that closes its connections."""

    def __init__(self, context: str = "", *, kubeconfig: Program | None = None, namespace: str = "") -> None:
        self._connection = Connection(Path(kubeconfig) if kubeconfig is not None else None, context, namespace)
        self.namespace = self._connection.namespace
        """Where jobs are submitted to and looked for, unless another is named."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._connection.http.access.server} namespace {self.namespace}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    # Submitting

    @overload
    async def submit(
        self, what: Callable[..., T], *arguments: Any, result: ResultForm = "json", **options: Unpack[JobOptions]
    ) -> AsyncCall[T]: ...
    @overload
    async def submit(self, what: Program | Manifest, *arguments: str, **options: Unpack[JobOptions]) -> AsyncJob: ...
    async def submit(
        self,
        what: Program | Manifest | Callable[..., Any],
        *arguments: Any,
        result: ResultForm = "json",
        **options: Unpack[JobOptions],
    ) -> AsyncJob:
        """Submit a program with its arguments, a function with its arguments, or a manifest (a mapping, or a .yaml or .json file).

        A program is what `corral submit` takes: a script of the folder that goes with the job, or a command. What a function returns
        comes back as JSON, or with `result="pickle"` as a pickle, which runs code of the job when it is read."""
        with as_corral_errors():
            check_options(options)
            if callable(what):
                return await self.call(what, arguments, {}, result, options)
            if isinstance(what, Mapping) or str(what).endswith(MANIFESTS):
                return await self._submit_manifest(what, arguments, options)
            request = request_for((_program(what), *map(str, arguments)), options, self.namespace)
        resource, made = await self._connection.ask(_create, request, {})
        return AsyncJob(self._connection, resource, made)

    async def call(
        self,
        function: Callable[..., T],
        arguments: Sequence[Any],
        named: Mapping[str, Any],
        result: ResultForm,
        options: JobOptions,
    ) -> AsyncCall[T]:
        """Submit a function with arguments by place and by name."""
        with as_corral_errors():
            mark = _new_mark()
            request = self._request_of_calls(function, [(tuple(arguments), dict(named))], result, options, ("0", mark))
        resource, made = await self._connection.ask(_create, request, {CALL_ANNOTATION: mark})
        return AsyncCall(self._connection, resource, made, trusts_pickle=result == "pickle")

    def _request_of_calls(
        self,
        function: Callable[..., Any],
        calls: Sequence[Arguments],
        result: ResultForm,
        options: JobOptions,
        words: tuple[str, ...],
    ) -> Request:
        workdir = options.get("workdir")
        packed = pack_call(function, calls, result, Path(workdir).absolute() if workdir else None)
        files = dict(packed.files)
        given: JobOptions = {**options, "send_folder": packed.folder is not None}
        if packed.folder is not None:
            given["workdir"] = packed.folder
        elif requirements := options.get("requirements"):
            files[requirements] = _content(requirements)
        if not options.get("image") and not options.get("python"):
            given["python"] = sys.executable
        if not options.get("name"):
            given["name"] = name_from(getattr(function, "__name__", "job"))
        return request_for((PROGRAM, *words), given, self.namespace, files)

    async def submit_many(
        self,
        what: Program | Callable[..., Any],
        each: int | Iterable[Any],
        *,
        result: ResultForm = "json",
        **options: Unpack[JobOptions],
    ) -> list[AsyncJob]:
        """Submit many jobs at once: as many as `each` says, or one for each of its items. An item is a word or a sequence of words that
        follow the program, or the argument of a function. They are called NAME-0, NAME-1 and so on, carry the label
        corral.dev/batch=NAME, and each finds its number in CORRAL_INDEX."""
        with as_corral_errors():
            check_options(options)
            if callable(what):
                return list(await self._calls(what, [((item,), {}) for item in _items(each)], result, options))
            request = request_for((_program(what),), options, self.namespace)
            words = [()] * each if isinstance(each, int) else [_words(item) for item in each]
        resource, made = await create_many(self._connection, request, words, {})
        return [AsyncJob(self._connection, resource, job) for job in made]

    async def map(
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
        with as_corral_errors():
            check_options(options)
            calls = await self._calls(function, [((item,), {}) for item in items], result, options)
        try:
            found = await asyncio.wait_for(results_of(self._connection, calls), timeout)
        except TimeoutError as error:
            raise WaitTimeoutError(f"time ran out: not all of {len(calls)} jobs are finished yet") from error
        errors = [one for one in found if isinstance(one, CorralError)]
        if errors and not return_exceptions:
            raise errors[0]
        return cast(list[T], found)

    async def _calls(
        self, function: Callable[..., Any], calls: Sequence[Arguments], result: ResultForm, options: JobOptions
    ) -> list[AsyncCall[Any]]:
        mark = _new_mark()
        request = self._request_of_calls(function, calls, result, options, ())
        words = [(str(index), mark) for index in range(len(calls))]
        resource, made = await create_many(self._connection, request, words, {CALL_ANNOTATION: mark})
        trusts = result == "pickle"
        return [AsyncCall(self._connection, resource, job, trusts_pickle=trusts) for job in made]

    async def _submit_manifest(
        self, what: Program | Manifest, arguments: Sequence[object], options: JobOptions
    ) -> AsyncJob:
        others = sorted(set(options) - set(OF_MANIFESTS)) + (["arguments"] if arguments else [])
        if others:
            raise SubmitError(f"a manifest says by itself what runs; leave {', '.join(others)} away")
        manifest = dict(what) if isinstance(what, Mapping) else _manifest_in(Path(what))
        metadata = dict(manifest.get("metadata") or {})
        metadata["namespace"] = options.get("namespace") or metadata.get("namespace") or self.namespace
        if name := options.get("name"):
            metadata["name"] = name
        if queue := options.get("queue"):
            metadata["labels"] = {**(metadata.get("labels") or {}), names.QUEUE_NAME: queue}
        resource, made = await self._connection.ask(_create_manifest, {**manifest, "metadata": metadata})
        return AsyncJob(self._connection, resource, made)

    # Looking

    async def job(self, target: str, *, namespace: str = "", result: ResultForm = "json") -> AsyncJob:
        """A job that is there, by `KIND/NAME` or, for a Job, by its name; of a function, its call."""
        where = namespace or self.namespace
        resource, found = await self._connection.ask(object_named, (target,), where)
        return job_of(self._connection, resource, found, trusts_pickle=result == "pickle")

    async def jobs(self, *, queue: str = "", namespace: str = "", all_namespaces: bool = False) -> Table[JobRow]:
        """The jobs that are or were in queues, newest first."""
        where = "" if all_namespaces else namespace or self.namespace
        with as_corral_errors():
            page = await self._connection.http.list(WORKLOADS, where)
        rows = [_job_row(workload) for workload in page.items if not queue or wl.queue_of(workload) == queue]
        return Table(JobRow, sorted(rows, key=lambda row: (row.created, row.name), reverse=True))

    async def changes(self, *, namespace: str = "", all_namespaces: bool = False) -> AsyncGenerator[JobRow, None]:
        """Every job there is, and then each that changes, as it does; without end."""
        where = "" if all_namespaces else namespace or self.namespace
        http = self._connection.http
        last: dict[tuple[str, str], JobRow] = {}
        while True:
            with as_corral_errors():
                page = await http.list(WORKLOADS, where)
            for workload in page.items:
                if (row := _news(last, workload)) is not None:
                    yield row
            try:
                async for change, workload in http.watch(WORKLOADS, where, resource_version=page.resource_version):
                    if change in ("ADDED", "MODIFIED") and (row := _news(last, workload)) is not None:
                        yield row
            except (ConnectionFailed, Expired):
                await asyncio.sleep(1)

    async def queues(self, *, namespace: str = "", all_namespaces: bool = False) -> Table[QueueRow]:
        """The queues jobs can be submitted to."""
        where = "" if all_namespaces else namespace or self.namespace
        with as_corral_errors():
            page = await self._connection.http.list(LOCAL_QUEUES, where)
        return Table(QueueRow, map(_queue_row, page.items))

    async def clusters(self) -> Table[ClusterRow]:
        """The worker clusters of a manager; none where jobs are not dispatched."""
        http = self._connection.http
        try:
            with as_corral_errors():
                found = (await http.list(MULTI_KUEUE_CLUSTERS)).items
                workloads = (await http.list(WORKLOADS)).items if found else []
        except CorralError as error:
            if isinstance(error.__cause__, NotFound):
                return Table(ClusterRow, [])
            raise
        runs = [status_of(one).get("clusterName") for one in workloads if not wl.is_finished(one)]
        return Table(ClusterRow, [_cluster_row(one, runs.count(name_of(one))) for one in found])

    async def wait(self, jobs: Iterable[AsyncJob], timeout: float | None = None, *, check: bool = True) -> list[bool]:
        """Until all of some jobs have ended; whether each succeeded. Raises JobFailedError if one failed, unless `check` is False."""
        waited = list(jobs)
        try:
            succeeded = await asyncio.wait_for(wait_for(self._connection, waited), timeout)
        except TimeoutError as error:
            raise WaitTimeoutError(f"time ran out: not all of {len(waited)} jobs are finished yet") from error
        failed = [job.target for job, success in zip(waited, succeeded, strict=True) if not success]
        if failed and check:
            shown = ", ".join(failed[:SHOWN]) + (f" and {len(failed) - SHOWN} more" if len(failed) > SHOWN else "")
            raise JobFailedError(f"{len(failed)} of {len(waited)} jobs failed: {shown}")
        return succeeded


def _new_mark() -> str:
    """What the lines of a result begin with: nobody prints it by chance."""
    return f"{MARK}-{random_bytes(8).hex()}"


def _words(item: object) -> tuple[str, ...]:
    if isinstance(item, str) or not isinstance(item, Iterable):
        return (str(item),)
    return tuple(map(str, item))


def _items(each: int | Iterable[Any]) -> Iterable[Any]:
    return range(each) if isinstance(each, int) else each


def _content(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise SubmitError(f"{file}: {error.strerror}") from error


def _manifest_in(file: Path) -> Obj:
    import yaml

    try:
        documents = [one for one in yaml_documents.load_all(_content(str(file))) if one is not None]
    except (yaml.YAMLError, ValueError) as error:
        raise SubmitError(f"{file} is not YAML: {error}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise SubmitError(f"{file} holds {len(documents)} objects; one job is submitted at a time")
    return cast(Obj, documents[0])


def _program(what: object) -> str:
    """What is to run, by its name."""
    if not isinstance(what, str | os.PathLike):
        raise SubmitError(f"what is submitted is a program, a function or a manifest, and not {what!r}")
    return os.fspath(what)


def _create(client: SyncClient, request: Request, annotations: Mapping[str, str]) -> tuple[Resource, Obj]:
    request.check()
    archive = request.archive()
    wanted = submission_for(client, request, archive)
    if wanted.warning:
        warnings.warn(f"{wanted.name}: {wanted.warning}", stacklevel=1)  # the caller's own line is in another thread
    resource, job = object_of(client, request.kind, wanted)
    job = {**job, "metadata": {**job["metadata"], "annotations": dict(annotations)}}
    return resource, create(client, resource, job, send(client, archive, wanted.namespace) if archive else [])


def _create_manifest(client: SyncClient, manifest: Obj) -> tuple[Resource, Obj]:
    kind, group = str(manifest.get("kind") or ""), str(manifest.get("apiVersion") or "").rpartition("/")[0]
    if not kind:
        raise SubmitError(f"this is no manifest, for it has no kind: {json.dumps(manifest, default=str)[:80]}")
    resource = resource_named(client, f"{kind}.{group}" if group else kind)
    return resource, client.create(resource, manifest)


def _news(last: dict[tuple[str, str], JobRow], workload: Obj) -> JobRow | None:
    """The row of a Workload, if it is another than before."""
    key, row = (namespace_of(workload), name_of(workload)), _job_row(workload)
    if last.get(key) == row:
        return None
    last[key] = row
    return row


def _job_row(workload: Obj) -> JobRow:
    owner = next(iter(owner_references_of(workload)), {})
    failed = wl.is_finished(workload) and (conditions.find(workload, names.FINISHED) or {}).get("reason") == "Failed"
    return JobRow(
        namespace=namespace_of(workload),
        kind=str(owner.get("kind") or "Workload"),
        name=str(owner.get("name") or name_of(workload)),
        queue=wl.queue_of(workload),
        status="failed" if failed else wl.phase(workload).lower(),
        cluster=str(status_of(workload).get("clusterName") or ""),
        created=str(workload["metadata"].get("creationTimestamp") or ""),
    )


def _queue_row(queue: Obj) -> QueueRow:
    status = status_of(queue)
    return QueueRow(
        namespace=namespace_of(queue),
        name=name_of(queue),
        cluster_queue=str(spec_of(queue).get("clusterQueue") or ""),
        pending=int(status.get("pendingWorkloads") or 0),
        admitted=int(status.get("admittedWorkloads") or 0),
        active=conditions.is_true(queue, names.ACTIVE),
    )


def _cluster_row(cluster: Obj, running: int) -> ClusterRow:
    active = conditions.find(cluster, names.ACTIVE) or {}
    return ClusterRow(name_of(cluster), active.get("status") == "True", running, str(active.get("message") or ""))
