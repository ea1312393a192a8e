"""What a fleet loads before its clusters are forked: placement only where there is a hub."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from corral.configuration import fleet as config
from corral.fleet.process import preload
import corral.fleet.introduce, corral.fleet.supervisor
fleet = config.standard(workers={workers}, members={members}, nodes=1, cpu="1", memory="1Gi", extended={{}},
                        runtime="process", queues=True)
preload(fleet)
print(sum(name.startswith(("corral.controllers.placement", "corral.controllers.member", "corral.decide.placement",
                           "corral.decide.member")) for name in sys.modules))
"""


@pytest.mark.parametrize(("workers", "members", "loads"), [(2, 0, False), (0, 2, True), (1, 1, True)])
def test_only_fleets_with_a_hub_load_placement(workers: int, members: int, loads: bool) -> None:
    program = PROGRAM.format(workers=workers, members=members)
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert (int(found) > 0) is loads
