"""Handing out what pods must not share: loopback addresses."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network


class Exhausted(Exception):
    """There is nothing left to hand out."""


class Addresses:
    """The addresses of one cluster's pods. The lowest free one after the last handed out is next, so reuse is late."""

    def __init__(self, network: str) -> None:
        self._network = IPv4Network(network)
        self._first = int(self._network.network_address) + 10
        self._size = self._network.num_addresses - 11
        self._taken: dict[str, str] = {}
        self._used: set[int] = set()
        self._next = 0

    def covers(self, address: str) -> bool:
        """Whether an address is one of those handed out here."""
        return 0 <= int(IPv4Address(address)) - self._first < self._size

    def take(self, holder: str) -> str:
        """The address of `holder`, the same on every call until it is given back."""
        if holder in self._taken:
            return self._taken[holder]
        for _ in range(self._size):
            offset, self._next = self._next, (self._next + 1) % self._size
            if offset not in self._used:
                return self._keep(holder, offset)
        raise Exhausted(f"no address left in {self._network}")

    def restore(self, holder: str, address: str) -> None:
        """Mark an address as taken since an earlier life."""
        self._keep(holder, int(IPv4Network(address).network_address) - self._first)

    def give_back(self, holder: str) -> None:
        address = self._taken.pop(holder, None)
        if address is not None:
            self._used.discard(int(IPv4Network(address).network_address) - self._first)

    def _keep(self, holder: str, offset: int) -> str:
        self._used.add(offset)
        number = self._first + offset
        address = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
        self._taken[holder] = address
        return address
