"""`corral simulate`: what would happen to these jobs in these queues, on virtual time."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from corral.cli.options import client_of, cluster_options
from corral.cli.output.tables import print_table
from corral.client.sync import SyncClient
from corral.core.errors import Forbidden
from corral.core.meta import name_of
from corral.core.quantity import Quantity
from corral.core.remote_pods import CLUSTER_LABEL
from corral.core.timestamps import parse_duration
from corral.inspect.placed_pods import KUEUE
from corral.kinds.kubernetes.core.kinds import NODES
from corral.runtime.clock import WallClock

if TYPE_CHECKING:
    from corral.node.node import NodeSpec
    from corral.simulate.what_if.manifests import Manifests
    from corral.simulate.what_if.record import WorkloadRecord
    from corral.simulate.what_if.run import Outcome


@click.command()
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Manifests: a file, a folder, - is standard input.",
)
@click.option(
    "--live",
    is_flag=True,
    help="Begin with what the cluster has now: its queues and workers, what runs and what waits.",
)
@click.option("--assume", default="1h", show_default=True, help="How long jobs of --live run that do not say.")
@click.option(
    "--compare",
    multiple=True,
    metavar="FILE",
    help="Run again with these objects instead of, or besides, those of the same name.",
)
@click.option(
    "--compare-workers", type=click.IntRange(1, 100), default=None, metavar="N", help="Run again with so many workers."
)
@click.option("--workers", type=click.IntRange(0, 100), default=0, help="Worker clusters beside a manager.")
@click.option(
    "--cluster", "clusters", multiple=True, metavar="NAME=RESOURCE=AMOUNT,...", help="A worker of its own size."
)
@click.option("--nodes", type=click.IntRange(1, 1000), default=1, help="Nodes in each worker.")
@click.option("--cpu", default="8", help="CPUs of each node.")
@click.option("--memory", default="32Gi", help="Memory of each node.")
@click.option("--gpu", multiple=True, metavar="RESOURCE=COUNT", help="Extended resource of each node.")
@click.option("--until", default="24h", help="Longest time to look ahead.")
@click.option("--seed", type=int, default=0, help="Another order of what happens at the same moment.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="What to print.")
@cluster_options
def simulate(
    files: tuple[str, ...],
    live: bool,
    assume: str,
    compare: tuple[str, ...],
    compare_workers: int | None,
    workers: int,
    clusters: tuple[str, ...],
    nodes: int,
    cpu: str,
    memory: str,
    gpu: tuple[str, ...],
    until: str,
    seed: int,
    output: str,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Say when each job of the manifests would be admitted, where it would run and when it would end, and how much of
    the quota would be used. Nothing is started: the controllers of Corral run on simulated clusters, in virtual time.

    \b
    corral simulate -f queues.yaml -f jobs.yaml                       # one cluster that holds the quota
    corral simulate -f jobs.yaml --workers 3 --gpu nvidia.com/gpu=4   # a manager and workers, as of `corral up`
    corral simulate -f jobs.yaml --cluster a=cpu=8 --cluster b=cpu=64,memory=256Gi --until 48h -o json
    corral simulate --live                                            # when what waits now would start
    corral simulate --live -f job.yaml                                # and a job that is not submitted yet
    corral simulate -f jobs.yaml --compare more-quota.yaml            # two settings side by side

    How long a pod runs says its annotation corral.dev/run-seconds. A job with corral.dev/submit-after is submitted
    later, one with corral.dev/submit-count several times, corral.dev/submit-every apart.
    """
    from corral.cli.objects.manifests import read_manifests
    from corral.runtime.virtual import run_virtual
    from corral.simulate.what_if.manifests import sorted_out
    from corral.simulate.what_if.run import quiet
    from corral.simulate.what_if.run import simulate as run

    if not files and not live:
        raise click.UsageError("name manifests with -f, or begin with what the cluster has now with --live")
    if live and (workers or clusters):
        raise click.UsageError("--live takes the workers the cluster has; --compare-workers tries other numbers")
    seconds = _duration(until, "--until")
    size = {"cpu": cpu, "memory": memory, "pods": "110", **dict(_pairs(gpu, "--gpu"))}
    fleet = _fleet(workers, nodes, size, clusters)
    alone = _nodes("node", 1, size)[0]
    manifests = sorted_out((one.obj, one.origin) for one in read_manifests(files))
    if live:
        client = client_of(kubeconfig_path, context)
        fleet = _live_fleet(client, kubeconfig_path)
        manifests = _live(client, _duration(assume, "--assume"), fleet).with_more(_after(manifests))
        if not manifests.jobs:
            raise click.ClickException(
                "nothing runs and nothing waits; name jobs with -f, to see when they would start"
            )
        manifests.nodes = manifests.nodes if fleet else [*client.list(NODES)["items"], *manifests.nodes]

    def result(manifests: Manifests, fleet: dict[str, Sequence[NodeSpec]]) -> Outcome:
        # Without a seed things happen in the order they were asked for.
        with quiet():
            return run_virtual(lambda: run(manifests, fleet, alone, seconds, seed), seed=seed, shuffle=seed != 0)

    outcome = result(manifests, fleet)
    if not compare and compare_workers is None:
        (_print_json if output == "json" else _print_tables)(outcome)
        return
    changed = manifests.with_more(sorted_out((one.obj, one.origin) for one in read_manifests(compare)))
    other_fleet = fleet if compare_workers is None else _fleet(compare_workers, nodes, size, ())
    other = result(changed, other_fleet)
    if output == "json":
        click.echo(json.dumps({"asGiven": _document(outcome), "compared": _document(other)}, indent=2))
    else:
        _print_comparison(outcome, other)


