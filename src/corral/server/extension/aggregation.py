"""Aggregated APIs: groups and versions that an APIService hands to another server, proxied with the caller's identity.

The other server trusts the client certificate of this one and reads the user from headers, as Kubernetes' extension
servers do. Which groups it has is asked in the background, so that discovery lists them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from urllib.parse import quote

import msgspec

from corral.client.wire import passed_on
from corral.core import conditions
from corral.core.admission import UserInfo
from corral.core.errors import ApiError, ServiceUnavailable
from corral.core.meta import Obj, spec_of, status_of
from corral.server.access.authentication import ADMIN
from corral.server.extension.outcalls import Address, Caller, CallFailed, for_others, passed_back, resolve
from corral.server.http.message import JSON, Answer, Request
from corral.server.paths import RequestInfo
from corral.server.verbs.options import Clock
from corral.store import Event, ObjectKey, Stale, Store

log = logging.getLogger(__name__)

BUCKET = "apiservices.apiregistration.k8s.io"
RECHECK_S = 15.0
_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "date", "keep-alive", "audit-id"}
_OURS = {*_HOP_BY_HOP, "content-type", "cache-control"}


def group_version(path: str) -> tuple[str, str]:
    """Group and version a path below /apis is about; the version is empty for /apis/<group>."""
    parts = [part for part in path.split("/") if part]
    if len(parts) < 2 or parts[0] != "apis":
        return "", ""
    return parts[1], parts[2] if len(parts) > 2 else ""


def identity_headers(user: UserInfo) -> list[tuple[str, str]]:
    """The caller, as the other server reads it."""
    headers = [("X-Remote-User", user.name)]
    if user.uid:
        headers.append(("X-Remote-Uid", user.uid))
    headers += [("X-Remote-Group", group) for group in user.groups]
    for key, values in user.extra.items():
        headers += [(f"X-Remote-Extra-{quote(key, safe='')}", value) for value in values]
    return headers


class Aggregation:
    """Finds, proxies and describes aggregated APIs."""

    def __init__(self, store: Store, clock: Clock, caller: Caller) -> None:
        self._store = store
        self._clock = clock
        self._caller = caller
        self._groups: dict[tuple[str, str], list[Obj]] = {}
        self._wake = asyncio.Event()
        store.observe(self._changed)

    def _changed(self, event: Event) -> None:
        if event.stored.key.resource == BUCKET:
            self._wake.set()

    def _find(self, group: str, version: str) -> Obj | None:
        if not version:
            return None
        stored = self._store.get(ObjectKey(BUCKET, "", f"{version}.{group}"))
        return stored.obj if stored is not None and spec_of(stored.obj).get("service") else None

    # proxying

    async def answer(self, request: Request, info: RequestInfo, user: UserInfo) -> Answer | None:
        """The other server's answer; None when no APIService claims the path."""
        service = self._find(*group_version(request.path))
        if service is None:
            return None
        try:
            address = resolve(self._store, {"service": spec_of(service)["service"]})
            return await self._proxy(request, user, service, address)
        except CallFailed as error:
            raise ServiceUnavailable(f"error trying to reach service: {error}") from error

    async def _proxy(self, request: Request, user: UserInfo, service: Obj, address: Address) -> Answer:
        spec = spec_of(service)
        fields = [field for field in for_others(request) if field[0] != "accept-encoding"]
        answer = await self._caller.open(
            request.method,
            address,
            body=request.body,
            headers=[*fields, *identity_headers(user)],
            bundle=spec.get("caBundle") or "",
            verify=not spec.get("insecureSkipTLSVerify"),
            suffix=passed_on(request.target),
        )
        headers = tuple((key, value) for key, value in answer.headers if key not in _OURS)
        content_type = answer.header("content-type", JSON)
        return await passed_back(answer, request.method, content_type, headers)

    # discovery

    def groups(self) -> list[Obj]:
        """What the other servers have, as items of an aggregated discovery document."""
        merged: dict[str, list[Obj]] = {}
        for (group, _), versions in sorted(self._groups.items()):
            merged.setdefault(group, []).extend(versions)
        return [{"metadata": {"name": group}, "versions": versions} for group, versions in merged.items()]

    async def run(self) -> None:
        """Ask the other servers what they have, now and again, and say so in the APIServices' status."""
        while True:
            self._wake.clear()
            await self.refresh()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), RECHECK_S)

    async def refresh(self) -> None:
        """Ask every one of them once."""
        for stored in list(self._store.scan(BUCKET)):
            if spec_of(stored.obj).get("service"):
                await self._check(stored.obj)
        for key in [key for key in self._groups if self._find(*key) is None]:
            del self._groups[key]

    async def _check(self, service: Obj) -> None:
        spec = spec_of(service)
        group, version = spec.get("group") or "", spec.get("version") or ""
        try:
            address = resolve(self._store, {"service": spec["service"]})
            reply = await self._caller.call(
                "GET",
                address,
                body=b"",
                headers=dict(identity_headers(ADMIN)),
                bundle=spec.get("caBundle") or "",
                verify=not spec.get("insecureSkipTLSVerify"),
                timeout_s=5.0,
                suffix=f"/apis/{group}/{version}",
            )
            listed = msgspec.json.decode(reply.body) if reply.status == 200 else None
            if not isinstance(listed, dict):
                raise CallFailed(f"bad status from {address.shown}/apis/{group}/{version}: {reply.status}")
        except (CallFailed, msgspec.MsgspecError) as error:
            self._groups.pop((group, version), None)
            message = f"failing or missing response: {error}"
            await self._report(service, "False", "FailedDiscoveryCheck", message)
            return
        resources = aggregate(listed.get("resources") or [])
        self._groups[group, version] = [{"version": version, "resources": resources, "freshness": "Current"}]
        await self._report(service, "True", "Passed", "all checks passed")

    async def _report(self, service: Obj, status: str, reason: str, message: str) -> None:
        found = conditions.find(service, "Available")
        if found is not None and (found.get("status"), found.get("reason")) == (status, reason):
            return
        new = conditions.condition("Available", status, reason, message)
        listed = status_of(service).get("conditions") or []
        changed = {**status_of(service), "conditions": conditions.set_condition(listed, new, self._clock.timestamp())}
        metadata = service["metadata"]
        try:
            await self._store.put(
                ObjectKey(BUCKET, "", metadata["name"]),
                {**service, "status": changed},
                expected=int(metadata["resourceVersion"]),
            )
        except (Stale, ApiError):
            log.debug("apiservice changed while it was checked: %s", metadata["name"])


def aggregate(rows: list[Obj]) -> list[Obj]:
    """The resources of a legacy APIResourceList in the aggregated form."""
    found: dict[str, Obj] = {}
    for row in rows:
        name, _, sub = str(row.get("name", "")).partition("/")
        kind = {"group": row.get("group", ""), "version": row.get("version", ""), "kind": row.get("kind", "")}
        if sub:
            entry = {"subresource": sub, "responseKind": kind, "verbs": row.get("verbs") or []}
            found.setdefault(name, {"resource": name}).setdefault("subresources", []).append(entry)
            continue
        main: Obj = {
            "resource": name,
            "responseKind": kind,
            "scope": "Namespaced" if row.get("namespaced") else "Cluster",
            "singularResource": row.get("singularName") or "",
            "verbs": row.get("verbs") or [],
        }
        for field in ("shortNames", "categories"):
            if row.get(field):
                main[field] = row[field]
        found[name] = {**main, **{key: value for key, value in found.get(name, {}).items() if key == "subresources"}}
    return [entry for entry in found.values() if "responseKind" in entry]
