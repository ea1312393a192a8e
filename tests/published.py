"""The manifests of the published pages this project answers to, as they are printed there: tests/data/published."""

from __future__ import annotations

from pathlib import Path

import yaml

from corral.core.meta import Obj

FOLDER = Path(__file__).parent / "data" / "published"


def published(name: str) -> Obj:
    """The only object of a published manifest; like kubectl, in the default namespace unless it names one."""
    body: Obj = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    if not body["kind"].startswith("Cluster"):
        body["metadata"].setdefault("namespace", "default")
    return body
