"""A pod's status as a kubelet writes it: phase, conditions in its order and with its reasons, container statuses."""

from __future__ import annotations

from collections.abc import Iterable

from corral.core.conditions import find
from corral.core.meta import Obj, generation_of, is_deleting, name_of, namespace_of, spec_of, status_of, uid_of
from corral.core.timestamps import format_time, parse_time
from corral.decide.pods.lifecycle import Plan, will_restart
from corral.decide.pods.record import (
    ContainerRecord,
    Ended,
    PodRecord,
    Running,
    State,
    Waiting,
    all_containers,
    init_containers,
    is_sidecar,
    main_containers,
    new_record,
)

OWN_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
TERMINAL = ("Succeeded", "Failed")


def is_terminal(pod: Obj) -> bool:
    return status_of(pod).get("phase") in TERMINAL


def phase_of(pod: Obj, record: PodRecord, plan: Plan) -> str:
    """Pending, Running, Succeeded or Failed; the last two only when nothing runs any more."""
    mains = [record.containers[container["name"]] for container in main_containers(pod)]
    if plan.is_over:
        if record.failure is not None or any(_failed(entry) for entry in mains):
            return "Failed"
        if any(_failed(record.containers[c["name"]]) for c in init_containers(pod) if not is_sidecar(c)):
            return "Failed"
        return "Succeeded" if mains else "Failed"
    has_run = any(not isinstance(entry.state, Waiting) or entry.last is not None for entry in mains)
    return "Running" if has_run else "Pending"


def _failed(entry: ContainerRecord) -> bool:
    return isinstance(entry.state, Ended) and entry.state.exit_code != 0


def pod_status(pod: Obj, record: PodRecord, plan: Plan, now: float, host: str) -> Obj:
    """The status to write for `pod`; fields and conditions of others are kept."""
    old = status_of(pod)
    phase = phase_of(pod, record, plan)
    status: Obj = {name: value for name, value in old.items() if name not in ("reason", "message")}
    status["phase"] = phase
    if generation_of(pod):
        status["observedGeneration"] = generation_of(pod)
    status["conditions"] = _conditions(pod, record, phase, format_time(now))
    if record.failure is not None:
        status["reason"], status["message"] = record.failure
    status["hostIP"], status["hostIPs"] = host, [{"ip": host}]
    if record.address:
        status["podIP"], status["podIPs"] = record.address, [{"ip": record.address}]
    if record.started_at is not None:
        status["startTime"] = format_time(record.started_at)
    if init_containers(pod):
        status["initContainerStatuses"] = _container_statuses(pod, record, plan, init_containers(pod))
    status["containerStatuses"] = _container_statuses(pod, record, plan, main_containers(pod))
    return status


# Conditions


def _conditions(pod: Obj, record: PodRecord, phase: str, now: str) -> list[Obj]:
    others = [entry for entry in status_of(pod).get("conditions") or [] if entry.get("type") not in OWN_CONDITIONS]
    containers_ready = _containers_ready(pod, record, phase)
    own = (
        ("PodReadyToStartContainers", bool(record.address) and phase not in TERMINAL, "", ""),
        ("Initialized", *_initialized(pod, record, phase)),
        ("Ready", *_ready(pod, containers_ready)),
        ("ContainersReady", *containers_ready),
        ("PodScheduled", True, "", ""),
    )
    return [*others, *(_condition(pod, kind, ok, reason, message, now) for kind, ok, reason, message in own)]


def _condition(pod: Obj, kind: str, ok: bool, reason: str, message: str, now: str) -> Obj:
    status = "True" if ok else "False"
    old = find(pod, kind)
    since = old["lastTransitionTime"] if old is not None and old.get("status") == status else now
    entry: Obj = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": since}
    if generation_of(pod):
        entry["observedGeneration"] = generation_of(pod)
    if reason:
        entry["reason"] = reason
    if message:
        entry["message"] = message
    return entry


def _initialized(pod: Obj, record: PodRecord, phase: str) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return True, "PodCompleted", ""
    waiting = [c["name"] for c in init_containers(pod) if not _is_initialized(c, record.containers[c["name"]])]
    if not waiting:
        return True, "", ""
    return False, "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(waiting)}]"


def _is_initialized(container: Obj, entry: ContainerRecord) -> bool:
    if is_sidecar(container):
        return entry.started or isinstance(entry.state, Ended) or entry.last is not None
    return isinstance(entry.state, Ended) and entry.state.exit_code == 0


def _containers_ready(pod: Obj, record: PodRecord, phase: str) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return False, "PodCompleted", ""
    if phase == "Failed":
        return False, "PodFailed", ""
    subjects = [*(c for c in init_containers(pod) if is_sidecar(c)), *main_containers(pod)]
    unready = [c["name"] for c in subjects if not record.containers[c["name"]].ready]
    if not unready:
        return True, "", ""
    return False, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"


