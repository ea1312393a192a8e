"""`corral completion`: what a shell needs to complete commands, options, contexts and the names of jobs."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    eval "$(corral completion bash)"                                  # in ~/.bashrc
    eval "$(corral completion zsh)"                                   # in ~/.zshrc
    corral completion fish > ~/.config/fish/completions/corral.fish
    """
    from corral.cli.main import corral

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(corral, {}, "corral", "_CORRAL_COMPLETE").source())


def complete_target(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Jobs that are or were queued, as KIND/NAME; nothing where no cluster answers."""
    from corral.cli.options import client_of, namespace_of
    from corral.core.meta import owner_references_of
    from corral.kinds.kueue import WORKLOADS

    try:
        client = client_of(ctx.params.get("kubeconfig_path"), ctx.params.get("context") or "")
        found = client.list(WORKLOADS, namespace_of(client, ctx.params.get("namespace") or ""))["items"]
    except Exception:  # a key press must never end in a traceback
        return []
    owners = [owner for one in found for owner in owner_references_of(one)]
    names = {f"{owner['kind'].lower()}/{owner['name']}" for owner in owners}
    return sorted(name for name in names if name.startswith(incomplete))


def complete_context(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Contexts of the kubeconfig."""
    from corral.cli.options import kubeconfig_file
    from corral.client import kubeconfig

    path: Path | None = ctx.params.get("kubeconfig_path")
    try:
        contexts = kubeconfig.load(kubeconfig_file(path)).get("contexts") or []
    except Exception:  # a key press must never end in a traceback
        return []
    return sorted(str(entry["name"]) for entry in contexts if str(entry["name"]).startswith(incomplete))
