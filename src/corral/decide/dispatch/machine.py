"""The life of a dispatched Workload: from the manager's view to the one next step.

The rules are MultiKueue's, first match wins, with five differences that are deliberate. Once a Workload has a cluster,
only that cluster's copy counts: a stale copy on a worker that comes back is removed instead of taking over. No worker is
asked while an eviction on the manager is not over. A job whose worker is given up is declared stopped by the manager, so
that the eviction ends. A copy on a worker that the config no longer lists is removed. A job that may be running on a worker
out of reach is not started elsewhere before that worker is given up.
"""

from __future__ import annotations

from corral.core import conditions
from corral.core.meta import Obj, annotations_of, spec_of, status_of
from corral.core.timestamps import parse_time
from corral.decide.dispatch.model import (
    EVICTED_ON_WORKER,
    CleanUp,
    Deactivate,
    DispatchStep,
    DispatchView,
    Finish,
    Mirror,
    Nominate,
    Nothing,
    SendBack,
    Settle,
    Start,
    SyncStatus,
    UpdateSpec,
)

OUT_OF_SYNC = "OutOfSync"
SLICE_REPLACED = "WorkloadSliceReplaced"
ELASTIC = "kueue.x-k8s.io/elastic-job"
FOLLOWED_FIELDS = ("priority", "priorityClassRef")


def next_step(view: DispatchView) -> DispatchStep:
    """The next thing to do about this Workload."""
    local = view.workload
    if (conditions.find(local, "Finished") or {}).get("reason") == SLICE_REPLACED:
        return Nothing("a larger slice has taken over the job where it runs")
    if conditions.is_true(local, "Finished"):
        kept_for = _since(local, "Finished") + view.keep_finished - view.now
        if view.keep_finished and kept_for > 0:
            return Nothing("it is kept where it ran for a while, so that its logs can be read", kept_for)
        return _clean_up(view)
    if not conditions.is_true(local, "QuotaReserved"):
        return _clean_up(view)
    stale = _stale(view)
    if stale:
        return CleanUp(stale, again_after=0.0)
    ended = _first_with(view, "Finished")
    if ended:
        return _finished(view, ended)
    evicted = _first_with(view, "Evicted")
    if evicted:
        step = _evicted(view, evicted)
        if step is not None:
            return step
    differing = _differing_spec(view)
    if differing is not None:
        return differing
    return _placed(view) or _unplaced(view)


def check_state(workload: Obj, check: str) -> Obj:
    """The state of `check` on a Workload, empty when it has none."""
    states = status_of(workload).get("admissionChecks") or []
    return next((state for state in states if state.get("name") == check), {})


def _clean_up(view: DispatchView) -> DispatchStep:
    holding = tuple(name for name, remote in view.remotes.items() if remote.workload is not None or remote.has_job)
    away = any(not remote.connected for remote in view.remotes.values())
    again = view.worker_lost_timeout if away else None
    if not holding and not view.strays:
        return Nothing("no copies are left on reachable workers", again)
    return CleanUp((*holding, *view.strays), again)


def _stale(view: DispatchView) -> tuple[str, ...]:
    """What must not count: what is on clusters taken out of the config, beside the cluster the Workload has, or a job
    without a copy."""
    chosen = status_of(view.workload).get("clusterName")
    beside = [
        name
        for name, remote in view.remotes.items()
        if (chosen and name != chosen and (remote.workload is not None or remote.has_job))
        or (not chosen and remote.has_job and remote.workload is None)
    ]
    return (*view.strays, *beside)


def _first_with(view: DispatchView, kind: str, *, with_job: bool = False) -> str:
    """The worker whose copy got condition `kind` first, of those `with_job` if asked; empty when none has it."""
    found = [
        (_since(remote.workload, kind), remote.admitted_at, name)
        for name, remote in view.remotes.items()
        if remote.workload is not None
        and conditions.is_true(remote.workload, kind)
        and (remote.has_job or not with_job)
    ]
    return min(found)[2] if found else ""


def _since(workload: Obj, kind: str) -> float:
    entry = conditions.find(workload, kind) or {}
    time = entry.get("lastTransitionTime")
    return parse_time(time) if time else 0.0


def _copy(view: DispatchView, cluster: str) -> Obj:
    return view.remotes[cluster].workload or {}


def _finished(view: DispatchView, cluster: str) -> DispatchStep:
    condition = conditions.find(_copy(view, cluster), "Finished") or {}
    if condition.get("reason") != OUT_OF_SYNC:
        return Finish(cluster, condition)
    if check_state(view.workload, view.check).get("state") != "Ready":
        return Nothing(f"the copy on {cluster} is out of sync and is being replaced")
    message = (
        f'Remote workload on worker cluster "{cluster}" is out of sync with its user job, resetting for re-dispatch'
    )
    return SendBack(OUT_OF_SYNC, message + _previously(view), "Warning", message)


def _evicted(view: DispatchView, cluster: str) -> DispatchStep | None:
    if conditions.is_true(view.workload, "Evicted"):
        return SyncStatus(cluster)
    if check_state(view.workload, view.check).get("state") == "Ready":
        message = f'Workload evicted on worker cluster: "{cluster}", resetting for re-admission. Previously: "Ready"'
        return SendBack(EVICTED_ON_WORKER, message, "Normal", message)
    return None


def _previously(view: DispatchView) -> str:
    return f', Previously: "{check_state(view.workload, view.check).get("state")}"'


