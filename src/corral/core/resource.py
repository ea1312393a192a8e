"""How code names a kind of object to a client: group, version, plural, kind and scope."""

from __future__ import annotations

from typing import NamedTuple


class Resource(NamedTuple):
    """One kind in one version, with all a client needs to build its URL."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """The name in error messages: `jobs.batch`, `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def at(self, version: str) -> Resource:
        return self._replace(version=version)

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of this collection, object or subresource."""
        parts = ["/apis/" + self.group if self.group else "/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)
