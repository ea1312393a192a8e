"""`corral crds`: the CustomResourceDefinitions of Corral's kinds, for a real Kubernetes."""

from __future__ import annotations

import click
import yaml


@click.command()
@click.option(
    "--group", "groups", multiple=True, help="Kinds of these API groups; those of queueing when none is named."
)
@click.option("--all", "every", is_flag=True, help="Kinds of all groups, those of other operators too.")
@click.option("--name", "names", is_flag=True, help="Print only names.")
def crds(groups: tuple[str, ...], every: bool, names: bool) -> None:
    """Print CustomResourceDefinitions as YAML: corral crds | kubectl apply --server-side -f -"""
    from corral.clusters.definitions import chosen_kinds, definition_of
    from corral.jobs.framework.served_kinds import native_kinds

    try:
        kinds = list(native_kinds()) if every else chosen_kinds(groups)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if names:
        for kind in kinds:
            click.echo(f"{kind.plural}.{kind.group}")
        return
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    click.echo(yaml.dump_all([definition_of(kind) for kind in kinds], Dumper=dumper, sort_keys=False), nl=False)
