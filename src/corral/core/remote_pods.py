"""Pods that run on other clusters, as protocols: a manager knows where they are, its API server shows and reaches them.

They are no objects of the manager: nothing is stored, no controller sees them, they cannot be written. Only people and
programs that talk to the manager's API see them, next to its own pods.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from corral.core.meta import Obj
from corral.core.streams import LogOptions

CLUSTER_LABEL = "corral.dev/cluster"
"""On a pod that is shown but runs elsewhere: the cluster that runs it."""
CALL_ANNOTATION = "corral.dev/call"
"""On a job that runs a function: what its result is marked with at the end of its logs. Somebody waits for them."""


class PodListing(StrEnum):
    """Which pods elsewhere lists and watches show to a client that does not name their cluster. By name all are found."""

    LISTED = "Listed"
    """Those of jobs that have no pods here; pods that wait here for good are shown as what runs for them."""
    ON_REQUEST = "OnRequest"
    """None, and own pods as they are stored: what MultiKueue shows."""


class Forwarded(Protocol):
    """Another server's answer to a request that was handed on. After a 101 the bytes go through `receive` and `send`."""

    status: int

    @property
    def headers(self) -> Sequence[tuple[str, str]]: ...

    def chunks(self) -> AsyncIterator[bytes]: ...

    async def receive(self) -> bytes:
        """The next bytes, or b"" at the end."""
        ...

    async def send(self, data: bytes) -> None: ...


@runtime_checkable
class Forwards(Protocol):
    """A client that can hand a request on as it is, upgrades included, with its own credentials."""

    async def forward(
        self, method: str, target: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Forwarded]: ...


class PodChange(NamedTuple):
    """A pod elsewhere that came, changed (`old` is what it was) or went (`new` is None)."""

    old: Obj | None
    new: Obj | None


class PodFeed(Protocol):
    """Changes in order. `poll` has those that came already; `wait` returns once there are some."""

    def poll(self) -> list[PodChange]: ...

    async def wait(self) -> None: ...

    def close(self) -> None: ...


class RemotePodSource(Protocol):
    """The pods of dispatched jobs, with the labels and owners they would have if they ran here."""

    @property
    def listing(self) -> PodListing: ...

    def has_stand_ins(self, pod: Obj) -> bool:
        """Whether the job of this pod also has pods here, which wait behind their gates."""
        ...

    async def list(self, namespace: str = "", revision: int = 0) -> Sequence[Obj]:
        """All pods, or those of one namespace; `revision` is that of the list they become part of."""
        ...

    async def get(self, namespace: str, name: str) -> Obj | None: ...

    def known(self, namespace: str, name: str) -> Obj | None:
        """What is known of a pod without asking anybody."""
        ...

    async def follow(self, after: int) -> tuple[Sequence[Obj], PodFeed]:
        """The changes since a list of revision `after`, or, if that is 0, all pods and the changes from now on.

        Raises Expired when it is too long ago.
        """
        ...

    def kept_log(self, pod: Obj, container: str, options: LogOptions) -> bytes | None:
        """What was kept of the log of a pod that is gone where it ran; None when the pod is still there."""
        ...

    async def forward(
        self, pod: Obj, method: str, target: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Forwarded]:
        """Hand a request on to the cluster that runs the pod."""
        ...
