"""A job as its adapter reads it, each answer computed once per reconcile."""

from __future__ import annotations

from functools import cached_property

from corral.core.meta import Obj, annotations_of
from corral.jobs.framework.adapter import JobAdapter, JobOutcome, Lookup, prebuilt_workload
from corral.kinds.kueue import names
from corral.workload.podsets import PodSet


class JobView:
    """One version of one job."""

    def __init__(self, adapter: JobAdapter, job: Obj, lookup: Lookup, *, elastic: bool = False) -> None:
        """`elastic`: it may change its size while it runs, under one Workload slice after the other."""
        self.adapter = adapter
        self.job = job
        self.elastic = elastic
        self._lookup = lookup

    @property
    def prebuilt(self) -> str:
        """The Workload that somebody else made for it, or empty."""
        return prebuilt_workload(self.job) if self.adapter.prebuilt else ""

    @cached_property
    def suspended(self) -> bool:
        return self.adapter.is_suspended(self.job)

    @cached_property
    def finish(self) -> JobOutcome | None:
        """How it ended, if it has."""
        return self.adapter.finished(self.job)

    @property
    def runs(self) -> bool:
        """Whether pods are wanted now."""
        return not self.suspended and self.finish is None

    @property
    def changed_by_admission(self) -> bool:
        """Whether its templates may show what admission put there: it was started, or is only about to be stopped."""
        return not self.suspended or names.STOPPING in annotations_of(self.job)

    @cached_property
    def pod_sets(self) -> list[PodSet]:
        """The pods it runs. Raises ValueError with the reason when they cannot be told yet."""
        return self.adapter.pod_sets(self.job, self._lookup)
