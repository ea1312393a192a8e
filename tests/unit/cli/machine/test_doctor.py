"""`corral doctor` where something is wrong: each is said with how to mend it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from corral.cli.machine.doctor.findings import Level
from corral.cli.machine.doctor.machine import name_clash
from corral.cli.main import corral

BROKEN = {
    "not yaml": ("a: [", "is not YAML"),
    "no context": ("{}", "no current-context is set"),
    "no such context": ("current-context: c\n", "context 'c' is not defined"),
    "expired": (
        "current-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "users: [{name: u, user: {exec: {command: no-such-program-at-all}}}]\n",
        "the credential program no-such-program-at-all is not on the PATH",
    ),
}


def findings(home: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, list[dict[str, str]]]:
    monkeypatch.setenv("CORRAL_HOME", str(home / "fleet"))
    monkeypatch.setenv("HOME", str(home))
    done = CliRunner().invoke(corral, ["doctor", "-o", "json", *words])
    return done.exit_code, json.loads(done.stdout)["items"]


def test_a_machine_without_a_fleet_is_told_how_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    code, found = findings(tmp_path, monkeypatch)
    said = {one["text"]: one for one in found}
    assert said[f"no fleet was started in {tmp_path / 'fleet'}"]["mend"] == "`corral up` starts one"
    assert said[f"there is no kubeconfig {tmp_path / '.kube' / 'config'}"]["level"] == "note"
    assert code == 0


@pytest.mark.parametrize("case", BROKEN)
def test_a_kubeconfig_that_cannot_be_used_is_named_with_what_is_wrong(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, says = BROKEN[case]
    (tmp_path / "config").write_text(text)
    code, found = findings(tmp_path, monkeypatch, "--kubeconfig", str(tmp_path / "config"))
    wrong = [one for one in found if one["part"] == "kubeconfig" and one["level"] == "wrong"]
    assert code == 1
    assert any(says in one["text"] for one in wrong), found
    assert all(one["mend"] for one in wrong)


def test_a_kubeconfig_others_can_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config"
    file.write_text(BROKEN["expired"][0])
    file.chmod(0o644)
    _, found = findings(tmp_path, monkeypatch, "--kubeconfig", str(file))
    assert f"`chmod 600 {file}`" in [one["mend"] for one in found]


def test_what_a_fleet_left_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "fleet.json").write_text("{{{")
    code, found = findings(tmp_path, monkeypatch)
    assert code == 1
    assert [one["mend"] for one in found if one["part"] == "fleet"] == ["`corral up --workers 2` writes it anew"]


def test_a_project_of_the_same_name_in_the_same_environment_is_said() -> None:
    (found,) = name_clash({"corral"})
    assert found.level is Level.WRONG
    assert "pip uninstall corral" in found.mend
    assert list(name_clash(set())) == []
