"""Who calls a real API server how often: counted in its audit log, by user agent."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path


def calls_of(log: Path, agent: str) -> Counter[str]:
    """Calls so far of those whose user agent begins so, by verb, kind and result, but for watches and what keeps a leader leading."""
    found: Counter[str] = Counter()
    with log.open() as lines:
        for line in lines:
            event = json.loads(line)
            about = event.get("objectRef") or {}
            is_call = event["verb"] != "watch" and about.get("resource") != "leases"
            if is_call and str(event.get("userAgent", "")).startswith(agent):
                found[_words(event, about)] += 1
    return found


def _words(event: dict[str, object], about: dict[str, str]) -> str:
    """`patch workloads/status`, with the code where the call was refused."""
    kind = "/".join(part for part in (about.get("resource"), about.get("subresource")) if part)
    status = event.get("responseStatus")
    code = status.get("code") if isinstance(status, dict) else None
    refused = f" {code}" if isinstance(code, int) and code >= 400 else ""
    return f"{event['verb']} {kind or event.get('requestURI')}{refused}"
