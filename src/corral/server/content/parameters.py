"""Query parameters and option bodies, turned into the options the API takes; refused as a real server refuses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from corral.core import validation
from corral.core.errors import BadRequest, Cause, Invalid
from corral.core.errors import invalid as invalid_object
from corral.core.meta import Obj
from corral.core.remembering import remembered
from corral.core.selectors import (
    FieldSelector,
    Selector,
    SelectorError,
    parse_field_selector,
    parse_label_selector,
)
from corral.core.timestamps import parse_duration
from corral.server.content.go_json_errors import type_name
from corral.server.http.message import Query
from corral.server.verbs.options import DeleteOptions, ListOptions, WatchOptions, WriteOptions

_GROUP = "meta.k8s.io"
_PROPAGATIONS = ("Foreground", "Background", "Orphan", "nil")
MAX_MANAGER = 128
MAX_ASKED = 8 * 1024
"""How much of a field selector is looked through for a name before anybody is known to be allowed to ask."""

Warn = Callable[[str], None]


def _refuse(options: str, causes: Sequence[Cause]) -> Invalid:
    return invalid_object(options, "", causes, _GROUP)


def integer(query: Query, name: str) -> int | None:
    """A whole number, or None when absent or empty."""
    text = query.get(name)
    if not text:
        return None
    digits = text[1:] if text[:1] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        raise BadRequest(f"strconv.ParseInt: parsing {validation.go_quote(text)}: invalid syntax")
    value = int(digits) if len(digits) < 40 else 1 << 100
    value = -value if text[0] == "-" else value
    if not -(1 << 63) <= value < 1 << 63:
        raise BadRequest(f"strconv.ParseInt: parsing {validation.go_quote(text)}: value out of range")
    return value


def check_timeout(query: Query) -> None:
    """The `timeout` every request may carry must at least be a duration."""
    text = query.get("timeout")
    if text:
        try:
            parse_duration(text)
        except ValueError:
            why = f"time: invalid duration {validation.go_quote(text)}"
            raise BadRequest(f"invalid timeout specified in the request URL - {why}") from None


@remembered(4096)
def _labels(text: str) -> Selector:
    return parse_label_selector(text)


@remembered(4096)
def _fields(text: str) -> FieldSelector:
    return parse_field_selector(text)


def label_selector(query: Query) -> Selector | None:
    text = query.get("labelSelector")
    try:
        return _labels(text) if text else None
    except SelectorError as error:
        raise BadRequest(str(error)) from None


def field_selector(query: Query) -> FieldSelector | None:
    text = query.get("fieldSelector").strip().strip(",")
    try:
        return _fields(text) if text else None
    except SelectorError as error:
        raise BadRequest(str(error)) from None


def selected_name(query: Query) -> str:
    """The name a metadata.name field selector asks for; authorization by resourceNames looks at it."""
    if not 0 < len(query.get("fieldSelector")) <= MAX_ASKED:
        return ""  # whoever asks for so much must be allowed to see the whole collection
    try:
        selector = field_selector(query)
    except BadRequest:
        return ""
    return (selector.exact("metadata.name") if selector is not None else None) or ""


def list_options(query: Query, namespace: str) -> ListOptions:
    integer(query, "timeoutSeconds")
    check_timeout(query)
    if "sendInitialEvents" in query:
        cause = validation.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
        raise _refuse("ListOptions", [cause])
    return ListOptions(
        namespace=namespace,
        labels=label_selector(query),
        fields=field_selector(query),
        limit=max(integer(query, "limit") or 0, 0),
        continue_token=query.get("continue"),
        resource_version=query.get("resourceVersion"),
        resource_version_match=query.get("resourceVersionMatch"),
    )


def watch_options(query: Query, namespace: str, fields: FieldSelector | None) -> WatchOptions:
    check_timeout(query)
    seconds = integer(query, "timeoutSeconds")
    return WatchOptions(
        namespace=namespace,
        labels=label_selector(query),
        fields=fields,
        resource_version=query.get("resourceVersion"),
        resource_version_match=query.get("resourceVersionMatch"),
        bookmarks=query.flag("allowWatchBookmarks"),
        send_initial_events=query.flag("sendInitialEvents") if "sendInitialEvents" in query else None,
        timeout=float(seconds) if seconds else None,
    )


def write_options(query: Query, kind: str, manager: str, warn: Warn, *, apply: bool = False) -> WriteOptions:
    """Options of a create, update or patch; `kind` names them in refusals, `manager` is the default field manager."""
    if not query.values:
        if apply:
            raise _refuse(kind, [validation.required("fieldManager", "is required for apply patch")])
        return WriteOptions(manager=manager, warn=warn)
    check_timeout(query)
    causes: list[Cause] = []
    if kind == "PatchOptions":
        if not apply and "force" in query:
            causes.append(validation.forbidden("force", "may not be specified for non-apply patch"))
        elif apply and not query.get("fieldManager"):
            causes.append(validation.required("fieldManager", "is required for apply patch"))
    causes += _check_manager(query.get("fieldManager"))
    dry_run = _dry_run(query.all("dryRun"), causes)
    strictness = query.get("fieldValidation")
    if strictness not in ("", "Ignore", "Warn", "Strict"):
        causes.append(validation.not_supported("fieldValidation", strictness, ["", "Ignore", "Strict", "Warn"]))
    if causes:
        raise _refuse(kind, causes)
    return WriteOptions(
        dry_run=dry_run,
        manager=query.get("fieldManager") or manager,
        field_validation=strictness,
        force=apply and query.flag("force"),
        warn=warn,
    )


def _check_manager(name: str) -> list[Cause]:
    causes = []
    if len(name) > MAX_MANAGER:
        causes.append(validation.too_long("fieldManager", MAX_MANAGER))
    for position, char in enumerate(name):
        if not char.isprintable():
            detail = f"invalid character {hex(ord(char))[2:]} (at position {position})"
            causes.append(
                validation.invalid("fieldManager", name, f"should only contain printable characters, {detail}")
            )
            break
    return causes


def _dry_run(values: Sequence[str], causes: list[Cause]) -> bool:
    given = [value for value in values if value]
    if any(value != "All" for value in given):
        causes.append(validation.not_supported("dryRun", list(given), ["All"]))
    return bool(given)


def delete_options(query: Query, body: Obj | None, warn: Warn) -> DeleteOptions:
    """Options of a delete, from its body or, where there is none, from the query."""
    given: Obj = dict(body or {})
    if body is None:
        grace = integer(query, "gracePeriodSeconds")
        given = {"gracePeriodSeconds": grace} if grace is not None else {}
        for name in ("propagationPolicy", "orphanDependents"):
            if name in query:
                given[name] = query.get(name) if name == "propagationPolicy" else query.flag(name)
        preconditions = {
            "uid": query.get("preconditions.uid"),
            "resourceVersion": query.get("preconditions.resourceVersion"),
        }
        given["preconditions"] = {name: value for name, value in preconditions.items() if value}
    causes: list[Cause] = []
    named = query.all("dryRun") if body is None else given.get("dryRun")
    dry_run = _dry_run(named if isinstance(named, list) else [], causes)
    propagation = _propagation(given, causes)
    expected: Obj = given["preconditions"] if isinstance(given.get("preconditions"), dict) else {}
    if causes:
        raise _refuse("DeleteOptions", causes)
    return DeleteOptions(
        grace=_grace(given.get("gracePeriodSeconds")),
        propagation=propagation,
        uid=expected.get("uid"),
        resource_version=expected.get("resourceVersion"),
        dry_run=dry_run,
        warn=warn,
    )


def _grace(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRequest(
            f"json: cannot unmarshal {type_name(value)} into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
        )
    return value


def _propagation(given: Obj, causes: list[Cause]) -> str | None:
    policy, orphan = given.get("propagationPolicy"), given.get("orphanDependents")
    if policy is not None and orphan is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(validation.invalid("propagationPolicy", policy, detail))
    elif policy not in (None, "Foreground", "Background", "Orphan"):
        causes.append(validation.not_supported("propagationPolicy", policy, _PROPAGATIONS))
    if policy is None and orphan is not None:
        return "Orphan" if orphan else "Background"
    return str(policy) if policy is not None else None
