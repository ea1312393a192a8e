"""The limits of one API server that its administrator may set, as `fleet.yaml` and `corral serve --limit` name them."""

from __future__ import annotations

from typing import Annotated

import msgspec

_AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """How much one server takes on; `each` is what one user may have of it."""

    connections: _AtLeastOne = 8192
    strangers: _AtLeastOne = 512
    """Connections that have not shown any credentials yet."""
    connections_each: _AtLeastOne = 1024
    requests: _AtLeastOne = 1200
    requests_each: _AtLeastOne = 400
    watches: _AtLeastOne = 16384
    watches_each: _AtLeastOne = 500
    bytes: _AtLeastOne = 256 * 1024 * 1024
    """Of requests that have not all come yet or wait for their turn; the same again of bodies being worked on, and of selectors
    being watched as they are kept."""
    bytes_each: _AtLeastOne = 64 * 1024 * 1024
    answers: _AtLeastOne = 512 * 1024 * 1024
    """Bytes of answers and streams that have been made and are still to be taken."""
    answers_each: _AtLeastOne = 256 * 1024 * 1024


def limit_names() -> tuple[str, ...]:
    """The limits by the names they have in a configuration."""
    return tuple(field.encode_name for field in msgspec.structs.fields(Limits))
