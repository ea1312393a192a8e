"""How much of a worker a job may take whose user has not said: the whole of it fits the largest one, as far as that is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from corral.core.meta import Obj, annotations_of
from corral.core.quantity import QuantityError
from corral.core.resource import Resource
from corral.decide.queueing.model.amounts import format_amount, parse_amount
from corral.decide.queueing.model.requests import pod_requests
from corral.decide.queueing.model.values import Amounts
from corral.jobs.framework.registry import adapter_for
from corral.kinds.kueue import names

USUAL: Final = "1"
SHARES: Final = (USUAL, "500m", "250m", "100m")
"""CPUs of a pod, as many of these as fit."""


def usual_cpus(queue: Obj, make: Callable[[str], Obj]) -> str:
    """The CPUs of each pod of a job that says nothing of them; `make` is the job with so many."""
    largest = largest_of(queue)
    fitting = (cpus for cpus in SHARES if not largest or "cpu" not in _exceeding(whole(make(cpus)), largest))
    return next(fitting, USUAL)


def too_much(queue: Obj, job: Obj) -> str:
    """What to say where a job asks for more than any worker has; nothing where it fits, or nobody knows."""
    largest, asked = largest_of(queue), whole(job)
    exceeding = _exceeding(asked, largest) if largest else []
    if not exceeding:
        return ""
    wanted = ", ".join(f"{format_amount(resource, asked[resource])} {resource}" for resource in exceeding)
    there = ", ".join(f"{largest.get(resource, 'no')} {resource}" for resource in exceeding)
    return (
        f"all its pods together ask for {wanted}, and the largest worker has {there}: it will not start; ask for less"
    )


def largest_of(queue: Obj) -> dict[str, str]:
    """What the largest worker has, by resource; empty where nobody has said."""
    known: dict[str, str] = json.loads(annotations_of(queue).get(names.LARGEST_WORKER) or "{}")
    return known


def whole(job: Obj) -> Amounts:
    """What all pods of a job ask for together."""
    adapter = adapter_for(Resource(str(job["apiVersion"]).rpartition("/")[0], "", "", str(job["kind"])))
    total: Amounts = {}
    try:
        for one in adapter.pod_sets(job, lambda *_: None) if adapter is not None else []:
            for resource, amount in pod_requests(one.template.get("spec") or {}).items():
                total[resource] = total.get(resource, 0) + amount * one.count
    except QuantityError:
        return {}  # what is no quantity the server refuses, in its own words
    return total


def _exceeding(asked: Amounts, largest: dict[str, str]) -> list[str]:
    return [name for name, amount in sorted(asked.items()) if amount > parse_amount(name, largest.get(name, "0"))]
