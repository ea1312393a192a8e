"""The URL grammar."""

from __future__ import annotations

import pytest

from corral.server.paths import RequestInfo, parse


@pytest.mark.parametrize(
    ("method", "path", "want"),
    [
        ("GET", "/api/v1/namespaces/ns/pods", ("list", "", "ns", "pods", "", "")),
        ("GET", "/api/v1/namespaces/ns/pods/p", ("get", "", "ns", "pods", "p", "")),
        ("GET", "/api/v1/pods", ("list", "", "", "pods", "", "")),
        ("GET", "/api/v1/namespaces", ("list", "", "", "namespaces", "", "")),
        ("GET", "/api/v1/namespaces/ns", ("get", "", "ns", "namespaces", "ns", "")),
        ("PUT", "/api/v1/namespaces/ns/finalize", ("update", "", "ns", "namespaces", "ns", "finalize")),
        ("PATCH", "/api/v1/namespaces/ns/status", ("patch", "", "ns", "namespaces", "ns", "status")),
        ("POST", "/apis/batch/v1/namespaces/ns/jobs", ("create", "batch", "ns", "jobs", "", "")),
        ("PATCH", "/apis/batch/v1/namespaces/ns/jobs/j/status", ("patch", "batch", "ns", "jobs", "j", "status")),
        ("DELETE", "/apis/batch/v1/namespaces/ns/jobs", ("deletecollection", "batch", "ns", "jobs", "", "")),
        ("DELETE", "/apis/batch/v1/namespaces/ns/jobs/j", ("delete", "batch", "ns", "jobs", "j", "")),
        ("GET", "/api/v1/watch/namespaces/ns/pods/p", ("watch", "", "ns", "pods", "p", "")),
        ("GET", "/api/v1/nodes/n/proxy/metrics/x", ("get", "", "", "nodes", "n", "proxy")),
    ],
)
def test_parse_reads_resources(method: str, path: str, want: tuple[str, ...]) -> None:
    info = parse(method, path)
    assert info.is_resource
    assert (info.verb, info.group, info.namespace, info.resource, info.name, info.subresource) == want


def test_parse_keeps_what_follows_a_subresource() -> None:
    assert parse("GET", "/api/v1/nodes/n/proxy/metrics/x").rest == "metrics/x"


@pytest.mark.parametrize(
    "path", ["/", "/version", "/api", "/api/v1", "/apis", "/apis/batch", "/apis/batch/v1", "/healthz"]
)
def test_parse_leaves_other_paths_alone(path: str) -> None:
    assert parse("GET", path) == RequestInfo("get", path)


def test_a_selected_name_counts_for_authorization_but_not_as_a_named_path() -> None:
    info = parse("GET", "/api/v1/namespaces/ns/secrets", watch=True, selected_name="s")
    assert (info.verb, info.name, info.named) == ("watch", "s", False)
