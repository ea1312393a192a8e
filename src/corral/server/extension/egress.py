"""Where the API server may be sent: to pods and Services of its cluster, to other machines, and never to its own.

Many may write what the server then calls for them: the address of a webhook, the endpoints of a Service, a pod's status. What
listens on this machine's loopback addresses, or answers on its links (a cloud's metadata for one), trusts whoever gets
there; so the server goes there only where that is a network of its pods, or an administrator has said so.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from corral.core.errors import BadRequest

NOT_ALLOWED = "address not allowed"


class Egress:
    """`networks` are those of the cluster's pods and Services, on which this process may reach them whatever they are; None when
    pods live on machines of their own, outside any network that is known here. `granted` are networks of this machine where
    webhooks and aggregated APIs may be called, too."""

    def __init__(self, networks: Sequence[str] | None, granted: Sequence[str] = ()) -> None:
        self._networks = None if networks is None else [ip_network(network) for network in networks]
        self._granted = [*(self._networks or ()), *(ip_network(network) for network in granted)]

    def host(self, text: str, *, outside: bool) -> str:
        """The address of a pod or Service as the host of a URL. Addresses `outside` the known networks pass only where there is
        none, and never those of this machine or of its links."""
        try:
            address = ip_address(text)
        except ValueError:
            raise BadRequest(NOT_ALLOWED) from None
        inside = any(address in network for network in self._networks or ())
        if not inside and (not outside or self._networks is not None or is_off_limits(address)):
            raise BadRequest(NOT_ALLOWED)
        return f"[{address}]" if address.version == 6 else str(address)

    async def addresses(self, host: str) -> list[str]:
        """Where a webhook or an aggregated API with this name, or at this address, may be called; looked up for each connection, so
        that a name does not lead elsewhere the next time."""
        allowed = [text for text in await _looked_up(host) if self._may_call(ip_address(text))]
        if not allowed:
            raise OSError(errno.EACCES, f"{NOT_ALLOWED}: it is this machine's own, and no webhook network has it")
        return allowed

    def _may_call(self, address: IPv4Address | IPv6Address) -> bool:
        return not is_off_limits(address) or any(address in network for network in self._granted)


async def _looked_up(host: str) -> list[str]:
    try:
        return [str(ip_address(host))]
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def is_off_limits(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is one of this machine or of its links, or of nobody in particular."""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return True
        if address.ipv4_mapped is not None:
            return is_off_limits(address.ipv4_mapped)
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or address.is_multicast
        or address.is_reserved
    )
