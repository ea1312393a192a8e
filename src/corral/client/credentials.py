"""Credentials that change: token files and exec plug-ins, read again before they expire."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

from corral.client.kubeconfig import Access, KubeconfigError

FILE_REFRESH_S = 60.0
EXEC_TIMEOUT_S = 30.0
EXEC_REFRESH_S = 300.0


class Credentials:
    """The Authorization header of one cluster. `allow_exec` lets a kubeconfig start its plug-in program."""

    def __init__(self, access: Access, *, allow_exec: bool) -> None:
        if access.exec is not None and not allow_exec:
            raise KubeconfigError("exec plug-ins are not allowed here; use a token or a client certificate")
        self._access = access
        self._token = access.token
        self._fresh_until = 0.0 if access.token_file or access.exec else float("inf")

    async def header(self) -> dict[str, str]:
        """The header to send now."""
        now = asyncio.get_running_loop().time()
        if now >= self._fresh_until:
            await self._refresh(now)
        if self._token:
            return {"Authorization": f"Bearer {self._token}"}
        return {}

    def expire(self) -> None:
        """The server refused the credentials: read them again before the next call, where that can help."""
        if self._access.token_file or self._access.exec:
            self._fresh_until = 0.0

    async def _refresh(self, now: float) -> None:
        if self._access.token_file:
            try:
                self._token = Path(self._access.token_file).read_text().strip()
            except OSError as error:
                raise KubeconfigError(f"token file {self._access.token_file}: {error.strerror}") from error
            self._fresh_until = now + FILE_REFRESH_S
        elif self._access.exec:
            await self._run_plugin(now)

    async def _run_plugin(self, now: float) -> None:
        plugin = self._access.exec or {}
        environment = {**os.environ, **{entry["name"]: entry["value"] for entry in plugin.get("env") or []}}
        request = {"apiVersion": plugin.get("apiVersion", ""), "kind": "ExecCredential", "spec": {"interactive": False}}
        environment["KUBERNETES_EXEC_INFO"] = json.dumps(request)
        process = await asyncio.create_subprocess_exec(
            plugin.get("command", ""), *(plugin.get("args") or []), stdout=asyncio.subprocess.PIPE, env=environment
        )
        async with asyncio.timeout(EXEC_TIMEOUT_S):
            output, _ = await process.communicate()
        if process.returncode != 0:
            raise KubeconfigError(f"exec plug-in {plugin.get('command')!r} ended with code {process.returncode}")
        status = json.loads(output).get("status") or {}
        self._token = str(status.get("token") or "")
        expiry = status.get("expirationTimestamp")
        # Plug-ins hand out tokens of ten minutes or more; a refused one is asked for again at once.
        self._fresh_until = now + EXEC_REFRESH_S if expiry else float("inf")
