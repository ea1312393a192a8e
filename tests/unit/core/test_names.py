"""Names are refused in upstream's words."""

from __future__ import annotations

import pytest

from corral.core import names


def test_subdomain() -> None:
    assert names.check_subdomain("a.b-c.1") == []
    assert names.check_subdomain("x" * 254) == ["must be no more than 253 characters"]
    [complaint] = names.check_subdomain("Bad_Name")
    assert complaint == (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
        "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )


def test_newline_is_not_hidden_by_the_end_anchor() -> None:
    assert names.check_subdomain("a\n")
    assert names.check_label_value("a\n")


def test_label_names_the_dot() -> None:
    assert names.check_label("a.b") == ["must not contain dots"]
    assert names.check_label("x" * 64) == ["must be no more than 63 characters"]
    assert names.check_label("a-b") == []


def test_label_1035_starts_with_a_letter() -> None:
    assert names.check_label_1035("abc-1") == []
    assert names.check_label_1035("1abc")[0].startswith("a DNS-1035 label must consist of")


def test_qualified_name() -> None:
    assert names.check_qualified_name("example.com/My_Name.x") == []
    assert names.check_qualified_name("/x") == ["prefix part must be non-empty"]
    assert names.check_qualified_name("a/") == [
        "name part must be non-empty",
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
        "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
        "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ]
    assert names.check_qualified_name("a/b/c")[0].endswith("prefix and '/' (e.g. 'example.com/MyName')")


@pytest.mark.parametrize(
    ("name", "ok"), [("http", True), ("123", False), ("a--b", False), ("-a", False), ("x" * 16, False)]
)
def test_port_name(name: str, ok: bool) -> None:
    assert (names.check_port_name(name) == []) is ok


def test_keys_and_variables() -> None:
    assert names.check_config_key("a_b.c") == []
    assert names.check_config_key("..") == ["must not be '..'"]
    assert names.check_config_key("..a") == ["must not start with '..'"]
    assert names.check_env_name("1 odd name") == []
    assert names.check_env_name("a=b") != []
    assert names.check_percent("5%") == []
    assert names.check_percent("x") != []
    assert names.check_path_segment("a/b") == ["may not contain '/'"]
    assert names.check_path_segment("..") == ["may not be '..'"]


def test_generated_names_fit_a_label() -> None:
    assert names.generate_name("job-", "abcde") == "job-abcde"
    assert len(names.generate_name("x" * 100, "abcde")) == 63
    assert names.mask_trailing_dash("job-") == "joa"
