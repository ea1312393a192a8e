"""Workers that are silent: how long they are waited for, and how often."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from corral.client import kubeconfig
from corral.client.limits import ANSWER_S
from corral.client.sync import SyncClient
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.inspect.placed_pods import Workers, WorkerSilent, where_pods_run


@pytest.fixture
def hung() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


class Manager(SyncClient):
    """A manager with one worker."""

    def __init__(self, worker: str) -> None:
        super().__init__(kubeconfig.Access("http://127.0.0.1:1"))
        self._worker = worker

    def get(self, resource: Resource, name: str, namespace: str = "") -> Obj:
        if resource.kind == "MultiKueueCluster":
            return {"spec": {"clusterSource": {"kubeConfig": {"location": "worker"}}}}
        document = {
            "current-context": "w",
            "contexts": [{"name": "w", "context": {"cluster": "w", "user": "w"}}],
            "clusters": [{"name": "w", "cluster": {"server": self._worker}}],
            "users": [{"name": "w", "user": {}}],
        }
        return {"data": {"kubeconfig": base64.b64encode(json.dumps(document).encode()).decode()}}


def test_a_silent_worker_is_waited_for_once_and_for_no_longer_than_a_sign_of_life_takes(
    hung: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    opened = HTTPConnection.connect

    def connect(self: HTTPConnection) -> None:
        given.append(self.timeout)
        opened(self)

    monkeypatch.setattr(HTTPConnection, "connect", connect)
    workers = Workers(Manager(hung))
    for _ in range(3):
        with pytest.raises(WorkerSilent, match="cluster w does not answer"):
            workers.client("w")
    assert given == [ANSWER_S]


def test_a_worker_without_the_pods_is_let_go_before_its_manager_is_asked() -> None:
    closed: list[str] = []

    class Empty(SyncClient):
        """A cluster that has no pods."""

        def list(self, resource: Resource, namespace: str = "", **_: Any) -> Obj:
            return {"items": []}

        def close(self) -> None:
            closed.append(self.access.server)

    manager, worker = Empty(kubeconfig.Access("http://manager")), Empty(kubeconfig.Access("http://worker"))

    class Known(Workers):
        def client(self, cluster: str) -> SyncClient:
            return worker

    workload: Obj = {"status": {"clusterName": "w1"}}
    jobs = Resource("batch", "v1", "jobs", "Job")
    assert where_pods_run(manager, jobs, {"metadata": {"name": "a"}}, workload, "default", Known(manager)) == []
    assert closed == ["http://worker"]
