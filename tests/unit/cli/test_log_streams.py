"""Which containers are read, and how lines are marked."""

from __future__ import annotations

import json
from typing import Any, cast

import click
import pytest

from corral.cli.log_streams import LogWish, Streams, chosen_containers
from corral.cli.output.live import LiveLine
from corral.client.sync import SyncClient
from corral.core.errors import BadRequest

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "n", "uid": "u"},
    "spec": {"initContainers": [{"name": "init"}], "containers": [{"name": "main"}, {"name": "side"}]},
    "status": {"phase": "Running"},
}
LABELLED = {**POD, "metadata": {"name": "p", "annotations": {"kubectl.kubernetes.io/default-container": "side"}}}


@pytest.mark.parametrize(
    ("pod", "wish", "chosen"),
    [
        (POD, LogWish(), ["main"]),
        (LABELLED, LogWish(), ["side"]),
        (POD, LogWish(container="init"), ["init"]),
        (POD, LogWish(every_container=True), ["init", "main", "side"]),
    ],
)
def test_containers_are_chosen_as_kubectl_chooses_them(pod: Any, wish: LogWish, chosen: list[str]) -> None:
    assert chosen_containers(pod, wish) == chosen


def test_a_container_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(click.ClickException, match="pod p has no container mian; there are init, main, side"):
        chosen_containers(POD, LogWish(container="mian"))


class Cluster:
    """A cluster that has the logs of containers by name."""

    def __init__(self, **logs: list[bytes]) -> None:
        self.logs = logs
        self.asked: list[dict[str, str]] = []

    def lines(self, path: str, query: dict[str, str]) -> list[bytes]:
        self.asked.append(query)
        if query["container"] not in self.logs:
            raise BadRequest("container is waiting to start: ContainerCreating")
        return self.logs[query["container"]]


def test_lines_are_marked_where_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(init=[b"0\n"], main=[b"1\n", b"2"], side=[b"\xff\n"])
    streams = Streams(LogWish(every_container=True), LiveLine(is_terminal=False))
    streams.expect([POD, POD])
    streams.show(cast(SyncClient, cluster), POD)
    assert capsys.readouterr().out == "p init | 0\np main | 1\np main | 2\np side | �\n"
    assert streams.opened == 3


def test_of_two_containers_the_first_is_shown_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    streams = Streams(LogWish(tail=5, since_s=0.2, timestamps=True, previous=True), LiveLine(is_terminal=False))
    cluster = Cluster(main=[b"1\n"])
    streams.show(cast(SyncClient, cluster), POD)
    streams.show(cast(SyncClient, cluster), POD)
    told = capsys.readouterr()
    assert told.out == "1\n1\n"
    assert told.err.count("# container main of init, main, side; -c names another, --all-containers shows all") == 1
    assert {key: value for key, value in cluster.asked[0].items() if value} == {
        "container": "main", "tailLines": "5", "sinceSeconds": "1", "timestamps": "true", "previous": "true"
    }  # fmt: skip


def test_what_cannot_be_read_is_told_and_counted_out(capsys: pytest.CaptureFixture[str]) -> None:
    streams = Streams(LogWish(as_json=True, container="side"), LiveLine(is_terminal=False))
    streams.show(cast(SyncClient, Cluster()), POD)
    assert (streams.opened, capsys.readouterr().err) == (
        0, "# p: container is waiting to start: ContainerCreating\n"
    )  # fmt: skip
    streams.show(cast(SyncClient, Cluster(side=[b"x\n"])), POD)
    assert json.loads(capsys.readouterr().out) == {"pod": "p", "container": "side", "line": "x"}


def test_that_nobody_reads_any_more_is_heard_by_who_waits_and_is_no_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Gone(LiveLine):
        def echo(self, text: str, *, err: bool = False, of_program: bool = False) -> None:
            raise BrokenPipeError

    streams = Streams(LogWish(follow=True), Gone(is_terminal=False))
    streams._read_aside(cast(SyncClient, Cluster(main=[b"1\n"])), POD, "main")
    with pytest.raises(BrokenPipeError):
        streams.check_reader()
    assert capfd.readouterr().err == ""
