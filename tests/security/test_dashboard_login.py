"""The dashboard lets in who has its token or one of the cluster's, shows each what is his, and answers to its own names only."""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.conformance.served_cli import JOBS, Run, job, serve, user_with
from tests.web.test_dashboard import page_over

from corral.cli.main import corral
from corral.client import kubeconfig
from corral.client.kubeconfig import Access
from corral.clusters.embedded_api import EmbeddedApi
from corral.dashboard import serve as serving
from corral.dashboard.address import Address, context_for, make_pair
from corral.dashboard.login import MAX_SESSIONS, Logins, as_bearer
from corral.server.access.certificates import Authority, save_pair

NOWHERE = Access(
    "https://127.0.0.1:1", token="of the kubeconfig", certificate=b"c", key=b"k", username="u", password="p"
)
QUESTIONS = [
    "/",
    "/page.mjs",
    "/api/overview",
    "/api/job?namespace=a&workload=b",
    "/api/logs?namespace=a&pod=b",
    "/api/events?namespace=a&workload=b",
    "/api/yaml?namespace=a&workload=b",
    "/api/nodes?cluster=a",
    "/api/capacities",
    "/api/forecast",
    "/api/warnings",
    "/other",
]


@pytest.mark.parametrize("path", QUESTIONS)
def test_nothing_is_shown_to_who_is_not_logged_in(path: str) -> None:
    with page_over(NOWHERE) as browser:
        for cookie in (
            "",
            "corral-1=x",
            f"corral-{browser.server.port}=",
            f"corral-{browser.server.port}=x",
            "=;,\x01",
        ):
            browser.cookie = cookie
            answer, text = browser.send("GET", path)
            assert answer.status == 401
            assert "kubeconfig" not in text
            assert ("Log in" in text) != path.startswith("/api/")


def test_the_printed_address_becomes_a_cookie_that_scripts_and_other_sites_do_not_get() -> None:
    with page_over(NOWHERE) as browser:
        answer, _ = browser.send("GET", f"/?token={browser.server.logins.token}")
        name, *attributes = answer.headers["Set-Cookie"].split("; ")
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict"]
        assert browser.server.logins.token not in name, "the cookie is good for this session only"
        browser.log_in()
        assert browser.send("GET", "/")[0].status == 200
        assert browser.send("POST", "/logout")[0].status == 303
        assert browser.send("GET", "/")[0].status == 401


def test_nothing_is_changed_by_who_is_not_logged_in() -> None:
    with page_over(NOWHERE) as browser:
        origin = f"http://127.0.0.1:{browser.server.port}"
        form = "action=delete&namespace=a&workload=b"
        answer, text = browser.send("POST", "/api/act", form, Origin=origin)
        assert (answer.status, text) == (401, "you are not logged in; reload the page\n")


@pytest.mark.parametrize("token", ["", "x", "a b", "\x00", "ä", "a" * 20_000, "a\r\nX: y"])
def test_a_wrong_token_is_no_login(token: str) -> None:
    logins = Logins(NOWHERE, lambda access: False)
    assert logins.log_in(token) is None
    assert logins.log_in(logins.token[:-1]) is None
    assert logins.log_in(logins.token) is not None


def test_tokens_differ_and_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({Logins(NOWHERE).token for _ in range(50)}) == 50
    compared: list[Any] = []
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: compared.append(one) or False)
    assert not Logins(NOWHERE).opens("guess")
    assert compared == [b"guess"]


def test_sessions_are_forgotten_before_they_fill_the_memory() -> None:
    logins = Logins(NOWHERE)
    sessions = [logins.log_in(logins.token) or "" for _ in range(MAX_SESSIONS + 5)]
    assert [logins.viewer(one) is None for one in sessions] == [True] * 5 + [False] * MAX_SESSIONS


def test_who_logs_in_with_a_token_of_his_own_borrows_nothing_of_the_kubeconfig() -> None:
    viewer = as_bearer(replace(NOWHERE, token_file="f", exec={"command": "x"}), "mine")
    assert viewer == Access(NOWHERE.server, token="mine")


async def test_a_viewer_sees_with_his_own_rights(tmp_path: Path) -> None:
    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        await run("queue", "create", "rf", "default")
        await run("queue", "create", "cq", "team", "--nominal-quota", "default:cpu=2")
        await run("queue", "create", "lq", "lq", "-c", "team")
        await embedded.client.create(JOBS, job("train", "1"))
        alice = kubeconfig.access(kubeconfig.load(await user_with(embedded, tmp_path, "view")))
        with page_over(kubeconfig.access(kubeconfig.load(tmp_path / "kubeconfig"))) as browser:
            assert await asyncio.to_thread(browser.log_in, "not-a-token") == 401
            assert await asyncio.to_thread(browser.log_in, alice.token) == 303
            answer, text = await asyncio.to_thread(browser.send, "GET", "/api/overview")
            assert answer.status == 200
            assert json.loads(text)["queues"] == [], "ClusterQueues are not hers to see"
            answer, text = await asyncio.to_thread(browser.send, "GET", "/api/logs?namespace=kube-system&pod=x")
            assert (answer.status, "system:serviceaccount:default:alice" in text) == (403, True)
            assert await asyncio.to_thread(browser.log_in) == 303
            _, text = await asyncio.to_thread(browser.send, "GET", "/api/overview")
            assert [one["name"] for one in json.loads(text)["queues"]] == ["team"]

    await serve(tmp_path, scenario)


