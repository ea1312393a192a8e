"""Who is woken when a Workload changes: the controllers of whatever owns it. One look per change, however many kinds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from corral.controllers.queueing.workloads.changes import concerns_owner
from corral.core.meta import Key, Obj, annotations_of, key_of, namespace_of, owner_references_of
from corral.kinds.kueue import names

Wake = Callable[[Key], None]
Awaited = Mapping[str, Collection[Key]]
"""Owners by the `namespace/name` of the Workload they wait for."""

POD = ("", "Pod")


class WorkloadOwners:
    """Leads from Workloads to the controllers of their owners."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str], Wake] = {}
        self._named: dict[tuple[str, str], Wake] = {}
        self._groups: Wake | None = None
        self._awaited: list[tuple[Awaited, Wake]] = []

    def add(self, group: str, kind: str, wake: Wake, *, awaited: Awaited | None = None, named: bool = False) -> None:
        """`wake` gets the key of an owner of this kind; of a new Workload which nobody owns, the keys of those that `awaited` has for it.

        With `named`, an owner that the Workload only names counts as well: on a worker the manager makes it before there is one.
        """
        self._owners[group, kind] = wake
        if awaited is not None:
            self._awaited.append((awaited, wake))
        if named:
            self._named[group, kind] = wake

    def add_groups(self, wake: Wake) -> None:
        """`wake` gets the key of a Workload that stands for a group of pods."""
        self._groups = wake

    def changed(self, old: Obj | None, new: Obj | None) -> None:
        """An informer handler."""
        if not concerns_owner(old, new):
            return
        if old is None and new is not None and not owner_references_of(new):
            self._end_waiting(key_of(new))
        if old is not None and (new is None or _ownership(old) != _ownership(new)):
            self._wake(old)
        if new is not None:
            self._wake(new)

    def _end_waiting(self, workload: Key) -> None:
        for awaited, wake in self._awaited:
            if awaited:  # of the kinds of jobs there are, few are in use
                for owner in sorted(awaited.get(str(workload), ())):
                    wake(owner)

    def _wake(self, workload: Obj) -> None:
        references, notes = owner_references_of(workload), annotations_of(workload)
        if not references and not notes:
            return
        namespace, is_group = namespace_of(workload), names.IS_GROUP_WORKLOAD in notes
        for reference in references:
            owner = _owner(reference)
            wake = self._owners.get(owner) if owner != POD or not is_group else None
            if wake is not None:
                wake(Key(namespace, str(reference["name"])))
        if is_group and self._groups is not None:
            self._groups(key_of(workload))
        named = self._named.get(_named_owner(notes[names.JOB_OWNER_GVK])) if names.JOB_OWNER_GVK in notes else None
        if named is not None:
            named(Key(namespace, notes.get(names.JOB_OWNER_NAME, "")))


def _ownership(workload: Obj) -> Iterable[object]:
    return owner_references_of(workload), annotations_of(workload)


def _owner(reference: Obj) -> tuple[str, str]:
    return str(reference.get("apiVersion", "")).rpartition("/")[0], str(reference.get("kind", ""))


def _named_owner(text: str) -> tuple[str, str]:
    """Group and kind of an owner that is named as `apps/v1, Kind=StatefulSet`."""
    version, _, kind = text.partition(", Kind=")
    return version.rpartition("/")[0], kind
