"""`corral cancel` and `corral retry`: stop a job for good and keep what it left, and run one again under another name."""

from __future__ import annotations

from pathlib import Path

import click

from corral.cli.completion import complete_target
from corral.cli.lookup import as_click_errors, targets_meant
from corral.cli.objects.targets import selector_option, typed
from corral.cli.options import client_of, cluster_options, namespace_of
from corral.cli.output.formats import typed_name
from corral.submit import cancelling, submitting


@click.command()
@click.argument("words", nargs=-1, metavar="TARGET...", shell_complete=complete_target)
@selector_option
@cluster_options
def cancel(words: tuple[str, ...], selector: str, namespace: str, context: str, kubeconfig_path: Path | None) -> None:
    """Stop jobs, wherever they wait or run. They stay, to be looked at: `corral workload resume` puts one back in its
    queue, `corral retry` runs it anew, `corral delete` removes it.

    \b
    corral cancel job/train
    corral cancel pytorchjob/a pytorchjob/b
    corral cancel -l corral.dev/batch=sweep
    """
    client = client_of(kubeconfig_path, context)
    for resource, obj in targets_meant(client, words, selector, namespace_of(client, namespace)):
        with as_click_errors():
            became = "cancelled" if cancelling.cancel(client, resource, obj) else "has ended already"
        click.echo(f"{typed_name(typed(resource, obj))} {became}")


@click.command()
@click.argument("words", nargs=-1, metavar="TARGET...", shell_complete=complete_target)
@selector_option
@click.option("--name", default="", help="Name of the new job (default: the old one with a number).")
@cluster_options
def retry(
    words: tuple[str, ...], selector: str, name: str, namespace: str, context: str, kubeconfig_path: Path | None
) -> None:
    """Submit jobs again that have ended or were cancelled, as new jobs of the same content; the old ones stay as they are.

    \b
    corral retry job/train          # makes train-2
    """
    client = client_of(kubeconfig_path, context)
    found = targets_meant(client, words, selector, namespace_of(client, namespace))
    if name and len(found) > 1:
        raise click.UsageError("--name names one job; name one TARGET")
    for resource, obj in found:
        with as_click_errors():
            made = submitting.retry(client, resource, obj, name)
        click.echo(f"{typed_name(typed(resource, made))} created")
