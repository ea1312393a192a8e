"""What `corral explain` says about containers that do not come up."""

from __future__ import annotations

import pytest

from corral.cli import explain
from corral.core.meta import Obj


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"running": {"startedAt": "2026-11-16T08:00:00Z"}}, ""),
        ({"waiting": {"reason": "ContainerCreating"}}, ""),
        ({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}, "CrashLoopBackOff: back-off 10s"),
        ({"waiting": {"reason": "ErrImagePull"}}, "ErrImagePull"),
        ({"terminated": {"exitCode": 0, "reason": "Completed"}}, ""),
        ({"terminated": {"exitCode": 3, "reason": "Error"}}, "Error, exit code 3"),
        (
            {"terminated": {"exitCode": 128, "reason": "StartError", "message": "no x"}},
            "StartError, exit code 128 no x",
        ),
    ],
)
def test_only_what_went_wrong_is_told(state: Obj, told: str) -> None:
    assert explain._trouble(state) == told
