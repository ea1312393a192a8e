"""Who made an AppWrapper, as its annotation keeps it: written by admission, read by the operator, nobody else's to change."""

from __future__ import annotations

import json

from corral.core.admission import UserInfo
from corral.core.meta import Obj, annotations_of, metadata_of
from corral.jobs.appwrapper.kind import CREATOR


def with_creator(app_wrapper: Obj, user: UserInfo) -> Obj:
    """A new AppWrapper of `user`, whatever it says itself."""
    known = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": user.extra}
    text = json.dumps({name: value for name, value in known.items() if value}, sort_keys=True, separators=(",", ":"))
    return _annotated(app_wrapper, text)


def with_creator_of(app_wrapper: Obj, old: Obj) -> Obj:
    """A changed AppWrapper, of whoever made it."""
    return _annotated(app_wrapper, annotations_of(old).get(CREATOR))


def _annotated(app_wrapper: Obj, text: str | None) -> Obj:
    annotations = annotations_of(app_wrapper)
    if annotations.get(CREATOR) == text:
        return app_wrapper
    kept = {name: value for name, value in annotations.items() if name != CREATOR}
    if text is not None:
        kept[CREATOR] = text
    return {**app_wrapper, "metadata": {**metadata_of(app_wrapper), "annotations": kept}}


def creator_of(app_wrapper: Obj) -> UserInfo | None:
    """None for an AppWrapper that was stored before its creators were kept."""
    text = annotations_of(app_wrapper).get(CREATOR)
    if text is None:
        return None
    known = json.loads(text)
    return UserInfo(
        known.get("username", ""), tuple(known.get("groups") or ()), known.get("uid", ""), known.get("extra") or {}
    )
