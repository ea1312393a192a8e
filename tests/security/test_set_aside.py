"""Whatever controller an object is too much for, somebody is told: no controller of a cluster works on keys it knows no object of."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.clusters.embedded import EmbeddedCluster
from corral.configuration.fleet import parse
from corral.runtime.controller import Controller

OUR_OWN = frozenset(
    (
        "kueue-admission",
        "kueue-installation",
        "kueue-installation-pods",
        "operator-installations",
        "scheduler",
        "unattended",
    )
)
"""Those whose few keys are not objects of users; both schedulers tell the Workloads and pods they decide about."""


@pytest.mark.parametrize("role", ["manager", "worker", "hub", "member"])
async def test_every_controller_knows_whom_to_tell(role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Controller] = []
    begin = Controller.__init__

    def noted(self: Controller, *arguments: object, **options: object) -> None:
        begin(self, *arguments, **options)  # type: ignore[arg-type]
        made.append(self)

    monkeypatch.setattr(Controller, "__init__", noted)
    fleet = parse({"clusters": [{"name": "a", "roles": [role]}]}, "fleet.yaml")
    cluster = EmbeddedCluster(fleet, fleet.cluster("a"), tmp_path, 0, "127.64.0.0/16")
    await cluster.start()
    await cluster.stop()
    assert len(made) > 20
    assert {controller.name for controller in made if not controller.knows_objects} <= OUR_OWN
