"""What pods write, read from wherever they run: one container after the other, or many at once."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import click

from corral.cli.output.live import LiveLine
from corral.client.sync import SyncClient
from corral.core.errors import ApiError
from corral.core.meta import Obj, name_of, namespace_of, spec_of, uid_of
from corral.inspect.containers import containers_of, failed_starts, has_begun, main_container
from corral.kinds.kubernetes.core.kinds import PODS

Place = tuple[SyncClient, Obj]
"""A pod, and the cluster to ask for it."""


@dataclass(frozen=True, slots=True)
class LogWish:
    """What of the logs is wanted."""

    container: str = ""
    every_container: bool = False
    follow: bool = False
    tail: int | None = None
    since_s: float | None = None
    timestamps: bool = False
    previous: bool = False
    as_json: bool = False

    def query(self, container: str) -> dict[str, str]:
        return {
            "container": container,
            "follow": "true" if self.follow else "",
            "tailLines": "" if self.tail is None else str(self.tail),
            "sinceSeconds": "" if self.since_s is None else str(max(1, math.ceil(self.since_s))),
            "timestamps": "true" if self.timestamps else "",
            "previous": "true" if self.previous else "",
        }


def chosen_containers(pod: Obj, wish: LogWish) -> list[str]:
    """The containers to read: the one named, all, or the first of the pod, as kubectl takes it, unless one before it failed."""
    known = containers_of(pod)
    if wish.every_container:
        return known
    if wish.container:
        if wish.container not in known:
            raise click.ClickException(
                f"pod {name_of(pod)} has no container {wish.container}; there are {', '.join(known)}"
            )
        return [wish.container]
    return failed_starts(pod) or [main_container(pod)]


class Streams:
    """The logs of pods as they are read; what more than one of them writes is marked with whose it is."""

    def __init__(self, wish: LogWish, live: LiveLine) -> None:
        self._wish = wish
        self._live = live
        self._threads: dict[tuple[str, str], threading.Thread] = {}
        self._noted: set[tuple[str, ...]] = set()
        self.pods: set[str] = set()
        self.are_many = False
        self._reader_gone = False
        self.opened = 0
        """How many containers could be read."""

    def expect(self, pods: Sequence[Obj]) -> None:
        """The pods there are: lines are marked from the first on where there are several."""
        self.are_many = self.are_many or len(pods) > 1

    def begin(self, where: SyncClient, pod: Obj) -> None:
        """Follow the containers of a pod that have begun and are not followed yet."""
        for container in self._chosen(pod):
            key = (uid_of(pod) or name_of(pod), container)
            if key not in self._threads and has_begun(pod, container):
                reader = SyncClient(where.access)
                self._threads[key] = threading.Thread(
                    target=self._read_aside, args=(reader, pod, container), daemon=True
                )
                self._threads[key].start()
                self.pods.add(name_of(pod))

    def show(self, where: SyncClient, pod: Obj) -> None:
        """Print what a pod has written so far."""
        for container in self._chosen(pod):
            self.read(where, pod, container)

    def read(self, where: SyncClient, pod: Obj, container: str) -> None:
        """Print what one container writes; that it cannot be read is told beside it."""
        path = PODS.path(namespace_of(pod), name_of(pod), "log")
        try:
            for line in where.lines(path, self._wish.query(container)):
                self._live.echo(self._shown(pod, container, line.decode(errors="replace")), of_program=True)
            self.opened += 1
        except ApiError as error:
            self._live.echo(f"# {name_of(pod)}: {error}", err=True)

    def _read_aside(self, where: SyncClient, pod: Obj, container: str) -> None:
        """In a thread of its own, which tells nobody that there is no more to do."""
        try:
            self.read(where, pod, container)
        except BrokenPipeError:
            self._reader_gone = True

    def check_reader(self) -> None:
        """Raises BrokenPipeError when nobody reads what is printed any more, as behind `| head`."""
        if self._reader_gone:
            raise BrokenPipeError

    def is_followed(self, pod: Obj) -> bool:
        """Whether something of a pod is read, or was."""
        return name_of(pod) in self.pods

    def is_reading(self) -> bool:
        return any(thread.is_alive() for thread in self._threads.values())

    def join(self, seconds: float | None = None) -> None:
        """Until everything is read, or until time is up."""
        deadline = None if seconds is None else time.monotonic() + seconds
        for thread in list(self._threads.values()):
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def _chosen(self, pod: Obj) -> list[str]:
        chosen, known = chosen_containers(pod, self._wish), containers_of(pod)
        main = tuple(str(one["name"]) for one in spec_of(pod).get("containers") or ())
        if not self._wish.container and not self._wish.every_container and len(main) > 1 and main not in self._noted:
            self._noted.add(main)
            self._live.echo(
                f"# container {chosen[0]} of {', '.join(known)}; -c names another, --all-containers shows all", err=True
            )
        return chosen

    def _shown(self, pod: Obj, container: str, line: str) -> str:
        if self._wish.as_json:
            return json.dumps({"pod": name_of(pod), "container": container, "line": line.rstrip("\n")})
        marks = [name_of(pod)] if self.are_many else []
        marks += [container] if self._wish.every_container and len(containers_of(pod)) > 1 else []
        return f"{' '.join(marks)} | {line}" if marks else line
