"""Kubeconfigs of workers as an attacker would write them: a condition says what is wrong, and shows nothing secret."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from corral.client import kubeconfig
from corral.client.kubeconfig import KubeconfigError
from corral.controllers.dispatch.workers.credentials_sources import check_path
from corral.controllers.dispatch.workers.kubeconfigs import AccessProblem, safe_access
from corral.core.meta import Obj

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def document(server: Any = "https://worker", **user: Any) -> Obj:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t", **user}}],
    }


def text(content: Any) -> bytes:
    return yaml.safe_dump(content).encode()


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [found for key, part in inner for found in places(part, (*path, key))]


@given(st.sampled_from(places(document(**{"client-key-data": "a", "client-certificate-data": "b"}))), anything)
def test_a_kubeconfig_with_anything_anywhere_is_used_or_refused(path: tuple[Any, ...], wrong: Any) -> None:
    made: Any = document(**{"client-key-data": "a", "client-certificate-data": "b"})
    part = made
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = wrong
    with suppress(AccessProblem):  # which becomes a condition; anything else would be tried again for ever
        safe_access(text(made))


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_text_is_refused_with_a_reason(content: bytes) -> None:
    with pytest.raises(AccessProblem):
        safe_access(content)


def test_a_server_without_tls_is_refused_unless_it_is_allowed() -> None:
    with pytest.raises(AccessProblem, match="without TLS") as refused:
        safe_access(text(document("http://worker")))
    assert refused.value.reason == "InsecureKubeConfig"
    assert safe_access(text(document("http://worker")), plain=True).server == "http://worker"


@pytest.mark.parametrize(
    "server",
    [
        "https://admin:hunter2@worker",
        "https://hunter2@worker",
        "https://worker:hunter2",
        "hunter2://worker",
        "https://[hunter2",
        "https://worker?token=hunter2",
        "https://worker/\r\nX: hunter2",
    ],
)
def test_what_a_bad_server_says_is_not_shown(server: str) -> None:
    with pytest.raises(AccessProblem) as refused:
        safe_access(text(document(server)))
    assert "hunter2" not in refused.value.message
    with pytest.raises(KubeconfigError) as error:
        kubeconfig.access(document(server))
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "content", ["hunter2: [", "&hunter2 a: *hunter3", "root:hunter2:0:0\n\tx", "%hunter2", "@hunter2"]
)
def test_a_file_that_is_no_kubeconfig_is_not_quoted(content: str) -> None:
    with pytest.raises(AccessProblem) as refused:
        safe_access(content.encode())
    assert "hunter" not in refused.value.message


@pytest.mark.parametrize("name", ["/etc/passwd", "/proc/self/environ", "kubeconfig", "/etc/a\0b"])
def test_a_file_outside_the_directory_of_kubeconfigs_is_not_opened(name: str, tmp_path: Path) -> None:
    with pytest.raises(AccessProblem):
        check_path(name, tmp_path)
