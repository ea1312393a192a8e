"""Selectors select what kubectl users expect, and complain as upstream does."""

from __future__ import annotations

import pytest

from corral.core.selectors import (
    EVERYTHING,
    NOTHING,
    SelectorError,
    from_label_selector,
    from_labels,
    parse_field_selector,
    parse_label_selector,
)

LABELS = {"app": "web", "tier": "front", "size": "5", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web , tier != back", True),
        ("app!=web", False),
        ("nope!=x", True),
        ("app in (web, api)", True),
        ("app notin (web,api)", False),
        ("nope notin (a)", True),
        ("app", True),
        ("!app", False),
        ("!nope", True),
        ("size>4", True),
        ("size>5", False),
        ("size<6,size>4", True),
        ("app>4", False),
        ("empty=", True),
        ("empty in ()", True),
        ("empty in (,a)", True),
        ("app=,tier=front", False),
        ("in in (in)", False),
    ],
)
def test_text_selectors(text: str, matches: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a,", "found '', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b)", "found ')', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
    ],
)
def test_unreadable_text(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_label_selector(text)
    assert str(caught.value) == message


def test_bad_values_are_named_with_their_key() -> None:
    with pytest.raises(SelectorError) as caught:
        parse_label_selector("a=-bad-")
    assert str(caught.value).startswith(
        'unable to parse requirement: values[0][a]: Invalid value: "-bad-": a valid label must be an empty string or'
    )
    with pytest.raises(SelectorError, match="the value must be an integer"):
        parse_label_selector("a>x")


def test_object_selectors() -> None:
    selector = from_label_selector(
        {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}]}
    )
    assert selector.matches(LABELS)
    assert not selector.matches({"app": "web", "tier": "back"})
    assert str(selector) == "app=web,tier notin (back)"
    assert from_label_selector({}) == EVERYTHING
    assert from_label_selector(None) is NOTHING
    assert not NOTHING.matches(LABELS)
    with pytest.raises(SelectorError, match='"Near" is not a valid label selector operator'):
        from_label_selector({"matchExpressions": [{"key": "a", "operator": "Near"}]})


def test_text_form_reads_back() -> None:
    for text in ("a", "!a", "a=b", "a==b", "a!=b", "a in (b,c)", "a notin (b)", "a>1", "a<1", "a=b,c"):
        assert str(parse_label_selector(text)) == text


def test_exact_values_serve_indexes() -> None:
    assert parse_label_selector("app in (web),x").exact("app") == "web"
    assert parse_label_selector("app in (web,api)").exact("app") is None
    assert from_labels({"b": "2", "a": "1"}).exact("b") == "2"
    assert parse_field_selector("metadata.name=x,spec.nodeName!=y").exact("metadata.name") == "x"


def test_field_selectors() -> None:
    selector = parse_field_selector(r"spec.nodeName!=n1,metadata.name==a\,b")
    values = {"metadata.name": "a,b", "spec.nodeName": ""}
    assert selector.matches(lambda name: values.get(name, ""))
    assert selector.fields == ("metadata.name", "spec.nodeName")
    assert str(selector) == r"metadata.name=a\,b,spec.nodeName!=n1"
    assert not parse_field_selector("")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a=b\\x", "invalid field selector: invalid escape sequence: \\x"),
    ],
)
def test_unreadable_field_selectors(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_field_selector(text)
    assert str(caught.value) == message
