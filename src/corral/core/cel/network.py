"""IP addresses, networks and URLs as CEL values, with the functions Kubernetes adds for them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

from corral.core.cel.values import CelError, no_overload


class Ip:
    """An IP address."""

    cel_type = "net.IP"
    __slots__ = ("address",)

    def __init__(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
        self.address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ip) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)

    def cel_text(self) -> str:
        return str(self.address)


class Cidr:
    """A network, remembering the address it was written with."""

    cel_type = "net.CIDR"
    __slots__ = ("interface",)

    def __init__(self, interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface) -> None:
        self.interface = interface

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cidr) and self.interface == other.interface

    def __hash__(self) -> int:
        return hash(self.interface)

    def cel_text(self) -> str:
        return str(self.interface)


class Url:
    """An absolute URL or an absolute path."""

    cel_type = "kubernetes.URL"
    __slots__ = ("parts", "text")

    def __init__(self, text: str, parts: SplitResult) -> None:
        self.text = text
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def parse_ip(text: Any) -> Ip:
    if type(text) is not str:
        raise no_overload("ip")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise CelError(f'IP Address "{text}" parse error during conversion from string') from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id:
            raise CelError(f'IP address with zone value is not allowed: "{text}"')
        if address.ipv4_mapped is not None:
            raise CelError(f'IPv4-mapped IPv6 address is not allowed: "{text}"')
    return Ip(address)


def parse_cidr(text: Any) -> Cidr:
    if type(text) is not str:
        raise no_overload("cidr")
    try:
        if "/" not in text:
            raise ValueError(text)
        return Cidr(ipaddress.ip_interface(text))
    except ValueError:
        raise CelError(f'network address parse error during conversion from string: "{text}"') from None


def parse_url(text: Any) -> Url:
    if type(text) is not str:
        raise no_overload("url")
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  # reading it is what checks it
    except ValueError:
        raise CelError(f'URL parse error during conversion from string: parse "{text}"') from None
    if not (text.startswith("/") or re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", text)) or re.search(r"[\x00-\x20\x7f]", text):
        raise CelError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')
    return Url(text, parts)


def _succeeds(parse: Callable[[Any], object]) -> Callable[[Any], bool]:
    def check(text: Any) -> bool:
        if type(text) is not str:
            raise no_overload("string")
        try:
            parse(text)
        except CelError:
            return False
        return True

    return check


def ip(value: Any) -> Ip:
    return Ip(value.interface.ip) if isinstance(value, Cidr) else parse_ip(value)


def is_canonical(text: Any) -> bool:
    return bool(str(parse_ip(text).address) == text)


def contains_ip(network: Any, address: Any) -> bool:
    if not isinstance(network, Cidr):
        raise no_overload("containsIP")
    other = address if isinstance(address, Ip) else parse_ip(address)
    return bool(other.address in network.interface.network)


def contains_cidr(network: Any, inner: Any) -> bool:
    if not isinstance(network, Cidr):
        raise no_overload("containsCIDR")
    ours = network.interface.network
    theirs = (inner if isinstance(inner, Cidr) else parse_cidr(inner)).interface.network
    same = ours.version == theirs.version
    return bool(same and theirs.prefixlen >= ours.prefixlen and theirs.network_address in ours)


def _of(kind: type, name: str, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def method(value: Any) -> Any:
        if not isinstance(value, kind):
            raise no_overload(name)
        return read(value)

    return method


def _query(url: Url) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(url.parts.query, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return found


def _host(url: Url) -> str:
    return url.parts.netloc.rpartition("@")[2]


def _hostname(url: Url) -> str:
    host = _host(url)
    return host[1 : host.index("]")] if host.startswith("[") and "]" in host else host.partition(":")[0]


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "ip": ip,
    "isIP": _succeeds(parse_ip),
    "ip.isCanonical": is_canonical,
    "cidr": parse_cidr,
    "isCIDR": _succeeds(parse_cidr),
    "url": parse_url,
    "isURL": _succeeds(parse_url),
}
METHODS: Final[dict[str, Callable[..., Any]]] = {
    "family": _of(Ip, "family", lambda ip: ip.address.version),
    "isUnspecified": _of(Ip, "isUnspecified", lambda ip: ip.address.is_unspecified),
    "isLoopback": _of(Ip, "isLoopback", lambda ip: ip.address.is_loopback),
    "isLinkLocalMulticast": _of(
        Ip,
        "isLinkLocalMulticast",
        lambda ip: ip.address in ipaddress.ip_network("224.0.0.0/24" if ip.address.version == 4 else "ff02::/16"),
    ),
    "isLinkLocalUnicast": _of(Ip, "isLinkLocalUnicast", lambda ip: ip.address.is_link_local),
    "isGlobalUnicast": _of(
        Ip,
        "isGlobalUnicast",
        lambda ip: not (
            ip.address.is_unspecified or ip.address.is_loopback or ip.address.is_multicast or ip.address.is_link_local
            or str(ip.address) == "255.255.255.255"
        ),
    ),
    "ip": _of(Cidr, "ip", lambda cidr: Ip(cidr.interface.ip)),
    "masked": _of(Cidr, "masked", lambda cidr: Cidr(ipaddress.ip_interface(str(cidr.interface.network)))),
    "prefixLength": _of(Cidr, "prefixLength", lambda cidr: cidr.interface.network.prefixlen),
    "containsIP": contains_ip,
    "containsCIDR": contains_cidr,
    "getScheme": _of(Url, "getScheme", lambda url: url.parts.scheme),
    "getHost": _of(Url, "getHost", _host),
    "getHostname": _of(Url, "getHostname", _hostname),
    "getPort": _of(Url, "getPort", lambda url: str(url.parts.port or "")),
    "getEscapedPath": _of(Url, "getEscapedPath", lambda url: url.parts.path),
    "getQuery": _of(Url, "getQuery", _query),
}  # fmt: skip