def test_a_bearer_token_is_not_taken_from_an_address() -> None:
    with page_over(NOWHERE) as browser:
        browser.server.logins = Logins(NOWHERE, lambda access: True)
        assert browser.send("GET", "/?token=of-the-cluster")[0].status == 401
        assert browser.log_in("of-the-cluster") == 303


@pytest.mark.parametrize(
    ("address", "good", "bad"),
    [
        pytest.param(Address("127.0.0.1"), ["127.0.0.1:1", "localhost", "[::1]:8"], ["evil.example", "10.0.0.1", "127.0.0.1.evil.example", "", "a b"], id="loopback"),
        pytest.param(Address("0.0.0.0"), ["10.1.2.3:8470", "[2001:db8::1]", "localhost"], ["evil.example", "10.1.2.3.evil.example", "10.1.2.3, evil"], id="everywhere"),
        pytest.param(Address("10.0.0.1"), ["10.0.0.1:80"], ["10.0.0.2", "evil.example"], id="one address"),
        pytest.param(Address("0.0.0.0", ("Corral.example.com",)), ["corral.example.com", "CORRAL.example.com:443"], ["x.corral.example.com", "corral.example.com@evil"], id="named"),
        pytest.param(Address("127.0.0.1", ("corral.example.com",)), ["corral.example.com"], ["10.0.0.1"], id="behind a proxy"),
    ],
)  # fmt: skip
def test_it_answers_to_its_names(address: Address, good: list[str], bad: list[str]) -> None:
    assert [name for name in good if not address.answers_to(name)] == []
    assert [name for name in bad if address.answers_to(name)] == []


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1.evil.example", ""])
def test_the_form_of_another_page_logs_nobody_in_or_out(origin: str) -> None:
    with page_over(NOWHERE) as browser:
        browser.log_in()
        for path in ("/login", "/logout"):
            assert browser.send("POST", path, f"token={browser.server.logins.token}", Origin=origin)[0].status == 403
        assert browser.send("GET", "/", Origin=f"http://127.0.0.1:{browser.server.port}")[0].status == 200


def test_over_tls_the_cookie_stays_there_and_a_silent_client_holds_up_nobody() -> None:
    pair, by_cluster = make_pair(Address("0.0.0.0"), b"", [], 1_800_000_000.0)
    assert not by_cluster
    with page_over(NOWHERE, Address("0.0.0.0"), context_for(pair)) as browser:
        with socket.create_connection(("127.0.0.1", browser.server.port)):
            answer, _ = browser.send("GET", f"/?token={browser.server.logins.token}")
        assert answer.headers["Set-Cookie"].endswith("; Secure")


def test_strangers_get_so_many_threads_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 3)
    with page_over(NOWHERE) as browser:
        held = [socket.create_connection(("127.0.0.1", browser.server.port)) for _ in range(3)]
        with socket.create_connection(("127.0.0.1", browser.server.port), 60) as turned_away:
            assert turned_away.recv(1) == b""
        for one in held:
            one.close()


def test_a_fleet_on_this_machine_signs_for_its_page(tmp_path: Path) -> None:
    authority = Authority.create("corral", 1_800_000_000.0)
    save_pair(tmp_path, "ca", authority.pair)
    assert make_pair(Address("0.0.0.0"), authority.certificate, [tmp_path], 1_800_000_000.0)[1]
    assert not make_pair(Address("0.0.0.0"), b"of another", [tmp_path], 1_800_000_000.0)[1]


@pytest.mark.parametrize(
    ("words", "scheme"),
    [([], "http://127.0.0.1:"), (["--host", "0.0.0.0", "--name", "here.example"], "https://here.example:"), (["--host", "0.0.0.0", "--insecure"], "http://127.0.0.1:")],
)  # fmt: skip
async def test_other_machines_are_served_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], scheme: str
) -> None:
    monkeypatch.setattr(serving.PageServer, "serve_forever", lambda self: None)

    async def scenario(embedded: EmbeddedApi, run: Run) -> None:
        command = ["dashboard", "--port", "0", "--kubeconfig", str(tmp_path / "kubeconfig"), *words]
        result = await asyncio.to_thread(CliRunner().invoke, corral, command)
        assert result.exit_code == 0, result.output
        assert scheme in result.output
        assert "/?token=" in result.output
        assert ("fingerprint" in result.output) == scheme.startswith("https")

    await serve(tmp_path, scenario)
