"""Files of every kind of wrong content, given to every command that reads one: a sentence and an exit code, never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from corral.cli.main import corral, main

WRITTEN = {("backup", "file"), ("serve", "kubeconfig"), ("serve", "audit_log"), ("examples copy", "to")}
"""Options whose file is written, not read."""
FOLDERS = {"state", "workdir", "webhook_certificates"}
READ = {
    "file",
    "files",
    "kubeconfig_path",
    "path",
    "worker_kubeconfig",
    "member_kubeconfig",
    "config",
    "encryption_key",
    "each",
    "requirements",
    "program",
}
CONTENTS = {
    "noise": b"\x80\x81\xfe\xff\x00" * 400,
    "UTF-16 without a mark": "kind: Job\n".encode("utf-16-le"),
    "UTF-16": "clusters: [".encode("utf-16"),
    "a mark alone": b"\xef\xbb\xbf",
    "Latin-1": "kind: J\xf6b\n".encode("latin-1"),
    "control characters": b"a: \x07\x1b[31m\x00\n",
    "nothing": b"",
    "a list": b"- 1\n- 2\n",
    "a number": b"42\n",
    "deep": b"[" * 5000,
    "an anchor in itself": b"&a [*a]\n",
    "a folder": None,
}
KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
"""


def leaves(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command, with the words that lead to it."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*words, name))


def reading() -> Iterator[tuple[tuple[str, ...], click.Command, click.Parameter]]:
    for words, command in leaves(corral):
        for parameter in command.params:
            if parameter.name in READ and (" ".join(words), parameter.name) not in WRITTEN:
                yield words, command, parameter


READERS = list(reading())


def typed(words: tuple[str, ...], command: click.Command, parameter: click.Parameter, file: Path) -> list[str]:
    """A command line in which everything that must be there is, and one file is wrong."""
    options, arguments = [], []
    for other in command.params:
        if other is parameter:
            (arguments if isinstance(other, click.Argument) else options).append((other, str(file)))
        elif other.required:
            (arguments if isinstance(other, click.Argument) else options).append((other, str(file.parent / "unused")))
    # Options stand first: what comes after a program is the program's own.
    given = [word for option, value in options for word in (option.opts[0], value)]
    return [*words, *given, *(value for _, value in arguments)]


def test_every_option_that_takes_a_file_is_known_here() -> None:
    known = READ | FOLDERS | {name for _, name in WRITTEN}
    unknown = {
        (" ".join(words), parameter.name)
        for words, command in leaves(corral)
        for parameter in command.params
        if isinstance(parameter.type, click.Path | click.File) and parameter.name not in known
    }
    assert unknown == set()


CASES = [
    pytest.param(words, command, parameter, content, id=f"{' '.join(words)} {parameter.opts[0]}, {content}")
    for words, command, parameter in READERS
    for content in CONTENTS
    # All commands read kubeconfigs by one function: of what it sees, a few are enough for each of them.
    if parameter.name != "kubeconfig_path" or content in ("noise", "UTF-16", "deep", "a folder") or words == ("get",)
]


@pytest.mark.parametrize(("words", "command", "parameter", "content"), CASES)
def test_a_file_that_cannot_be_used_is_a_sentence(
    words: tuple[str, ...],
    command: click.Command,
    parameter: click.Parameter,
    content: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "good").write_text(KUBECONFIG)
    # A configuration may be empty: without a cluster nothing is started with it.
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / ("none" if parameter.name == "config" else "good")))
    monkeypatch.setenv("CORRAL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "wrong"
    data = CONTENTS[content]
    file.mkdir() if data is None else file.write_bytes(data)
    with pytest.raises(SystemExit) as ended:
        main(typed(words, command, parameter, file))
    told = capsys.readouterr()
    if ended.value.code != 0:  # `corral doctor` and `corral version` may have nothing to complain about
        assert ended.value.code in (1, 2), told
        assert told.err or told.out
    assert "Traceback" not in told.err
    assert "\x1b[31m" not in told.err, "what a file says is not written to the terminal as it is"
