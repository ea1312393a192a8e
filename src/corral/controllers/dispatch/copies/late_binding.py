"""Late binding: the one worker that can start a Workload now or soonest, by what every worker's queues have free."""

from __future__ import annotations

from collections.abc import Container, Sequence

from corral.controllers.dispatch.context import DispatchContext, DispatchedWorkload
from corral.controllers.dispatch.copies.promises import Promises
from corral.controllers.dispatch.workers.capacity import WorkerQueues, usage_mark
from corral.controllers.dispatch.workers.remotes import Remote
from corral.core import conditions
from corral.core.meta import Key, Obj, key_of, labels_of
from corral.decide.dispatch import binding, model, nominate
from corral.decide.dispatch.nominate import Nomination
from corral.decide.dispatch.reasons import grouped_reasons
from corral.decide.dispatch.room import demands_of
from corral.decide.dispatch.room import total as total_of
from corral.kinds.kueue import names
from corral.workload import workload as wl


class LateBinding:
    """Binds Workloads, and remembers the bindings that do not show in the caches yet.

    At most one worker is nominated at a time. `_binding` holds what was decided and may not be written or seen yet: two
    Workloads decided one after the other must not both count on the same room. `_refused` holds the usage a worker had
    when it did not take a Workload; it counts until that usage changes, because only then can the answer.
    """

    def __init__(self, context: DispatchContext) -> None:
        self._context = context
        self._binding: dict[Key, str] = {}
        self._refused: dict[Key, dict[str, object]] = {}
        self._promises = Promises()
        self._is_used = context.settings.dispatcher == model.LATE_BINDING
        if self._is_used:
            context.workloads.on_change(lambda old, new: self.note(key_of(new or old or {})))

    def forget(self, key: Key) -> None:
        """The Workload is gone or has its cluster."""
        self._refused.pop(key, None)
        if self._binding.pop(key, None) is not None:
            self.note(key)

    def note(self, key: Key) -> None:
        """A Workload changed, here or on a worker: it is promised room where it is bound and has no quota yet."""
        if not self._is_used:
            return
        workload = self._context.workloads.get(key)
        bound = () if workload is None else self._bound(workload)
        waiting = [name for name in bound if not self._has_reserved(name, key)]
        self._promises.keep(key, waiting, lambda: total_of(demands_of(workload or {})))

    def stays(self, workload: Obj) -> bool:
        """Whether a Workload waits for the word of the worker it is bound to, however much room others have."""
        current = self._current(workload, self._context.refusals.barred(key_of(workload)))
        return bool(current) and not self._is_refused(current, key_of(workload))

    def bind(self, subject: DispatchedWorkload, configured: Sequence[str], barred: Container[str] = ()) -> Nomination:
        """The one worker that can start the Workload now or soonest; it stays where a worker has reserved quota for it."""
        workload = subject.workload
        current = self._current(workload, barred)
        # A worker that has not looked at its copy yet has not refused it; leaving now would never let anybody answer.
        if current and not self._is_refused(current, key_of(workload)):
            return Nomination((current,))
        if current:
            self._note_refusal(current, workload)
        views = [self._worker_view(name, subject) for name in configured]
        choice = binding.choose(workload, subject.jobs[0] if subject.jobs else None, views)
        chosen = binding.rebind(choice, current)
        self._report(subject, choice, chosen)
        self._binding[key_of(workload)] = chosen
        self.note(key_of(workload))
        return Nomination((chosen,) if chosen else ())

    def _current(self, workload: Obj, barred: Container[str]) -> str:
        """The worker a Workload is bound to; empty when there is none that may have it."""
        return next((name for name in nominate.nominated(workload) if name not in barred), "")

    def _report(self, subject: DispatchedWorkload, choice: binding.Choice, chosen: str) -> None:
        """Why the Workload waits on each worker; of one that can start somewhere, why it goes there and not elsewhere."""
        ranked = {entry.name: entry for entry in choice.ranked}
        others = {name: entry.why for name, entry in ranked.items() if name != chosen}
        if chosen not in ranked or not ranked[chosen].starts_now:
            subject.rejected = {**choice.rejected, **others}
        elif choice.rejected and self._binding.get(key_of(subject.workload)) != chosen:
            message = f"{grouped_reasons({chosen: ranked[chosen].why})}; {grouped_reasons(choice.rejected)}"
            self._context.manager.recorder.event(subject.workload, "Normal", "Bound", message)

    def _is_refused(self, cluster: str, key: Key) -> bool:
        """Whether a worker has looked at its copy and could not take it, or is gone."""
        remote = self._context.remotes.get(cluster)
        if remote is None or not remote.connected or self._context.worker_tasks.is_silent(cluster, key):
            return True
        copy = remote.workload(key)
        return copy is not None and conditions.is_false(copy, names.QUOTA_RESERVED)

    def _has_reserved(self, cluster: str, key: Key) -> bool:
        remote = self._context.remotes.get(cluster)
        copy = remote.workload(key) if remote is not None else None
        return copy is not None and conditions.is_true(copy, names.QUOTA_RESERVED)

    def _worker_view(self, cluster: str, subject: DispatchedWorkload) -> binding.WorkerView:
        described = self._context.clusters.get(Key("", cluster))
        remote = self._context.remotes.get(cluster)
        queues = _queues(remote)
        if remote is None or queues is None:
            return binding.WorkerView(cluster, connected=False)
        if self._context.worker_tasks.is_silent(cluster, key_of(subject.workload)):
            return binding.WorkerView(cluster, answers=False)
        queue = self._queue(cluster, subject.workload)
        refused = self._refused.get(key_of(subject.workload), {}).get(cluster)
        return queues.view(
            cluster,
            labels_of(described) if described else {},
            queue,
            serves=remote.supports(subject.adapter.resource),
            promised=self._promised(cluster, subject.workload),
            refused=refused is not None and queue is not None and refused == usage_mark(queue),
        )

    def _queue(self, cluster: str, workload: Obj) -> Obj | None:
        """The ClusterQueue that a worker has for a Workload."""
        remote = self._context.remotes.get(cluster)
        queues = _queues(remote)
        if remote is None or remote.local_queues is None or queues is None:
            return None
        return queues.behind(remote.local_queues.get(wl.local_queue_key(workload)))

    def _note_refusal(self, cluster: str, workload: Obj) -> None:
        """Remember what a worker's usage was when it did not take a Workload: as long as it stays, asking again is no use."""
        remote, queue = self._context.remotes.get(cluster), self._queue(cluster, workload)
        copy = remote.workload(key_of(workload)) if remote is not None else None
        if queue is not None and copy is not None and conditions.is_false(copy, names.QUOTA_RESERVED):
            self._refused.setdefault(key_of(workload), {})[cluster] = usage_mark(queue)

    def _promised(self, cluster: str, workload: Obj) -> dict[str, int]:
        """What was bound to a worker and does not show in its usage yet.

        For one that is bound already only older ones count: two that made way for each other would never come to rest.
        """
        key = key_of(workload)
        if not nominate.nominated(workload):
            return self._promises.total(cluster, key)
        total: dict[str, int] = {}
        for other_key, amounts in self._promises.of(cluster):
            other = self._context.workloads.get(other_key)
            if other is None or other_key == key or nominate.age(other) > nominate.age(workload):
                continue
            for resource, amount in amounts.items():
                total[resource] = total.get(resource, 0) + amount
        return total

    def _bound(self, workload: Obj) -> tuple[str, ...]:
        """The workers a Workload is bound to, a nomination included that is being written right now."""
        name = self._binding.get(key_of(workload))
        return nominate.nominated(workload) if name is None else (name,) if name else ()


def _queues(remote: Remote | None) -> WorkerQueues | None:
    """The queues of a worker that can be reached."""
    return remote.queues if remote is not None and remote.connected else None
