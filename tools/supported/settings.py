"""The fields of Kueue's Configuration: which of them a parser asks for, and why the others change nothing here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from corral.configuration.document import UNUSED, read_all
from corral.configuration.part import Part

EVERYTHING = Path(__file__).parent / "kueue-configuration.yaml"
_PROCESS = "about Kueue's own process"
INERT = {
    **dict.fromkeys(UNUSED, _PROCESS),
    "integrations.externalFrameworks": "`multiKueue.externalFrameworks` and `corral.jobKinds` name kinds of others",
    "visibilityServer": "the API server itself answers",
    "metrics.bindAddress": "metrics are where the API server is, or where `corral controllers run --metrics` says",
    "controller.cacheSyncTimeout": "a controller waits for its caches as long as it takes",
}


def paths(value: Any, path: str = "") -> Iterator[str]:
    """Every field of a document; lists and maps with keys of the user's are one field."""
    if isinstance(value, dict) and value and not path.endswith(("Selector", "Weights", "Concurrency", "Gates")):
        for name, inner in value.items():
            yield from paths(inner, f"{path}.{name}" if path else name)
    else:
        yield path


def all_settings() -> list[str]:
    return sorted(paths(_document()))


def unread_settings() -> list[str]:
    """Fields that no parser asks for."""
    document = Part(_document())
    read_all(document)
    return sorted(document.unread())


def _document() -> dict[str, Any]:
    return dict(yaml.safe_load(EVERYTHING.read_text()))
