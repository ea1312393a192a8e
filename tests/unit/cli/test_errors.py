"""What goes wrong on the user's side is told in one line, never as a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.cli.main import main


@pytest.mark.parametrize("command", [["up", "--workers", "1"], ["serve", "--kubeconfig", "admin"]])
def test_a_folder_that_cannot_be_made(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        main([*command, "--state", str(tmp_path / "file" / "state")])
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert told.startswith(f"Error: {tmp_path / 'file'}")
    assert told.rstrip().endswith(": Not a directory")
