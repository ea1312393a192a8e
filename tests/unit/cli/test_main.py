"""What goes wrong on the user's side is told in one line, never as a traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from corral.cli.main import COMMANDS, OTHER_WORDS, corral, main
from corral.cli.options import kubeconfig_file
from corral.cli.up import _last
from corral.client import kubeconfig
from corral.core.errors import Forbidden, Unauthorized
from corral.fleet.folder import FleetFolder
from corral.store.errors import StoreError
from corral.store.sqlite import SqliteJournal


@pytest.mark.parametrize(
    ("command", "why"),
    [(["up", "--workers", "1"], "the fleet did not start: "), (["serve", "--kubeconfig", "admin"], "")],
    ids=["up", "serve"],
)
def test_a_folder_that_cannot_be_made(
    command: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        main([*command, "--state", str(tmp_path / "file" / "state")])
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert told.startswith(f"Error: {why}{tmp_path / 'file'}")
    assert told.rstrip().endswith(": Not a directory")


def test_what_did_not_start_is_not_come_back_to(tmp_path: Path) -> None:
    file, folder = tmp_path / "fleet.yaml", FleetFolder(tmp_path / "state")
    file.write_text("address: 192.0.2.1\nclusters: [{name: manager, roles: [manager]}]\n")
    command = [sys.executable, "-m", "corral.cli.main", "up", "-f", str(file), "--state", str(folder.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert (done.returncode, done.stderr) == (1, "Error: the fleet did not start: no free port on 192.0.2.1\n")
    assert folder.read_spec() is None
    deleted = subprocess.run([*command[:3], "down", "--delete", "--state", str(folder.root)], check=False, timeout=180)
    assert deleted.returncode == 0
    assert not folder.root.exists()


def test_a_port_in_use_is_named_with_its_cluster(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "fleet.yaml").write_text(f"clusters: [{{name: manager, roles: [manager], port: {port}}}]\n")
        command = [sys.executable, "-m", "corral.cli.main", "up", "-f", str(tmp_path / "fleet.yaml")]
        command += ["--state", str(tmp_path / "state")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    why = f"port {port} of cluster manager is in use on 127.0.0.1"
    assert (done.returncode, done.stderr) == (1, f"Error: the fleet did not start: {why}\n")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["upp"], "No such command 'upp'. Did you mean up?"),
        (["queue", "lst"], "No such command 'lst'. Did you mean list?"),
        (["fleet", "zzz"], "No such command 'zzz'. There are approve, describe"),
        (["clusters", "drian", "w1"], "Did you mean drain?"),
    ],
)
def test_a_misspelt_command_is_answered_with_those_there_are(
    words: list[str], answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert answer in capsys.readouterr().err


@pytest.mark.parametrize(("word", "command"), OTHER_WORDS.items())
def test_a_command_of_another_tool_is_answered_with_ours(
    word: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert word not in COMMANDS
    assert command.split()[0] in COMMANDS
    with pytest.raises(SystemExit) as ended:
        main([word])
    assert ended.value.code == 2
    assert f"No such command '{word}'. `corral {command}` does that." in capsys.readouterr().err


def test_a_fleet_that_does_not_answer_is_one_to_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        f"""
        current-context: c
        contexts: [{{name: c, context: {{cluster: c}}}}]
        clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
        """
    )
    with pytest.raises(SystemExit) as ended:
        main(["explain", "job/x", "--kubeconfig", str(kubeconfig)])
    assert ended.value.code == 1
    assert "`corral status` shows whether a fleet runs here, `corral up` starts it" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", shell])
    assert ended.value.code == 0
    assert "_CORRAL_COMPLETE" in capsys.readouterr().out


@pytest.mark.parametrize("text", ['{"clusters": [{"name": "manager", "newer": 1}]}', "{{{"])
def test_what_another_version_wrote_is_said_and_can_be_written_anew(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fleet.json").write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["up", "--state", str(tmp_path)])
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert told.startswith(f"Error: {tmp_path / 'fleet.json'}: ")
    assert "say what to start (--workers, --fleet or -f), and it is written anew" in told
    assert _last(FleetFolder(tmp_path)) is None


def test_of_several_kubeconfigs_the_one_that_has_the_context_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        text = f"current-context: {name}\ncontexts: [{{name: {name}, context: {{cluster: {name}}}}}]\n"
        (tmp_path / name).write_text(text)
    (tmp_path / "empty").write_text("{}")
    listed = [tmp_path / name for name in ("gone", "empty", "a", "b")]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, listed)))
    assert kubeconfig_file(None) == tmp_path / "a"
    assert kubeconfig_file(None, "b") == tmp_path / "b"
    assert kubeconfig_file(tmp_path / "empty", "b") == tmp_path / "empty"


def test_a_broken_store_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"not a database at all, but long enough to be looked at" * 100)
    with pytest.raises(StoreError, match=r"cannot open .*store.db: file is not a database; `corral down --delete`"):
        SqliteJournal(tmp_path / "store.db")


@pytest.mark.parametrize("roles", [[], ["--roles", "member", "--member-name", "one"]])
@pytest.mark.parametrize(
    ("text", "fault"), [("a: [", "is not YAML"), ("integratoins: {}", "did you mean 'integrations'?")]
)
def test_controllers_over_another_cluster_read_their_configuration_first(
    roles: list[str], text: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text(text)
    (tmp_path / "kubeconfig").write_text("{}")
    files = ["--config", str(tmp_path / "config.yaml"), "--kubeconfig", str(tmp_path / "kubeconfig")]
    with pytest.raises(SystemExit) as ended:
        main(["controllers", "run", *roles, *files])
    assert ended.value.code == 1
    assert fault in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            ["request=1"],
            "the names are connections, strangers, connectionsEach, requests, requestsEach, watches, watchesEach",
        ),
        (["requests"], "Expected `int`, got `str` - at `$.requests`"),
        (["requests=0"], "Expected `int` >= 1 - at `$.requests`"),
        (["requests=1", "requests=2"], "requests is given twice"),
    ],
)
def test_a_limit_that_is_none_is_refused_before_anything_starts(
    given: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [word for limit in given for word in ("--limit", limit)]
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--state", str(tmp_path / "state"), "--kubeconfig", str(tmp_path / "admin"), *options])
    assert ended.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("listed", [["/nonexistent/config"], ["/nonexistent/a", "/nonexistent/b"]])
@pytest.mark.parametrize("command", [["queue", "list"], ["get", "jobs"], ["workload", "delete", "--all"], ["run", "x"]])
def test_a_kubeconfig_that_is_not_there_never_means_another_fleet(
    listed: list[str],
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(listed))
    monkeypatch.setenv("CORRAL_HOME", str(tmp_path))
    (tmp_path / "kubeconfig").write_text("{}")
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 1
    assert f"KUBECONFIG names {', '.join(listed)}, which" in capsys.readouterr().err


def test_of_several_kubeconfigs_one_that_is_there_is_used_whatever_the_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b").write_text("current-context: b\n")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(tmp_path / "gone"), str(tmp_path / "b")]))
    assert kubeconfig_file(None, "nobody") == tmp_path / "b"


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (Unauthorized("Unauthorized"), "the server does not accept this kubeconfig's credentials"),
        (Forbidden('jobs is forbidden: User "x" cannot list'), "the ClusterRole kueue-batch-user-role"),
        (
            Forbidden('jobs.batch is forbidden: User "x" cannot list resource "jobs" in API group "batch"'),
            "the ClusterRole kueue-batch-user-role",
        ),
        (
            Forbidden(
                'secrets is forbidden: User "x" cannot list resource "secrets" in API group "" in the namespace "d"'
            ),
            "; whoever runs the cluster can grant it\n",
        ),
    ],
)
def test_a_user_who_may_not_is_told_what_helps(
    error: Exception, advice: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(corral, "main", refuse)
    with pytest.raises(SystemExit) as ended:
        main(["get", "jobs"])
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert told.startswith(f"Error: {error}")
    assert advice in told


def test_a_folder_that_was_removed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone, file = tmp_path / "gone", tmp_path / "kubeconfig"
    gone.mkdir()
    kubeconfig.write(kubeconfig.document_for("c", "http://127.0.0.1:9", b""), file)
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SystemExit):
        main(["run", "--kubeconfig", str(file), "train.py"])
    assert capsys.readouterr().err == "Error: this folder is not there any more; change into another one\n"


NOT_TEXT = b"\x80\x81\xfe\xff" * 500


@pytest.mark.parametrize(
    "command",
    [
        ["simulate", "-f"],
        ["up", "-f"],
        ["controllers", "run", "--kubeconfig", "none", "--config"],
        ["get", "jobs", "--kubeconfig"],
        ["restore"],
    ],
)
def test_a_file_that_is_no_text_is_a_sentence(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CORRAL_HOME", str(tmp_path / "home"))
    (tmp_path / "noise").write_bytes(NOT_TEXT)
    with pytest.raises(SystemExit) as ended:
        main([*command, str(tmp_path / "noise")])
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert "noise" in told
    assert "Traceback" not in told


def test_a_credential_program_that_fails_is_named_with_its_last_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = "{command: sh, args: ['-c', 'echo log in first >&2; exit 3']}"
    (tmp_path / "kubeconfig").write_text(
        f"""
        current-context: c
        contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
        clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:9"}}}}]
        users: [{{name: u, user: {{exec: {plugin}}}}}]
        """
    )
    with pytest.raises(SystemExit) as ended:
        main(["get", "jobs", "--kubeconfig", str(tmp_path / "kubeconfig")])
    assert ended.value.code == 1
    assert "the credential program sh failed: exit code 3: log in first" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        (["--roles", "queueing,boss"], "there is no role 'boss'; there are queueing, dispatch, hub, member, webhooks"),
        (["--roles", "member"], "a member needs --member-name, the name its hub knows it by"),
    ],
)
def test_roles_that_cannot_be_are_refused_with_a_sentence(
    roles: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["controllers", "run", *roles])
    assert ended.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())
