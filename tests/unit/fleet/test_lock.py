"""A folder is one fleet's, from its first process to its last."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.fleet.lock import FolderLock, Held, holder


def test_the_second_is_told_who_has_it(tmp_path: Path) -> None:
    with FolderLock(tmp_path):
        assert holder(tmp_path) == os.getpid()
        with pytest.raises(Held) as refused:
            FolderLock(tmp_path)
        assert refused.value.pid == os.getpid()
    assert holder(tmp_path) is None
    FolderLock(tmp_path).release()


def test_what_was_forked_goes_on_holding_it(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        lock.name_this_process()
        os.read(read, 1)
        os._exit(0)
    lock.release()
    while holder(tmp_path) != child:
        pass
    os.close(write)
    os.waitpid(child, 0)
    assert holder(tmp_path) is None


def test_a_folder_without_a_lock_is_nobodys(tmp_path: Path) -> None:
    assert holder(tmp_path) is None
    assert holder(tmp_path / "none") is None
