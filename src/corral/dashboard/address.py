"""Where the page is served: under which names, and with which certificate.

A browser tells the name it was sent to. A page of another site can make a name of its own point here, but it cannot make the browser
send an address or a name of ours; so names are listed, and addresses are good where every address is listened on.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from corral.server.access.certificates import Authority, Pair, load_pair, read_pair

LOOPBACK = ("localhost", "127.0.0.1", "::1")
HEADER = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Address:
    """What is listened on, and the names it is known by besides."""

    host: str
    names: tuple[str, ...] = ()

    @property
    def is_loopback(self) -> bool:
        return self.host == "localhost" or bool((address := _address(self.host)) and address.is_loopback)

    @property
    def is_everywhere(self) -> bool:
        return not self.host or bool((address := _address(self.host)) and address.is_unspecified)

    @property
    def shown(self) -> str:
        """The name for the printed address: one that leads here."""
        name = self.names[0] if self.names else "127.0.0.1" if self.is_everywhere else self.host
        return f"[{name}]" if ":" in name else name

    @property
    def hosts(self) -> list[str]:
        """What a certificate has to name."""
        own = [] if self.is_everywhere else [self.host]
        return list(dict.fromkeys([*self.names, *own, *LOOPBACK]))

    def answers_to(self, header: str) -> bool:
        """Whether a Host header names this page."""
        found = HEADER.fullmatch(header)
        if found is None:
            return False
        name = (found["six"] or found["name"]).lower()
        known = {one.lower() for one in self.hosts}
        return name in known or (self.is_everywhere and _address(name) is not None)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def make_pair(address: Address, ca: bytes, folders: Sequence[Path], now: float) -> tuple[Pair, bool]:
    """A serving certificate, and whether the cluster's own authority signed it.

    It signs where its key is in one of `folders`, as for a fleet on this machine; else the certificate stands for itself."""
    for folder in folders:
        pair = read_pair(folder, "ca")
        if pair is not None and pair.certificate.strip() == ca.strip():
            return Authority(pair).issue_server(address.hosts, now), True
    authority = Authority.create("corral dashboard", now)
    return authority.issue_server(address.hosts, now), False


def fingerprint(pair: Pair) -> str:
    """What browsers show of a certificate, to be compared."""
    digest = sha256(ssl.PEM_cert_to_DER_cert(pair.certificate.decode())).hexdigest().upper()
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))


def context_for(pair: Pair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_pair(context, pair)
    return context
