"""Names: which texts may name objects, labels, ports and the like, in the words Kubernetes uses to refuse one.

Every check returns the list of complaints, empty when the text is fine. Checks that run on each write remember
their answers, because the same few names and labels come by all the time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from corral.core.remembering import remembered

NameCheck = Callable[[str], list[str]]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_QUALIFIED})?"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_PERCENT: Final = "[0-9]+%"
_HEADER: Final = "[-A-Za-z0-9]+"

_ENDS: Final = "and must start and end with an alphanumeric character"
_QUALIFIED_RULE: Final = f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"

_label_re: Final = re.compile(_LABEL, re.ASCII)
_subdomain_re: Final = re.compile(_SUBDOMAIN, re.ASCII)
_label_1035_re: Final = re.compile(_LABEL_1035, re.ASCII)
_qualified_re: Final = re.compile(_QUALIFIED, re.ASCII)
_label_value_re: Final = re.compile(_LABEL_VALUE, re.ASCII)


def regex_message(rule: str, pattern: str, *examples: str) -> str:
    """The sentence that says `rule`, gives `examples` and names the regular expression."""
    if not examples:
        return f"{rule} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def max_length_message(length: int) -> str:
    return f"must be no more than {length} characters"


def _byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_SUBDOMAIN_MESSAGE: Final = regex_message(
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}",
    _SUBDOMAIN,
    "example.com",
)
_LABEL_MESSAGE: Final = regex_message(
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}",
    _LABEL,
    "my-name",
    "123-abc",
)
_LABEL_1035_MESSAGE: Final = regex_message(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_QUALIFIED_MESSAGE: Final = regex_message(_QUALIFIED_RULE, _QUALIFIED, "MyName", "my.name", "123-abc")
_LABEL_VALUE_MESSAGE: Final = regex_message(
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS}",
    _LABEL_VALUE,
    "MyValue",
    "my_value",
    "12345",
)


@remembered(32768)
def _subdomain(text: str) -> tuple[str, ...]:
    complaints = []
    if _byte_length(text) > 253:
        complaints.append(max_length_message(253))
    if not _subdomain_re.fullmatch(text):
        complaints.append(_SUBDOMAIN_MESSAGE)
    return tuple(complaints)


def check_subdomain(text: str) -> list[str]:
    """A DNS-1123 subdomain of at most 253 characters: how most objects are named."""
    return list(_subdomain(text))


@remembered(32768)
def _label(text: str) -> tuple[str, ...]:
    complaints = [] if _byte_length(text) <= 63 else [max_length_message(63)]
    if not _label_re.fullmatch(text):
        complaints.append("must not contain dots" if _subdomain_re.fullmatch(text) else _LABEL_MESSAGE)
    return tuple(complaints)


def check_label(text: str) -> list[str]:
    """A DNS-1123 label of at most 63 characters: namespaces, containers, volumes."""
    return list(_label(text))


def check_label_1035(text: str) -> list[str]:
    """A DNS-1035 label of at most 63 characters: services, plural resource names."""
    complaints = [] if _byte_length(text) <= 63 else [max_length_message(63)]
    if not _label_1035_re.fullmatch(text):
        complaints.append(_LABEL_1035_MESSAGE)
    return complaints


def check_path_segment(text: str) -> list[str]:
    """A name that only has to fit into a URL path: RBAC roles and bindings."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{sign}'" for sign in ("/", "%") if sign in text]


@remembered(32768)
def qualified_name_faults(text: str) -> tuple[str, ...]:
    """As check_qualified_name, but remembered."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        rule = regex_message(_QUALIFIED_RULE, _QUALIFIED, "MyName", "my.name", "123-abc")
        return (f"a qualified name {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    complaints: list[str] = []
    if slash and not prefix:
        complaints.append("prefix part must be non-empty")
    elif slash:
        complaints.extend(f"prefix part {complaint}" for complaint in _subdomain(prefix))
    if not name:
        complaints.append("name part must be non-empty")
    elif _byte_length(name) > 63:
        complaints.append(f"name part {max_length_message(63)}")
    if not _qualified_re.fullmatch(name):
        complaints.append(f"name part {_QUALIFIED_MESSAGE}")
    return tuple(complaints)


def check_qualified_name(text: str) -> list[str]:
    """`[prefix/]name`: keys of labels and annotations, finalizers, resources, condition types."""
    return list(qualified_name_faults(text))


@remembered(32768)
def label_value_faults(text: str) -> tuple[str, ...]:
    """As check_label_value, but remembered."""
    complaints = []
    if _byte_length(text) > 63:
        complaints.append(max_length_message(63))
    if not _label_value_re.fullmatch(text):
        complaints.append(_LABEL_VALUE_MESSAGE)
    return tuple(complaints)


def check_label_value(text: str) -> list[str]:
    """The value of a label: empty, or at most 63 characters of a narrow alphabet."""
    return list(label_value_faults(text))


def check_config_key(text: str) -> list[str]:
    """A key of a ConfigMap or Secret."""
    complaints = [] if _byte_length(text) <= 253 else [max_length_message(253)]
    if not re.fullmatch(_CONFIG_KEY, text, re.ASCII):
        rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        complaints.append(regex_message(rule, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    return complaints + _parent_directory(text)


def check_env_name(text: str) -> list[str]:
    """The name of an environment variable: printable ASCII other than '='."""
    if not text:
        return ["environment variable name must be non-empty"]
    if all(" " <= char <= "~" and char != "=" for char in text):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def check_port_number(port: int) -> list[str]:
    return [] if 1 <= port <= 65535 else ["must be between 1 and 65535, inclusive"]


def check_port_name(text: str) -> list[str]:
    complaints = [] if _byte_length(text) <= 15 else [max_length_message(15)]
    if not re.fullmatch("[-a-z0-9]+", text, re.ASCII):
        complaints.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        complaints.append("must contain at least one letter (a-z)")
    if "--" in text:
        complaints.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        complaints.append("must not begin or end with a hyphen")
    return complaints


def check_percent(text: str) -> list[str]:
    if re.fullmatch(_PERCENT, text, re.ASCII):
        return []
    rule = "a valid percent string must be a numeric string followed by an ending '%'"
    return [regex_message(rule, _PERCENT, "1%", "93%")]


def check_header_name(text: str) -> list[str]:
    if re.fullmatch(_HEADER, text, re.ASCII):
        return []
    return [
        regex_message("a valid HTTP header must consist of alphanumeric characters or '-'", _HEADER, "X-Header-Name")
    ]


def _parent_directory(text: str) -> list[str]:
    if text in (".", ".."):
        return [f"must not be '{text}'"]
    return ["must not start with '..'"] if text.startswith("..") else []


GENERATED_SUFFIX_LENGTH: Final = 5
_MAX_GENERATED_BASE: Final = 63 - GENERATED_SUFFIX_LENGTH


def generate_name(base: str, suffix: str) -> str:
    """The name generateName makes: `base` cut to leave room in a DNS label for the five-letter `suffix`."""
    return base[:_MAX_GENERATED_BASE] + suffix


def mask_trailing_dash(prefix: str) -> str:
    """`prefix` of a generated name as it is checked: a trailing dash is fine because a suffix follows."""
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
