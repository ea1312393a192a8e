"""A served cluster and its users, for the attacks of this folder."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from corral.clusters.embedded_api import EmbeddedApi
from corral.core.admission import UserInfo
from corral.core.meta import Obj
from corral.core.server_limits import Limits

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class World:
    """One API server; each question comes on a connection of its own."""

    def __init__(self, cluster: EmbeddedApi) -> None:
        self.cluster = cluster
        self.context = ssl.create_default_context(cadata=cluster.server.authority.certificate.decode())

    def user(self, name: str, *groups: str) -> str:
        """The token of a new user."""
        self.cluster.server.authenticator.add_token(f"token-of-{name}", UserInfo(name, groups))
        return f"token-of-{name}"

    @property
    def admin(self) -> str:
        return self.cluster.server.admin_token

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.cluster.server.port, ssl=self.context, limit=1 << 24)

    async def send(self, data: bytes) -> Answer:
        """The first answer to these bytes."""
        reader, writer = await self.connect()
        try:
            writer.write(data)
            return await asyncio.wait_for(read_answer(reader), 30)
        finally:
            writer.close()

    async def ask(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, kind: str = "application/json"
    ) -> Answer:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", f"Content-Length: {len(raw)}"]
        if raw:
            lines.append(f"Content-Type: {PATCHES.get(kind, kind)}")
        if token != "":
            lines.append(f"Authorization: Bearer {token or self.admin}")
        return await self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + raw)

    async def keep(self) -> Callable[[str, str, str], Awaitable[int]]:
        """A connection for many questions, each with an empty object where there is a body; answers their status."""
        reader, writer = await self.connect()

        async def ask(method: str, path: str, token: str) -> int:
            body = b"{}" if method in ("POST", "PUT", "PATCH") else b""
            head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            return (await read_answer(reader)).status

        return ask

    async def allow(self, name: str, *rules: Obj, namespace: str = "") -> None:
        """Give a user these rules, everywhere or in one namespace."""
        scope = f"/namespaces/{namespace}" if namespace else ""
        kind = "Role" if namespace else "ClusterRole"
        metadata = {"name": f"rights-of-{name}"}
        role = {"metadata": metadata, "rules": list(rules)}
        assert (await self.ask("POST", f"{RBAC}{scope}/{kind.lower()}s", role)).status == 201
        binding = {
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]},
            "subjects": [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}],
        }
        assert (await self.ask("POST", f"{RBAC}{scope}/{kind.lower()}bindings", binding)).status == 201


def rule(verbs: str, resources: str, group: str = "", *names: str) -> Obj:
    """A rule, of words separated by spaces."""
    made: Obj = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    return {**made, "resourceNames": list(names)} if names else made


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
    status = int(lines[0].split(" ", 2)[1])
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        return Answer(status, headers, body)
    return Answer(status, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


@asynccontextmanager
async def served(
    limits: Limits = Limits(),  # noqa: B008  # frozen
    state: Path | None = None,
    fronts: int = 0,
    users: Sequence[str] = (),
    audit: Path | None = None,
) -> AsyncIterator[World]:
    """`users` are there from the start, also for the front processes of a cluster that has some."""
    if state is not None:
        (state / "pki").mkdir(parents=True)
        rows = ["token-of-admin,kubernetes-admin,,system:masters", *(f"token-of-{name},{name},," for name in users)]
        (state / "pki" / "tokens.csv").write_text("\n".join(rows))
    cluster = EmbeddedApi(state, limits=limits, fronts=fronts, audit=audit)
    await cluster.start()
    try:
        yield World(cluster)
    finally:
        await cluster.stop()
