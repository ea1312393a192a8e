"""The dashboard over a served cluster: what its questions are answered with, and to whom."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from click.testing import CliRunner
from tests.conformance.served_cli import JOBS, Run, job, serve, until, user_with

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
from corral.kinds.kubernetes.core.kinds import NODES, PODS

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
def page_over(
    access: Access,
    address: Address = LOCAL,
    tls: ssl.SSLContext | None = None,
    *,
    contexts: dict[str, Access] | None = None,
    read_only: bool = False,
) -> Iterator[Browser]:
    server = PageServer(access, address, 0, tls, contexts=contexts, read_only=read_only)
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

            get.browser = browser  # type: ignore[attr-defined]
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


async def test_a_job_is_told_about_shown_as_yaml_and_acted_on_with_the_viewers_rights(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run, get: Get) -> None:
        await run("queue", "create", "rf", "default")
        await run("queue", "create", "cq", "team", "--nominal-quota", "default:cpu=2")
        await run("queue", "create", "lq", "lq", "-c", "team")
        await embedded.client.create(JOBS, job("train", "1"))
        found = await overview_when(get, lambda found: found["jobs"] and found["jobs"][0]["state"] == "admitted")
        (shown,) = found["jobs"]
        assert shown["needs"] == {"cpu": "1"}
        assert shown["created"] <= shown["started"]
        assert shown["ended"] == ""
        of_it = urlencode({"namespace": "default", "workload": shown["workload"]})
        told = json.loads((await get(f"/api/events?{of_it}"))[1])
        assert {("Workload " + shown["workload"], "Admitted"), ("Job train", "Started")} <= {
            (one["object"], one["reason"]) for one in told
        }
        job_yaml, workload_yaml = yaml.safe_load_all((await get(f"/api/yaml?{of_it}"))[1])
        assert (job_yaml["kind"], workload_yaml["kind"]) == ("Job", "Workload")
        assert "managedFields" not in job_yaml["metadata"]

        async def act(action: str, **headers: str) -> tuple[int, str]:
            origin = {"Origin": f"http://127.0.0.1:{get.browser.server.port}", **headers}  # type: ignore[attr-defined]
            form = urlencode({"action": action, "namespace": "default", "workload": shown["workload"]})
            sent = {name: value for name, value in origin.items() if value}
            answer, text = await asyncio.to_thread(get.browser.send, "POST", "/api/act", form, **sent)  # type: ignore[attr-defined]
            return answer.status, text

        assert await act("cancel", Origin="") == (403, "this page only shows; the command line changes\n")
        assert (await act("cancel", Origin="http://evil.example"))[0] == 403
        assert (await act("explode"))[0] == 400
        assert (await act("retry"))[0] == 409
        assert await act("cancel") == (200, '{"done": "job/train is cancelled"}')
        await overview_when(get, lambda found: found["jobs"][0]["stopped"] is True)
        assert await act("resume") == (200, '{"done": "job/train is queued again"}')
        await overview_when(get, lambda found: found["jobs"][0]["stopped"] is False)
        await act("cancel")
        assert await act("retry") == (200, '{"done": "job/train-2 is created"}')
        assert await act("delete") == (200, '{"done": "job/train is deleted"}')
        await overview_when(get, lambda found: [one["name"] for one in found["jobs"]] == ["train-2"])

    await with_page(tmp_path, scenario)


async def test_a_job_that_got_into_no_queue_is_among_the_warnings(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run, get: Get) -> None:
        await run("queue", "create", "rf", "default")
        await run("queue", "create", "cq", "team", "--nominal-quota", "default:cpu=2")
        await run("queue", "create", "lq", "lq", "-c", "team")
        await embedded.client.create(JOBS, job("lost", "1", **{"priority-class": "nobody"}))

        async def is_there() -> bool:
            found = json.loads((await get("/api/warnings"))[1])
            return [(one["object"], one["namespace"]) for one in found] == [
                ("Job lost", "default")
            ] and "nobody" in found[0]["message"]

        await until(is_there)

    await with_page(tmp_path, scenario)


async def test_other_clusters_of_the_kubeconfig_are_for_its_user_alone(tmp_path: Path) -> None:
    async def served(embedded: EmbeddedApi, run: Run) -> None:
        access = kubeconfig.access(kubeconfig.load(tmp_path / "kubeconfig"))
        bearer = kubeconfig.access(kubeconfig.load(await user_with(embedded, tmp_path, "view")))
        contexts = {'her "own"': access, "other": Access("http://127.0.0.1:9")}
        with page_over(access, contexts=contexts) as browser:
            assert await asyncio.to_thread(browser.log_in) == 303
            _, page = await asyncio.to_thread(browser.send, "GET", "/")
            assert "her \\&quot;own\\&quot;" in page
            answer, _ = await asyncio.to_thread(
                browser.send, "GET", "/api/overview?" + urlencode({"context": 'her "own"'})
            )
            assert answer.status == 200
            answer, text = await asyncio.to_thread(browser.send, "GET", "/api/overview?context=other")
            assert (answer.status, "cannot reach http://127.0.0.1:9" in text) == (503, True)
            assert (await asyncio.to_thread(browser.send, "GET", "/api/overview?context=none"))[0].status == 404
            assert await asyncio.to_thread(browser.log_in, bearer.token) == 303
            assert "other" not in (await asyncio.to_thread(browser.send, "GET", "/"))[1]
            assert (await asyncio.to_thread(browser.send, "GET", "/api/overview"))[0].status == 200
            assert (await asyncio.to_thread(browser.send, "GET", "/api/overview?context=other"))[0].status == 404

    await serve(tmp_path, served)


async def test_a_page_that_only_shows_changes_nothing(tmp_path: Path) -> None:
    async def served(embedded: EmbeddedApi, run: Run) -> None:
        access = kubeconfig.access(kubeconfig.load(tmp_path / "kubeconfig"))
        with page_over(access, read_only=True) as browser:
            await asyncio.to_thread(browser.log_in)
            assert "data-read-only" in (await asyncio.to_thread(browser.send, "GET", "/"))[1]
            form = urlencode({"action": "delete", "namespace": "default", "workload": "x"})
            origin = f"http://127.0.0.1:{browser.server.port}"
            answer, _ = await asyncio.to_thread(browser.send, "POST", "/api/act", form, Origin=origin)
            assert answer.status == 403

    await serve(tmp_path, served)


async def test_nodes_show_what_their_pods_ask_for(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run, get: Get) -> None:
        status = {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await embedded.client.create(NODES, {"metadata": {"name": "n1", "labels": {"zone": "a"}}, "status": status})
        container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1500m"}}}
        for name in ("one", "two"):
            pod = {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"nodeName": "n1", "containers": [container]},
            }
            await embedded.client.create(PODS, pod)
        (node,) = json.loads((await get("/api/nodes"))[1])["nodes"]
        assert (node["name"], node["ready"], node["labels"]) == ("n1", True, ["zone=a"])
        assert node["pods"] == ["default/one", "default/two"]
        cpu, memory = node["resources"]
        assert cpu == {"resource": "cpu", "has": "4", "used": "3", "share": 0.75}
        assert memory == {"resource": "memory", "has": "8Gi", "used": "0", "share": 0.0}

    await with_page(tmp_path, scenario)


async def test_when_jobs_start_is_foreseen_from_how_long_those_before_them_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run, get: Get) -> None:
        await run("queue", "create", "rf", "default")
        await run("queue", "create", "cq", "team", "--nominal-quota", "default:cpu=1")
        await run("queue", "create", "lq", "lq", "-c", "team")
        assert json.loads((await get("/api/forecast"))[1])["starts"] == {}

        def is_queued(found: Obj, name: str) -> bool:
            return name in [one["name"] for one in found["jobs"]] and bool(found["counts"]["admitted"])

        for name in ("first", "second", "third"):
            made = job(name, "1")
            limited = {**made["spec"], "activeDeadlineSeconds": 600}  # type: ignore[dict-item]
            await embedded.client.create(JOBS, {**made, "spec": limited})
            await overview_when(get, partial(is_queued, name=name))
        found = json.loads((await get("/api/forecast"))[1])
        starts = found["starts"]
        assert starts["default/Job/first"] < 5
        assert 500 < starts["default/Job/second"] < 700
        assert 1100 < starts["default/Job/third"] < 1300
        assert found["assumed"] == 0
        monkeypatch.setattr("corral.dashboard.forecast.MAX_JOBS", 2)
        code, text = await get("/api/forecast")
        assert (code, text) == (
            400,
            "3 jobs run or wait, which takes long to look ahead for; `corral simulate --live` does it in a terminal\n",
        )

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


@pytest.mark.parametrize(
    "name", ["page.html", "page.mjs", "tree.mjs", "views.mjs", "panel.mjs", "page.css", "login.html"]
)
def test_the_page_is_small_and_asks_nobody_else(name: str) -> None:
    from importlib.resources import files

    text = files("corral.dashboard").joinpath(name).read_text()
    assert len(text) < 20_000
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "")  # a name, which nobody is asked for
    assert "innerHTML" not in text
