"""Is a node still good for a workload placed on it? Readiness, taints, and what the workload's pods there do.

A node that is not ready, or has taints the pods do not tolerate, is given up on once none of the workload's pods runs
there any more; until then the pods may still end well. Pods that were sent to such a node but never got there will not
get there either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from corral.core import conditions
from corral.core.meta import Obj, is_deleting, spec_of, status_of
from corral.decide.queueing.model.affinity import untolerated_taint
from corral.decide.queueing.model.decode import taint_from, toleration_from
from corral.jobs.pod.adapter import gates_of, is_terminated
from corral.kinds.kueue import names
from corral.kinds.kueue.gates import FeatureGates

BLOCKING = ("NoSchedule", "NoExecute")


class Health(NamedTuple):
    """What a node is to a workload, and pods of it that must be given up."""

    failed: bool
    stranded: Sequence[Obj] = ()


class Presence(NamedTuple):
    """What there is of a workload on a node."""

    placed: bool
    """Does its topology assignment name the node?"""
    bound: Sequence[Obj] = ()
    """Its pods on the node."""
    sent: Sequence[Obj] = ()
    """Its pods whose node selector names the node."""
    tolerations: Sequence[Sequence[Obj]] = ()
    """Of each pod set placed there."""

    @property
    def runs(self) -> bool:
        return any(not is_deleting(pod) and not is_terminated(pod) for pod in self.bound)

    @property
    def stranded(self) -> list[Obj]:
        return [
            pod
            for pod in self.sent
            if not spec_of(pod).get("nodeName")
            and status_of(pod).get("phase") == "Pending"
            and names.TOPOLOGY_GATE not in gates_of(pod)
        ]


def health_of(node: Obj, presence: Presence, gates: FeatureGates) -> Health:
    """What `node`, which exists, is to a workload that is present there."""
    patient = gates["TASReplaceNodeOnPodTermination"]
    if not presence.placed:
        return Health(False, presence.stranded)
    if not conditions.is_true(node, "Ready"):
        return _after_pods(presence) if patient else Health(True)
    taints = [taint for taint in spec_of(node).get("taints") or () if taint.get("effect") in BLOCKING]
    if not taints or not gates["TASReplaceNodeOnNodeTaints"]:
        return Health(False)
    if _untolerated(taints, presence.tolerations):
        return _after_pods(presence) if patient else Health(True)
    for_good = [[entry for entry in own if entry.get("tolerationSeconds") is None] for own in presence.tolerations]
    return _after_pods(presence) if _untolerated(taints, for_good) else Health(False)


def _after_pods(presence: Presence) -> Health:
    return Health(not presence.runs, presence.stranded)


def _untolerated(taints: Iterable[Obj], tolerations: Sequence[Sequence[Obj]]) -> bool:
    """Does any pod set not tolerate any of the taints?"""
    known = [taint_from(taint) for taint in taints]
    return any(untolerated_taint(known, [toleration_from(entry) for entry in own]) is not None for own in tolerations)
