"""Templates of -o print what kubectl's print, and say what they do not understand."""

from __future__ import annotations

import pytest

from corral.cli.output.templates import TemplateError, cell, parse_columns, parse_template, render

PODS = {
    "items": [
        {"metadata": {"name": "a", "labels": {"app.io/x": "1"}}, "status": {"ready": True, "n": 3}},
        {"metadata": {"name": "b"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}},
    ]
}


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        ("{.items[*].metadata.name}", "a b"),
        (".items[0].metadata.name", "a"),
        ("names: {.items[0].metadata.name}!", "names: a!"),
        (r"{range .items[*]}{.metadata.name}{'\t'}{.status.n}{'\n'}{end}", "a\t3\nb\t\n"),
        ('{range .items[*]}{.metadata.name}{"{}"}{end}', "a{}b{}"),
        ("{.items[0].status}", '{"ready":true,"n":3}'),
        ("{.items[0].status.ready}", "true"),
        (r"{.items[0].metadata.labels.app\.io/x}", "1"),
        ('{.items[1].status.conditions[?(@.type=="Ready")].status}', "False"),
        ("{.items[9].metadata.name}", ""),
    ],
)
def test_a_jsonpath_template_prints_what_it_finds(template: str, printed: str) -> None:
    assert render(parse_template(template), PODS) == printed


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("{.items[*}", "is not a path such as"),
        ("{..name}", "is not a path such as"),
        ("{range .items[*]}{.metadata.name}", "a {range} without its {end}"),
        ("{.a}{end}", "{end} without a {range}"),
        ("{.a", "a { without its }"),
    ],
)
def test_a_template_that_is_not_understood_is_refused(template: str, fault: str) -> None:
    with pytest.raises(TemplateError) as refused:
        parse_template(template)
    assert fault in str(refused.value)


def test_custom_columns_have_headers_and_paths() -> None:
    columns = parse_columns("NAME:.metadata.name,N:.status.n,ALL:.items[?(@.a==1)].b")
    assert [header for header, _ in columns] == ["NAME", "N", "ALL"]
    assert [cell(path, PODS["items"][0]) for _, path in columns] == ["a", "3", "<none>"]
    with pytest.raises(TemplateError, match=r"'NAME' is not of the form HEADER:\.path"):
        parse_columns("NAME")
