"""Where a job may be running although no worker in reach shows it: a job must not be started a second time meanwhile.

A worker is noted before a job is made there, so an answer that gets lost, a connection that is replaced or a worker that
goes out of reach in the middle of it leaves a trace. It is forgotten when the worker shows that the job is not there.
"""

from __future__ import annotations

from corral.controllers.dispatch.workers.remotes import Remotes
from corral.core import conditions
from corral.core.meta import Key, Obj, key_of, status_of
from corral.core.timestamps import parse_time
from corral.decide.dispatch import nominate
from corral.kinds.kueue import names
from corral.runtime.clock import Clock


class PossibleLocations:
    """The workers each job may be on, as far as this manager has seen since it started."""

    def __init__(self, clock: Clock, remotes: Remotes) -> None:
        self._clock, self._remotes = clock, remotes
        self._started = clock.now()
        self._known: dict[Key, dict[str, bool]] = {}
        """By Workload and worker: True when the job may be there, False when it was seen to be gone. No entry means that
        nothing was seen since this manager started, which is not the same as gone (see `away`)."""
        self._untouched: dict[Key, set[str]] = {}

    def begin(self, key: Key, cluster: str) -> None:
        """A job is about to be made on a worker, or was seen there."""
        self._known.setdefault(key, {})[cluster] = True
        self._untouched.get(key, set()).discard(cluster)

    def asked(self, key: Key, cluster: str) -> None:
        """A worker had nothing of this Workload and has a copy now: no job, unless one is begun from here."""
        if not self.may_be(key, cluster):
            self._untouched.setdefault(key, set()).add(cluster)

    def is_untouched(self, key: Key, cluster: str) -> bool:
        """Whether no job was ever begun on a worker that has a copy. Nobody needs to ask the worker for it then."""
        return cluster in self._untouched.get(key, ())

    def gone(self, key: Key, cluster: str) -> None:
        """The job is not on this worker any more."""
        self._known.setdefault(key, {})[cluster] = False

    def moved(self, cluster: str, other: str) -> None:
        """A worker goes by another name from now on."""
        for known in self._known.values():
            if known.pop(cluster, False):
                known[other] = True
        for untouched in self._untouched.values():
            untouched.discard(other)

    def known_on(self, cluster: str) -> list[Key]:
        """The Workloads whose jobs are, or may be, or were on a worker."""
        return [key for key, known in self._known.items() if cluster in known]

    def forget(self, key: Key) -> None:
        """The Workload is gone or has ended. Workers out of reach are still remembered: their copy has to be removed."""
        self._untouched.pop(key, None)
        left = {
            name: True for name, may_be in self._known.pop(key, {}).items() if may_be and self._remotes.is_away(name)
        }
        if left:
            self._known[key] = left

    def of(self, key: Key) -> list[str]:
        """The workers that may be running the job."""
        return [name for name, may_be in self._known.get(key, {}).items() if may_be]

    def may_be(self, key: Key, cluster: str) -> bool:
        return self._known.get(key, {}).get(cluster, False)

    def away(self, workload: Obj) -> dict[str, float]:
        """The workers out of reach that may be running the job, and since when each is."""
        known, chosen = self._known.get(key_of(workload), {}), status_of(workload).get("clusterName")
        candidates = {name for name, may_be in known.items() if may_be}
        # After a restart memory is empty and the status is all there is: a Workload that names a cluster has its job there
        # until that cluster was seen without it.
        if chosen and known.get(str(chosen), True):
            candidates.add(str(chosen))
        # The process before this one may have begun to make the job without getting to write the cluster's name.
        if not chosen and self._is_older(workload):
            candidates.update(name for name in nominate.nominated(workload) if not self._remotes.has_met(name))
        return {name: self._away_since(name) for name in sorted(candidates) if self._remotes.is_away(name)}

    def fenced_in(self, key: Key, limit: float) -> float:
        """Seconds until every worker out of reach that may hold the Workload has stopped it by itself.

        A worker that fences stops what a manager gave it when it has not heard of that manager for `limit` seconds.
        """
        now = self._clock.now()
        left = [remote.lost_since + limit - now for remote in self._remotes.unreachable() if remote.may_hold(key)]
        return max(left, default=0.0)

    def _is_older(self, workload: Obj) -> bool:
        """Whether a Workload may have been given to a worker before this manager started."""
        reserved = (conditions.find(workload, names.QUOTA_RESERVED) or {}).get("lastTransitionTime")
        return bool(reserved) and parse_time(str(reserved)) <= self._started

    def _away_since(self, cluster: str) -> float:
        remote = self._remotes.get(cluster)
        return remote.lost_since if remote is not None else self._remotes.missed_since(cluster, self._clock.now())
