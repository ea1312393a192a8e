"""What the entries of a round have taken so far: victims that are claimed, and room that is kept from later entries.

Both end with the round. Whatever is changed to answer a question is changed back before returning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from corral.core.meta import Key
from corral.decide.queueing.cycle.assignment import TopologyUsage
from corral.decide.queueing.cycle.entry import Entry
from corral.decide.queueing.cycle.preemption.candidates import Target
from corral.decide.queueing.cycle.preemption.classical import simulate_removal, undo_removal
from corral.decide.queueing.model.values import Usage
from corral.decide.queueing.quota.cluster_queue import ClusterQueue, Reservation
from corral.decide.queueing.topology.cluster import TopologyCluster


class RoundClaims:
    """The victims and the room that entries of one round have claimed."""

    def __init__(self, topology: TopologyCluster) -> None:
        self._topology = topology
        self._victims: dict[Key, Reservation] = {}
        self._kept: list[tuple[ClusterQueue, Usage, TopologyUsage]] = []

    # -- victims --------------------------------------------------------------------------------------------------

    def claim(self, targets: Iterable[Target]) -> None:
        """Nobody else may count on these victims."""
        for target in targets:
            self._victims[target.reservation.info.key] = target.reservation

    def forget_victims(self) -> None:
        self._victims.clear()

    @property
    def has_victims(self) -> bool:
        return bool(self._victims)

    def overlap(self, entry: Entry) -> bool:
        """Does the entry count on a victim of another one?"""
        victims = self._victims
        return bool(victims) and any(target.reservation.info.key in victims for target in entry.targets)

    @contextmanager
    def victims_gone(self) -> Iterator[None]:
        """The world as it will be once all victims claimed so far have left."""
        victims = list(self._victims.values())
        for reservation in victims:
            reservation.queue.remove(reservation)
            self._topology.give_back(reservation.topology_usage)
        try:
            yield
        finally:
            for reservation in victims:
                reservation.queue.add(reservation)
                self._topology.take(reservation.topology_usage)

    # -- room -----------------------------------------------------------------------------------------------------

    def keep(self, queue: ClusterQueue, usage: Usage, domains: TopologyUsage) -> None:
        """Keep room from later entries until the round ends."""
        queue.node.add(usage)
        self._topology.take(domains)
        self._kept.append((queue, usage, domains))

    def keep_for(self, entry: Entry) -> None:
        """Keep the room the entry was nominated for."""
        self.keep(entry.queue, entry.usage, entry.nominated.topology_usage)

    def give_up_room(self) -> None:
        if self._kept:
            self._open_room()
            self._kept.clear()

    def _open_room(self) -> None:
        for queue, usage, domains in self._kept:
            queue.node.remove(usage)
            self._topology.give_back(domains)

    def _close_room(self) -> None:
        for queue, usage, domains in self._kept:
            queue.node.add(usage)
            self._topology.take(domains)

    # -- does it fit? ---------------------------------------------------------------------------------------------

    def fits(self, entry: Entry) -> tuple[bool, bool]:
        """Quota and nodes, with every victim claimed so far and the entry's own gone.

        Whoever leaves only makes room. So the victims of others, of which there may be hundreds, are looked at only where there is
        not enough without them; and as to quota, only those of the same tree.
        """
        own = [target.reservation for target in entry.targets]
        for reservation in own:
            simulate_removal(reservation)
        quota, nodes = entry.queue.node.fits(entry.usage), self._fits_nodes(entry)
        if self._victims and not (quota and nodes):
            others = self._others(entry, everywhere=not nodes)
            for reservation in others:
                simulate_removal(reservation)
            quota, nodes = quota or entry.queue.node.fits(entry.usage), nodes or self._fits_nodes(entry)
            own += others
        for reservation in own:
            undo_removal(reservation)
        return quota, nodes

    def _others(self, entry: Entry, *, everywhere: bool) -> list[Reservation]:
        """Claimed victims beside the entry's own: in its tree, or everywhere, as trees may share nodes."""
        own, root = {target.reservation.info.key for target in entry.targets}, entry.queue.node.root()
        return [
            reservation
            for key, reservation in self._victims.items()
            if key not in own and (everywhere or reservation.queue.node.root() is root)
        ]

    def fits_already(self, entry: Entry) -> bool:
        """Quota and nodes as they are, while the victims of this round still hold theirs."""
        self._open_room()
        fits = entry.queue.node.fits(entry.usage) and self._fits_nodes(entry)
        self._close_room()
        return fits

    def _fits_nodes(self, entry: Entry) -> bool:
        domains = entry.nominated.topology_usage
        return not domains or self._topology.fits(entry.queue.topology_flavors, domains)
