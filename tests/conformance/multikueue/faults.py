"""What recorded steps did to clusters from outside, told in words: API servers and controllers that go and come, kinds too."""

from __future__ import annotations

import re

from corral.core.errors import BadRequest, NotFound
from corral.kinds.machinery.definition import KindDef
from corral.simulate.link import LinkState
from multikueue.words import REMOVED, definition_in
from multikueue.world import World

_REMARK = re.compile(
    r"(\d+ ?m?s\b|after|assert|begin|check|compare|confirm|count|end|expect|get|list|log|look|note|nothing|now|observe|pause for"
    r"|read|record|see|show|sleep|snapshot|state|still|until|verify|wait|watch)"
)
"""How words begin that only tell what the recorder did itself."""
_GOES = re.compile(r"\b(kill|killed|crash|crashes|cut|disconnect|block|shut|stop|stopped|stops|take|unplug)\b")
_HANGS = re.compile(r"\b(hang|hangs|freeze|freezes|paused?|sigstop)\b", re.IGNORECASE)
_COMES = re.compile(
    r"\b(start|starts|started|restart|goes on|continue|continues|reconnect|resumes?|again|back|sigcont)\b",
    re.IGNORECASE,
)


async def fault(world: World, words: str) -> None:
    """Do to a cluster what the words tell."""
    cluster = next((name for name in world.clusters if re.search(rf"\b{re.escape(name)}\b", words)), "")
    definition = definition_in(words)
    if cluster and definition is not None:
        await _definition(world, words, definition, cluster)
    elif cluster in world.links and re.search(r"API ?server|connection|network|link", words) and _is_known(words):
        break_link(world.links[cluster], words)
    elif cluster and re.search(r"Kueue|controller|manager of", words) and _is_known(words):
        await _controllers(world, cluster, words)
    elif not _REMARK.match(words):
        raise BadRequest("the player of recordings does not know this step")


def _is_known(words: str) -> bool:
    return any(pattern.search(words) for pattern in (_GOES, _HANGS, _COMES))


def break_link(link: LinkState, words: str) -> None:
    """Bring a link into the state the words tell."""
    if re.search(r"\brestart", words):
        link.set(cut=True)
        link.set()
    elif _COMES.search(words):
        link.set()
    elif _HANGS.search(words):
        link.set(hung=True)
    else:
        link.set(cut=True)


async def _controllers(world: World, cluster: str, words: str) -> None:
    if not _COMES.search(words) or "restart" in words:
        await world.clusters[cluster].crash()
    if _COMES.search(words):
        await world.clusters[cluster].start()


async def _definition(world: World, words: str, kind: KindDef, cluster: str) -> None:
    registry = world.clusters[cluster].api.registry
    if REMOVED.search(words):
        registry.remove(kind.group, kind.plural)
        if cluster not in world.links:
            raise NotFound(f"{cluster} is no worker")
        world.links[cluster].break_streams()
    else:
        registry.add(kind)
