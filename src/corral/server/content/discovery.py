"""Discovery: which groups, versions and resources this server has, in both the legacy and the aggregated form.

Documents are built from the registry when first asked for after a change, and kept as bytes with their ETag.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Sequence

from corral.core.meta import Obj
from corral.kinds.machinery.definition import SUBRESOURCE_VERBS, KindDef, VersionDef
from corral.kinds.machinery.registry import Registry
from corral.server.content import negotiation
from corral.server.content.representations import encode
from corral.server.http.message import JSON, Request, Response

_VERSION = re.compile(r"^v(\d+)(?:(alpha|beta)(\d+))?$")


def version_order(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order of versions, best first: v2, v1, v1beta2, v1alpha1, then anything else by name."""
    found = _VERSION.match(version)
    if found is None:
        return (1, 0, 0, version)
    stability = {None: 2, "beta": 1, "alpha": 0}[found[2]]
    return (0, -stability * 1000 - int(found[1]), -int(found[3] or 0), "")


def storage_hash(kind: KindDef) -> str:
    """A short stable name of what a resource is stored as."""
    text = f"{kind.group}/{kind.storage_version.name}/{kind.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


class SubresourceRow:
    """One subresource as discovery lists it."""

    __slots__ = ("group", "kind", "name", "verbs", "version")

    def __init__(self, name: str, kind: str, verbs: Sequence[str], group: str = "", version: str = "") -> None:
        self.name, self.kind, self.verbs, self.group, self.version = name, kind, list(verbs), group, version


def subresources(kind: KindDef, version: VersionDef) -> list[SubresourceRow]:
    rows = []
    if version.status:
        rows.append(SubresourceRow("status", kind.kind, SUBRESOURCE_VERBS))
    if version.scale is not None:
        rows.append(SubresourceRow("scale", "Scale", SUBRESOURCE_VERBS, "autoscaling", "v1"))
    for sub in kind.subresources:
        rows.append(SubresourceRow(sub.name, sub.kind, sub.verbs, sub.group, sub.version))
    return sorted({row.name: row for row in rows}.values(), key=lambda row: row.name)


