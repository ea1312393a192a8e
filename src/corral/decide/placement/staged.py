"""Staged updates, decided: which clusters are in which stage, and in which order, and what is wrong with a strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from corral.core.meta import Obj, labels_of, spec_of
from corral.core.selectors import from_label_selector
from corral.core.timestamps import parse_duration
from corral.decide.placement.bindings import UNSCHEDULED, Binding, Overrides
from corral.decide.placement.rollout import amount
from corral.decide.placement.selection import CLIENT_ERROR

DELETE_STAGE: Final = "kubernetes-fleet.io/deleteStage"
INITIALIZATION: Final = "cannot continue the updateRun: failed to validate the updateRun: "
_SHOWN: Final = 10


class RunError(ValueError):
    """A run cannot go on; the message is for its status, as are stages that were computed before the error."""

    def __init__(self, message: str, stages: list[Obj] | None = None) -> None:
        super().__init__(message)
        self.stages = stages


def user_error(text: str, stages: list[Obj] | None = None) -> RunError:
    return RunError(INITIALIZATION + CLIENT_ERROR + text, stages)


def split_bindings(bindings: Sequence[Binding], policy: str) -> tuple[list[Binding], list[Binding]]:
    """The bindings a run updates, and those its last stage deletes."""
    update: list[Binding] = []
    delete: list[Binding] = []
    for binding in bindings:
        if binding.policy == policy and binding.state != UNSCHEDULED:
            if not binding.deleting:
                update.append(binding)
        else:
            delete.append(binding)
    return update, delete


def make_stages(
    run: str,
    strategy: Obj,
    bindings: Sequence[Binding],
    members: Mapping[str, Obj],
    overrides: Mapping[str, Overrides],
) -> list[Obj]:
    """The status of every stage before anything has happened. Raises RunError when the strategy does not fit."""
    wanted = {binding.cluster for binding in bindings}
    placed: set[str] = set()
    stages = []
    for stage in spec_of(strategy).get("stages") or ():
        _check_tasks(stage)
        names = []
        selector = stage.get("labelSelector")
        for name in sorted(wanted):
            member = members.get(name)
            if member is None or selector is None or not from_label_selector(selector).matches(labels_of(member)):
                continue
            if name in placed:
                raise user_error(f"cluster `{name}` appears in more than one stages")
            placed.add(name)
            names.append(name)
        ordered = _sorted(names, stage.get("sortingLabelKey"), members)
        stages.append(_stage(run, stage, ordered, overrides))
    left = sorted(wanted - placed)
    if left:
        shown = ", ".join(left[:_SHOWN])
        raise user_error(
            f"some clusters are not placed in any stage, total {len(left)}, showing up to 10: {shown}", stages
        )
    return stages


def _sorted(names: list[str], label: str | None, members: Mapping[str, Obj]) -> list[str]:
    if not label:
        return names

    def rank(name: str) -> tuple[int, str]:
        text = labels_of(members[name]).get(label, "")
        try:
            return int(text), name
        except ValueError:
            shown = f'strconv.Atoi: parsing "{text}": invalid syntax'
            raise user_error(f"the sorting label `{label}:{text}` on cluster `{name}` is not valid: {shown}") from None

    return sorted(names, key=rank)


def _check_tasks(stage: Obj) -> None:
    before = stage.get("beforeStageTasks") or ()
    if len(before) > 1:
        raise user_error("the before stage task must have at most one task")
    if any(task.get("type") != "Approval" for task in before):
        raise user_error("the before stage task must be of type Approval")
    after = stage.get("afterStageTasks") or ()
    kinds = [task.get("type") for task in after]
    if len(set(kinds)) < len(kinds):
        raise user_error("afterStageTasks cannot have two tasks of the same type")
    for task in after:
        if task.get("type") == "TimedWait" and wait_of(task) <= 0:
            raise user_error(f"task wait time must be larger than 0, wait time: {task.get('waitTime')}")


def wait_of(task: Obj) -> float:
    return parse_duration(str(task.get("waitTime") or "0s"))


def _stage(run: str, stage: Obj, clusters: list[str], overrides: Mapping[str, Overrides]) -> Obj:
    name = stage["name"]
    status: Obj = {
        "stageName": name,
        "clusters": [_cluster(cluster, overrides.get(cluster, Overrides())) for cluster in clusters],
    }
    for when, field in (("before", "beforeStageTask"), ("after", "afterStageTask")):
        tasks = [_task(run, name, when, task) for task in stage.get(f"{field}s") or ()]
        if tasks:
            status[f"{field}Status"] = tasks
    return status


def _task(run: str, stage: str, when: str, task: Obj) -> Obj:
    entry: Obj = {"type": task["type"]}
    if task["type"] == "Approval":
        entry["approvalRequestName"] = f"{run}-{when}-{stage}"
    return entry


def _cluster(name: str, overrides: Overrides) -> Obj:
    entry: Obj = {"clusterName": name}
    return overrides.put(entry)


def deletion_stage(bindings: Sequence[Binding]) -> Obj:
    names = sorted({binding.cluster for binding in bindings})
    return {"stageName": DELETE_STAGE, "clusters": [{"clusterName": name} for name in names]}


def concurrency(stage: Obj, clusters: int) -> int:
    """How many clusters of a stage may be under way at once; a percentage is rounded down, but at least one."""
    return max(1, amount(stage.get("maxConcurrency", 1), clusters, up=False))


def stuck_names(names: Sequence[str]) -> str:
    """The first three names, as a stuck run shows them."""
    return ", ".join(names[:3]) + ("..." if len(names) > 3 else "")
