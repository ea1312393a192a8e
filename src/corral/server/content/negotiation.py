"""Content negotiation: which of the representations a client accepts it gets.

Objects are JSON; `as=Table` and `as=PartialObjectMetadata(List)` of meta.k8s.io are other views of them; discovery has
its aggregated documents. Protobuf is for clients that take nothing else: JSON is stored, so it costs nothing to send.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from corral.core.errors import NotAcceptable

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"

# The words of a real server's 406.
_OFFERED_ONE = f"{JSON}, {YAML}, {PROTOBUF}"
_OFFERED = f"{_OFFERED_ONE}, {JSON};stream=watch, {PROTOBUF};stream=watch"


class Representation(NamedTuple):
    """A chosen answer format: the media type and the view (`as`), empty for the object itself."""

    media: str = JSON
    view: str = ""
    version: str = ""
    group: str = ""


class _Clause(NamedTuple):
    media: str
    params: dict[str, str]
    quality: float


PLAIN = Representation()
_VIEWS = {
    ("Table", "meta.k8s.io"),
    ("PartialObjectMetadata", "meta.k8s.io"),
    ("PartialObjectMetadataList", "meta.k8s.io"),
}


@lru_cache(maxsize=512)
def clauses(accept: str) -> tuple[_Clause, ...]:
    """The clauses of an Accept header, most wanted first, in the client's order among equals."""
    found = []
    for clause in accept.split(","):
        media, *params = (part.strip() for part in clause.split(";"))
        if not media:
            continue
        pairs = {name.strip(): value.strip() for name, _, value in (param.partition("=") for param in params)}
        found.append(_Clause(media.lower(), pairs, _quality(pairs.pop("q", "1"))))
    return tuple(sorted(found, key=lambda clause: -clause.quality))


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


@lru_cache(maxsize=512)
def choose(accept: str, protobuf: bool = False, streams: bool = True) -> Representation:
    """The representation of objects for an Accept header; NotAcceptable when none fits. Collections have `streams`."""
    if not accept or accept in (JSON, "*/*"):
        return PLAIN
    for clause in clauses(accept):
        media = _offered(clause.media)
        if not media:
            continue
        view = clause.params.get("as", "")
        if not view:
            return Representation(media)
        version, group = clause.params.get("v", ""), clause.params.get("g", "")
        if (view, group) in _VIEWS and version in ("v1", "v1beta1"):
            return Representation(media, view, version, group)
    if protobuf and any(clause.media == PROTOBUF and not clause.params.get("as") for clause in clauses(accept)):
        return Representation(PROTOBUF)
    named = "protobuf" in accept or "as=" in accept.replace(" ", "")
    if named:
        raise NotAcceptable(f"only the following media types are accepted: {JSON}, {YAML}, {PROTOBUF}")
    offered = _OFFERED if streams else _OFFERED_ONE
    raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {offered}", details={})


def _offered(media: str) -> str:
    if media in ("*/*", "application/*", JSON):
        return JSON
    return YAML if media == YAML else ""


def discovery_version(accept: str) -> str:
    """`v2` or `v2beta1` when the client wants aggregated discovery, else empty; clauses in the client's order."""
    for clause in clauses(accept):
        if clause.params.get("g") == "apidiscovery.k8s.io" and clause.params.get("as") == "APIGroupDiscoveryList":
            if clause.params.get("v") in ("v2", "v2beta1"):
                return clause.params["v"]
        elif clause.media in (JSON, "*/*", "application/*"):
            return ""
    return ""
