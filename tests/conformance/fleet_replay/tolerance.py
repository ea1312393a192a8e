"""The written list of what a run may do otherwise than a recording, each rule with its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet_replay.facts import Aspect


@dataclass(frozen=True, slots=True)
class Rule:
    """Regular expressions for the aspects concerned; without `value` every value of them may differ."""

    reason: str
    kind: str = ".*"
    what: str = ".*"
    value: str | None = None
    scenario: str = ".*"
    name: str = ".*"
    cluster: str = ".*"
    repeat: bool = False
    """Only the number of times may differ: the value is there on both sides."""

    def covers(self, aspect: Aspect, value: str, scenario: str) -> bool:
        pairs = [
            (self.scenario, scenario),
            (self.kind, aspect.kind),
            (self.what, aspect.what),
            (self.name, aspect.name),
            (self.cluster, aspect.cluster),
            (self.value or "", value if self.value is not None else ""),
        ]
        return all(re.fullmatch(pattern, text, re.DOTALL) for pattern, text in pairs)


_PLACEMENTS = "(Cluster)?ResourcePlacement(Status)?"
_SUM = (
    "how many clusters are on their way, and whether a placement shows it, depends on how fast its members and the hub"
    " write; what both sides show comes in the same order"
)

PASSING: list[Rule] = [
    Rule(_SUM, kind=_PLACEMENTS, what=r"(\S+ )?condition .*", value=r"Unknown/.*|-"),
    Rule(_SUM, kind=_PLACEMENTS, what=r"(\S+ )?condition .*Applied", value=r"False/(ApplyFailed|ApplyInProgress): .*"),
    Rule(
        _SUM,
        kind=f"{_PLACEMENTS}|(Cluster)?ResourceBinding",
        what=r"(\S+ )?condition .*Applied",
        value=r"False/NotAllWorkHaveBeenApplied: .* has not yet completed the apply op.*",
    ),
    Rule(_SUM, kind=_PLACEMENTS, what=r"(\S+ )?condition .*RolloutStarted", value=r"False/RolloutNotStartedYet: .*"),
    Rule(_SUM, kind=_PLACEMENTS, what=r"(\S+ )?condition .*Available", value=r"False/ResourceNotAvailableYet: .*"),
    Rule(
        _SUM, kind=_PLACEMENTS, what=r"(\S+ )?condition .*WorkSynchronized", value=r"False/WorkNotSynchronizedYet: .*"
    ),
    Rule(
        _SUM,
        kind=f"{_PLACEMENTS}|(Cluster)?ResourceBinding",
        what=r"(\S+ )?condition .*DiffReported",
        value=r"(False|Unknown)/.*",
    ),
    Rule(_SUM, kind=_PLACEMENTS, what=r"\S+ applicable(ClusterResource|Resource)Overrides", value="-"),
    Rule(
        "an event is told again when a condition comes back, however short it was away",
        kind="Event",
        what="events from placement-controller",
        value="Normal Placement(RolloutStarted|OverriddenSucceeded|WorkSynchronized|Applied|Available|RolloutCompleted): .*",
        repeat=True,
    ),
    Rule(
        "either of two finalizers may go first",
        kind="(Cluster)?ResourcePlacement|(Cluster)?ResourceBinding",
        what="finalizers",
        value=r'\["kubernetes-fleet.io/[-a-z]+-cleanup"\]',
    ),
    Rule(
        _SUM,
        kind=f"{_PLACEMENTS}|(Cluster)?ResourceBinding",
        what=r"(\S+ |status\.)(failed|drifted|diffed)Placements",
        value=".*",
    ),
    Rule(
        "a run goes on and has to wait again in one write",
        kind="(Cluster)?StagedUpdateRun",
        what="condition Progressing",
        value="True/UpdateRunProgressing: .*",
    ),
    Rule(
        "each look takes on one cluster that has nothing to do, and looks come as events happen to arrive",
        kind="(Cluster)?StagedUpdateRun",
        what=r"\S+ \S+ condition (Started|Succeeded)",
        value="True/.*",
    ),
    Rule(
        "the agent says that it left before the hub has copied what it said last",
        kind="MemberCluster",
        what="(MemberAgent )?condition .*",
        value="True/.*|False/InternalMemberClusterLeft: .*",
    ),
]
"""Values that may come and go on one side only, within a few seconds."""

DELIBERATE: list[Rule] = [
    Rule("pods are played by a script in the recordings", kind="Event", what="events from (default-scheduler|kubelet)"),
    Rule("ReplicaSets were not recorded", kind="Event", what="events from replicaset-controller"),
    Rule(
        "a leaving member's namespace takes some seconds to go, and Works are refused while it goes and when it is gone",
        kind="(Cluster)?ResourceBinding",
        what="condition WorkSynchronized",
        value=r'False/SyncWorkFailed: .*(being terminated|namespaces "\S+" not found)( \(of an older generation\))?',
    ),
    Rule(
        "beyond its history limit a placement loses its oldest snapshots, and never one in use; upstream deletes any",
        kind="(Cluster)?(Resource|SchedulingPolicy)Snapshot",
        value="no|-",
    ),
    Rule(
        "a provider counts nodes before it reports; upstream's first report says there are none",
        kind="(Internal)?MemberCluster",
        what=r"status\.(properties|resourceUsage)|condition AKSClusterCostPropertiesCollectionSucceeded",
        value=r'.*"kubernetes-fleet.io/node-count": \{[^}]*"value": "0"\}.*|.*"cpu": "0".*|True/CostsCalculated: .*',
    ),
    Rule(
        "a policy that cannot be evaluated is told in an event; upstream says it in its log only",
        kind="Event",
        what="events from scheduler",
    ),
    Rule(
        "the first report of a provider has the member's namespaces; upstream's has none",
        kind="(Internal)?MemberCluster",
        what=r"status\.namespaces",
        scenario="25-azure-provider",
        value=r'(?!.*"s23-a").*',
    ),
    Rule(
        "the first report of a provider has the member's namespaces, so it is the namespace that is missed, not the report",
        kind="SchedulingPolicySnapshot",
        what=r"status\.targetClusters",
        value=".*(no namespace information available|target namespace does not exist on cluster).*",
        scenario="25-azure-provider",
    ),
    Rule(
        "an object of a kind that was just installed is selected; upstream misses it when its discovery comes too late",
        scenario="24-envelopes-selectors-ssa",
        name=".*s24-crd.*",
    ),
    Rule("Kubernetes' own, which the recordings leave out", kind="ConfigMap", name=".*/kube-root-ca.crt"),
]
"""Differences on purpose, for as long as they last."""
