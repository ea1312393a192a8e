"""The way from a member to its hub: a kubeconfig in a Secret on the member, taken up when it appears or changes."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable
from typing import Final

from corral.client import kubeconfig
from corral.client.kubeconfig import Access, KubeconfigError
from corral.client.protocol import Client
from corral.controllers.member.agent import MemberAgent
from corral.core.meta import Key, Obj
from corral.kinds.kubernetes.core.kinds import SECRETS
from corral.runtime.controller import Manager

log = logging.getLogger(__name__)

NAMESPACE: Final = "fleet-system"
SECRET: Final = "hub-kubeconfig"
FIELD: Final = "kubeconfig"
NAME_FIELD: Final = "member-name"

Connect = Callable[[Access], Client]


class HubConnection:
    """Runs the agent on the hub that the Secret names; another kubeconfig replaces the connection."""

    def __init__(self, manager: Manager, agent: MemberAgent, connect: Connect, name: str) -> None:
        self._agent = agent
        self._name = name
        self._connect = connect
        self._changed = asyncio.Event()
        self._secrets = manager.informer(SECRETS, namespace=NAMESPACE)
        self._secrets.on_change(lambda old, new: self._changed.set())
        manager.run_task(self.run, "member agent")

    async def run(self) -> None:
        """Follow the Secret until cancelled."""
        running: asyncio.Task[None] | None = None
        known = (b"", b"")
        try:
            while True:
                self._changed.clear()
                secret = self._secrets.get(Key(NAMESPACE, SECRET))
                wanted = (_data(secret, FIELD), _data(secret, NAME_FIELD))
                if wanted != known:
                    await _end(running)
                    running, known = self._start(*wanted), wanted
                await self._changed.wait()
        finally:
            await _end(running)

    def _start(self, text: bytes, name: bytes) -> asyncio.Task[None] | None:
        if not text:
            return None
        try:
            client = self._connect(kubeconfig.access(kubeconfig.parse(text, SECRET), origin=SECRET))
        except (KubeconfigError, ValueError) as error:
            log.error("cannot use the kubeconfig of the hub", extra={"secret": SECRET, "error": str(error)})
            return None
        serve = self._serve(client, name.decode() or self._name)
        return asyncio.get_running_loop().create_task(serve, name="member agent of a hub")

    async def _serve(self, client: Client, name: str) -> None:
        try:
            await self._agent.run(client, name)
        except Exception:  # a task of its own: nobody else would hear of it
            log.exception("the member agent ended")
            raise
        finally:
            await client.close()


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _data(secret: Obj | None, name: str) -> bytes:
    try:
        return base64.b64decode(((secret or {}).get("data") or {}).get(name) or "")
    except ValueError:
        return b""
