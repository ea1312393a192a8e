"""RBAC rules as pure functions."""

from __future__ import annotations

import pytest

from corral.core.admission import UserInfo
from corral.core.meta import Obj
from corral.server.access import rbac, rbac_defaults
from corral.server.access.rbac import Attributes

READ_PODS: Obj = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}


@pytest.mark.parametrize(
    ("rule", "wanted", "allowed"),
    [
        (READ_PODS, Attributes("get", "", "pods", "", "ns", "p"), True),
        (READ_PODS, Attributes("delete", "", "pods"), False),
        (READ_PODS, Attributes("get", "apps", "pods"), False),
        (READ_PODS, Attributes("get", "", "pods", "log"), False),
        ({**READ_PODS, "resources": ["pods/log"]}, Attributes("get", "", "pods", "log"), True),
        ({**READ_PODS, "resources": ["*/log"]}, Attributes("get", "", "pods", "log"), True),
        ({**READ_PODS, "resources": ["*"]}, Attributes("get", "", "pods", "log"), True),
        ({**READ_PODS, "resourceNames": ["p"]}, Attributes("get", "", "pods", name="p"), True),
        ({**READ_PODS, "resourceNames": ["p"]}, Attributes("list", "", "pods"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/api/*"]}, Attributes("get", path="/api/v1"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/api"]}, Attributes("get", path="/api/v1"), False),
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, Attributes("get", path="/api/v1"), False),
    ],
)
def test_allows(rule: Obj, wanted: Attributes, allowed: bool) -> None:
    assert rbac.allows(rule, wanted) is allowed


def test_subjects() -> None:
    user = UserInfo("system:serviceaccount:ns:bot", ("devs",))
    assert rbac.subject_matches({"kind": "ServiceAccount", "name": "bot"}, user, "ns")
    assert rbac.subject_matches({"kind": "ServiceAccount", "name": "bot", "namespace": "ns"}, user, "other")
    assert not rbac.subject_matches({"kind": "ServiceAccount", "name": "bot", "namespace": "x"}, user, "ns")
    assert rbac.subject_matches({"kind": "Group", "name": "devs"}, user, "")
    assert not rbac.subject_matches({"kind": "User", "name": "bot"}, user, "")


def test_aggregated_roles_collect_what_their_selectors_match() -> None:
    parts = [
        {"metadata": {"name": "b", "labels": {"into": "x"}}, "rules": [READ_PODS]},
        {"metadata": {"name": "a", "labels": {"into": "x"}}, "rules": [READ_PODS, {"verbs": ["watch"]}]},
        {"metadata": {"name": "c"}, "rules": [{"verbs": ["delete"]}]},
    ]
    whole = {"metadata": {"name": "x"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"into": "x"}}]}}
    assert rbac.aggregated(whole, [*parts, whole]) == [READ_PODS, {"verbs": ["watch"]}]


def test_uncovered_says_what_a_user_may_not_grant() -> None:
    wanted = {"verbs": ["get", "delete"], "apiGroups": [""], "resources": ["pods"]}
    assert rbac.uncovered([READ_PODS], [READ_PODS]) == []
    assert rbac.uncovered([READ_PODS], [wanted]) == [wanted]
    assert rbac.uncovered([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}], [wanted]) == []
    named = {**READ_PODS, "resourceNames": ["p"]}
    assert rbac.uncovered([named], [READ_PODS]) == [READ_PODS]
    assert rbac.uncovered([READ_PODS], [named]) == []


def test_default_roles_let_viewers_read_and_editors_not_change_roles() -> None:
    roles = {role["metadata"]["name"]: role for role in rbac_defaults.cluster_roles()}

    def may(role: str, wanted: Attributes) -> bool:
        return any(rbac.allows(rule, wanted) for rule in rbac.aggregated(roles[role], roles.values()))

    assert may("view", Attributes("get", "", "pods"))
    assert not may("view", Attributes("get", "", "secrets"))
    assert may("edit", Attributes("create", "batch", "jobs"))
    assert not may("edit", Attributes("create", rbac.GROUP, "roles"))
    assert may("admin", Attributes("create", rbac.GROUP, "roles"))
    assert may("cluster-admin", Attributes("delete", "anything", "things"))
    assert may("system:discovery", Attributes("get", path="/apis/batch/v1"))
