"""What each role is for: every right that a test was seen to use, and the test that needs it.

    python -m tools.deployment.needs [--audit FOLDER] [TEST ...]     # writes tests/data/role-needs.json

Clusters of tests enforce the same identities that roles are made from, so a test that uses a right fails without it. Rights of a process
over a real cluster are read from audit logs: `CORRAL_AUDIT=FOLDER python -m pytest tests/kubernetes` leaves them there. Needs that are
recorded already stay, as long as their test exists."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from corral.core.resource import Resource
from corral.server.access.permissions import Permissions

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "data" / "role-needs.json"
TESTS = ("tests/simulation",)
USERS = {
    "system:serviceaccount:kueue-system:kueue-controller-manager": "queueing",
    "system:serviceaccount:kueue-system:multikueue-controller-manager": "dispatch",
    "system:serviceaccount:fleet-system:hub-agent-sa": "hub",
    "system:serviceaccount:fleet-system:member-agent-sa": "member",
}
"""Of embedded clusters: who acts as whom."""
ACCOUNTS = {
    "system:serviceaccount:kueue-system:corral": "process",
    "system:serviceaccount:fleet-system:corral-hub": "hub",
    "system:serviceaccount:fleet-system:corral-member": "member",
}
"""Of real ones: the accounts that are shipped."""


class Need(NamedTuple):
    """A call that somebody makes."""

    who: str
    verb: str
    group: str
    resource: str
    """With its subresource."""
    namespace: str = ""
    name: str = ""


RBAC_GROUP = "rbac.authorization.k8s.io"
REGISTRATION = "admissionregistration.k8s.io"
IMPLIED = {
    **{
        Need("member", verb, RBAC_GROUP, plural): "tests/kubernetes/test_member.py"
        for verb in ("bind", "escalate")
        for plural in ("roles", "clusterroles")
    },
    **{
        Need("process", "create", group, plural): "tests/kubernetes/test_deploy.py"
        for group, plural in (
            (REGISTRATION, "mutatingwebhookconfigurations"),
            (REGISTRATION, "validatingwebhookconfigurations"),
            (REGISTRATION, "validatingadmissionpolicies"),
            (REGISTRATION, "validatingadmissionpolicybindings"),
            ("apiregistration.k8s.io", "apiservices"),
        )
    },
    **{
        Need("hub", "create", REGISTRATION, plural): "tests/kubernetes/test_hub_webhooks.py"
        for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    },
}
"""No call names these: they are asked about when somebody writes a role, or applies what is not there yet."""
Needs = dict[Need, str]
"""What is needed, and the test that shows it."""


def recorded() -> Needs:
    if not RECORDED.exists():
        return {}
    return {Need(*call): test for test, calls in json.loads(RECORDED.read_text()).items() for call in calls}


def written(needs: Needs) -> str:
    """By test, so that a reader sees what each of them needs."""
    by_test: dict[str, list[Need]] = {}
    for need, test in needs.items():
        by_test.setdefault(test, []).append(need)
    lines = [f"{json.dumps(test)}: [\n{_lines(by_test[test])}\n]" for test in sorted(by_test)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _lines(calls: list[Need]) -> str:
    return ",\n".join(f"  {json.dumps(call)}" for call in sorted(calls))


class Recorder:
    """A plug-in of pytest: notes the first test that makes a call."""

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self._test = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._test = re.sub(r"\[.*\]$", "", item.nodeid)

    def attach(self) -> None:
        original, needs = Permissions.allow, self.needs

        def allow(
            held: Permissions, verb: str, resource: Resource, namespace: str = "", name: str = "", subresource: str = ""
        ) -> bool:
            allowed = original(held, verb, resource, namespace, name, subresource)
            if allowed and (who := USERS.get(held._user.name)) is not None:
                plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
                where = namespace if namespace in ("kueue-system", "fleet-system") else ""
                needs.setdefault(Need(who, verb, resource.group, plural, where), self._test)
            return allowed

        Permissions.allow = allow  # type: ignore[method-assign]


def from_audit(folder: Path) -> Iterator[tuple[Need, str]]:
    """What the accounts that are shipped asked of real API servers; the name of a log is that of the test file."""
    for log in sorted(folder.glob("*.log")):
        test = f"tests/kubernetes/test_{log.name.partition('-')[0]}.py"
        for line in log.read_text().splitlines():
            event = json.loads(line)
            who, about = ACCOUNTS.get(event["user"].get("username", "")), event.get("objectRef")
            if who is None or about is None or "resource" not in about:
                continue
            plural = "/".join(part for part in (about["resource"], about.get("subresource")) if part)
            space = about.get("namespace", "")
            where = space if space in ("kueue-system", "fleet-system", "kube-system") else ""
            name = about.get("name", "") if about["resource"] in ("secrets", "configmaps") else ""
            yield Need(who, event["verb"], about.get("apiGroup", ""), plural, where, name), test


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*")
    parser.add_argument("--audit", type=Path)
    options = parser.parse_args()
    kept = {need: test for need, test in recorded().items() if (ROOT / test.partition("::")[0]).exists()}
    needs = {**kept, **IMPLIED}
    code = 0
    if options.audit is not None:
        for need, test in from_audit(options.audit):
            needs.setdefault(need, test)
    if options.tests or options.audit is None:
        os.chdir(ROOT)
        recorder = Recorder(needs)
        recorder.attach()
        code = pytest.main(["-q", "-p", "no:randomly", "-n0", *(options.tests or TESTS)], plugins=[recorder])
    RECORDED.write_text(written(needs))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
