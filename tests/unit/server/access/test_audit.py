"""The audit log stays within bounds, whatever clients send, and says nothing that is secret."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.security.served import World

from corral.cli.main import corral
from corral.clusters.embedded import EmbeddedCluster
from corral.configuration.fleet import parse as parse_fleet
from corral.core.admission import UserInfo
from corral.server.access.audit import MAX_ITEMS, MAX_TEXT, MAX_URI, AuditFile, AuditLog, AuditOptions, read_levels
from corral.server.paths import RequestInfo, parse

USER = UserInfo("ann", ("devs",))
PODS = "/api/v1/namespaces/default/pods"


class Opened(AuditLog):
    """A log with its file."""

    def __init__(self, path: Path, options: AuditOptions) -> None:
        file = AuditFile(path, options)
        super().__init__(file.append, options, lambda: "now", lambda: "id")
        self.close = file.close


def opened(path: Path, options: AuditOptions | None = None) -> Opened:
    return Opened(path, options or AuditOptions())


def ask(
    audit: AuditLog,
    target: str = PODS,
    *,
    agent: str = "kubectl",
    other: UserInfo | None = None,
    info: RequestInfo | None = None,
) -> None:
    audit.record(info or parse("GET", target.partition("?")[0]), USER, other, target, agent, 200, "then")


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def recorded(path: Path, target: str, **more: Any) -> dict[str, Any]:
    audit = opened(path)
    ask(audit, target, **more)
    audit.close()
    return events(path)[-1]


@pytest.mark.parametrize("backups", [0, 1, 3])
def test_a_full_file_is_set_aside_and_the_oldest_goes(tmp_path: Path, backups: int) -> None:
    path = tmp_path / "audit.log"
    audit = opened(path, AuditOptions(max_bytes=2000, backups=backups))
    for number in range(60):
        ask(audit, f"{PODS}/p{number}")
    audit.close()
    names = ["audit.log", *(f"audit.log.{number + 1}" for number in range(backups))]
    assert sorted(file.name for file in tmp_path.iterdir()) == names
    assert all(0 < (tmp_path / name).stat().st_size <= 2000 for name in names)
    assert all((tmp_path / name).stat().st_mode & 0o777 == 0o600 for name in names)
    kept = [event["objectRef"]["name"] for name in reversed(names) for event in events(tmp_path / name)]
    assert kept == [f"p{number}" for number in range(60 - len(kept), 60)]


def test_what_an_earlier_start_wrote_counts(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text("x" * 1990 + "\n")
    audit = opened(path, AuditOptions(max_bytes=2000))
    ask(audit)
    audit.close()
    assert len(events(path)) == 1
    assert (tmp_path / "audit.log.1").read_text().startswith("xxx")


def test_what_clients_choose_the_length_of_is_cut(tmp_path: Path) -> None:
    long = "x" * 60_000
    info = RequestInfo("get", "/", True, long, long, long, long, long, long)
    other = UserInfo(long, (long,) * 1000, long, {f"{number}{long}": [long] * 1000 for number in range(2)})
    event = recorded(tmp_path / "log", f"{PODS}?labelSelector={long}", agent=long, other=other, info=info)
    assert len(event["requestURI"]) == MAX_URI + 1
    assert event["requestURI"].endswith("…")
    assert {len(value) for value in event["objectRef"].values()} == {MAX_TEXT + 1}
    assert len(event["userAgent"]) == len(event["impersonatedUser"]["username"]) == MAX_TEXT + 1
    assert len(event["impersonatedUser"]["groups"]) == MAX_ITEMS
    assert [len(values) for values in event["impersonatedUser"]["extra"].values()] == [MAX_ITEMS] * 2


@pytest.mark.parametrize("name", ["token", "access_token", "X-Amz-Security-Token", "password", "PASSWORD", "api_key"])
def test_credentials_in_a_query_are_not_recorded(tmp_path: Path, name: str) -> None:
    uri = f"{PODS}/notebook/proxy/lab?a=1&{name}=hunter2&b=2"
    event = recorded(tmp_path / "log", uri)
    assert event["requestURI"] == uri.replace("hunter2", "REDACTED")


def test_the_query_of_a_list_is_recorded_whole(tmp_path: Path) -> None:
    uri = f"{PODS}?limit=5&continue=abc&labelSelector=secret%3Dx"
    assert recorded(tmp_path / "log", uri)["requestURI"] == uri


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ([], ["pods", "leases", "version"]),
        (["None"], []),
        (["leases.coordination.k8s.io=None"], ["pods", "version"]),
        (["leases=None"], ["pods", "leases", "version"]),
        (["None", "pods=Metadata"], ["pods"]),
    ],
)
def test_the_level_of_a_resource_goes_before_that_of_all(tmp_path: Path, words: list[str], kept: list[str]) -> None:
    default, levels = read_levels(words)
    audit = opened(tmp_path / "log", AuditOptions(default=default, levels=levels))
    for target in (PODS, "/apis/coordination.k8s.io/v1/namespaces/default/leases", "/version", "/healthz"):
        ask(audit, target)
    audit.close()
    assert [event["requestURI"].rpartition("/")[2] for event in events(tmp_path / "log")] == kept


@pytest.mark.parametrize("word", ["Request", "secrets=RequestResponse", "=None", "", "none"])
def test_a_level_there_is_not_is_refused(tmp_path: Path, word: str) -> None:
    with pytest.raises(ValueError, match="is neither a level"):
        read_levels([word])
    options = ["--state", str(tmp_path / "s"), "--kubeconfig", str(tmp_path / "k"), "--audit-level", word]
    result = CliRunner().invoke(corral, ["serve", *options])
    assert (result.exit_code, "is neither a level (None, Metadata)" in result.output) == (2, True)


def test_a_disk_that_takes_no_more_is_said_once_and_requests_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    audit = opened(folder / "log", AuditOptions(max_bytes=1))
    ask(audit)
    shutil.rmtree(folder)
    with caplog.at_level(logging.ERROR):
        ask(audit)
        ask(audit)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["requests are not audited"]
    folder.mkdir()
    ask(audit)
    audit.close()
    assert len(events(folder / "log")) == 1


def test_what_is_not_a_file_is_neither_set_aside_nor_made_private(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o640)
    pipe.chmod(0o640)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        audit = opened(pipe, AuditOptions(max_bytes=1))
        ask(audit)
        ask(audit)
        audit.close()
        lines = os.read(reader, 65536).splitlines()
    finally:
        os.close(reader)
    assert len(lines) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    assert pipe.stat().st_mode & 0o777 == 0o640


async def test_a_cluster_of_a_fleet_keeps_the_log_its_file_asks_for(tmp_path: Path) -> None:
    said = {"path": "logs/audit", "level": "None", "resources": {"configmaps": "Metadata"}, "maxBackups": 1}
    fleet = parse_fleet({"clusters": [{"name": "a", "roles": ["worker"], "auditLog": said}]}, "fleet.yaml")
    cluster = EmbeddedCluster(fleet, fleet.cluster("a"), tmp_path, 0, "127.64.0.0/16")
    await cluster.start()
    try:
        world = World(cluster.base)
        for path in ("/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"):
            assert (await world.ask("GET", path)).status == 200
    finally:
        await cluster.stop()
    path = tmp_path / "logs" / "audit"
    assert [event["requestURI"] for event in events(path)] == ["/api/v1/namespaces/default/configmaps"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_cluster_that_is_not_asked_to_keeps_no_log() -> None:
    assert parse_fleet({"clusters": [{"name": "a"}]}, "fleet.yaml").cluster("a").audit_log is None
