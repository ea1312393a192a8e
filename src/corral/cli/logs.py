"""`corral logs`: the logs of jobs, wherever they run: on this cluster, or on the worker the manager sent them to."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from corral.cli.completion import complete_target
from corral.cli.log_streams import LogWish, Place, Streams
from corral.cli.lookup import targets_meant
from corral.cli.objects.targets import typed
from corral.cli.options import client_of, cluster_options, namespace_of
from corral.cli.output.interruptions import INTERRUPTED, heard_at_once
from corral.cli.output.live import LiveLine
from corral.cli.placed import answering_members, placements_of
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import NotFound
from corral.core.meta import Obj, labels_of, name_of, status_of
from corral.core.resource import Resource
from corral.core.timestamps import parse_duration
from corral.inspect.concerns import Concerns
from corral.inspect.lookup import pods_of, workload_of
from corral.inspect.placed_pods import KUEUE, Workers, WorkerSilent, no_pods, where_pods_run
from corral.jobs.framework.registry import ENDINGS
from corral.kinds.kueue import names
from corral.submit.progress import progress_of

POLL_S: Final = 0.3
LAST_S: Final = 5.0
"""How long the end of the logs is waited for after the last job has ended."""


@click.command()
@click.argument("words", nargs=-1, metavar="TARGET...", shell_complete=complete_target)
@click.option(
    "-f", "--follow", is_flag=True, help="Wait for the start, and keep printing as the jobs write, to their end."
)
@click.option("--tail", type=int, default=None, help="Only the last lines of each container.")
@click.option("--since", default="", help="Only what was written since, e.g. 5m.")
@click.option("--timestamps", is_flag=True, help="Say of every line when it was written.")
@click.option("-p", "--previous", is_flag=True, help="What the run before the last restart wrote.")
@click.option("-c", "--container", default="", help="Container (default: the first of the pod).")
@click.option("--all-containers", is_flag=True, help="All containers of each pod.")
@click.option("-l", "--selector", default="", help="Pods, or objects of the kind TARGET, with these labels.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Lines, or a JSON object for each."
)
@click.option("--kueue-namespace", default=KUEUE, help="Where the manager keeps its workers' kubeconfigs.")
@cluster_options
def logs(
    words: tuple[str, ...],
    follow: bool,
    tail: int | None,
    since: str,
    timestamps: bool,
    previous: bool,
    container: str,
    all_containers: bool,
    selector: str,
    output: str,
    kueue_namespace: str,
    namespace: str,
    context: str,
    kubeconfig_path: Path | None,
) -> None:
    """Print the logs of every TARGET (job/NAME, pytorchjob/NAME, pod/NAME …), wherever its pods run.

    \b
    corral logs job/train
    corral logs pytorchjob/mnist --follow --tail 20
    corral logs -f job/a job/b
    corral logs jobs -l team=vision --since 10m --timestamps
    """
    if container and all_containers:
        raise click.UsageError("-c and --all-containers exclude each other")
    client = client_of(kubeconfig_path, context)
    namespace = namespace_of(client, namespace)
    wish = LogWish(
        container, all_containers, follow, tail, _seconds(since), timestamps, previous, as_json=output == "json"
    )
    live = LiveLine()
    streams = Streams(wish, live)
    seen: set[str] = set()

    def say_where(cluster: str) -> None:
        if cluster not in seen:  # a job that is followed is looked for again and again
            seen.add(cluster)
            live.echo(f"# on cluster {cluster}", err=True)

    targets = [
        Target(client, resource, obj, namespace, kubeconfig_path, say_where)
        for resource, obj in targets_meant(client, words, selector, namespace, "pods")
    ]
    streams.are_many = len(targets) > 1
    try:
        with heard_at_once():
            (_follow if follow else _show)(targets, lambda: Workers(client, kueue_namespace), streams, live)
    except KeyboardInterrupt:
        live.rest()
        sys.exit(INTERRUPTED)
    live.rest()
    sys.exit(0 if streams.opened else 1)


def _seconds(text: str) -> float | None:
    try:
        return parse_duration(text) if text else None
    except ValueError as error:
        raise click.BadParameter(f"{error}; write it as 30s or 5m", param_hint="--since") from error


@dataclass(slots=True)
class Target:
    """One job whose logs are wanted."""

    client: SyncClient
    resource: Resource
    obj: Obj
    namespace: str
    kubeconfig_path: Path | None
    say_where: Callable[[str], None]
    workload: Obj | None = None
    members: list[str] = field(default_factory=list)
    is_gone: bool = False
    concerns: Concerns = field(default_factory=Concerns)

    @property
    def name(self) -> str:
        return f"{self.resource.kind} {name_of(self.obj)}"

    def refresh(self) -> None:
        """Read it again."""
        try:
            self.obj = self.client.get(self.resource, name_of(self.obj), self.namespace)
        except NotFound:
            self.is_gone = True

    def places(self, workers: Workers) -> list[Place]:
        """Its pods, each with the cluster to ask for it."""
        self.workload = workload_of(self.client, self.resource, self.obj, self.namespace)
        try:
            found = where_pods_run(
                self.client,
                self.resource,
                self.obj,
                self.workload,
                self.namespace,
                workers,
                self.say_where,
            )
        except NotFound:
            return []
        self.members = [] if found or self.workload else _members(self.client, self.resource, self.obj, self.namespace)
        return [*found, *self._on_members()]

    def _on_members(self) -> list[Place]:
        """Its pods on those of the members it was placed on that the kubeconfig has a context of, and that answer."""
        found: list[Place] = []
        silent: WorkerSilent | None = None
        for member, there in answering_members(self.kubeconfig_path, self.members).items() if self.members else ():
            if there is None:
                self.say_where(f"{member}, for which the kubeconfig has no context; name its own with --context")
            elif isinstance(there, WorkerSilent):
                silent = there
                self.say_where(f"{member}, which does not answer")
            else:
                self.say_where(member)
                found += [(there, pod) for pod in pods_of(there, self.resource, self.obj, self.namespace)]
        if silent is not None and not found:
            raise silent
        return found

    def has_ended(self) -> bool | None:
        """Whether nothing more will be written; None where its kind has no end of its own."""
        if self.is_gone:
            return True
        if self.resource.kind == "Pod":
            return status_of(self.obj).get("phase") in ("Succeeded", "Failed")
        if self.workload is not None and conditions.is_true(self.workload, names.FINISHED):
            return True
        if ENDINGS.knows(self.resource.group, self.resource.kind):
            return ENDINGS.success(typed(self.resource, self.obj)) is not None
        return False if self.workload is not None else None

    def waits_for(self, pods: list[Obj]) -> str:
        """What has to happen before there are logs."""
        if self.workload is None and names.QUEUE_NAME not in labels_of(self.obj):
            return f"{self.name}: waiting for its pods to start"
        return f"{self.name}: {progress_of(self.workload, pods, None, self.concerns.position).text}"

    def news(self, pods: list[Obj]) -> list[str]:
        """What keeps it from running, where it was not told yet."""
        return self.concerns.of_job(self.client, self.resource, self.obj, self.workload, pods, time.monotonic())

    def why_nothing(self) -> str:
        return no_pods(self.name, self.workload, self.members)


def _show(targets: list[Target], look: Callable[[], Workers], streams: Streams, live: LiveLine) -> None:
    """What was written so far. One job without pods, or on a worker that is silent, does not keep the others' logs away."""
    workers = look()
    found: list[list[Place]] = []
    missing: dict[str, None] = {}
    for target in targets:
        try:
            places = target.places(workers)
        except WorkerSilent as error:
            missing[str(error)] = None
            continue
        if places:
            found.append(places)
        else:
            missing[target.why_nothing()] = None
    streams.expect([pod for places in found for _, pod in places])
    for places in found:
        for where, pod in places:
            streams.show(where, pod)
    if not found:
        raise click.ClickException("; ".join(missing))
    for sentence in missing:
        live.echo(f"# {sentence}", err=True)


