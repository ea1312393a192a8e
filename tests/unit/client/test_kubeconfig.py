"""Kubeconfigs: what is read from them, what is refused and in which words, and that secrets do not print."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from corral.client import kubeconfig
from corral.client.credentials import Credentials
from corral.client.kubeconfig import KubeconfigError

GOOD = kubeconfig.document_for("east", "https://east:6443/", b"CA", token="s3cret")


def test_a_context_leads_to_server_authority_and_token() -> None:
    found = kubeconfig.access(GOOD)
    assert (found.server, found.ca, found.token) == ("https://east:6443", b"CA", "s3cret")


def test_secrets_do_not_print() -> None:
    assert "s3cret" not in repr(kubeconfig.access(GOOD))


def test_relative_files_are_found_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"FROM FILE")
    cluster = {"server": "https://x", "certificate-authority": "ca.pem"}
    document = {**GOOD, "clusters": [{"name": "east", "cluster": cluster}]}
    assert kubeconfig.access(document, folder=tmp_path).ca == b"FROM FILE"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"current-context": ""}, "no current-context is set"),
        ({"current-context": "west"}, "context 'west' is not defined under contexts"),
        ({"clusters": []}, "cluster 'east' is not defined under clusters"),
        ({"clusters": [{"name": "east", "cluster": {}}]}, "cluster 'east' has no server"),
        ({"users": []}, "user 'east' is not defined under users"),
    ],
)
def test_what_is_missing_is_named(change: dict[str, object], words: str) -> None:
    with pytest.raises(KubeconfigError, match=words):
        kubeconfig.access({**GOOD, **change})


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="nothing: No such file or directory"):
        kubeconfig.load(tmp_path / "nothing")


def test_exec_plug_ins_are_refused_unless_allowed() -> None:
    document = {**GOOD, "users": [{"name": "east", "user": {"exec": {"command": "get-token"}}}]}
    with pytest.raises(KubeconfigError, match="exec plug-ins are not allowed here"):
        Credentials(kubeconfig.access(document), allow_exec=False)


def test_merged_files_keep_every_context_and_one_current(tmp_path: Path) -> None:
    west = kubeconfig.document_for("west", "https://west:6443", b"CA", token="t")
    both = kubeconfig.merged([GOOD, west], "west")
    assert [entry["name"] for entry in both["contexts"]] == ["east", "west"]
    path = tmp_path / "config"
    kubeconfig.write(both, path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert kubeconfig.access(kubeconfig.load(path)).server == "https://west:6443"


def test_a_client_certificate_that_does_not_load_says_so() -> None:
    user = {
        "client-certificate-data": base64.b64encode(b"no").decode(),
        "client-key-data": base64.b64encode(b"no").decode(),
    }
    found = kubeconfig.access({**GOOD, "users": [{"name": "east", "user": user}]})
    with pytest.raises(KubeconfigError, match="do not load"):
        kubeconfig.Access(**{name: getattr(found, name) for name in ("server", "certificate", "key")}).ssl_context()
