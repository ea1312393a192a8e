"""`corral completion`: what a shell needs to complete commands, options, contexts and the names of jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

if TYPE_CHECKING:
    from corral.core.meta import Obj
    from corral.core.resource import Resource

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
    from corral.core.meta import owner_references_of
    from corral.kinds.kueue import WORKLOADS

    owners = [owner for one in _there(ctx, WORKLOADS) for owner in owner_references_of(one)]
    names = {f"{owner['kind'].lower()}/{owner['name']}" for owner in owners}
    return sorted(name for name in names if name.startswith(incomplete))


def complete_queue(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Queues that jobs can name."""
    from corral.core.meta import name_of
    from corral.kinds.kueue import LOCAL_QUEUES

    return sorted(name for name in map(name_of, _there(ctx, LOCAL_QUEUES)) if name.startswith(incomplete))


def complete_kind(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Kinds of jobs that a program can become."""
    from corral.jobs.framework.registry import submission_makers

    return sorted(word for word in submission_makers() if word.startswith(incomplete))


def complete_resource(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Kinds of objects, by their plurals; after a kind and a slash the jobs of that kind."""
    if "/" in incomplete:
        return complete_target(ctx, param, incomplete)
    from corral.cli.options import client_of
    from corral.inspect.lookup import discover

    try:
        client = client_of(ctx.params.get("kubeconfig_path"), ctx.params.get("context") or "")
        known = {resource.plural for resource, _ in discover(client) if "/" not in resource.plural}
    except Exception:  # a key press must never end in a traceback
        return []
    return sorted(plural for plural in known if plural.startswith(incomplete))


def _there(ctx: click.Context, resource: Resource) -> list[Obj]:
    """The objects of a kind; none where no cluster answers."""
    from corral.cli.options import client_of, namespace_of

    try:
        client = client_of(ctx.params.get("kubeconfig_path"), ctx.params.get("context") or "")
        found: list[Obj] = client.list(resource, namespace_of(client, ctx.params.get("namespace") or ""))["items"]
    except Exception:  # a key press must never end in a traceback
        return []
    return found


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
