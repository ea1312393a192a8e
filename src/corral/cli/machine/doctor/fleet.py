"""The fleet on this machine: does it run, do its clusters answer, did they crash?"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final

from corral.cli.machine.doctor.findings import Finding, note, ok, wrong
from corral.client.limits import ANSWER_S
from corral.client.sync import SyncClient
from corral.configuration.fleet import FleetError
from corral.core.meta import Obj
from corral.fleet.folder import ClusterStatus, FleetFolder
from corral.inspect.asking import asked_at_once

PART: Final = "fleet"


def look_at_fleet(folder: FleetFolder, which: str) -> Iterator[Finding]:
    """What is known of the fleet in a folder; `which` is the option that names it on other commands."""
    try:
        spec = folder.read_spec()
    except FleetError as error:
        yield wrong(PART, str(error), f"`corral up{which} --workers 2` writes it anew")
        return
    status = folder.read_status()
    if status is None:
        holder = folder.holder()
        if holder is not None:
            yield note(PART, f"process {holder} is starting or stopping a fleet in {folder.root}", "ask again soon")
        elif spec is not None:
            yield note(PART, f"the fleet in {folder.root} is stopped", f"`corral up{which}` starts it again")
        else:
            yield note(PART, f"no fleet was started in {folder.root}", f"`corral up{which}` starts one")
        return
    if status.problem:
        yield wrong(PART, status.problem, f"see {folder.supervisor_log}; `corral down{which}`, then `corral up{which}`")
    asked = {one.name: functools.partial(_ready, folder, one.name) for one in status.clusters if one.url}
    answers = asked_at_once(asked)
    for cluster in status.clusters:
        yield from _cluster(folder, which, cluster, answers.get(cluster.name))


def _ready(folder: FleetFolder, name: str) -> Obj:
    return SyncClient.from_kubeconfig(folder.admin_kubeconfig(name), timeout=ANSWER_S).call("GET", "/readyz")


def _cluster(
    folder: FleetFolder, which: str, cluster: ClusterStatus, answer: Obj | Exception | None
) -> Iterator[Finding]:
    log = folder.log(cluster.name)
    if answer is None:
        crashed = f" again: {cluster.last_exit}" if cluster.last_exit else ""
        yield wrong(PART, f"cluster {cluster.name} is starting{crashed}", f"see {log}, or ask again soon")
        return
    if isinstance(answer, Exception):
        first = (str(answer).splitlines() or [type(answer).__name__])[0]
        yield wrong(
            PART,
            f"cluster {cluster.name} does not answer as it should: {first}",
            f"see {log}; `kill -9 {cluster.pid}` lets the fleet start it again, with everything it knows; its jobs go on",
        )
        return
    yield ok(PART, f"cluster {cluster.name} is ready at {cluster.url}")
    if cluster.restarts:
        last = f", last: {cluster.last_exit}" if cluster.last_exit else ""
        yield note(PART, f"cluster {cluster.name} was started again {cluster.restarts} times{last}", f"see {log}")
