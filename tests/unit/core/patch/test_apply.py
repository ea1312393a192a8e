"""Server-side apply and field ownership, in the cases a real API server was asked about."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.errors import Conflict
from corral.core.patch import apply as ssa
from corral.core.patch.apply import TypedObjectError, apply, managed_fields_of, track_update
from corral.core.schema.structural import compile_schema
from corral.kinds.machinery.schemas import kubernetes

CONFIG_MAP = compile_schema(kubernetes("io.k8s.api.core.v1.ConfigMap"))
JOB = compile_schema(kubernetes("io.k8s.api.batch.v1.Job"))
T0, T1, T2 = (f"2026-11-15T18:07:3{second}Z" for second in range(3))


def config_map(**data: str) -> dict[str, Any]:
    obj: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ssa", "namespace": "errs"}}
    return {**obj, "data": data} if data else obj


def owners(obj: dict[str, Any]) -> dict[tuple[str, str], Any]:
    return {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in managed_fields_of(obj)}


def test_first_apply_owns_what_it_declares() -> None:
    obj = apply(None, config_map(x="1", y="1"), CONFIG_MAP, manager="m1", now=T0)
    assert managed_fields_of(obj) == [
        {
            "manager": "m1",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": T0,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:x": {}, "f:y": {}}},
        }
    ]


def test_conflicts_name_owner_and_fields() -> None:
    obj = apply(None, config_map(x="1", y="1"), CONFIG_MAP, manager="m1", now=T0)
    with pytest.raises(Conflict) as caught:
        apply(obj, config_map(x="2", y="2"), CONFIG_MAP, manager="m2", now=T1)
    assert caught.value.message == 'Apply failed with 2 conflicts: conflicts with "m1":\n- .data.x\n- .data.y'
    assert caught.value.causes == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.x"},
        {"reason": "FieldManagerConflict", "message": 'conflict with "m1"', "field": ".data.y"},
    ]
    with pytest.raises(Conflict) as caught:
        apply(obj, config_map(x="2"), CONFIG_MAP, manager="m2", now=T1)
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "m1": .data.x'


def test_updaters_are_named_with_their_version() -> None:
    obj = track_update({}, config_map(x="1"), CONFIG_MAP, manager="upd", now=T0, creating=True)
    with pytest.raises(Conflict) as caught:
        apply(obj, config_map(x="2"), CONFIG_MAP, manager="m2", now=T1)
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "upd" using v1: .data.x'


def test_force_takes_over() -> None:
    obj = apply(None, config_map(x="1", y="1"), CONFIG_MAP, manager="m1", now=T0)
    obj = apply(obj, config_map(x="2"), CONFIG_MAP, manager="m2", now=T1, force=True)
    assert obj["data"] == {"x": "2", "y": "1"}
    assert owners(obj) == {("m1", "Apply"): {"f:data": {"f:y": {}}}, ("m2", "Apply"): {"f:data": {"f:x": {}}}}


def test_equal_values_are_shared_and_stay_until_the_last_owner_leaves() -> None:
    obj = apply(None, config_map(x="1", y="1"), CONFIG_MAP, manager="m1", now=T0)
    obj = apply(obj, config_map(x="1"), CONFIG_MAP, manager="m2", now=T1)
    assert owners(obj)["m1", "Apply"] == {"f:data": {"f:x": {}, "f:y": {}}}
    obj = apply(obj, config_map(z="1"), CONFIG_MAP, manager="m1", now=T2)
    assert obj["data"] == {"x": "1", "z": "1"}
    obj = apply(obj, config_map(w="1"), CONFIG_MAP, manager="m2", now=T2)
    assert obj["data"] == {"z": "1", "w": "1"}


def test_dropping_everything_removes_the_container() -> None:
    obj = apply(None, config_map(x="1"), CONFIG_MAP, manager="m1", now=T0)
    obj = apply(obj, config_map(), CONFIG_MAP, manager="m1", now=T1)
    assert "data" not in obj
    assert managed_fields_of(obj) == []


@pytest.mark.parametrize("field", ["labels", "annotations", "finalizers", "ownerReferences"])
@pytest.mark.parametrize("rest", [{}, {"data": {"x": "1"}}], ids=["alone", "with data"])
def test_giving_up_the_last_of_the_metadata_leaves_what_nobody_owns(field: str, rest: dict[str, Any]) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    given = {"labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a/b"], "ownerReferences": [owner]}
    named = {**config_map(), **rest}
    first = apply(
        None, {**named, "metadata": {**named["metadata"], field: given[field]}}, CONFIG_MAP, manager="m1", now=T0
    )
    first["metadata"]["uid"] = "its own"
    second = apply(first, named, CONFIG_MAP, manager="m1", now=T1)
    kept = {name: value for name, value in second["metadata"].items() if name != "managedFields"}
    assert kept == {**named["metadata"], "uid": "its own"}
    assert {name: value for name, value in second.items() if name != "metadata"} == {
        name: value for name, value in named.items() if name != "metadata"
    }


def test_applying_again_changes_nothing_at_all() -> None:
    obj = apply(None, config_map(x="1"), CONFIG_MAP, manager="m1", now=T0)
    assert apply(obj, config_map(x="1"), CONFIG_MAP, manager="m1", now=T1) is obj


def test_untracked_objects_belong_to_whoever_was_before() -> None:
    with pytest.raises(Conflict, match=r'conflict with "before-first-apply" using v1: \.data\.x'):
        apply(config_map(x="1"), config_map(x="2"), CONFIG_MAP, manager="m1", now=T0)
    obj = apply(config_map(x="1"), config_map(y="2"), CONFIG_MAP, manager="m1", now=T0)
    assert owners(obj)["before-first-apply", "Update"] == {"f:data": {".": {}, "f:x": {}}}


def job(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": list(containers)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "ssaj"},
        "spec": {"template": {"spec": pod}, **spec},
    }


def test_keyed_lists_merge_by_key_and_drop_what_is_no_longer_applied() -> None:
    one = {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}
    obj = apply(None, job(one, {"name": "b", "image": "1"}), JOB, manager="m1", now=T0)
    obj = apply(obj, job({"name": "c", "image": "1"}), JOB, manager="m2", now=T1)
    names = [container["name"] for container in obj["spec"]["template"]["spec"]["containers"]]
    assert sorted(names) == ["a", "b", "c"]
    obj = apply(obj, job({"name": "a", "image": "2"}), JOB, manager="m1", now=T2)
    containers = {item["name"]: item for item in obj["spec"]["template"]["spec"]["containers"]}
    assert containers == {"a": {"name": "a", "image": "2"}, "c": {"name": "c", "image": "1"}}


def test_ports_are_found_though_their_protocol_is_left_out() -> None:
    with_default = {"name": "a", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}
    obj = track_update({}, job(with_default), JOB, manager="u", now=T0, creating=True)
    obj = apply(
        obj, job({"name": "a", "image": "i", "ports": [{"containerPort": 80, "name": "web"}]}), JOB, manager="m", now=T1
    )
    ports = obj["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert ports == [{"containerPort": 80, "protocol": "TCP", "name": "web"}]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**config_map(), "bogus": 1}, "failed to create typed patch object (errs/ssa; /v1, Kind=ConfigMap): .bogus: field not declared in schema"),
        (
            job({"name": "c", "image": "i"}, {"name": "c", "image": "j"}),
            "failed to create typed patch object (/ssaj; batch/v1, Kind=Job): "
            '.spec.template.spec.containers: duplicate entries for key [name="c"]',
        ),
    ],
)  # fmt: skip
def test_malformed_configurations(config: dict[str, Any], message: str) -> None:
    with pytest.raises(TypedObjectError) as caught:
        apply(None, config, CONFIG_MAP if config["kind"] == "ConfigMap" else JOB, manager="m", now=T0)
    assert str(caught.value) == message


def test_ignored_fields_are_neither_merged_nor_owned() -> None:
    config = {**job({"name": "a", "image": "i"}), "status": {"active": 1}}
    obj = apply(None, config, JOB, manager="m", now=T0, reset=("status",))
    assert "status" not in obj
    assert "f:status" not in owners(obj)["m", "Apply"]


def test_creating_by_update_owns_every_field() -> None:
    obj = track_update({}, config_map(a="b"), CONFIG_MAP, manager="errors.py", now=T0, creating=True)
    assert owners(obj) == {("errors.py", "Update"): {"f:data": {".": {}, "f:a": {}}}}


def test_required_parts_of_the_empty_object_are_nobodys() -> None:
    empty = {"metadata": {}, "spec": {"template": {"metadata": {}, "spec": {"containers": None}}}, "status": {}}
    new = {**job({"name": "c", "image": "i", "resources": {}}), "status": {}}
    obj = track_update(empty, new, JOB, manager="m", now=T0, creating=True)
    assert owners(obj)["m", "Update"] == {
        "f:spec": {
            "f:template": {
                "f:spec": {
                    "f:restartPolicy": {},
                    "f:containers": {'k:{"name":"c"}': {".": {}, "f:name": {}, "f:image": {}, "f:resources": {}}},
                }
            }
        }
    }


def test_updates_take_over_only_what_they_change() -> None:
    obj = apply(None, config_map(x="1", y="1"), CONFIG_MAP, manager="m1", now=T0)
    changed = track_update(obj, {**obj, "data": {"x": "2"}}, CONFIG_MAP, manager="upd", now=T1)
    assert owners(changed) == {("upd", "Update"): {"f:data": {"f:x": {}}}}
    same = track_update(changed, {**changed, "data": {"x": "2"}}, CONFIG_MAP, manager="other", now=T2)
    assert managed_fields_of(same) is managed_fields_of(changed)


def test_status_writes_have_an_entry_of_their_own() -> None:
    obj = track_update({}, job({"name": "c", "image": "i"}), JOB, manager="m", now=T0, creating=True)
    obj = track_update(obj, {**obj, "status": {"active": 1}}, JOB, manager="m", now=T1, subresource="status")
    assert [entry.get("subresource", "") for entry in managed_fields_of(obj)] == ["", "status"]
    assert managed_fields_of(obj)[1]["fieldsV1"] == {"f:status": {".": {}, "f:active": {}}}


def test_managed_fields_can_be_cleared_and_stay_cleared() -> None:
    obj = track_update({}, config_map(a="b"), CONFIG_MAP, manager="m", now=T0, creating=True)
    cleared = {**obj, "metadata": {**obj["metadata"], "managedFields": [{}]}}
    obj = track_update(obj, cleared, CONFIG_MAP, manager="m", now=T1)
    assert "managedFields" not in obj["metadata"]
    obj = track_update(obj, {**obj, "data": {"a": "c"}}, CONFIG_MAP, manager="m", now=T2)
    assert "managedFields" not in obj["metadata"]


def test_managed_fields_left_out_of_an_update_are_kept() -> None:
    obj = track_update({}, config_map(a="b"), CONFIG_MAP, manager="m", now=T0, creating=True)
    new = track_update(obj, config_map(a="b", c="d"), CONFIG_MAP, manager="n", now=T1)
    assert owners(new) == {("m", "Update"): {"f:data": {".": {}, "f:a": {}}}, ("n", "Update"): {"f:data": {"f:c": {}}}}


def test_old_updaters_are_lumped_together() -> None:
    obj = track_update({}, config_map(k="0"), CONFIG_MAP, manager="m00", now="2026-01-01T00:00:00Z", creating=True)
    for number in range(1, 15):
        data = {**obj["data"], f"k{number}": "x"}
        now = f"2026-01-01T00:00:{number:02}Z"
        obj = track_update(obj, {**obj, "data": data}, CONFIG_MAP, manager=f"m{number:02}", now=now)
    entries = managed_fields_of(obj)
    assert len(entries) == ssa.MAX_UPDATE_ENTRIES
    assert entries[0]["manager"] == "ancient-changes"
    owned = {path for entry in entries for path in ssa.fieldset.paths(entry["fieldsV1"])}
    assert len([path for path in owned if len(path) == 2]) == 15


def test_nothing_given_is_mutated() -> None:
    obj = apply(None, config_map(x="1", y="1"), CONFIG_MAP, manager="m1", now=T0)
    before = repr(obj)
    apply(obj, config_map(x="2"), CONFIG_MAP, manager="m2", now=T1, force=True)
    track_update(obj, {**obj, "data": {"x": "5"}}, CONFIG_MAP, manager="m3", now=T1)
    assert repr(obj) == before