def _ready(pod: Obj, containers_ready: tuple[bool, str, str]) -> tuple[bool, str, str]:
    if not containers_ready[0]:
        return containers_ready
    for gate in spec_of(pod).get("readinessGates") or ():
        kind = gate["conditionType"]
        condition = find(pod, kind)
        if condition is None:
            message = f'corresponding condition of pod readiness gate "{kind}" does not exist.'
            return False, "ReadinessGatesNotReady", message
        if condition.get("status") != "True":
            message = f'the status of pod readiness gate "{kind}" is not "True", but {condition.get("status")}'
            return False, "ReadinessGatesNotReady", message
    return True, "", ""


# Containers


def _container_statuses(pod: Obj, record: PodRecord, plan: Plan, containers: Iterable[Obj]) -> list[Obj]:
    return [_container_status(pod, container, record.containers[container["name"]], plan) for container in containers]


def _container_status(pod: Obj, container: Obj, entry: ContainerRecord, plan: Plan) -> Obj:
    state, last = _shown(pod, container, entry, plan)
    is_done_init = container in init_containers(pod) and isinstance(entry.state, Ended) and entry.state.exit_code == 0
    status: Obj = {
        "name": entry.name,
        "state": _state(state),
        "lastState": _state(last) if last is not None else {},
        "ready": entry.ready or (is_done_init and not is_sidecar(container)),
        "restartCount": entry.attempt,
        "image": container.get("image", ""),
        "imageID": f"local/{container.get('image', '')}" if entry.id else "",
        "started": entry.started,
    }
    if entry.id:
        status["containerID"] = entry.id
    return status


def _shown(pod: Obj, container: Obj, entry: ContainerRecord, plan: Plan) -> tuple[State, Ended | None]:
    """The state and the last state to show; a container that waits for its restart shows why."""
    delay = plan.backing_off.get(entry.name)
    if delay is None or not isinstance(entry.state, Ended) or is_deleting(pod):
        return entry.state, entry.last
    if not will_restart(pod, container, entry.state):
        return entry.state, entry.last
    return Waiting("CrashLoopBackOff", backoff_message(pod, entry.name, delay)), entry.state


def backoff_message(pod: Obj, container: str, delay: float) -> str:
    minutes, seconds = divmod(int(delay), 60)
    text = f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
    return f"back-off {text} restarting failed container={container} pod={pod_identity(pod)}"


def pod_identity(pod: Obj) -> str:
    """A pod as kubelet messages name it."""
    return f"{name_of(pod)}_{namespace_of(pod)}({uid_of(pod)})"


def _state(state: State) -> Obj:
    if isinstance(state, Running):
        return {"running": {"startedAt": format_time(state.started_at)}}
    if isinstance(state, Waiting):
        waiting = {"reason": state.reason, "message": state.message}
        return {"waiting": {name: value for name, value in waiting.items() if value}}
    terminated: Obj = {"exitCode": state.exit_code, "reason": state.reason}
    if state.message:
        terminated["message"] = state.message
    terminated["startedAt"] = format_time(state.started_at)
    terminated["finishedAt"] = format_time(state.finished_at)
    if state.id:
        terminated["containerID"] = state.id
    return {"terminated": terminated}


# Back from a status


def record_from_status(pod: Obj, now: float) -> PodRecord:
    """What a status says, for a runtime that has to take up a pod it does not remember."""
    status = status_of(pod)
    started = parse_time(status["startTime"]) if status.get("startTime") else now
    record = new_record(pod, started)
    statuses = {
        entry["name"]: entry
        for entry in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    }
    for container in all_containers(pod):
        entry = statuses.get(container["name"])
        if entry is not None:
            record = record.with_container(_container_record(entry, record.containers[container["name"]]))
    return PodRecord(record.containers, status.get("podIP", ""), started)


def _container_record(entry: Obj, fresh: ContainerRecord) -> ContainerRecord:
    state: State = _parse_state(entry.get("state") or {})
    last: State | None = _parse_state(entry.get("lastState") or {})
    restarts = int(entry.get("restartCount") or 0)
    if isinstance(state, Waiting) and isinstance(last, Ended):
        state, last = last, None  # it was waiting for a restart
    return ContainerRecord(
        entry["name"],
        state if not isinstance(state, Waiting) else fresh.state,
        attempt=restarts,
        crashes=restarts + (1 if isinstance(state, Ended) else 0),
        last=last if isinstance(last, Ended) else None,
        started=bool(entry.get("started")),
        ready=bool(entry.get("ready")),
        id=entry.get("containerID", ""),
    )


def _parse_state(state: Obj) -> State:
    if running := state.get("running"):
        return Running(parse_time(running["startedAt"]))
    if ended := state.get("terminated"):
        return Ended(
            ended["exitCode"],
            ended.get("reason", ""),
            parse_time(ended["startedAt"]),
            parse_time(ended["finishedAt"]),
            ended.get("message", ""),
            ended.get("containerID", ""),
        )
    return Waiting((state.get("waiting") or {}).get("reason", ""))
