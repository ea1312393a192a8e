"""A pod reaches its cluster with what its account's folder holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.client import in_cluster
from corral.client.credentials import Credentials
from corral.client.kubeconfig import KubeconfigError

HERE = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


def account(folder: Path) -> Path:
    for name, text in (("token", "first"), ("ca.crt", "authority"), ("namespace", "kueue-system\n")):
        (folder / name).write_text(text)
    return folder


def test_the_account_of_a_pod_says_where_who_and_in_which_namespace(tmp_path: Path) -> None:
    folder = account(tmp_path)
    assert in_cluster.is_in_cluster(folder, HERE)
    found = in_cluster.access(folder, HERE)
    assert (found.server, found.ca, found.namespace) == ("https://10.0.0.1:6443", b"authority", "kueue-system")
    assert in_cluster.access(folder, {"KUBERNETES_SERVICE_HOST": "fd00::1"}).server == "https://[fd00::1]:443"


def test_a_process_outside_of_a_pod_is_not_in_a_cluster(tmp_path: Path) -> None:
    assert not in_cluster.is_in_cluster(account(tmp_path), {})
    assert not in_cluster.is_in_cluster(tmp_path / "none", HERE)
    with pytest.raises(KubeconfigError, match=r"ca\.crt"):
        in_cluster.access(tmp_path / "none", HERE)


async def test_a_token_that_the_kubelet_has_renewed_is_read_again(tmp_path: Path) -> None:
    folder = account(tmp_path)
    credentials = Credentials(in_cluster.access(folder, HERE), allow_exec=False)
    assert await credentials.header() == {"Authorization": "Bearer first"}
    (folder / "token").write_text("second")
    credentials.expire()
    assert await credentials.header() == {"Authorization": "Bearer second"}
