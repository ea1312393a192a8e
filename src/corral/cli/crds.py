"""`corral crds`: the CustomResourceDefinitions of Corral's kinds, for a real Kubernetes."""

from __future__ import annotations

import click
import yaml


@click.command()
@click.option("--group", default="", help="Only kinds of this API group.")
@click.option("--name", "names", is_flag=True, help="Print only names.")
def crds(group: str, names: bool) -> None:
    """Print CustomResourceDefinitions as YAML: corral crds | kubectl apply --server-side -f -"""
    from corral.jobs.framework.served_kinds import native_kinds
    from corral.kinds.machinery.crd import crd_manifest

    kinds = [kind for kind in native_kinds() if not group or kind.group == group]
    if not kinds:
        raise click.ClickException(f"Corral has no kinds in group {group!r}")
    if names:
        for kind in kinds:
            click.echo(f"{kind.plural}.{kind.group}")
        return
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    click.echo(yaml.dump_all([crd_manifest(kind) for kind in kinds], Dumper=dumper, sort_keys=False), nl=False)
