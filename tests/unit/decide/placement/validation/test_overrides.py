"""A refused override is told all that is wrong with it, not only the first fault."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.decide.placement.validation.overrides import check_override

CONF: Obj = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "conf"}
NAMED = "{Group: Version:v1 Kind:ConfigMap Name:conf}"


def override(*rules: Obj, selectors: tuple[Obj, ...] = (CONF,), name: str = "mine") -> Obj:
    policy = {"overrideRules": list(rules)}
    return {"metadata": {"name": name}, "spec": {"resourceSelectors": list(selectors), "policy": policy}}


def patches(*entries: Obj) -> Obj:
    return {"jsonPatchOverrides": list(entries)}


def test_every_selector_that_is_wrong_is_named_and_nothing_else_is_looked_at() -> None:
    unnamed = {**CONF, "name": ""}
    found = check_override(override(patches(), selectors=(CONF, unnamed, CONF, CONF)), [])
    assert found == [
        "resource name is required for resource selection {Group: Version:v1 Kind:ConfigMap Name:}",
        f"resource selector {NAMED} already exists, and must be unique",
        f"resource selector {NAMED} already exists, and must be unique",
    ]


def test_every_rule_every_term_and_every_patch_is_looked_at() -> None:
    terms = {"clusterSelectorTerms": [{}, {"propertySorter": {"name": "x"}}]}
    first = {
        "clusterSelector": terms,
        **patches(
            {"op": "remove", "path": "/kind", "value": 1},
            {"op": "add", "path": "data", "value": 1},
        ),
    }
    second = {"overrideType": "Delete", **patches({"op": "remove", "path": "/data"})}
    found = check_override(override(first, second, patches()), [])
    assert [one.rpartition(": ")[2] for one in found] == [
        "labelSelector is required",
        "only labelSelector is supported",
        "cannot override typeMeta fields",
        "remove operation cannot have value",
        "path must start with /",
        "JSONPatchOverrides cannot be set when the override type is Delete",
        "JSONPatchOverrides cannot be empty",
    ]


def test_objects_that_others_override_are_named_beside_faults_of_the_rules() -> None:
    secret = {**CONF, "kind": "Secret"}
    ours = override(patches(), selectors=(CONF, secret))
    others = [override(name="mine"), override(name="one"), override(name="two", selectors=(secret,))]
    both = "the resource has been selected by both mine and {}, which is not supported"
    assert check_override(ours, others) == [
        f"invalid resource selector {NAMED}: {both.format('one')}",
        f"invalid resource selector {NAMED.replace('ConfigMap', 'Secret')}: {both.format('two')}",
        "invalid JSONPatchOverrides: JSONPatchOverrides cannot be empty",
    ]


def test_an_override_without_fault_is_told_nothing() -> None:
    everywhere = {"clusterSelectorTerms": [{"labelSelector": {}}]}
    rule = {"clusterSelector": everywhere, **patches({"op": "add", "path": "/data/a", "value": "b"})}
    assert check_override(override(rule, {"overrideType": "Delete"}), []) == []
