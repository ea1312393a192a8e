"""The printed columns of a pod: readiness, the one-word status kubectl shows, restarts and placement."""

from __future__ import annotations

from typing import NamedTuple

from corral.core import conditions
from corral.core.meta import Obj, is_deleting, spec_of, status_of
from corral.kinds.kubernetes.pods.simulated import is_simulated
from corral.kinds.machinery.definition import Cell, Column
from corral.kinds.machinery.tables import AGE, NAME, NONE, since, text


class Summary(NamedTuple):
    """What the containers of a pod add up to."""

    ready: int
    total: int
    reason: str
    restarts: int
    restarted_at: str


class _Restarts:
    """A sum of restarts and the time of the latest one."""

    def __init__(self) -> None:
        self.count = 0
        self.at = ""

    def add(self, status: Obj) -> None:
        self.count += status.get("restartCount") or 0
        finished = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.at = max(self.at, finished)


def _is_sidecar(container: Obj) -> bool:
    return container.get("restartPolicy") == "Always"


def _exit_reason(terminated: Obj) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    signal = terminated.get("signal") or 0
    return f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode') or 0}"


def _init_reason(status: Obj, position: int, total: int) -> str:
    state = status.get("state") or {}
    if state.get("terminated") is not None:
        return "Init:" + _exit_reason(state["terminated"])
    waiting = (state.get("waiting") or {}).get("reason") or ""
    return f"Init:{waiting}" if waiting and waiting != "PodInitializing" else f"Init:{position}/{total}"


def summarize(pod: Obj) -> Summary:
    """Readiness, status word and restarts of a pod, by the rules of kubectl get."""
    spec, status = spec_of(pod), status_of(pod)
    reason = status.get("reason") or status.get("phase") or ""
    scheduled = conditions.find(pod, "PodScheduled")
    if scheduled is not None and scheduled.get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    inits = {container["name"]: container for container in spec.get("initContainers") or ()}
    sidecars = {name for name, container in inits.items() if _is_sidecar(container)}
    total = len(spec.get("containers") or ()) + len(sidecars)
    ready = 0
    all_restarts, sidecar_restarts = _Restarts(), _Restarts()
    initializing = False
    for position, container in enumerate(status.get("initContainerStatuses") or ()):
        all_restarts.add(container)
        is_sidecar = container.get("name") in sidecars
        if is_sidecar:
            sidecar_restarts.add(container)
        terminated = (container.get("state") or {}).get("terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if is_sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        reason = _init_reason(container, position, len(inits))
        initializing = True
        break
    restarts = all_restarts
    if not initializing or conditions.is_true(pod, "Initialized"):
        restarts = sidecar_restarts
        reason, running = _main_containers(pod, reason, restarts)
        ready += running
    return Summary(ready, total, _final_reason(pod, reason), restarts.count, restarts.at)


def _main_containers(pod: Obj, reason: str, restarts: _Restarts) -> tuple[str, int]:
    running = 0
    for container in reversed(status_of(pod).get("containerStatuses") or ()):
        restarts.add(container)
        state = container.get("state") or {}
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting:
            reason = waiting
        elif state.get("terminated") is not None:
            reason = _exit_reason(state["terminated"])
        elif container.get("ready") and state.get("running") is not None:
            running += 1
    if reason == "Completed" and running:
        reason = "Running" if conditions.is_true(pod, "Ready") else "NotReady"
    return reason, running


def _final_reason(pod: Obj, reason: str) -> str:
    if not is_deleting(pod):
        return reason
    status = status_of(pod)
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return reason if status.get("phase") in ("Succeeded", "Failed") else "Terminating"


def _status(pod: Obj, now: float) -> Cell:
    return f"{summarize(pod).reason} (simulated)" if is_simulated(pod) else summarize(pod).reason


def _ready(pod: Obj, now: float) -> Cell:
    summary = summarize(pod)
    return f"{summary.ready}/{summary.total}"


def _restarts(pod: Obj, now: float) -> Cell:
    summary = summarize(pod)
    if summary.restarts and summary.restarted_at:
        return f"{summary.restarts} ({since(summary.restarted_at, now)} ago)"
    return str(summary.restarts)


def _readiness_gates(pod: Obj, now: float) -> Cell:
    gates = spec_of(pod).get("readinessGates") or ()
    passed = sum(conditions.is_true(pod, gate.get("conditionType", "")) for gate in gates)
    return f"{passed}/{len(gates)}" if gates else NONE


COLUMNS = (
    NAME,
    Column("Ready", cell=_ready),
    Column("Status", cell=_status),
    Column("Restarts", cell=_restarts),
    AGE,
    Column("IP", priority=1, cell=text(".status.podIPs[0].ip", NONE)),
    Column("Node", priority=1, cell=text(".spec.nodeName", NONE)),
    Column("Nominated Node", priority=1, cell=text(".status.nominatedNodeName", NONE)),
    Column("Readiness Gates", priority=1, cell=_readiness_gates),
)
