"""Takes rules of the shipped roles away, one at a time, and runs the tests that are recorded for it: one has to fail.

    python -m tools.deployment.proof [--real] [ROLE | ROLE:NUMBER ...]

Tests of clusters in memory are told by a plug-in, those over real API servers (`--real`: slow, they need `make kube-tools`) by the variable
that `tests/kubernetes/accounts.py` reads. A rule of which only following is needed is left out here: `tests/simulation/test_shipped_roles.py`
takes each of these away whenever it is run."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Collection

import pytest
from tools.deployment.held import WHO, held_by, missed_without
from tools.deployment.needs import ROOT, USERS, Need, recorded

from corral.core.resource import Resource
from corral.server.access.permissions import Permissions

READING = ("list", "watch")
PATIENCE = "--timeout=120"


class Without:
    """A plug-in of pytest: refuses some calls to the controllers that would make them."""

    def __init__(self, refused: Collection[Need]) -> None:
        original = Permissions.allow

        def allow(
            held: Permissions, verb: str, resource: Resource, namespace: str = "", name: str = "", subresource: str = ""
        ) -> bool:
            plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
            where = namespace if namespace in ("kueue-system", "fleet-system") else ""
            asked = Need(USERS.get(held._user.name, ""), verb, resource.group, plural, where)
            return asked not in refused and original(held, verb, resource, namespace, name, subresource)

        Permissions.allow = allow  # type: ignore[method-assign]


def chosen(names: Collection[str], *, real: bool) -> list[tuple[str, int, dict[str, list[Need]]]]:
    """Rules to take away, each with the tests that may miss it, and what."""
    needs, found = recorded(), []
    for role in WHO:
        for number in range(len(held_by(role))):
            if names and not {role, f"{role}:{number}"} & set(names):
                continue
            missed = [need for need in missed_without(role, number, needs) if need.verb not in READING]
            tests: dict[str, list[Need]] = {}
            for need in missed:
                if needs[need].startswith("tests/kubernetes") == real:
                    tests.setdefault(needs[need], []).append(need)
            if tests:
                found.append((role, number, tests))
    return found


def passes_without(role: str, number: int, test: str, *, real: bool) -> bool:
    """Whether a test passes although a rule is missing, each in a process of its own."""
    command = [sys.executable, "-m", "tools.deployment.proof", "--run", f"{role}:{number}", test]
    environment = dict(os.environ)
    if real:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", test]
        environment["CORRAL_WITHOUT"] = f"{role}:{number}"
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).returncode == 0


def run_without(role: str, number: int, test: str) -> int:
    refused = [need for need in missed_without(role, number, recorded()) if need.verb not in READING]
    return int(pytest.main(["-q", "-x", "-n0", PATIENCE, "-p", "no:randomly", test], plugins=[Without(refused)]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rules", nargs="*", metavar="ROLE[:NUMBER]")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--run", metavar="ROLE:NUMBER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        role, _, number = options.run.partition(":")
        return run_without(role, int(number), options.rules[0])
    hollow = 0
    for role, number, tests in chosen(options.rules, real=options.real):
        failing = next((test for test in tests if not passes_without(role, number, test, real=options.real)), "")
        hollow += not failing
        calls = ", ".join(sorted({f"{need.verb} {need.resource}" for missed in tests.values() for need in missed}))
        print(f"{role}:{number} ({calls}): {f'{failing} fails' if failing else 'NO TEST FAILS'}", flush=True)
    return int(hollow > 0)


if __name__ == "__main__":
    sys.exit(main())
