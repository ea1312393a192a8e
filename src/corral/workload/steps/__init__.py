"""A Workload's life between two plans of the scheduler, step by step. Pure: a Workload goes in, its next move comes out.

`LIFE` is the order of questions asked about a live Workload; the first that wants something written has it written, and the
change wakes the next look. `END` is asked about finished ones, `LEAVING` about those that are being deleted.
"""

from __future__ import annotations

from corral.workload.steps.activity import deactivate, end_backoff, reactivate, restart
from corral.workload.steps.admission import act_on_checks, sync_admitted, sync_checks
from corral.workload.steps.deadlines import limit_execution, require_readiness
from corral.workload.steps.ending import finish_orphan, release_orphan, retire
from corral.workload.steps.queues import become_parent, drain, explain_waiting, hold_at_gate, sync_gates
from corral.workload.steps.step_api import Step

LIFE: tuple[Step, ...] = (
    finish_orphan,
    become_parent,
    deactivate,
    reactivate,
    restart,
    end_backoff,
    sync_gates,
    hold_at_gate,
    drain,
    sync_checks,
    act_on_checks,
    sync_admitted,
    explain_waiting,
    limit_execution,
    require_readiness,
)
LEAVING: tuple[Step, ...] = (release_orphan,)
END: tuple[Step, ...] = (retire,)

__all__ = ["END", "LEAVING", "LIFE"]
