"""No two fleets of a machine hand out the same addresses."""

from __future__ import annotations

import subprocess
import sys
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from corral.configuration.fleet import FleetSpec, standard
from corral.fleet import networks
from corral.fleet.folder import FleetFolder
from corral.fleet.lock import FolderLock
from corral.fleet.networks import COUNT, Claims, network
from corral.fleet.supervisor import Supervisor


def fleet(root: Path, spec: FleetSpec) -> Supervisor:
    folder = FleetFolder(root)
    folder.create()
    return Supervisor(spec, folder, FolderLock(root), lambda *_: None, lambda *_: None)


def taken(supervisor: Supervisor) -> list[str]:
    return [child.place.network for child in supervisor._children]


def test_two_fleets_have_different_networks(tmp_path: Path) -> None:
    one, other = (fleet(tmp_path / name, standard(workers=3)) for name in ("one", "other"))
    both = [IPv4Network(entry) for entry in (*taken(one), *taken(other)) if entry]
    assert len(set(both)) == len(both) == 6
    assert not any(mine.overlaps(theirs) for mine in both for theirs in both if mine is not theirs)
    one._claims.release()
    other._claims.release()


def test_clusters_without_processes_claim_nothing(tmp_path: Path) -> None:
    assert taken(fleet(tmp_path, standard(workers=1, runtime="simulated"))) == ["", ""]


def test_a_fleet_comes_back_to_its_networks_where_they_are_free(tmp_path: Path) -> None:
    spec, guest = standard(workers=1), Claims()
    first = guest.claim([network(1)])
    before = fleet(tmp_path, spec)
    before._write_status()
    guest.release()
    before._claims.release()
    before._lock.release()
    again = fleet(tmp_path, spec)
    assert taken(again) == taken(before)
    assert first not in taken(again)
    again._claims.release()


def test_a_network_is_free_again_when_its_holder_was_killed() -> None:
    wanted = network(COUNT - 1)
    program = (
        f"from corral.fleet.networks import Claims; c = Claims(); print(c.claim(['{wanted}']), flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holding:
        assert holding.stdout is not None
        assert holding.stdout.readline().decode().strip() == wanted
        mine = Claims()
        assert mine.claim([wanted]) != wanted
        holding.kill()
    assert mine.claim([wanted]) == wanted
    mine.release()


def test_a_machine_without_free_networks_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "COUNT", 2)
    monkeypatch.setattr(networks, "SOCKET", "corral-test-network")  # others on this machine have claims of their own
    claims = Claims()
    first = claims.claim([])
    second = claims.claim([])
    assert first != second
    with pytest.raises(OSError, match="all 2 pod networks of this machine are in use"):
        claims.claim([])
    claims.release()