def _follow(targets: list[Target], look: Callable[[], Workers], streams: Streams, live: LiveLine) -> None:
    """Until every job has ended and everything is read; before a job runs, what it waits for."""
    while True:
        streams.check_reader()
        waiting, workers = [], look()
        for target in targets:
            if sentence := _look(target, workers, streams, live):
                waiting.append(sentence)
        for sentence in waiting:
            live.say(sentence)
        ended = [target.has_ended() for target in targets]
        if all(one is True or (one is None and streams.pods and not streams.is_reading()) for one in ended):
            break
        time.sleep(POLL_S)
        for target in targets:
            target.refresh()
    streams.join(LAST_S)
    if not streams.pods:
        live.rest()
        raise click.ClickException("; ".join(target.why_nothing() for target in targets))


def _look(target: Target, workers: Workers, streams: Streams, live: LiveLine) -> str:
    """Follow the pods of a target that have started; what it waits for, if none has."""
    if target.is_gone:
        return ""
    try:
        places = target.places(workers)
    except WorkerSilent as error:
        return str(error)
    streams.expect([pod for _, pod in places])
    for where, pod in places:
        streams.begin(where, pod)
    if target.has_ended():
        return ""
    pods = [pod for _, pod in places]
    for sentence in target.news(pods):
        live.echo(f"# {target.name}: {sentence}", err=True)
    return "" if any(map(streams.is_followed, pods)) else target.waits_for(pods)


def _members(hub: SyncClient, resource: Resource, obj: Obj, namespace: str) -> list[str]:
    """Where a hub placed an object."""
    placements = placements_of(hub, resource.kind, name_of(obj), namespace)
    return sorted({member for placed in placements for member in placed.members})
