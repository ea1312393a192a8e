"""The limits of one API server that its administrator may set, as `fleet.yaml` and `corral serve --limit` name them."""

from __future__ import annotations

from typing import Annotated

import msgspec

_AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """How much one server takes on; `each` is what one user may have of it."""

    connections: _AtLeastOne = 8192
    strangers: _AtLeastOne = 1024
    """Connections that have not shown any credentials yet."""
    requests: _AtLeastOne = 1200
    requests_each: _AtLeastOne = 400
    watches_each: _AtLeastOne = 500


def limit_names() -> tuple[str, ...]:
    """The limits by the names they have in a configuration."""
    return tuple(field.encode_name for field in msgspec.structs.fields(Limits))