def _live(client: SyncClient, assumed_s: float, workers: Collection[str]) -> Manifests:
    """What the cluster has now; how it was read is said beside the answer."""
    from corral.simulate.what_if.live import read_live

    found = read_live(client, WallClock().now(), assumed_s, workers)
    guessed = (
        f"; {found.assumed} do not say how long, and are taken to run {_moment(assumed_s)} in all (--assume)"
        if found.assumed
        else ""
    )
    click.echo(f"# {found.running} run and {found.waiting} wait now{guessed}", err=True)
    for text in found.left_out:
        click.echo(f"# left out: {text}", err=True)
    return found.manifests


def _after(manifests: Manifests) -> Manifests:
    """Jobs of files are submitted after what is there already."""
    from corral.simulate.what_if.live import WAITING_FROM_S

    manifests.jobs = [replace(job, at=job.at + 2 * WAITING_FROM_S) for job in manifests.jobs]
    return manifests


def _live_fleet(client: SyncClient, kubeconfig_path: Path | None) -> dict[str, Sequence[NodeSpec]]:
    """The workers of a manager with their nodes; none where it runs its jobs itself."""
    from corral.cli.machine.workers import ask_workers, worker_names
    from corral.simulate.what_if.live import node_of

    def nodes(worker: SyncClient) -> Sequence[NodeSpec]:
        return [node_of(one) for one in worker.list(NODES)["items"]]

    fleet: dict[str, Sequence[NodeSpec]] = {}
    for name, answer in ask_workers(client, worker_names(client), KUEUE, kubeconfig_path, nodes).items():
        if isinstance(answer, Exception):
            why = "the manager's credentials do not show its nodes" if isinstance(answer, Forbidden) else answer
            click.echo(f"# left out: cluster {name}: {why}", err=True)
        else:
            fleet[name] = [replace(node, labels={**node.labels, CLUSTER_LABEL: name}) for node in answer]
    return fleet


def _duration(text: str, option: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}; write it as 90m or 24h", param_hint=option) from error


def _pairs(entries: Iterable[str], option: str) -> Iterable[tuple[str, str]]:
    for entry in entries:
        resource, _, amount = entry.partition("=")
        try:
            Quantity.parse(amount)
        except ValueError as error:
            raise click.BadParameter(f"{entry!r}: write it as RESOURCE=AMOUNT", param_hint=option) from error
        yield resource, amount


def _fleet(workers: int, nodes: int, size: dict[str, str], clusters: Sequence[str]) -> dict[str, Sequence[NodeSpec]]:
    """The workers by name, none for a single cluster."""
    if workers and clusters:
        raise click.UsageError("--workers and --cluster exclude each other")
    fleet = {f"worker{number}": _nodes(f"worker{number}", nodes, size) for number in range(1, workers + 1)}
    for entry in clusters:
        name, _, amounts = entry.partition("=")
        if not name or not amounts or name in fleet:
            raise click.BadParameter(f"{entry!r}: write it as NAME=cpu=8,memory=32Gi", param_hint="--cluster")
        fleet[name] = _nodes(name, nodes, {**size, **dict(_pairs(amounts.split(","), "--cluster"))})
    return fleet


def _nodes(cluster: str, count: int, size: dict[str, str]) -> Sequence[NodeSpec]:
    from corral.node.node import NodeSpec

    return [NodeSpec(f"{cluster}-node{number}", size) for number in range(1, count + 1)]


# Printing


def _sorted(outcome: Outcome) -> list[WorkloadRecord]:
    return sorted(outcome.record.entries.values(), key=lambda entry: (entry.queued, entry.namespace, entry.job))


