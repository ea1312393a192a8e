"""The dashboard of a Ray cluster as an operator uses it: jobs are submitted and asked about, applications deployed."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol
from urllib.parse import quote

from corral.client.wire import Wire
from corral.core.meta import Obj, status_of
from corral.jobs.ray.cluster_plan import PORTS

PATIENCE_S = 5.0


class DashboardError(Exception):
    """The dashboard did not answer, or not what was asked."""


class Dashboard(Protocol):
    """What an operator asks of a dashboard; `address` is host:port."""

    async def job(self, address: str, submission: str) -> Obj | None:
        """A job by its submission id; None when there is none."""
        ...

    async def submit(self, address: str, request: Obj) -> None: ...

    async def stop(self, address: str, submission: str) -> None: ...

    async def deploy(self, address: str, config: Obj) -> None:
        """Bring the served applications to this state."""
        ...

    async def applications(self, address: str) -> dict[str, Obj]: ...


class HttpDashboard:
    """A real dashboard."""

    async def job(self, address: str, submission: str) -> Obj | None:
        status, answer = await self._ask(address, "GET", f"/api/jobs/{quote(submission, safe='')}")
        if status == 404:
            return None
        return _expect(status, answer)

    async def submit(self, address: str, request: Obj) -> None:
        status, answer = await self._ask(address, "POST", "/api/jobs/", request)
        if status == 500 and "Please use a different submission_id" in str(answer):
            return  # an earlier attempt got through
        _expect(status, answer)

    async def stop(self, address: str, submission: str) -> None:
        status, answer = await self._ask(address, "POST", f"/api/jobs/{quote(submission, safe='')}/stop")
        if status != 404:
            _expect(status, answer)

    async def deploy(self, address: str, config: Obj) -> None:
        _expect(*await self._ask(address, "PUT", "/api/serve/applications/", config))

    async def applications(self, address: str) -> dict[str, Obj]:
        answer = _expect(*await self._ask(address, "GET", "/api/serve/applications/?api_type=declarative"))
        return dict(answer.get("applications") or {})

    async def _ask(self, address: str, method: str, path: str, body: Obj | None = None) -> tuple[int, Any]:
        wire = Wire(f"http://{address}", None)
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
        data = json.dumps(body).encode() if body is not None else b""
        until = asyncio.get_running_loop().time() + PATIENCE_S
        try:
            async with wire.request(method, path, headers, data, until=until) as exchange:
                text = await exchange.read()
                return exchange.status, _decoded(text)
        except (OSError, TimeoutError) as error:
            raise DashboardError(f"{method} http://{address}{path}: {error or type(error).__name__}") from error
        finally:
            wire.close()


def _decoded(text: bytes) -> Any:
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return text.decode(errors="replace")


def _expect(status: int, answer: Any) -> Obj:
    if status // 100 != 2:
        raise DashboardError(f"the dashboard answered {status}: {answer}")
    return answer if isinstance(answer, dict) else {}


def dashboard_of(head: Obj | None) -> str:
    """Where the dashboard of a head answers; empty when it has no address yet."""
    address = status_of(head).get("podIP") if head is not None else None
    return f"{address}:{PORTS['dashboard']}" if address else ""
