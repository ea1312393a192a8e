"""What the kind is for, in the words of `kubectl explain`."""

from __future__ import annotations

from corral.jobs.framework.descriptions import SHARED
from corral.kinds.machinery.describing import Table

DESCRIPTIONS: Table = {
    "*": SHARED,
    "AppWrapper": (
        "Any set of objects as one job: created together when there is quota, watched, tried again, cleaned up.",
        {
            "spec.components": "The objects, and where in them pods are described.",
            "status.componentStatus": "What became of each object.",
            "status.phase": "Where the whole stands.",
            "status.retries": "How often it was tried again.",
        },
    ),
}
