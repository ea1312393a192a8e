"""A volume that is handed to a group, with everything in it and nothing outside."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from corral.node.process.ownership import hand_to_group

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to any group")


@needs_root
def test_files_and_folders_change_their_group_and_links_lead_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    outside.chmod(0o600)
    place = tmp_path / "volume"
    (place / "deep").mkdir(parents=True)
    (place / "deep" / "file").write_text("theirs")
    (place / "link").symlink_to(outside)
    hand_to_group(place, 4321)
    for path in (place, place / "deep", place / "deep" / "file"):
        assert path.stat().st_gid == 4321
    assert (place / "deep").stat().st_mode & stat.S_ISGID
    assert stat.S_IMODE((place / "deep" / "file").stat().st_mode) & 0o060 == 0o060
    assert (outside.stat().st_gid, stat.S_IMODE(outside.stat().st_mode)) == (outside.parent.stat().st_gid, 0o600)


@needs_root
def test_a_tree_whose_root_is_right_is_left_alone_when_asked(tmp_path: Path) -> None:
    place = tmp_path / "volume"
    place.mkdir()
    hand_to_group(place, 4321)
    (place / "late").write_text("")
    os.chown(place / "late", -1, 0)
    hand_to_group(place, 4321, only_on_mismatch=True)
    assert (place / "late").stat().st_gid == 0
    hand_to_group(place, 4321)
    assert (place / "late").stat().st_gid == 4321