def _moment(seconds: float | None) -> str:
    """A moment as the time since the start."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{amount}{unit}" for amount, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if amount]
    return "".join(parts) or "0s"


def _print_tables(outcome: Outcome) -> None:
    entries = _sorted(outcome)
    rows = [
        (
            entry.job if entry.namespace == "default" else f"{entry.namespace}/{entry.job}",
            entry.queue,
            _moment(entry.queued),
            _moment(entry.admitted),
            entry.cluster,
            _moment(entry.ended),
            entry.state,
            len(entry.evictions) or "",
        )
        for entry in entries
    ]
    print_table(("JOB", "QUEUE", "QUEUED", "ADMITTED", "CLUSTER", "ENDED", "STATE", "EVICTED"), rows)
    click.echo()
    print_table(
        ("CLUSTERQUEUE", "FLAVOR", "RESOURCE", "QUOTA", "AVERAGE", "PEAK"),
        [(*share, quota, f"{average:.0%}", f"{peak:.0%}") for share, quota, average, peak in _utilisation(outcome)],
    )
    _print_evictions(entries)
    click.echo()
    click.echo(_summary(entries, outcome.seconds))
    for entry in entries:
        if entry.state == "Waiting" and entry.message:
            click.echo(f"{entry.job} waits: {entry.message}")
    for job in outcome.unqueued:
        click.echo(f"{job['kind']}/{name_of(job)} is in no queue: it has no label kueue.x-k8s.io/queue-name")


def _print_evictions(entries: Sequence[WorkloadRecord]) -> None:
    """Who lost quota when, and why."""
    found = sorted((one.at, entry.job, one.reason, one.message) for entry in entries for one in entry.evictions)
    if found:
        click.echo()
        print_table(("EVICTED AT", "JOB", "REASON", "WHY"), [(_moment(at), *rest) for at, *rest in found])


def _print_comparison(first: Outcome, second: Outcome) -> None:
    """Each job in both runs, and both in a line."""
    runs = [{(one.namespace, one.job): one for one in _sorted(outcome)} for outcome in (first, second)]
    rows = []
    for namespace, job in {**runs[0], **runs[1]}:
        row: list[object] = [job if namespace == "default" else f"{namespace}/{job}"]
        for entry in (run.get((namespace, job)) for run in runs):
            row += ["", "", "", ""] if entry is None else [
                _moment(entry.admitted), _moment(entry.ended), entry.state, len(entry.evictions) or "",
            ]  # fmt: skip
        rows.append(row)
    columns = ("ADMITTED", "ENDED", "STATE", "EVICTED")
    print_table(("JOB", *columns, *(f"{column} THEN" for column in columns)), rows)
    click.echo()
    for what, outcome in (("as given", first), ("compared", second)):
        used = [
            f"{resource} of {queue} {average:.0%}"
            for (queue, _, resource), _, average, _ in _utilisation(outcome)
            if average
        ]
        shares = f" Used on average: {', '.join(used)}." if used else ""
        click.echo(f"{what}: {_summary(_sorted(outcome), outcome.seconds)}{shares}")


def _utilisation(outcome: Outcome) -> Iterable[tuple[tuple[str, str, str], Quantity, float, float]]:
    """Every share of the quota: how much of it was used, on average until the last job let go of it, and at most."""
    for share, quota in sorted(outcome.quotas.items(), key=lambda item: item[0]):
        used, whole = outcome.record.used.get(share), float(quota.milli)
        if used is None or not whole:
            yield share, quota, 0.0, 0.0
            continue
        busy = outcome.record.busy
        yield share, quota, used.total / busy / whole if busy else 0.0, used.peak / whole


def _summary(entries: Sequence[WorkloadRecord], seconds: float) -> str:
    states: dict[str, int] = {}
    for entry in entries:
        states[entry.state] = states.get(entry.state, 0) + 1
    counted = ", ".join(f"{count} {state.lower()}" for state, count in sorted(states.items()))
    waits = [entry.admitted - entry.queued for entry in entries if entry.admitted is not None]
    waited = f"; waited {_moment(sum(waits) / len(waits))} on average, {_moment(max(waits))} at most" if waits else ""
    many = "1 workload" if len(entries) == 1 else f"{len(entries)} workloads"
    return f"{many} in {_moment(seconds)}: {counted or 'none was queued'}{waited}."


def _print_json(outcome: Outcome) -> None:
    click.echo(json.dumps(_document(outcome), indent=2))


def _document(outcome: Outcome) -> dict[str, object]:
    return {
        "seconds": round(outcome.seconds, 3),
        "busySeconds": round(outcome.record.busy, 3),
        "jobs": [_job_document(entry) for entry in _sorted(outcome)],
        "unqueued": [f"{job['kind']}/{name_of(job)}" for job in outcome.unqueued],
        "utilisation": [
            {
                "clusterQueue": queue,
                "flavor": flavor,
                "resource": resource,
                "quota": str(quota),
                "average": round(average, 4),
                "peak": round(peak, 4),
            }
            for (queue, flavor, resource), quota, average, peak in _utilisation(outcome)
        ],
    }


def _job_document(entry: WorkloadRecord) -> dict[str, object]:
    kind, _, name = entry.job.partition("/")
    return {
        "kind": kind,
        "name": name,
        "namespace": entry.namespace,
        "queue": entry.queue,
        "state": entry.state,
        "queued": round(entry.queued, 3),
        "admitted": None if entry.admitted is None else round(entry.admitted, 3),
        "ended": None if entry.ended is None else round(entry.ended, 3),
        "cluster": entry.cluster,
        "evictions": len(entry.evictions),
        "evicted": [{"at": round(one.at, 3), "reason": one.reason, "message": one.message} for one in entry.evictions],
        "message": entry.message,
    }
