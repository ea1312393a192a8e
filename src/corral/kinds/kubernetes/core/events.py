"""Rules for events, in both of their spellings."""

from __future__ import annotations

from corral.core import names
from corral.core.errors import Cause
from corral.core.meta import Obj, namespace_of
from corral.core.validation import IMMUTABLE, check_metadata_update, invalid, required
from corral.kinds.kubernetes.pods.downward_rules import check_all
from corral.kinds.machinery import go_struct_text as internal


def check_event(event: Obj) -> list[Cause]:
    """An event as core/v1 has it."""
    return _check_event(event, event.get("involvedObject") or {}, "reportingComponent")


def check_event_update(new: Obj, old: Obj) -> list[Cause]:
    return check_event(new)


def _check_event(event: Obj, involved: Obj, controller: str) -> list[Cause]:
    namespace, target = namespace_of(event), involved.get("namespace") or ""
    is_old = not event.get("eventTime")
    if is_old:
        fine = namespace == target if target else namespace in ("", "default")
    else:
        fine = bool(target) or namespace in ("default", "kube-system")
    causes = [] if fine else [invalid("involvedObject.namespace", target, "does not match event.namespace")]
    if is_old:
        return causes
    reporter, instance = event.get(controller) or "", event.get("reportingInstance") or ""
    if not reporter:
        causes.append(required(controller))
    causes += check_all(controller, reporter, names.check_qualified_name(reporter))
    for field, value, limit in (
        ("reportingInstance", instance, 128),
        ("action", event.get("action") or "", 128),
        ("reason", event.get("reason") or "", 128),
    ):
        if not value:
            causes.append(required(field))
        if len(value) > limit:
            causes.append(invalid(field, "", f"can have at most {limit} characters"))
    if len(event.get("message") or "") > 1024:
        causes.append(invalid("message", "", "can have at most 1024 characters"))
    return causes


def check_new_event(event: Obj) -> list[Cause]:
    """An event as events.k8s.io/v1 has it."""
    causes = _check_event({**event, "message": event.get("note")}, event.get("regarding") or {}, "reportingController")
    series = event.get("series")
    if series is not None:
        if (series.get("count") or 0) < 2:
            causes.append(invalid("series.count", "", "should be at least 2"))
        if not series.get("lastObservedTime"):
            causes.append(required("series.lastObservedTime"))
    if not event.get("eventTime"):
        causes.append(required("eventTime"))
    if event.get("type") not in ("Normal", "Warning"):
        causes.append(invalid("type", "", f"has invalid value: {event.get('type') or ''}"))
    unset = (
        ("deprecatedFirstTimestamp", "firstTimestamp"), ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    )  # fmt: skip
    causes += [invalid(shown, "", "needs to be unset") for field, shown in unset if event.get(field)]
    if any((event.get("deprecatedSource") or {}).values()):
        causes.append(invalid("source", "", "needs to be unset"))
    return causes


_FIXED = (
    ("regarding", "involvedObject"), ("reason", "reason"), ("note", "message"), ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"), ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"), ("reason", "reason"), ("type", "type"), ("eventTime", "eventTime"),
    ("action", "action"), ("related", "related"), ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)  # fmt: skip
"""Fields of the newer API that never change, and what errors call them."""


def check_new_event_update(new: Obj, old: Obj) -> list[Cause]:
    causes = _check_event({**new, "message": new.get("note")}, new.get("regarding") or {}, "reportingController")
    causes += check_metadata_update(new["metadata"], old["metadata"])
    for field, shown in _FIXED:
        value, before = new.get(field) or None, old.get(field) or None
        if value == before:
            continue
        if shown == "involvedObject":
            types = ("core.ObjectReference", "core/v1.ObjectReference")
            causes.append(internal.invalid(shown, *types, value or {}, IMMUTABLE))
        else:
            causes.append(invalid(shown, value if value is not None or "ime" in shown else "", IMMUTABLE))
    return causes
