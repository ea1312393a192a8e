"""A group of commands that answers a misspelt one with those it may have been."""

from __future__ import annotations

from collections.abc import Mapping

import click


class Commands(click.Group):
    """A group that suggests."""

    other_words: Mapping[str, str] = {}
    """What people call commands who come from another tool, and the command that does it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            if args[0] in self.other_words:
                raise click.UsageError(
                    f"{error.message} `{ctx.command_path} {self.other_words[args[0]]}` does that.", error.ctx
                ) from error
            known = self.list_commands(ctx)
            close = get_close_matches(args[0], known, n=2)
            hint = f"Did you mean {' or '.join(close)}?" if close else f"There are {', '.join(known)}."
            raise click.UsageError(f"{error.message} {hint}", error.ctx) from error
