"""One cluster as the Python API talks to it: calls on the caller's loop, and what `inspect` and `submit` look up in a thread beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from corral.client import kubeconfig
from corral.client.http import HttpClient
from corral.client.sync import SyncClient
from corral.fleet.reaching import kubeconfig_file
from corral.runtime.threads import CallThread
from corral.sdk.errors import as_corral_errors

P = ParamSpec("P")
T = TypeVar("T")


class Connection:
    """A cluster, chosen as the command line chooses it: the kubeconfig named, kubectl's, else that of the fleet on this machine."""

    def __init__(self, path: Path | None, context: str, namespace: str) -> None:
        with as_corral_errors():
            file = kubeconfig_file(path, context)
            document = kubeconfig.load(file)
            access = kubeconfig.access(document, context, folder=file.parent, origin=str(file))
            self.http = HttpClient(access, allow_exec=True)
            self._asked = SyncClient(access)
        self.namespace = namespace or access.namespace
        self._thread = CallThread()
        self._others: dict[str, HttpClient] = {}

    async def ask(self, function: Callable[Concatenate[SyncClient, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function of a blocking client answers."""
        with as_corral_errors():
            return await self._thread.call(function, self._asked, *args, **kwargs)

    def at(self, client: SyncClient) -> HttpClient:
        """The cluster of another client, such as the worker that a pod runs on."""
        if client.access.server == self.http.access.server:
            return self.http
        if client.access.server not in self._others:
            self._others[client.access.server] = HttpClient(client.access)
        return self._others[client.access.server]

    async def close(self) -> None:
        await self._thread.call(self._asked.close)
        self._thread.close()
        for http in (self.http, *self._others.values()):
            await http.close()
