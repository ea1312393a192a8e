"""How code names a kind of object to a client: group, version, plural, kind and scope; and the one way to build API paths."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from corral.core.errors import BadRequest


def api_path(*parts: str) -> str:
    """The URL path of these parts. Each stays one part, whatever it contains; what cannot is refused."""
    return "".join(f"/{_quoted(part)}" for part in parts)


def _quoted(part: str) -> str:
    # Servers take %2F for a slash, and some take dots away before they look.
    if part in ("", ".", "..") or "/" in part:
        raise BadRequest(f"{part!r} cannot be part of an API path: a name is not empty, no dots alone, and has no '/'")
    try:
        return quote(part, safe="")
    except UnicodeEncodeError:
        raise BadRequest(f"{part!r} cannot be part of an API path: it is no text") from None


def version_path(group: str, version: str) -> str:
    """The URL path of one version of an API group."""
    return api_path("apis", group, version) if group else api_path("api", version)


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

    def path(self, namespace: str = "", name: str | None = None, subresource: str = "") -> str:
        """The URL path of this collection, object or subresource.

        An empty name is refused: it would turn a deletion of one object into a deletion of all.
        """
        parts = ["namespaces", namespace] if namespace and self.namespaced else []
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return version_path(self.group, self.version) + api_path(*parts)