def _differing_spec(view: DispatchView) -> DispatchStep | None:
    wanted = _comparable(spec_of(view.workload))
    for name, remote in view.remotes.items():
        if remote.workload is None:
            continue
        have = _comparable(spec_of(remote.workload))
        if have == wanted:
            continue
        followed = {field: wanted.get(field) for field in FOLLOWED_FIELDS}
        if _without(have, FOLLOWED_FIELDS) == _without(wanted, FOLLOWED_FIELDS):
            return UpdateSpec(name, followed)
        if annotations_of(view.workload).get(ELASTIC) == "true" and _is_smaller(wanted, have):
            return UpdateSpec(name, {**followed, "podSets": wanted["podSets"]})
        return CleanUp((name,), again_after=0.0)
    return None


def _is_smaller(wanted: Obj, have: Obj) -> bool:
    """Whether a copy differs in nothing but in being larger."""
    small, large = wanted.get("podSets") or [], have.get("podSets") or []
    if len(small) != len(large) or _without(wanted, ("podSets",)) != _without(have, ("podSets",)):
        return False
    same = all(_without(a, ("count",)) == _without(b, ("count",)) for a, b in zip(small, large, strict=True))
    return same and all(int(a.get("count", 1)) <= int(b.get("count", 1)) for a, b in zip(small, large, strict=True))


def _comparable(spec: Obj) -> Obj:
    return _without(spec, ("preemptionGates",))


def _without(spec: Obj, fields: tuple[str, ...]) -> Obj:
    return {name: value for name, value in spec.items() if name not in fields}


def _placed(view: DispatchView) -> DispatchStep | None:
    """What to do when a worker has admitted its copy, or should have."""
    cluster = _winner(view)
    if cluster:
        if conditions.is_true(view.workload, "Evicted"):
            reason = (conditions.find(view.workload, "Evicted") or {}).get("message", "")
            return Deactivate(cluster, f"Evicted on manager: {reason}")
        return _run(view, cluster)
    if check_state(view.workload, view.check).get("state") != "Ready":
        return None
    return _lost(view)


def _run(view: DispatchView, cluster: str) -> DispatchStep:
    """Let the Workload run on `cluster`, unless its job may be running elsewhere."""
    if status_of(view.workload).get("clusterName") == cluster:
        return Mirror(cluster)
    others = {name: remote for name, remote in view.remotes.items() if name != cluster}
    running_on = tuple(name for name, remote in others.items() if remote.has_job)
    if running_on:
        return CleanUp(running_on, again_after=0.0)
    if (wait := _wait_for_the_lost(view)) is not None:
        return wait
    return Start(cluster, tuple(name for name, remote in others.items() if remote.workload is not None))


def _wait_for_the_lost(view: DispatchView) -> DispatchStep | None:
    """A job that may be running on a worker out of reach is not started again before that worker is given up."""
    left = {name: since + view.worker_lost_timeout - view.now for name, since in view.away.items()}
    waiting = [name for name in left if left[name] > 0]
    if not waiting:
        return None
    return Nothing(f"may be running on {', '.join(waiting)}, out of reach", max(left.values()), is_reported=True)


def _winner(view: DispatchView) -> str:
    """The worker that admitted first; the one the Workload already has, if it still holds it, or that has its job."""
    chosen = status_of(view.workload).get("clusterName")
    if chosen:
        remote = view.remotes.get(chosen)
        copy = remote.workload if remote else None
        return chosen if copy is not None and conditions.is_true(copy, "Admitted") else ""
    return _first_with(view, "Admitted", with_job=True) or _first_with(view, "Admitted")


def _lost(view: DispatchView) -> DispatchStep:
    """The check is Ready, but no worker holds an admitted copy."""
    if conditions.is_true(view.workload, "Evicted"):
        return _settle(view)
    cluster = status_of(view.workload).get("clusterName")
    if not cluster:
        message = "Admission check is Ready but no admitting cluster is recorded; this is unexpected, please report it"
        return SendBack("NoCluster", message + _previously(view))
    since = _away_since(view, cluster)
    if since is None:
        return SendBack("CopyGone", "Admitting remote no longer exists" + _previously(view))
    left = since + view.worker_lost_timeout - view.now
    if left > 0:
        return Nothing(f"worker {cluster} cannot be reached; waiting for it", left)
    return SendBack("WorkerLost", "Admitting remote lost" + _previously(view))


def _away_since(view: DispatchView, cluster: str) -> float | None:
    """Since when the worker of a Workload is out of reach; None when it is not."""
    remote = view.remotes.get(cluster)
    if remote is not None:
        return None if remote.connected else remote.lost_since
    return view.away.get(cluster)


def _settle(view: DispatchView) -> DispatchStep:
    """End an eviction that no worker will end, unless the job's worker may come back and do so."""
    return _wait_for_the_lost(view) or Settle()


def _unplaced(view: DispatchView) -> DispatchStep:
    if conditions.is_true(view.workload, "Evicted"):
        return _settle(view)
    state = check_state(view.workload, view.check)
    if state.get("state") != "Pending" or status_of(view.workload).get("clusterName"):
        return Nothing("not waiting for a cluster")
    others = [
        other
        for other in status_of(view.workload).get("admissionChecks") or []
        if other.get("name") != view.check and other.get("state") != "Ready"
    ]
    if others:
        return Nothing(f"waiting for admission check {others[0].get('name')}")
    return _wait_for_the_lost(view) or Nominate()
