"""What the dispatch decisions look at, and the steps they answer with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from corral.core.meta import Obj

ALL_AT_ONCE = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"
LATE_BINDING = "corral.dev/late-binding"
EVICTED_ON_WORKER = "EvictedOnWorker"


@dataclass(frozen=True, slots=True)
class RemoteView:
    """One worker as seen from the manager: whether it can be reached, and its copy of the Workload.

    `admitted_at` is when the manager first saw the copy admitted; times on the wire have whole seconds, too coarse to
    tell who was first.
    """

    connected: bool
    workload: Obj | None = None
    lost_since: float = 0.0
    admitted_at: float = 0.0
    has_job: bool = False
    """Whether our job is there or being made there, with a copy of the Workload or without."""


@dataclass(frozen=True, slots=True)
class DispatchView:
    """A Workload on the manager, the check that dispatches it, and the configured workers that matter to it, in the order of
    the config: the one it has, those that hold something of it, and those out of reach."""

    workload: Obj
    check: str
    remotes: Mapping[str, RemoteView]
    now: float
    worker_lost_timeout: float
    strays: Collection[str] = ()
    """Connected workers that hold a copy or a job although the config does not list them any more."""
    keep_finished: float = 0.0
    """How long the copy and the job of a finished Workload stay where they ran."""
    away: Mapping[str, float] = field(default_factory=dict)
    """Workers out of reach that may be running the job, and since when each is."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """Wait; something else has to happen first. `again_after` seconds from now look again, if set."""

    why: str
    again_after: float | None = None
    is_reported: bool = False
    """Whether `why` is written where users see it."""


@dataclass(frozen=True, slots=True)
class CleanUp:
    """Remove the copies and jobs from these workers; look again later for those out of reach."""

    clusters: tuple[str, ...]
    again_after: float | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """Copy the job's last status from `cluster` and finish the Workload with the copy's Finished condition."""

    cluster: str
    condition: Obj


@dataclass(frozen=True, slots=True)
class SendBack:
    """Set the check to Retry: the Workload is evicted, requeued and dispatched anew. `reason` is one word for metrics."""

    reason: str
    message: str
    event_type: str = ""
    event_message: str = ""


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """Copy the job's status from `cluster`, nothing else: the Workload is being evicted on both sides."""

    cluster: str


@dataclass(frozen=True, slots=True)
class Deactivate:
    """Ask the worker to stop its copy, because the manager evicts the Workload; keep copying its status."""

    cluster: str
    message: str


@dataclass(frozen=True, slots=True)
class Settle:
    """The Workload is evicted and no reachable worker has a copy, so no worker will report that the job has stopped: the
    manager declares it stopped, which ends the eviction."""


@dataclass(frozen=True, slots=True)
class UpdateSpec:
    """Bring fields of the copy's spec in line with the manager's."""

    cluster: str
    spec: Obj


@dataclass(frozen=True, slots=True)
class Start:
    """`cluster` was the first to admit it: drop the other copies, make the job there, mark the check Ready."""

    cluster: str
    drop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mirror:
    """The Workload has `cluster` already: carry changes of the job there, and its status back."""

    cluster: str


@dataclass(frozen=True, slots=True)
class Nominate:
    """No worker has it yet: let the dispatcher name workers, and make the copies follow."""


DispatchStep = (
    Nothing | CleanUp | Finish | SendBack | SyncStatus | Deactivate | Settle | UpdateSpec | Start | Mirror | Nominate
)
"""What to do next: one of these."""
