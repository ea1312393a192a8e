"""Whoever makes the head of a Ray cluster says what its dashboard is: operators call only pods, read little and take it for what it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from corral.jobs.ray import dashboard
from corral.jobs.ray.dashboard import DashboardError, HttpDashboard, dashboard_of
from corral.jobs.ray.job_watch import _with_report


def head(address: Any, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "head"}, "spec": spec, "status": {"podIP": address}}


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.0.0.53", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "localhost", "example.com",
     "10.0.0.1:80/x?", "10.0.0.1:80#", "u@10.0.0.1", "127.1", "0x7f000001", "2130706433", " 10.0.0.1", "10.0.0.1\r\nX: y", "", None, 5],
)  # fmt: skip
def test_what_is_no_address_of_a_pod_is_not_called(address: Any) -> None:
    assert dashboard_of(head(address)) == ""


def test_a_pod_is_called() -> None:
    assert dashboard_of(head("10.1.2.3")) == "10.1.2.3:8265"
    assert dashboard_of(head("127.64.0.10")) == "127.64.0.10:8265"
    assert dashboard_of(head("fd00::7")) == "[fd00::7]:8265"
    assert dashboard_of(head("127.0.0.1", hostNetwork=True)) == "127.0.0.1:8265"
    assert dashboard_of(None) == ""


@asynccontextmanager
async def answering(body: bytes, status: str = "200 OK") -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_large_answer_is_not_read() -> None:
    async with answering(json.dumps({"message": "x" * 2 * dashboard.MOST}).encode()) as address:
        with pytest.raises(DashboardError, match="larger than"):
            await HttpDashboard().job(address, "j")


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"a":' * 100_000, b"{", b"\xff"], ids=["lists", "maps", "half", "no text"]
)
async def test_what_is_no_json_is_an_error_of_the_dashboard_or_no_job(body: bytes) -> None:
    async with answering(body) as address:
        try:
            assert await HttpDashboard().job(address, "j") == {}
        except DashboardError:
            pass


async def test_of_an_error_little_is_repeated() -> None:
    async with answering(b"x" * 100_000, "500 Internal Server Error") as address:
        with pytest.raises(DashboardError) as told:
            await HttpDashboard().job(address, "j")
    assert len(str(told.value)) < 2 * dashboard.SAID


@pytest.mark.parametrize("applications", [[1], {"a": 1}, "x", 7, {"a": None}], ids=str)
async def test_what_are_no_applications_is_an_error_of_the_dashboard(applications: Any) -> None:
    async with answering(json.dumps({"applications": applications}).encode()) as address:
        with pytest.raises(DashboardError, match="applications"):
            await HttpDashboard().applications(address)


@pytest.mark.parametrize("wrong", [{}, [], 5, True, "x" * 100_000, -1, 1e300, None], ids=lambda value: str(value)[:20])
def test_a_job_that_is_told_of_in_wrong_words_has_a_status_all_the_same(wrong: Any) -> None:
    told = _with_report({"jobId": "j"}, {"status": wrong, "message": wrong, "start_time": wrong, "end_time": wrong})
    assert isinstance(told["jobStatus"], str)
    assert isinstance(told["message"], str)
    assert len(json.dumps(told)) < 64_000
