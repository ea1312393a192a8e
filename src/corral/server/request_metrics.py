"""Counts of the requests served, in Prometheus' text form and under the names a Kubernetes server uses."""

from __future__ import annotations

from collections.abc import Iterable

from corral.core.remembering import LONGEST
from corral.server.paths import RequestInfo

Key = tuple[str, str, str, str, str, int]


class RequestMetrics:
    """A dictionary of counters: cheaper per request than labelled metric objects."""

    def __init__(self) -> None:
        self._counts: dict[Key, int] = {}

    def count(self, info: RequestInfo, code: int) -> None:
        resource = info.resource if info.is_resource else ""
        key = (info.verb.upper(), info.group, info.version, resource, info.subresource, code)
        counts = self._counts
        if key in counts:
            counts[key] += 1
        elif len(counts) < 5000 and code != 404 and sum(map(len, key[:5])) <= LONGEST:  # words that callers make up
            counts[key] = 1

    def take(self) -> list[tuple[Key, int]]:
        """What was counted since the last time, for whoever adds it to his."""
        counts, self._counts = self._counts, {}
        return list(counts.items())

    def add(self, counted: Iterable[tuple[Key, int]]) -> None:
        """What another process has counted."""
        for key, count in counted:
            self._counts[key] = self._counts.get(key, 0) + count

    def render(self) -> str:
        lines = [
            "# HELP apiserver_request_total Requests by verb, resource and response code.",
            "# TYPE apiserver_request_total counter",
        ]
        for (verb, group, version, resource, subresource, code), count in sorted(self._counts.items()):
            labels = {
                "code": str(code),
                "group": group,
                "resource": resource,
                "subresource": subresource,
                "verb": verb,
                "version": version,
            }
            text = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
            lines.append(f"apiserver_request_total{{{text}}} {count}")
        return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
