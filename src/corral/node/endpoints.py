"""Endpoints that somebody wrote for a Service without a selector: EndpointSlices, or the older Endpoints object.

Nothing here knows pods: an address is given out as it stands. Where Endpoints and slices name the same Service the slices
count, as upstream mirrors the one into the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from corral.core.meta import Obj, spec_of

Endpoint = tuple[str, int]

ANSWERED_BY_API = "corral.dev/answered-by-api-server"
"""Label of EndpointSlices of pods that stand for the API server's process: it answers for them, whatever their addresses."""


def is_written_by_hand(service: Obj) -> bool:
    """Whether no selector says who answers for the Service."""
    return not spec_of(service).get("selector") and spec_of(service).get("type") != "ExternalName"


def as_slices(endpoints: Obj) -> Iterator[Obj]:
    """The subsets of an Endpoints object in the form of EndpointSlices."""
    for subset in endpoints.get("subsets") or ():
        ready = [{"addresses": [entry["ip"]]} for entry in subset.get("addresses") or ()]
        yield {"addressType": "IPv4", "endpoints": ready, "ports": subset.get("ports") or []}


def addresses(slices: Sequence[Obj]) -> list[str]:
    """Every address that is ready, once, in order."""
    return list(dict.fromkeys(address for piece in slices for address in _ready(piece)))


def of_port(slices: Sequence[Obj], port: Obj) -> list[Endpoint]:
    """Where connections to a port of the Service go: slices call it by the same name."""
    found = []
    for piece in slices:
        for entry in piece.get("ports") or ():
            if (entry.get("name") or "") == (port.get("name") or "") and entry.get("port"):
                found += [(address, int(entry["port"])) for address in _ready(piece)]
    return list(dict.fromkeys(found))


def _ready(piece: Obj) -> Iterator[str]:
    if piece.get("addressType") == "FQDN":
        return  # names of elsewhere; upstream's proxies leave them out too
    for endpoint in piece.get("endpoints") or ():
        # Not said is as good as ready; one of the addresses is enough, they are all of one endpoint.
        if (endpoint.get("conditions") or {}).get("ready") is not False and endpoint.get("addresses"):
            yield str(endpoint["addresses"][0])
