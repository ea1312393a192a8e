"""Functions that tests run as jobs; the folder they are in goes with them."""

from __future__ import annotations

import os
from typing import Any

import corral


def add(a: int, b: int) -> dict[str, Any]:
    print("adding")
    return {"sum": a + b, "in_job": "CORRAL_IN_JOB" in os.environ}


def divide(a: int, b: int) -> float:
    return a / b


def odd() -> set[int]:
    return {1, 2}


@corral.job(cpus="500m")
def scaled(x: int, by: int = 2) -> int:
    return x * by
