"""What a node agent needs from whatever runs its pods.

Two implementations: processes on this machine, and pods that only pretend, on any clock. A runtime observes and obeys; it
never decides: when a container starts, stops or is restarted is the agent's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from corral.core.meta import Obj
from corral.core.streams import PodStreams
from corral.decide.pods.record import Ended, PodRecord


class RuntimeProblem(Exception):
    """A container cannot be started now. `reason` is the waiting reason to show; the agent tries again later.

    An empty message means that nothing is wrong: it just takes time.
    """

    def __init__(self, reason: str, message: str, retry_s: float = 2.0, event: str = "Failed") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_s = retry_s
        self.event = event


class StartFailure(Exception):
    """The program of a container does not start at all; that run counts as ended with exit code 128."""


class Sandbox(NamedTuple):
    """The surroundings of a pod's containers."""

    address: str


class StartedContainer(NamedTuple):
    id: str
    at: float
    waits_for_probe: bool = False
    """Whether it becomes ready only when a probe says so."""
    note: str = ""
    """Something to tell the user in an Event."""


@dataclass(slots=True)
class Observer:
    """Where a runtime reports what it sees. Calls may come at any time on the event loop."""

    ended: Callable[[str, str, int, Ended], None]
    """(pod uid, container, attempt, how)"""
    probed: Callable[[str, str, bool | None, bool | None], None]
    """(pod uid, container, started or None, ready or None)"""
    unhealthy: Callable[[str, str, str, str, bool], None]
    """(pod uid, container, kind of probe, message, whether the container is to be restarted)"""
    exceeded: Callable[[str, str], None]
    """(pod uid, message): the pod has written more than it may, and is to be evicted"""


class PodRuntime(PodStreams, Protocol):
    """Runs containers, and gives access to them."""

    async def open(self, observer: Observer, capacity: Mapping[str, Mapping[str, str]]) -> None:
        """Get ready, for nodes with these capacities; after this the runtime may report."""
        ...

    async def close(self) -> None:
        """Leave without touching what runs."""
        ...

    async def shut_down(self, grace: float = 2.0) -> None:
        """End everything that runs, by force after `grace` seconds: the end of the cluster, not of a control plane."""
        ...

    async def recover(self, pod: Obj) -> PodRecord | None:
        """What is known about a pod from before this process started; None when it never ran here."""
        ...

    async def prepare(self, pod: Obj) -> Sandbox:
        """Address, folders and volumes. Cheap when called again. Raises RuntimeProblem."""
        ...

    async def start(self, pod: Obj, container: Obj, attempt: int) -> StartedContainer:
        """Run number `attempt` of a container. The same number twice starts it once. Raises RuntimeProblem, StartFailure."""
        ...

    async def stop(self, pod: Obj, container: Obj, attempt: int, grace: float) -> None:
        """Ask the container to end and see that it has ended after `grace` seconds. Returns at once; `ended` follows."""
        ...

    def release(self, uid: str) -> None:
        """The pod has ended: others may have its address and devices. Its logs stay."""
        ...

    def known(self) -> list[str]:
        """The uids of all pods this runtime holds something for."""
        ...

    async def remove(self, uid: str) -> None:
        """Forget a pod, killing whatever still runs of it."""
        ...
