"""The dashboard over a served cluster: what its questions are answered with, and to whom."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from tests.conformance.served_cli import JOBS, Run, job, serve, until

from corral.cli.main import corral
from corral.client import kubeconfig
from corral.client.kubeconfig import Access
from corral.client.sync import SyncClient
from corral.clusters.embedded_api import EmbeddedApi
from corral.core.meta import Obj
from corral.dashboard.address import Address
from corral.dashboard.job_list import PAGE
from corral.dashboard.overview import overview
from corral.dashboard.serve import PageServer
from corral.kinds.kubernetes.core.kinds import PODS

LOCAL = Address("127.0.0.1")

Get = Callable[..., Awaitable[tuple[int, str]]]


class Browser:
    """Asks the page as a browser with a cookie would, each time on a connection of its own."""

    def __init__(self, server: PageServer) -> None:
        self.server = server
        self.cookie = ""

    def send(self, method: str, path: str, body: str = "", **headers: str) -> tuple[HTTPResponse, str]:
        if self.server.tls is None:
            connection = HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        else:
            context = ssl._create_unverified_context()
            connection = HTTPSConnection("127.0.0.1", self.server.port, timeout=120, context=context)
        sent = {"Cookie": self.cookie, **headers} if self.cookie else headers
        connection.request(method, path, body or None, sent)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        assert answer.headers["Cache-Control"] == "no-store"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        return answer, text

    def log_in(self, token: str = "") -> int:
        """Open the printed address, or give a token to the form."""
        if token:
            answer, _ = self.send("POST", "/login", urlencode({"token": token}))
        else:
            answer, _ = self.send("GET", f"/?token={self.server.logins.token}")
        self.cookie = answer.headers.get("Set-Cookie", "").partition(";")[0]
        return answer.status


@contextmanager
def page_over(access: Access, address: Address = LOCAL, tls: ssl.SSLContext | None = None) -> Iterator[Browser]:
    server = PageServer(access, address, 0, tls)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Browser(server)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def with_page(tmp_path: Path, scenario: Callable[[EmbeddedApi, Run, Get], Awaitable[None]]) -> None:
    """A scenario for somebody who is logged in with the printed token."""

    async def served(embedded: EmbeddedApi, run: Run) -> None:
        with page_over(kubeconfig.access(kubeconfig.load(tmp_path / "kubeconfig"))) as browser:
            assert await asyncio.to_thread(browser.log_in) == 303

            async def get(path: str, host: str = "") -> tuple[int, str]:
                headers = {"Host": host} if host else {}
                answer, text = await asyncio.to_thread(browser.send, "GET", path, "", **headers)
                return answer.status, text

            await scenario(embedded, run, get)

    await serve(tmp_path, served)


async def overview_when(get: Get, test: Callable[[Obj], bool]) -> Obj:
    found: Obj = {}

    async def holds() -> bool:
        nonlocal found
        code, text = await get("/api/overview")
        assert code == 200, text
        found = json.loads(text)
        return test(found)

    await until(holds)
    return found


async def test_queues_show_their_quota_and_jobs_why_they_wait(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run, get: Get) -> None:
        await run("queue", "create", "rf", "default")
        await run("queue", "create", "cq", "team", "--cohort", "all", "--nominal-quota", "default:cpu=2")
        await run("queue", "create", "lq", "lq", "-c", "team")
        await embedded.client.create(JOBS, job("first", "1500m"))
        await overview_when(get, lambda found: found["jobs"] and found["jobs"][0]["state"] == "admitted")
        await embedded.client.create(JOBS, job("second", "1"))
        await embedded.client.create(JOBS, job("lost", "1", "nowhere"))

        def is_settled(found: Obj) -> bool:
            return found["queues"][0]["pending"] == 1 and any("more needed" in one["why"] for one in found["jobs"])

        found = await overview_when(get, is_settled)
        (queue,) = found["queues"]
        assert (queue["name"], queue["cohort"], queue["active"], queue["localQueues"]) == (
            "team",
            "all",
            True,
            ["default/lq"],
        )
        assert queue["quotas"] == [
            {"flavor": "default", "resource": "cpu", "quota": "2", "used": "1500m", "borrowed": "0", "share": 0.75}
        ]
        by_name = {one["name"]: one for one in found["jobs"]}
        assert [by_name[name]["state"] for name in ("first", "second", "lost")] == ["admitted", "pending", "pending"]
        assert by_name["second"]["ahead"] == 0
        assert by_name["lost"]["why"] == "Waiting: LocalQueue nowhere does not exist in namespace default."
        assert found["jobs"][-1]["name"] == "first", "what waits comes first"
        assert (found["clusters"], found["members"], found["matching"]) == ([], [], 3)

    await with_page(tmp_path, scenario)


async def test_a_job_is_shown_with_its_evidence_and_its_pods(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run, get: Get) -> None:
        await run("queue", "create", "rf", "default")
        await run("queue", "create", "cq", "team", "--nominal-quota", "default:cpu=2")
        await run("queue", "create", "lq", "lq", "-c", "team")
        made = await embedded.client.create(JOBS, job("train", "1"))
        found = await overview_when(get, lambda found: found["jobs"] and found["jobs"][0]["state"] == "admitted")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": made["metadata"]["uid"]}
        pod = {
            "metadata": {"name": "train-x", "namespace": "default", "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "main", "image": "i"}]},
        }
        await embedded.client.create(PODS, pod)
        code, text = await get(f"/api/job?namespace=default&workload={found['jobs'][0]['workload']}")
        told = json.loads(text)
        assert code == 200
        assert told["title"] == "Job default/train"
        assert told["headline"] == "Admitted, pods are starting on this cluster with quota of team."
        assert any("Quota reserved in ClusterQueue team" in fact for fact in told["facts"])
        shown = {"name": "train-x", "phase": "Pending", "cluster": "", "node": "", "containers": ["main"]}
        assert told["pods"] == [shown]

    await with_page(tmp_path, scenario)


async def test_what_is_wrong_with_a_question_is_said_in_a_sentence(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run, get: Get) -> None:
        assert await get("/api/job") == (400, "the question lacks 'namespace'\n")
        code, text = await get("/api/job?namespace=default&workload=nope")
        assert (code, text) == (404, 'workloads.kueue.x-k8s.io "nope" not found\n')
        assert (await get("/api/logs?namespace=default&pod=nope"))[0] == 404
        assert await get("/etc/passwd") == (404, "there is no such page\n")

    await with_page(tmp_path, scenario)


async def test_other_sites_cannot_reach_it_under_a_name_of_theirs(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run, get: Get) -> None:
        assert (await get("/api/overview", "evil.example:8470"))[0] == 403
        assert (await get("/", "localhost:8470"))[0] == 200
        for path in ("/", "/page.mjs", "/page.css"):
            assert (await get(path))[0] == 200

    await with_page(tmp_path, scenario)


async def test_every_job_can_be_reached_by_state_by_words_and_by_pages(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run, get: Get) -> None:
        await run("queue", "create", "rf", "default")
        await run("queue", "create", "cq", "team", "--nominal-quota", "default:cpu=2")
        await run("queue", "create", "lq", "lq", "-c", "team")
        for number in range(PAGE + 10):
            await embedded.client.create(JOBS, job(f"exp-{number:04}", "1"))
        done = {"pending": PAGE + 8, "quotaReserved": 0, "admitted": 2, "finished": 0}
        found = await overview_when(get, lambda found: found["counts"] == done)
        assert (len(found["jobs"]), found["matching"], found["pages"]) == (PAGE, PAGE + 10, 2)
        last = json.loads((await get("/api/overview?page=1"))[1])
        assert [one["state"] for one in last["jobs"]] == ["pending"] * 8 + ["admitted"] * 2
        seen = {one["name"] for one in found["jobs"] + last["jobs"]}
        assert len(seen) == PAGE + 10
        admitted = json.loads((await get("/api/overview?state=admitted"))[1])
        assert [one["state"] for one in admitted["jobs"]] == ["admitted"] * 2
        named = json.loads((await get("/api/overview?text=EXP-0003"))[1])
        assert [one["name"] for one in named["jobs"]] == ["exp-0003"]
        assert (await get("/api/overview?page=x"))[0] == 400

    await with_page(tmp_path, scenario)


class Canned(SyncClient):
    """A cluster that answers every list with what was given for its plural."""

    def __init__(self, **lists: list[Obj]) -> None:
        super().__init__(Access("http://nowhere"))
        self.lists = lists

    def call(self, method: str, path: str, *args: Any, **options: Any) -> Obj:
        return {"items": self.lists.get(path.rpartition("/")[2], [])}


def test_a_preempted_job_names_the_job_that_took_its_place() -> None:
    message = "Preempted to accommodate a workload (UID: u-urgent, JobUID: j) due to prioritization in the ClusterQueue"
    evicted = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": message}
    waits = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}

    def workload(name: str, *conditions: Obj) -> Obj:
        owner = {"kind": "Job", "name": name, "apiVersion": "batch/v1", "uid": f"j-{name}"}
        metadata = {"name": f"job-{name}", "namespace": "default", "uid": f"u-{name}", "ownerReferences": [owner]}
        return {"metadata": metadata, "spec": {"queueName": "lq"}, "status": {"conditions": list(conditions)}}

    queues = [{"metadata": {"name": "lq", "namespace": "default"}, "spec": {"clusterQueue": "team"}}]
    team: list[Obj] = [{"metadata": {"name": "team"}}]
    workloads = [workload("low", evicted, waits), workload("urgent")]
    found = overview(Canned(workloads=workloads, localqueues=queues, clusterqueues=team))
    (low,) = [one for one in found["jobs"] if one["name"] == "low"]
    assert "(Job urgent)" in low["why"]
    assert "UID" not in low["why"]


def test_a_port_that_is_taken_is_said_before_anything_else(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            words = ["dashboard", "--port", str(taken.getsockname()[1]), "--kubeconfig", str(tmp_path / "kubeconfig")]
            result = await asyncio.to_thread(CliRunner().invoke, corral, words)
        assert result.exit_code == 1
        assert "Address already in use" in result.output

    asyncio.run(serve(tmp_path, scenario))


@pytest.mark.parametrize("name", ["page.html", "page.mjs", "page.css", "login.html"])
def test_the_page_is_small_and_asks_nobody_else(name: str) -> None:
    from importlib.resources import files

    text = files("corral.dashboard").joinpath(name).read_text()
    assert len(text) < 20_000
    assert "://" not in text
    assert "innerHTML" not in text
