"""Limits on what pods write are compared with what they wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.core.meta import Obj
from corral.node.process.folder import PodFolder
from corral.node.process.storage import Written, excess, has_limits, measure


def pod(limit: str = "", size: str = "", second: str | None = None) -> Obj:
    def container(name: str, amount: str) -> Obj:
        return {"name": name, "resources": {"limits": {"ephemeral-storage": amount} if amount else {}}}

    containers = [container("main", limit), *([container("second", second)] if second is not None else [])]
    volumes = [{"name": "scratch", "emptyDir": {"sizeLimit": size} if size else {}}]
    return {"metadata": {"name": "p"}, "spec": {"containers": containers, "volumes": volumes}}


@pytest.mark.parametrize(
    ("asked", "written", "sentence"),
    [
        (pod(), Written({"main": 10**12}, {"scratch": 10**12}), ""),
        (pod("1Ki"), Written({"main": 1024}, {"scratch": 0}), ""),
        (pod("1Ki"), Written({"main": 1025}, {"scratch": 0}), 'Container main exceeded its local ephemeral storage limit "1Ki". '),
        (pod("1Ki"), Written({"main": 1000}, {"scratch": 100}), "Pod ephemeral local storage usage exceeds the total limit of containers 1024. "),
        (pod("1Ki", second=""), Written({"main": 1000, "second": 0}, {"scratch": 100}), ""),
        (pod(size="1Ki"), Written({"main": 0}, {"scratch": 1025}), 'Usage of EmptyDir volume "scratch" exceeds the limit "1Ki". '),
    ],
)  # fmt: skip
def test_a_pod_over_a_limit_is_told_which(asked: Obj, written: Written, sentence: str) -> None:
    assert excess(asked, written) == sentence


def test_only_pods_with_limits_are_measured() -> None:
    assert [has_limits(pod()), has_limits(pod("1Ki")), has_limits(pod(size="1Ki"))] == [False, True, True]


def test_what_lies_in_the_folders_is_counted_and_links_are_not_followed(tmp_path: Path) -> None:
    folder = PodFolder(tmp_path / "u")
    (folder.container("main") / "tmp").mkdir(parents=True)
    (folder.container("main") / "tmp" / "large").write_bytes(b"x" * 8192)
    (folder.volumes / "scratch").mkdir(parents=True)
    (folder.volumes / "scratch" / "elsewhere").symlink_to(folder.container("main"))
    written = measure(pod("1Ki"), folder)
    assert written.containers["main"] >= 8192
    assert written.volumes["scratch"] < 8192
