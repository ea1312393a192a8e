"""The pod a user means by naming a job: the first of it that runs, on whatever cluster that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from corral.cli.log_streams import LogWish, chosen_containers
from corral.cli.lookup import object_named
from corral.cli.options import client_of, namespace_of
from corral.cli.placed import answering_members, placements_of
from corral.client.sync import SyncClient
from corral.core.errors import NotFound
from corral.core.meta import Obj, name_of, status_of
from corral.core.resource import Resource
from corral.inspect.lookup import pods_of, workload_of
from corral.inspect.placed_pods import KUEUE, Workers, WorkerSilent, where_pods_run


@dataclass(frozen=True, slots=True)
class Chosen:
    """A container of a pod, and the cluster to ask for it."""

    client: SyncClient
    pod: Obj
    container: str


class NothingRuns(click.ClickException):
    """No pod of what was named runs, any more or yet."""


@dataclass(frozen=True, slots=True)
class Chooser:
    """Finds pods with the options of one command."""

    client: SyncClient
    namespace: str
    kubeconfig_path: Path | None
    kueue_namespace: str = KUEUE
    workers: Workers = field(init=False)
    """Those looked at so far, so that one that is silent is waited for once."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "workers", Workers(self.client, self.kueue_namespace))

    @classmethod
    def of(cls, kubeconfig_path: Path | None, context: str, namespace: str, kueue_namespace: str) -> Chooser:
        client = client_of(kubeconfig_path, context)
        return cls(client, namespace_of(client, namespace), kubeconfig_path, kueue_namespace)

    def anew(self) -> Chooser:
        """For another look: what was silent may answer now."""
        return replace(self)

    def running(
        self, words: tuple[str, ...], container: str, say: Callable[[str], None] = lambda sentence: None
    ) -> Chosen:
        """The container to work in. Where a job has several pods that run, the choice is said."""
        resource, obj = object_named(self.client, words, self.namespace)
        target = f"{resource.kind.lower()}/{name_of(obj)}"
        places = self.places(resource, obj)
        if not places:
            raise click.ClickException(f"{target} has no pods; `corral explain {target}` says why")
        running = [(where, pod) for where, pod in places if status_of(pod).get("phase") == "Running"]
        if not running:
            phases = ", ".join(sorted({str(status_of(pod).get("phase")) for _, pod in places}))
            raise NothingRuns(
                f"no pod of {target} runs now ({phases}); `corral explain {target}` says why, and "
                f"`corral logs {target}` shows what it wrote"
            )
        where, pod = running[0]
        if len(running) > 1:
            say(f"# in pod {name_of(pod)}, one of {len(running)}; name another as pod/NAME")
        return Chosen(where, pod, chosen_containers(pod, LogWish(container))[0])

    def places(self, resource: Resource, obj: Obj, namespace: str = "") -> list[tuple[SyncClient, Obj]]:
        """The pods of an object: here, on the worker it was sent to, or on the members it was placed on."""
        where = namespace or self.namespace
        try:
            workload = workload_of(self.client, resource, obj, where)
        except NotFound:
            workload = None  # no queueing here
        try:
            found = where_pods_run(self.client, resource, obj, workload, where, self.workers)
        except NotFound:
            found = []
        return found or self._on_members(resource, obj, where)

    def _on_members(self, resource: Resource, obj: Obj, namespace: str) -> list[tuple[SyncClient, Obj]]:
        placed = placements_of(self.client, resource.kind, name_of(obj), namespace)
        members = {member for one in placed for member in one.members}
        found = []
        for there in answering_members(self.kubeconfig_path, members).values():
            if isinstance(there, WorkerSilent):
                click.echo(f"# {there}", err=True)
            elif there is not None:
                found += [(there, pod) for pod in pods_of(there, resource, obj, namespace)]
        return found
