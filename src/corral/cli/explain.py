"""`corral explain`: why a job waits, where it went, or how it ended, in one sentence and its evidence."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from pathlib import Path

import click

from corral.cli.completion import complete_target
from corral.cli.describe_queue import describe_queue
from corral.cli.lookup import targets_named
from corral.cli.options import client_of, cluster_options, namespace_of
from corral.cli.output.formats import Format, format_option, print_objects
from corral.cli.output.interruptions import INTERRUPTED
from corral.cli.output.listing import INTERVAL_S
from corral.cli.placed import answering_members, placements_of
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Obj, is_owned_by, name_of, spec_of, uid_of
from corral.core.meta import namespace_of as namespace_of_object
from corral.core.resource import Resource
from corral.inspect.check_explanation import explain_check
from corral.inspect.explain import Explanation
from corral.inspect.job_explanation import explain_job, explain_unqueued, is_job, visible_pods
from corral.inspect.lookup import pods_of, workload_of
from corral.inspect.placed_pods import WorkerSilent
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import names


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="TARGET...", shell_complete=complete_target)
@click.option("-w", "--watch", is_flag=True, help="Say it again whenever it changes, until Ctrl-C.")
@format_option("json, yaml, name or jsonpath=TEMPLATE instead of sentences.")
@cluster_options
def explain(
    words: tuple[str, ...], watch: bool, output: Format, namespace: str, context: str, kubeconfig_path: Path | None
) -> None:
    """Say why each TARGET (job/NAME, pytorchjob/NAME, workload/NAME …) waits, where it runs, or how it ended; of a queue
    (localqueue/NAME, clusterqueue/NAME), what of its quota is used and who waits in it; of an admissioncheck/NAME, whether it
    works and what it lacks.

    \b
    corral explain job/train
    corral explain pytorchjob mnist -n research
    corral explain localqueue/user-queue
    corral explain job/train -o json
    """
    client = client_of(kubeconfig_path, context)
    namespace = namespace_of(client, namespace)
    before: list[Obj] = []
    try:
        while True:
            found = [
                _explanation(client, kubeconfig_path, resource, obj, namespace)
                for resource, obj in targets_named(client, words, namespace)
            ]
            if found != before:
                _show(output, found)
            if not watch:
                break
            before = found
            time.sleep(INTERVAL_S)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(0 if all(one["isExplained"] for one in found) else 1)


def _show(output: Format, found: list[Obj]) -> None:
    if not output.is_table:
        print_objects(output, found, is_single=True)
        return
    for one in found:
        click.echo(one["text"], nl=False)


def _explanation(client: SyncClient, kubeconfig_path: Path | None, resource: Resource, obj: Obj, namespace: str) -> Obj:
    """What is said of an object, as text and in parts."""
    is_explained = True
    with contextlib.redirect_stdout(io.StringIO()) as spoken:
        if resource.kind in ("ClusterQueue", "LocalQueue"):
            describe_queue(client, obj)
        elif resource.kind == "AdmissionCheck":
            _print(explain_check(client, obj))
        elif (
            not is_job(resource)
            and resource.kind != "Workload"
            and not placements_of(client, resource.kind, name_of(obj), namespace)
        ):
            click.echo(
                f"{resource.kind} {name_of(obj)} is not a job; `corral explain` tells about jobs, pods, queues and admission checks."
            )
            is_explained = False
        elif not _explain(client, resource, obj, namespace):
            _explain_placed(client, kubeconfig_path, resource, obj, namespace)
    text = spoken.getvalue()
    first, *rest = [line.strip() for line in text.splitlines()] or [""]
    return {
        "kind": "Explanation",
        "metadata": {"name": name_of(obj), "namespace": namespace_of_object(obj)},
        "of": resource.kind,
        "isExplained": is_explained,
        "headline": first,
        "facts": [line for line in rest if not line.startswith("-> ")],
        "advice": [line.removeprefix("-> ") for line in rest if line.startswith("-> ")],
        "text": text,
    }


def _explain(client: SyncClient, resource: Resource, obj: Obj, namespace: str) -> bool:
    """Tell about an object of this cluster; False when it is one of a hub, which only places it."""
    workload = workload_of(client, resource, obj, namespace)
    if workload is not None:
        _print(explain_job(client, resource, obj, workload, namespace))
        return True
    if resource.kind == "CronJob":
        _print_cron_job(client, obj, namespace)
        return True
    if placements_of(client, resource.kind, name_of(obj), namespace):
        return False
    pods = visible_pods(client, resource, obj, namespace)
    queued = [(pod, found) for pod in pods if (found := workload_of(client, PODS, pod, namespace)) is not None]
    for pod, found in queued:
        _print(explain_job(client, PODS, pod, found, namespace))
    if not queued:
        _print(explain_unqueued(client, resource.kind, obj, pods, namespace))
    return True


def _explain_placed(
    client: SyncClient, kubeconfig_path: Path | None, resource: Resource, obj: Obj, namespace: str
) -> None:
    """On a hub: where an object was placed, and what it does there, as far as the members can be asked."""
    click.echo(f"{resource.kind} {name_of(obj)} is placed, not run here.")
    for placed in placements_of(client, resource.kind, name_of(obj), namespace):
        where = f" -n {namespace}" if placed.kind == "ResourcePlacement" else ""
        click.echo(f"  {placed}; `corral fleet describe {name_of(placed.placement)}{where}` says more")
        if finished := conditions.find(placed.placement, "corral.dev/JobsFinished"):
            click.echo(f"  {finished.get('message')}")
        for member, there in answering_members(kubeconfig_path, placed.members).items():
            if isinstance(there, WorkerSilent):
                click.echo(f"On {member}: {there}")
            elif there is not None:
                _explain_on(there, member, resource, obj, namespace)


def _explain_on(member: SyncClient, name: str, resource: Resource, obj: Obj, namespace: str) -> None:
    try:
        copy = member.get(resource, name_of(obj), namespace)
    except NotFound:
        click.echo(f"On {name}: it is not there, or not any more.")
        return
    except ApiError as error:
        click.echo(f"On {name}: {error}")
        return
    click.echo(f"On {name}:")
    _explain(member, resource, copy, namespace)


def _print(found: Explanation) -> None:
    click.echo(found.headline)
    for fact in found.facts:
        click.echo(f"  {fact}")
    if found.advice:
        click.echo(f"  -> {found.advice}")


def _print_cron_job(client: SyncClient, obj: Obj, namespace: str) -> None:
    """A CronJob is not queued; the Jobs it makes are, if its template names a queue."""
    metadata = (spec_of(obj).get("jobTemplate") or {}).get("metadata") or {}
    queue = (metadata.get("labels") or {}).get(names.QUEUE_NAME)
    made = [job for job in client.list(JOBS, namespace)["items"] if is_owned_by(job, uid_of(obj))]
    last = max(made, key=lambda job: str(job["metadata"]["creationTimestamp"]), default=None)
    click.echo(f"CronJob {name_of(obj)}: " + (f"its Jobs go to {queue}." if queue else "its Jobs name no queue."))
    if spec_of(obj).get("suspend"):
        click.echo("  it is suspended: no more Jobs are made until spec.suspend is false")
    if not queue:
        click.echo(
            f"  -> Set the label {names.QUEUE_NAME} in spec.jobTemplate.metadata.labels, and its next Job is queued."
        )
    if last is None:
        click.echo("  it has made no Job yet")
    elif (workload := workload_of(client, JOBS, last, namespace)) is not None:
        _print(explain_job(client, JOBS, last, workload, namespace))
    else:
        _print(explain_unqueued(client, "Job", last, pods_of(client, JOBS, last, namespace), namespace, advise=False))
