"""What a cluster wants to be known about itself: settings without effect, and installations whose work it does itself.

Each is told once in an Event, and kept in a ConfigMap for as long as it holds; `corral status` shows that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from corral.client.protocol import Client
from corral.core.errors import AlreadyExists, NotFound
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES
from corral.kinds.kubernetes.notices import NAME, NAMESPACE

SETTINGS = "settings"
DEFINITIONS = "definitions"
INSTALLATIONS = "installations"


async def keep_notices(client: Client, topic: str, sentences: Sequence[str]) -> None:
    """Replace what is said about a topic; nothing is left of one with nothing to say."""
    wanted = "\n".join(sentences) or None
    try:
        held = (await client.get(CONFIG_MAPS, NAME, NAMESPACE)).get("data") or {}
    except NotFound:
        if wanted is not None:
            await _create(client, topic, wanted)
        return
    if held.get(topic) != wanted:
        await client.patch(CONFIG_MAPS, NAME, NAMESPACE, {"data": {topic: wanted}})


async def _create(client: Client, topic: str, wanted: str) -> None:
    """A cluster that is just starting may be without the namespace."""
    metadata = {"name": NAME, "namespace": NAMESPACE}
    with contextlib.suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    try:
        await client.create(CONFIG_MAPS, {"metadata": metadata, "data": {topic: wanted}})
    except AlreadyExists:  # somebody told of another topic at this moment
        await client.patch(CONFIG_MAPS, NAME, NAMESPACE, {"data": {topic: wanted}})
