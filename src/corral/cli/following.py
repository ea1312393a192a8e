"""Following a job on a terminal: where it is now in one line, then what it writes, then how it ended."""

from __future__ import annotations

import contextlib
import time
from typing import Final

from corral.cli.log_streams import LogWish, Place, Streams
from corral.cli.output.interruptions import INTERRUPTED, discard_output, hanging_up_interrupts, heard_at_once
from corral.cli.output.live import LiveLine
from corral.client.sync import SyncClient
from corral.core.errors import ApiError, ConnectionFailed, NotFound
from corral.core.meta import Obj, name_of, namespace_of
from corral.core.resource import Resource
from corral.inspect.concerns import Concerns
from corral.inspect.lookup import workload_of
from corral.inspect.placed_pods import WorkerSilent, where_pods_run
from corral.jobs.framework.registry import ENDINGS
from corral.submit.progress import ending, exit_code, progress_of

POLL_S: Final = 0.3
LOGS_S: Final = 5.0
"""How long the end of the logs is waited for after the job has ended."""
GONE_S: Final = 20.0
"""How long a cancelled job has to go before its user is left to look by himself."""


class Follower:
    """One job that somebody watches."""

    def __init__(self, client: SyncClient, resource: Resource, job: Obj, live: LiveLine | None = None) -> None:
        self._client = client
        self._resource = resource
        self._name = name_of(job)
        self._namespace = namespace_of(job)
        self._live = live or LiveLine()
        self._streams = Streams(LogWish(follow=True), self._live)
        self._pods: dict[str, Obj] = {}
        self._success: bool | None = None
        self._concerns = Concerns()

    def follow(self, *, cancels: bool) -> int:
        """Show everything until the end; the job's exit code. An interruption, or that nobody reads any more, cancels the job
        or leaves it as it is."""
        with hanging_up_interrupts() if cancels else contextlib.nullcontext():
            try:
                with heard_at_once():
                    return self._until_the_end()
            except (KeyboardInterrupt, BrokenPipeError) as reason:
                if isinstance(reason, BrokenPipeError):
                    discard_output()
                if self._success is not None:
                    self._live.finish(
                        f"{self._name}: {self._ending(self._success)}; the end of its log was not waited for"
                    )
                    return INTERRUPTED
                if not cancels:
                    self._live.finish(f"{self._name} goes on; `corral logs -f {self._target}` shows it again")
                    return INTERRUPTED
            return self.cancel()

    def cancel(self) -> int:
        """Delete the job and wait until it is gone; whoever interrupts that as well is told what happens without him."""
        try:
            self._live.say(f"{self._name}: cancelling; Ctrl-C again leaves at once")
            self._delete()
            self._live.finish(f"{self._name}: cancelled and deleted")
        except KeyboardInterrupt:
            self._live.finish(
                f"{self._name}: left; it is being deleted, `corral get {self._target}` shows whether it is gone"
            )
        except ApiError as error:
            self._live.finish(f"{self._name}: not cancelled: {error}; `corral delete {self._target}` tries again")
        return INTERRUPTED

    def _delete(self) -> None:
        deadline = time.monotonic() + GONE_S
        try:
            self._client.delete(self._resource, self._name, self._namespace)
            while time.monotonic() < deadline:
                self._client.get(self._resource, self._name, self._namespace)
                time.sleep(POLL_S)
        except NotFound:
            return

    @property
    def _target(self) -> str:
        return f"{self._resource.kind.lower()}/{self._name}"

    def _until_the_end(self) -> int:
        while True:
            try:
                job = self._client.get(self._resource, self._name, self._namespace)
                workload = workload_of(self._client, self._resource, job, self._namespace)
            except NotFound:
                self._live.finish(f"{self._name} was deleted")
                return 1
            except ConnectionFailed as error:
                self._live.say(f"{self._name}: {error}; trying again")
                time.sleep(POLL_S)
                continue
            self._streams.check_reader()
            self._success = ENDINGS.success(
                {**job, "apiVersion": self._resource.api_version, "kind": self._resource.kind}
            )
            places = self._places(job, workload)
            for where, pod in places or ():
                self._streams.begin(where, pod)
            if self._success is None and places is not None:
                self._warn(job, workload, [pod for _, pod in places])
            if self._success is not None:
                return self._end(self._success)
            time.sleep(POLL_S)

    def _places(self, job: Obj, workload: Obj | None) -> list[Place] | None:
        """Its pods, and a word on how far they are; None where they cannot be asked for."""
        try:
            found = where_pods_run(self._client, self._resource, job, workload, self._namespace)
        except WorkerSilent as error:
            self._live.say(f"{self._name}: {error}")
            return None
        except ApiError:
            return None  # a worker that does not answer now may do so soon
        pods = [pod for _, pod in found]
        self._pods |= {name_of(pod): pod for pod in pods}
        self._streams.expect(pods)
        self._live.say(f"{self._name}: {progress_of(workload, pods, None, self._concerns.position).text}")
        return found

    def _warn(self, job: Obj, workload: Obj | None, pods: list[Obj]) -> None:
        """What keeps its pods from running, and what to do where waiting cures nothing, once."""
        for sentence in self._concerns.of_job(self._client, self._resource, job, workload, pods, time.monotonic()):
            self._live.echo(f"# {sentence}", err=True)

    def _end(self, success: bool) -> int:
        self._streams.join(LOGS_S)
        self._live.finish(f"{self._name}: {self._ending(success)}")
        return self._code(success)

    def _ending(self, success: bool) -> str:
        sentence = ending(list(self._pods.values()), success)
        return sentence if success else f"{sentence}; `corral explain {self._target}` says more"

    def _code(self, success: bool) -> int:
        return exit_code(list(self._pods.values()), success)
