"""Services with a port of their own, without a kernel's help: a loopback address per Service and a small proxy behind it.

Names in pods resolve to that address; a connection goes to one of the pods that are ready, in turn, or to one of the
endpoints written for a Service without a selector. A Service whose ports cannot be bound (low ports without privileges)
gets no address, and its name then resolves to the pods or endpoints themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

from corral.core.meta import Key, Obj, key_of, labels_of, spec_of, status_of
from corral.node import endpoints, names
from corral.node.endpoints import Endpoint
from corral.node.process.allocation import Addresses

log = logging.getLogger(__name__)

CHUNK = 64 * 1024
API = Key("default", "kubernetes")


@dataclass(slots=True)
class ServedService:
    """A Service that is being answered."""

    service: Obj
    address: str
    servers: list[asyncio.Server] = field(default_factory=list)
    turn: int = 0


class ServiceProxy:
    """Answers for every Service with a port, over TCP."""

    def __init__(
        self,
        network: str,
        api: Endpoint | None,
        pods_of: Callable[[Obj], Sequence[Obj]],
        slices_of: Callable[[Obj], Sequence[Obj]],
        changed: Callable[[], None],
    ) -> None:
        self._addresses = Addresses(network)
        self._pod_network = ip_network(network).supernet()  # pods have the other half
        self._api = api
        self._pods_of = pods_of
        self._slices_of = slices_of
        self._api_address = ""
        self._changed = changed
        self._served: dict[Key, ServedService] = {}
        self._refused: dict[Key, list[Obj]] = {}
        self._connections: set[asyncio.Task[None]] = set()

    def address_of(self, service: Obj) -> str:
        """Where the Service is answered; empty when it is not."""
        served = self._served.get(key_of(service))
        return served.address if served is not None else ""

    async def follow(self, services: Sequence[Obj]) -> None:
        """Answer for exactly these Services."""
        wanted = {key_of(service): service for service in services if self._is_served(service)}
        self._api_address = str(spec_of(wanted[API]).get("clusterIP") or "") if API in wanted else ""
        for key in [key for key in self._served if key not in wanted]:
            self._close(self._served.pop(key))
            self._addresses.give_back(str(key))
        for key, service in wanted.items():
            served = self._served.get(key)
            if served is not None and _ports(served.service) == _ports(service):
                served.service = service
            elif self._refused.get(key) != _ports(service):
                await self._open(key, service)

    async def close(self) -> None:
        for served in self._served.values():
            self._close(served)
        for task in list(self._connections):
            task.cancel()
        self._served.clear()

    async def _open(self, key: Key, service: Obj) -> None:
        if (old := self._served.pop(key, None)) is not None:
            self._close(old)
        served = ServedService(service, self._addresses.take(str(key)))
        try:
            for port in _ports(service):
                served.servers.append(await self._listen(served, port))
        except OSError as error:
            self._close(served)
            self._refused[key] = _ports(service)
            log.info("service is not proxied", extra={"service": str(key), "error": str(error)})
            return
        self._served[key] = served
        self._changed()

    async def _listen(self, served: ServedService, port: Obj) -> asyncio.Server:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            if task is not None:
                self._connections.add(task)
                task.add_done_callback(self._connections.discard)
            await self._forward(served, port, reader, writer)

        return await asyncio.start_server(accept, served.address, int(port["port"]))

    @staticmethod
    def _close(served: ServedService) -> None:
        for server in served.servers:
            server.close()

    async def _forward(
        self, served: ServedService, port: Obj, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        endpoints = self.endpoints(served.service, port)
        try:
            for attempt in range(len(endpoints)):
                host, number = endpoints[(served.turn + attempt) % len(endpoints)]
                try:
                    there_reader, there_writer = await asyncio.open_connection(host, number)
                except OSError:
                    continue
                served.turn += attempt + 1
                await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
                return
        finally:
            writer.close()

    def endpoints(self, service: Obj, port: Obj) -> list[Endpoint]:
        """Where connections to a port of the Service go."""
        if key_of(service) == API:
            return [self._api] if self._api is not None else []
        if endpoints.is_written_by_hand(service):
            behind = [found for piece in self._slices_of(service) for found in self._behind(piece, port)]
            return list(dict.fromkeys(behind))
        pods = [pod for pod in self._pods_of(service) if names.is_published(service, pod)]
        return [(status_of(pod)["podIP"], target_port(pod, port)) for pod in pods if self._is_own(pod)]

    def _behind(self, piece: Obj, port: Obj) -> list[Endpoint]:
        """Where an EndpointSlice leads to."""
        found = endpoints.of_port([piece], port)
        if found and self._api is not None and endpoints.ANSWERED_BY_API in labels_of(piece):
            return [self._api]
        return [self._reachable(written) for written in found]

    def _reachable(self, written: Endpoint) -> Endpoint:
        """The API server is behind the address of its Service, which no interface here has."""
        return self._api if self._api is not None and written[0] == self._api_address else written

    def _is_served(self, service: Obj) -> bool:
        by_hand = endpoints.is_written_by_hand(service) and key_of(service) != API
        if by_hand and not endpoints.addresses(self._slices_of(service)):
            return False
        kind = spec_of(service).get("type") or "ClusterIP"
        return bool(_ports(service)) and kind != "ExternalName" and not names.is_headless(service)

    def _is_own(self, pod: Obj) -> bool:
        """Whether a pod's address is one that pods of this cluster have; others who write its status may name any."""
        if spec_of(pod).get("hostNetwork"):
            return bool(status_of(pod)["podIP"] == status_of(pod).get("hostIP"))
        try:
            return ip_address(status_of(pod)["podIP"]) in self._pod_network
        except ValueError:
            return False


def target_port(pod: Obj, port: Obj) -> int:
    """The number of the pod's port that a Service port points at."""
    target = port.get("targetPort") or port["port"]
    if isinstance(target, int) or str(target).isdigit():
        return int(target)
    for container in spec_of(pod).get("containers") or ():
        for entry in container.get("ports") or ():
            if entry.get("name") == target:
                return int(entry["containerPort"])
    return int(port["port"])


def _ports(service: Obj) -> list[Obj]:
    return [port for port in spec_of(service).get("ports") or () if (port.get("protocol") or "TCP") == "TCP"]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        with contextlib.suppress(OSError):
            writer.close()
