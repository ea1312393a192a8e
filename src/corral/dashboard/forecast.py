"""When the jobs that wait would start: what the cluster has now, run ahead on virtual time.

It takes seconds of a processor, so it is asked for by a click, one at a time and not for more jobs than that holds for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final

from corral.client.kubeconfig import Access
from corral.client.sync import SyncClient
from corral.core.errors import BadRequest
from corral.core.meta import Obj, name_of
from corral.core.remote_pods import CLUSTER_LABEL
from corral.dashboard.workers import worker_client
from corral.inspect.asking import asked_at_once
from corral.inspect.lookup import visible
from corral.kinds.kubernetes.core.kinds import NODES
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS
from corral.runtime.clock import WallClock

if TYPE_CHECKING:
    from corral.node.node import NodeSpec

MAX_JOBS: Final = 300
ASSUMED_S: Final = 3600.0
"""How long a job runs in all that does not say."""
AHEAD_S: Final = 24 * 3600.0
_one_at_a_time = Lock()


def forecast(client: SyncClient, others: Mapping[str, Access]) -> Obj:
    """In how many seconds each job starts, by namespace, kind and name; jobs that do not within a day are left out."""
    from corral.node.node import NodeSpec
    from corral.runtime.virtual import run_virtual
    from corral.simulate.what_if.live import read_live
    from corral.simulate.what_if.run import quiet, simulate

    fleet = _fleet(client, others)
    live = read_live(client, WallClock().now(), ASSUMED_S, fleet)
    manifests = live.manifests
    if len(manifests.jobs) > MAX_JOBS:
        raise BadRequest(
            f"{len(manifests.jobs)} jobs run or wait, which takes long to look ahead for; `corral simulate --live` does it in a terminal"
        )
    about = {
        "assumed": live.assumed,
        "assumedSeconds": ASSUMED_S,
        "aheadSeconds": AHEAD_S,
        "leftOut": list(live.left_out),
    }
    if not manifests.jobs:
        return {"starts": {}, **about}
    if not fleet:
        manifests.nodes = visible(client, NODES)
    alone = NodeSpec("node", {"cpu": "8", "memory": "32Gi", "pods": "110"})
    with _one_at_a_time, quiet():
        outcome = run_virtual(lambda: simulate(manifests, fleet, alone, AHEAD_S, 0))
    starts = {
        "/".join((entry.namespace, *entry.owners[0][1:])): entry.admitted
        for entry in outcome.record.entries.values()
        if entry.owners and entry.admitted is not None
    }
    return {"starts": starts, **about}


def _fleet(client: SyncClient, others: Mapping[str, Access]) -> dict[str, Sequence[NodeSpec]]:
    """The nodes of each worker that can be asked for them."""
    from corral.simulate.what_if.live import node_of

    def nodes(name: str) -> list[NodeSpec]:
        there = worker_client(client, name, others)
        try:
            found = [node_of(one) for one in there.list(NODES)["items"]]
        finally:
            there.close()
        return [replace(node, labels={**node.labels, CLUSTER_LABEL: name}) for node in found]

    names = [name_of(one) for one in visible(client, MULTI_KUEUE_CLUSTERS)]
    answers = asked_at_once({name: partial(nodes, name) for name in names})
    fleet: dict[str, Sequence[NodeSpec]] = {
        name: answer for name, answer in answers.items() if not isinstance(answer, Exception)
    }
    if names and not fleet:
        raise BadRequest("no worker tells you what nodes it has, so that nobody can say when jobs would start there")
    return fleet
