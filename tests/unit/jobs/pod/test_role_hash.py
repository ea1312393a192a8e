"""Role hashes are upstream's, as recorded from a real cluster."""

from __future__ import annotations

from corral.jobs.pod.role_hash import role_hash

TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]


def spec(**more: object) -> dict[str, object]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "200Mi"}}}
    return {"containers": [container], "tolerations": TOLERATIONS, "priority": 0, **more}


def test_recorded_hash() -> None:
    assert role_hash(spec()) == "6b6a6bc0"


def test_what_does_not_matter_to_scheduling_does_not_matter() -> None:
    assert role_hash(spec(schedulingGates=[{"name": "x"}], nodeName="n", restartPolicy="Never")) == role_hash(spec())


def test_what_matters_to_scheduling_does() -> None:
    hashes = {role_hash(spec(**more)) for more in ({}, {"nodeSelector": {"a": "b"}}, {"priority": 1})}
    assert len(hashes) == 3
