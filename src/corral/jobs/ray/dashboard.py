"""The dashboard of a Ray cluster as an operator uses it: jobs are submitted and asked about, applications deployed."""

from __future__ import annotations

import asyncio
import json
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Protocol
from urllib.parse import quote

from corral.client.wire import Wire
from corral.core.meta import Obj, spec_of, status_of
from corral.jobs.ray.cluster_plan import PORTS

PATIENCE_S = 5.0
MOST = 1 << 20
"""Bytes of an answer: it is read on everybody's loop, and whoever made the pod says what it is."""
SAID = 1000
"""Characters of an answer that are repeated to people."""
_OF_MACHINES = ip_network("127.0.0.0/16")
"""Where a machine talks to itself; pods of embedded clusters have addresses above it."""


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
        found = answer.get("applications")
        if found is not None and not (isinstance(found, dict) and all(isinstance(one, dict) for one in found.values())):
            raise DashboardError("the dashboard answered something that is no list of applications")
        return dict(found or {})

    async def _ask(self, address: str, method: str, path: str, body: Obj | None = None) -> tuple[int, Any]:
        wire = Wire(f"http://{address}", None)
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
        data = json.dumps(body).encode() if body is not None else b""
        until = asyncio.get_running_loop().time() + PATIENCE_S
        try:
            async with wire.request(method, path, headers, data, until=until) as exchange:
                text = await exchange.read(at_most=MOST)
                return exchange.status, _decoded(text)
        except (OSError, ValueError, RecursionError) as error:
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
        raise DashboardError(f"the dashboard answered {status}: {str(answer)[:SAID]}")
    return answer if isinstance(answer, dict) else {}


def dashboard_of(head: Obj | None) -> str:
    """Where the dashboard of a head answers; empty when it has no address yet, or none that a pod has."""
    if head is None:
        return ""
    try:
        address = ip_address(str(status_of(head).get("podIP")))
    except ValueError:
        return ""
    if not _may_be_called(address) and not spec_of(head).get("hostNetwork"):
        return ""
    return f"{f'[{address}]' if address.version == 6 else address}:{PORTS['dashboard']}"


def _may_be_called(address: IPv4Address | IPv6Address) -> bool:
    """Whether a pod can have it: whoever writes a pod's status could send the operator anywhere."""
    real = (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address
    if real.is_link_local or real.is_multicast or real.is_unspecified:
        return False
    return not real.is_loopback or (isinstance(real, IPv4Address) and real not in _OF_MACHINES)
