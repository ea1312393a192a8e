"""`corral simulate`: what would happen to these jobs in these queues, on virtual time."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from corral.cli.printing import print_table
from corral.core.meta import name_of
from corral.core.quantity import Quantity
from corral.core.timestamps import parse_duration

if TYPE_CHECKING:
    from corral.node.node import NodeSpec
    from corral.simulate.what_if.record import WorkloadRecord
    from corral.simulate.what_if.run import Outcome


@click.command()
@click.option(
    "-f", "--file", "files", multiple=True, required=True, metavar="FILE", help="Manifests; - is standard input."
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
def simulate(
    files: tuple[str, ...],
    workers: int,
    clusters: tuple[str, ...],
    nodes: int,
    cpu: str,
    memory: str,
    gpu: tuple[str, ...],
    until: str,
    seed: int,
    output: str,
) -> None:
    """Say when each job of the manifests would be admitted, where it would run and when it would end, and how much of
    the quota would be used. Nothing is started: the controllers of Corral run on simulated clusters, in virtual time.

    \b
    corral simulate -f queues.yaml -f jobs.yaml                       # one cluster that holds the quota
    corral simulate -f jobs.yaml --workers 3 --gpu nvidia.com/gpu=4   # a manager and workers, as of `corral up`
    corral simulate -f jobs.yaml --cluster a=cpu=8 --cluster b=cpu=64,memory=256Gi --until 48h -o json

    How long a pod runs says its annotation corral.dev/run-seconds. A job with corral.dev/submit-after is submitted
    later, one with corral.dev/submit-count several times, corral.dev/submit-every apart.
    """
    from corral.runtime.virtual import run_virtual
    from corral.simulate.what_if.manifests import read
    from corral.simulate.what_if.run import simulate as run

    seconds = _duration(until)
    size = {"cpu": cpu, "memory": memory, "pods": "110", **dict(_pairs(gpu, "--gpu"))}
    fleet = _fleet(workers, nodes, size, clusters)
    alone = _nodes("node", 1, size)[0]
    manifests = read(files)
    if not manifests.jobs:
        raise click.ClickException("the manifests have no jobs")
    # Without a seed things happen in the order they were asked for.
    with _quiet():
        outcome = run_virtual(lambda: run(manifests, fleet, alone, seconds, seed), seed=seed, shuffle=seed != 0)
    (_print_json if output == "json" else _print_tables)(outcome)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings: what goes wrong on the way is part of the story."""
    logger = logging.getLogger("corral")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}; write it as 90m or 24h", param_hint="--until") from error


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
            entry.evictions or "",
        )
        for entry in entries
    ]
    print_table(("JOB", "QUEUE", "QUEUED", "ADMITTED", "CLUSTER", "ENDED", "STATE", "EVICTED"), rows)
    click.echo()
    print_table(
        ("CLUSTERQUEUE", "FLAVOR", "RESOURCE", "QUOTA", "AVERAGE", "PEAK"),
        [(*share, quota, f"{average:.0%}", f"{peak:.0%}") for share, quota, average, peak in _utilisation(outcome)],
    )
    click.echo()
    click.echo(_summary(entries, outcome.seconds))
    for entry in entries:
        if entry.state == "Waiting" and entry.message:
            click.echo(f"{entry.job} waits: {entry.message}")
    for job in outcome.unqueued:
        click.echo(f"{job['kind']}/{name_of(job)} is in no queue: it has no label kueue.x-k8s.io/queue-name")


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
    document = {
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
    click.echo(json.dumps(document, indent=2))


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
        "evictions": entry.evictions,
        "message": entry.message,
    }
