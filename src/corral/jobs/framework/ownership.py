"""Who controls what: informers that find the children of an object by the uid of their controller."""

from __future__ import annotations

from collections.abc import Iterable

from corral.core.meta import Obj, controller_of, uid_of
from corral.runtime.informer import Informer

_INDEX = "controller-uid"


def index_by_controller(informer: Informer) -> None:
    """Have `controlled_by` answer for the objects of this informer."""
    informer.add_index(_INDEX, _controller_uid)


def controlled_by(informer: Informer, owner: Obj) -> list[Obj]:
    """The objects whose controller is `owner`; those of an earlier object of its name do not count."""
    return informer.by_index(_INDEX, uid_of(owner))


def _controller_uid(obj: Obj) -> Iterable[str]:
    controller = controller_of(obj)
    return [controller["uid"]] if controller is not None else []
