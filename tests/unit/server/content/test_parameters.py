"""Query parameters and option bodies."""

from __future__ import annotations

import pytest

from corral.core.admission import ignore_warning
from corral.core.errors import ApiError, BadRequest, Invalid
from corral.server.content.parameters import (
    delete_options,
    integer,
    list_options,
    selected_name,
    watch_options,
    write_options,
)
from corral.server.http.message import Query


def _write(query: str, kind: str = "CreateOptions", **more: bool):  # type: ignore[no-untyped-def]
    return write_options(Query(query), kind, "agent", ignore_warning, **more)


def test_query_reads_booleans_as_go_does() -> None:
    query = Query("a=true&b=1&c&d=false&e=0&f=True")
    assert [query.flag(name) for name in "abcdefg"] == [True, True, True, False, False, True, False]


def test_integers() -> None:
    assert integer(Query("limit=500"), "limit") == 500
    assert integer(Query("limit=-3"), "limit") == -3
    assert integer(Query("limit="), "limit") is None
    for text in ("abc", "1.5", "9" * 40):
        with pytest.raises(BadRequest):
            integer(Query(f"limit={text}"), "limit")


def test_write_options() -> None:
    options = _write("dryRun=All&fieldManager=me&fieldValidation=Strict")
    assert (options.dry_run, options.manager, options.field_validation) == (True, "me", "Strict")
    assert _write("").manager == "agent"


@pytest.mark.parametrize(
    ("query", "kind", "apply", "said"),
    [
        ("dryRun=Some", "CreateOptions", False, 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
        ("fieldValidation=No", "CreateOptions", False, "fieldValidation: Unsupported value"),
        ("force=true", "PatchOptions", False, "force: Forbidden: may not be specified for non-apply patch"),
        ("", "PatchOptions", True, "fieldManager: Required value: is required for apply patch"),
        (f"fieldManager={'x' * 129}", "CreateOptions", False, "fieldManager: Too long"),
        ("fieldManager=a%0ab", "CreateOptions", False, "should only contain printable characters"),
    ],
)
def test_write_options_are_refused(query: str, kind: str, apply: bool, said: str) -> None:
    with pytest.raises(Invalid) as error:
        _write(query, kind, apply=apply)
    assert said in error.value.message


def test_delete_options_from_body_or_query() -> None:
    body = {"gracePeriodSeconds": 5, "propagationPolicy": "Foreground", "preconditions": {"uid": "u"}}
    options = delete_options(Query(""), body, ignore_warning)
    assert (options.grace, options.propagation, options.uid) == (5, "Foreground", "u")
    options = delete_options(Query("gracePeriodSeconds=0&orphanDependents=true"), None, ignore_warning)
    assert (options.grace, options.propagation) == (0, "Orphan")
    for bad in (
        {"propagationPolicy": "X"},
        {"propagationPolicy": "Orphan", "orphanDependents": True},
        {"gracePeriodSeconds": "x"},
    ):
        with pytest.raises(ApiError):
            delete_options(Query(""), bad, ignore_warning)


def test_list_and_watch_options() -> None:
    options = list_options(Query("limit=-1&labelSelector=a%3Db&fieldSelector=metadata.name%3Dx,"), "ns")
    assert options.limit == 0
    assert str(options.labels) == "a=b"
    watch = watch_options(Query("timeoutSeconds=5&allowWatchBookmarks=1"), "ns", None)
    assert (watch.timeout, watch.bookmarks, watch.send_initial_events) == (5.0, True, None)
    assert selected_name(Query("fieldSelector=metadata.name%3Dx")) == "x"
    assert selected_name(Query("fieldSelector=nonsense")) == ""
    with pytest.raises(BadRequest):
        list_options(Query("labelSelector=a%20in%20("), "")
    with pytest.raises(Invalid):
        list_options(Query("sendInitialEvents=true"), "")