class Discovery:
    """Serves /api, /apis and everything above single resources. `remote` adds groups served by other servers."""

    def __init__(
        self, registry: Registry, extra: Sequence[KindDef], address: str, remote: Callable[[], Sequence[Obj]] = tuple
    ) -> None:
        self._registry = registry
        self._extra = list(extra)
        self._address = address
        self._remote = remote
        self._revision: tuple[int, int] = (-1, 0)
        self._kept: dict[tuple[str, str], tuple[bytes, str]] = {}
        self._groups: frozenset[str] = frozenset()
        self._groups_at = -1

    def answer(self, request: Request) -> Response | None:
        """The document at a path, or None when there is no such group or version."""
        revision = (self._registry.revision, hash(tuple(str(group) for group in self._remote())))
        if self._revision != revision:
            self._revision = revision
            self._kept.clear()
        parts = [part for part in request.path.split("/") if part]
        aggregated = negotiation.discovery_version(request.header("accept")) if len(parts) == 1 else ""
        key = ("/".join(parts), aggregated)
        kept = self._kept.get(key)
        if kept is None:
            document = self._document(parts, aggregated)
            if document is None:
                return None
            body = encode(document)
            kept = self._kept[key] = (body, f'"{hashlib.sha512(body).hexdigest().upper()}"')
        return self._respond(request, kept, aggregated)

    def document(self, path: str) -> Obj | None:
        """The plain document at a path, for callers in this process."""
        return self._document([part for part in path.split("/") if part], "")

    def _respond(self, request: Request, kept: tuple[bytes, str], aggregated: str) -> Response:
        body, etag = kept
        content_type = JSON
        if aggregated:
            content_type = f"{JSON};g=apidiscovery.k8s.io;v={aggregated};as=APIGroupDiscoveryList"
        headers = (("Etag", etag), ("Vary", "Accept"))
        cache = "public" if aggregated else "no-cache, private"
        if aggregated and etag in request.header("if-none-match"):
            return Response(304, b"", "", headers, cache)
        return Response(200, body, content_type, headers, cache)

    def serves(self, group: str) -> bool:
        """Whether any kind of this group is served here."""
        if self._groups_at != self._registry.revision:
            self._groups_at = self._registry.revision
            self._groups = frozenset(kind.group for kind in self._kinds())
        return group in self._groups

    def groups(self) -> list[str]:
        named = dict.fromkeys(kind.group for kind in self._kinds() if kind.group)
        return list(named)

    def group_versions(self) -> list[str]:
        """Every `v1`, `group/version` that is served."""
        found: list[str] = []
        for group in ["", *self.groups()]:
            found += [f"{group}/{version}" if group else version for version in self.versions(group)]
        return found

    def versions(self, group: str) -> list[str]:
        found = {version.name for kind in self._kinds() if kind.group == group for version in kind.served_versions}
        return sorted(found, key=version_order)

    def kinds(self, group: str, version: str) -> list[tuple[KindDef, VersionDef]]:
        """Kinds served in one group and version, by resource name."""
        found = []
        for kind in self._kinds():
            served = kind.version(version) if kind.group == group else None
            if served is not None and served.served:
                found.append((kind, served))
        return sorted(found, key=lambda pair: pair[0].plural)

    def _kinds(self) -> list[KindDef]:
        known = {(kind.group, kind.plural): kind for kind in self._registry}
        return list({**known, **{(kind.group, kind.plural): kind for kind in self._extra}}.values())

    def _document(self, parts: list[str], aggregated: str) -> Obj | None:
        if aggregated:
            return self._aggregated(parts[0], aggregated)
        if parts == ["api"]:
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": self._address}]
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
        if parts == ["apis"]:
            groups = [self._group(group) for group in self.groups()]
            groups += [_remote_group(group) for group in self._remote()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        if len(parts) == 2 and parts[0] == "apis":
            return self._one_group(parts[1])
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
        return self._resource_list(group, version)

    def _one_group(self, group: str) -> Obj | None:
        if group in self.groups():
            return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}
        for remote in self._remote():
            if remote["metadata"]["name"] == group:
                return {"kind": "APIGroup", "apiVersion": "v1", **_remote_group(remote)}
        return None

    def _group(self, group: str) -> Obj:
        return _group_entry(group, self.versions(group))

    def _resource_list(self, group: str, version: str) -> Obj | None:
        kinds = self.kinds(group, version)
        if not kinds:
            return None
        rows: list[Obj] = []
        for kind, served in kinds:
            rows += _legacy_rows(kind, served)
        name = f"{group}/{version}" if group else version
        document: Obj = {"kind": "APIResourceList"}
        if group:
            document["apiVersion"] = "v1"
        return {**document, "groupVersion": name, "resources": rows}

    def _aggregated(self, root: str, version: str) -> Obj:
        groups = [""] if root == "api" else self.groups()
        items = [self._aggregated_group(group) for group in groups]
        if root == "apis":
            items += self._remote()
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{version}",
            "metadata": {},
            "items": items,
        }

    def _aggregated_group(self, group: str) -> Obj:
        versions = [
            {
                "version": version,
                "resources": [_aggregated_row(kind, served) for kind, served in self.kinds(group, version)],
                "freshness": "Current",
            }
            for version in self.versions(group)
        ]
        return {"metadata": {"name": group} if group else {}, "versions": versions}


def _group_entry(group: str, versions: Sequence[str]) -> Obj:
    entries = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": entries, "preferredVersion": entries[0]}


def _remote_group(group: Obj) -> Obj:
    return _group_entry(group["metadata"]["name"], [version["version"] for version in group["versions"]])


def _legacy_rows(kind: KindDef, version: VersionDef) -> list[Obj]:
    row: Obj = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        row["shortNames"] = list(kind.short_names)
    if kind.categories:
        row["categories"] = list(kind.categories)
    if "list" in kind.verbs:
        row["storageVersionHash"] = storage_hash(kind)
    rows = [row]
    for sub in subresources(kind, version):
        entry: Obj = {"name": f"{kind.plural}/{sub.name}", "singularName": "", "namespaced": kind.namespaced}
        if sub.version:
            entry.update(group=sub.group, version=sub.version)
        rows.append({**entry, "kind": sub.kind, "verbs": sub.verbs})
    return rows


def _aggregated_row(kind: KindDef, version: VersionDef) -> Obj:
    row: Obj = {
        "resource": kind.plural,
        "responseKind": {"group": "", "version": "", "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        row["shortNames"] = list(kind.short_names)
    if kind.categories:
        row["categories"] = list(kind.categories)
    rows = [
        {
            "subresource": sub.name,
            "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
            "verbs": sub.verbs,
        }
        for sub in subresources(kind, version)
    ]
    if rows:
        row["subresources"] = rows
    return row
