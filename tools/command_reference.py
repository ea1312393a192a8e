"""Writes docs/reference/options.md: every command with all of its options, from their own help. `tests/docs` checks that it is current."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from corral.cli.main import COMMANDS, corral

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "options.md"
HEAD = """# Every option

Each command and its options, as `--help` has them; [commands](commands.md) says what they are for. Written by `python -m tools.command_reference`;
a test compares.
"""


def page() -> str:
    context = click.Context(corral, info_name="corral")
    found = ((name, corral.get_command(context, name)) for name in sorted(COMMANDS))
    parts = [line for name, command in found if command is not None for line in _command(f"corral {name}", command)]
    return "\n".join([HEAD, *parts])


def _command(path: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"## {path}\n\n```\n{f'{path} {usage}'.strip()}\n```\n\n{_sentences(command)}\n"
    # Without --help, for its short form depends on who asked first.
    options = [one for one in command.get_params(context) if "--help" not in one.opts]
    shown = [record for one in options if (record := one.get_help_record(context)) is not None]
    if shown:
        yield "| option | |\n|---|---|"
        yield from (f"| `{_cell(names)}` | {_cell(text)} |" for names, text in shown)
        yield ""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if (below := command.get_command(context, name)) is not None:
                yield from _command(f"{path} {name}", below)


def _sentences(command: click.Command) -> str:
    """What it does; the examples of its help stand in other pages."""
    text = inspect.cleandoc(command.help or "").partition("\b")[0]
    return " ".join(text.split())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
