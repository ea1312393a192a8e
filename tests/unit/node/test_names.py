"""Names inside pods."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.meta import Obj
from corral.node import names


def service(name: str, namespace: str = "ns", **spec: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": {"app": name}, **spec}}


def pod(name: str, app: str, address: str, *, ready: bool = True, phase: str = "Running", **spec: Any) -> Obj:
    return {
        "metadata": {"name": name, "namespace": "ns", "labels": {"app": app}},
        "spec": spec,
        "status": {
            "podIP": address,
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def records(services: list[Obj], pods: list[Obj], answered: str = "") -> list[names.Record]:
    return names.records(services, lambda one: [p for p in pods if names.selects(one, p)], lambda one: answered)


def test_headless_service_gives_out_its_pods_and_their_names() -> None:
    pods = [
        pod("j-0-x", "j", "127.64.0.1", hostname="j-0", subdomain="j"),
        pod("j-1-y", "j", "127.64.0.2", hostname="j-1", subdomain="j"),
        pod("j-2-z", "j", "127.64.0.3", phase="Succeeded", hostname="j-2", subdomain="j"),
    ]
    assert records([service("j", clusterIP="None")], pods) == [
        ("ns", "j", "127.64.0.1"),
        ("ns", "j", "127.64.0.2"),
        ("ns", "j-0.j", "127.64.0.1"),
        ("ns", "j-1.j", "127.64.0.2"),
    ]


def test_service_prefers_ready_pods_but_does_not_wait_for_them() -> None:
    a, b = pod("a", "s", "127.64.0.1", ready=False), pod("b", "s", "127.64.0.2")
    assert records([service("s", clusterIP="None")], [a, b]) == [("ns", "s", "127.64.0.2")]
    assert records([service("s", clusterIP="None")], [a]) == [("ns", "s", "127.64.0.1")]


def test_answered_service_resolves_to_its_own_address() -> None:
    pods = [pod("a", "s", "127.64.0.1")]
    assert records([service("s", clusterIP="10.0.0.1")], pods, "127.64.128.10") == [("ns", "s", "127.64.128.10")]
    assert records([service("s", clusterIP="10.0.0.1")], pods) == [("ns", "s", "127.64.0.1")]


def test_hosts_file_has_the_short_name_only_at_home() -> None:
    entries = [("ns", "db", "127.64.0.1")]
    assert names.hosts_text(entries, "ns") == "127.64.0.1\tdb.ns.svc.cluster.local db.ns.svc db.ns db\n"
    assert names.hosts_text(entries, "other") == "127.64.0.1\tdb.ns.svc.cluster.local db.ns.svc db.ns\n"


def test_pod_finds_itself_and_its_aliases() -> None:
    subject = pod(
        "j-0-x", "j", "", hostname="j-0", subdomain="j", hostAliases=[{"ip": "10.1.1.1", "hostnames": ["a", "b"]}]
    )
    text = names.pod_hosts(subject, "127.64.0.7", "")
    assert "127.64.0.7\tj-0.j.ns.svc.cluster.local j-0\n" in text
    assert "10.1.1.1\ta b\n" in text
    assert names.pod_hostname(pod("x" * 70, "j", "")) == "x" * 63


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("job-master-0", "127.64.0.1"),
        ("job-master-0:23456", "127.64.0.1:23456"),
        ("http://job-master-0.ns.svc:80/x", "http://127.64.0.1:80/x"),
        ("job-master-0:1,job-worker-0:1", "127.64.0.1:1,job-worker-0:1"),
        ("this is job-master-0", "this is job-master-0"),
        ("", ""),
    ],
)
def test_rewrite_is_the_fallback(value: str, want: str) -> None:
    table = names.lookup_table([("ns", "job-master-0", "127.64.0.1"), ("ns", "job-master-0", "127.64.0.2")], "ns")
    assert names.rewrite(value, table) == want
